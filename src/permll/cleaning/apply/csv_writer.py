"""CSV and TSV files with new labels; every other byte is preserved.

polars and the csv module are not used to write, since they would normalize quotes, spaces and line endings.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from permll.cleaning.apply.label_columns import SOURCE, Changes, label_columns
from permll.cleaning.source import Source

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line of the file: raw cells with quotes and spaces, and its line ending, which the last line may lack."""

    cells: list[bytes]
    end: bytes

    @property
    def is_blank(self) -> bool:
        """Whether all cells are empty; readers skip such a line."""
        return not any(cell_text(cell) for cell in self.cells)


def parse_lines(content: bytes, separator: bytes) -> Iterator[Line]:
    r"""Yield the lines of a file; quoted cells may contain separators and line breaks.

    Examples:
        >>> list(parse_lines(b'a,"b,\n"\r\n007, x', b","))
        [Line(cells=[b'a', b'"b,\n"'], end=b'\r\n'), Line(cells=[b'007', b' x'], end=b'')]
    """
    pattern = re.compile(b'(?:"(?:[^"]++|"")*+")?[^' + re.escape(separator) + b"\r\n]*")
    cells: list[bytes] = []
    position = 0
    while position < len(content) or cells:
        match = pattern.match(content, position)
        assert match is not None  # it also matches an empty cell
        cells.append(match.group())
        position = match.end()
        if content[position : position + 1] == separator:
            position += 1
            continue
        size = 2 if content[position : position + 2] == b"\r\n" else 1
        yield Line(cells, content[position : position + size])
        position, cells = position + size, []


def cell_text(cell: bytes) -> str:
    """Return the value of a raw cell, without quotes and surrounding spaces.

    Examples:
        >>> cell_text(b' 007'), cell_text(b'"say ""yes"" now"')
        ('007', 'say "yes" now')
    """
    if cell.startswith(b'"'):
        inside, _, after = cell[1:].rpartition(b'"')
        cell = inside.replace(b'""', b'"') + after
    return cell.decode().strip()


def quote_cell(text: str, separator: bytes) -> bytes:
    """Return a value as a raw cell, quoted if necessary.

    Examples:
        >>> quote_cell("yes", b","), quote_cell("yes, sir", b",")
        (b'yes', b'"yes, sir"')
    """
    cell = text.encode()
    if any(special in cell for special in (separator, b'"', b"\n", b"\r")) or text != text.strip():
        return b'"' + cell.replace(b'"', b'""') + b'"'
    return cell


def write_csv(source: Source, changes: Changes, out: Path) -> None:
    """Write the file with new labels, each as the file usually writes its class, and history columns.

    The lines of dropped rows are left out.
    """
    content = source.path.read_bytes()
    bom = _BOM if content.startswith(_BOM) else b""
    separator = str(source.raw.metadata["separator"]).encode()
    lines = list(parse_lines(content.removeprefix(bom), separator))
    names = [cell_text(cell) for cell in lines[0].cells]
    rows = [line.cells for line in lines[1:] if not line.is_blank]
    if len(rows) != len(changes.sources):
        raise ValueError(f"{source.path} changed while it was read: try again.")

    def column(name: str) -> list[bytes]:
        return [cells[names.index(name)] for cells in rows]

    columns = label_columns(
        source,
        changes,
        names,
        column,
        to_text=cell_text,
        from_label=lambda label: quote_cell(str(label), separator),
    )
    columns[SOURCE] = [word.encode() for word in columns[SOURCE]]
    with out.open("wb") as file:
        file.write(bom)
        kept = _without_rows(lines, changes.dropped)
        file.writelines(separator.join(line.cells) + line.end for line in _with_columns(kept, names, columns))


def _without_rows(lines: Iterable[Line], dropped: Set[int]) -> Iterator[Line]:
    """Yield the lines without those of dropped rows; the header and blank lines do not count."""
    row = -2
    for line in lines:
        row += not line.is_blank
        if line.is_blank or row not in dropped:
            yield line


def _with_columns(lines: Iterable[Line], names: Sequence[str], columns: Mapping[str, list[bytes]]) -> Iterator[Line]:
    """Yield the lines with the cells of ``columns``; a column that is not in ``names`` is appended."""
    added = [name.encode() for name in columns if name not in names]
    rows = zip(*columns.values(), strict=True)
    for number, line in enumerate(lines):
        if number == 0:
            yield Line([*line.cells, *added], line.end)
        elif line.is_blank:
            yield Line(line.cells + [b""] * len(added) * (len(line.cells) > 1), line.end)  # an empty line stays empty
        else:
            cells = dict(zip(names, line.cells, strict=True)) | dict(zip(columns, next(rows), strict=True))
            yield Line(list(cells.values()), line.end)
