"""CSV and TSV files with other labels: every other byte stays as it is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from permll.cleaning.apply.label_values import LABEL, as_written, has_marks, known_sources, marked, written
from permll.cleaning.apply.source import Source
from permll.data.readers.feature_columns import APPLY_COLUMNS

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A row as it is written: its cells with quotes and spaces, and how it ends (the last one perhaps not at all)."""

    cells: list[bytes]
    end: bytes

    @property
    def blank(self) -> bool:
        """Whether nothing is in it: such a line is no row."""
        return not any(plain(cell) for cell in self.cells)


def lines_of(content: bytes, separator: bytes) -> Iterator[Line]:
    r"""Yield the rows of a file; a cell in quotes may hold separators and line ends.

    Examples:
        >>> list(lines_of(b'a,"b,\n"\r\n007, x', b","))
        [Line(cells=[b'a', b'"b,\n"'], end=b'\r\n'), Line(cells=[b'007', b' x'], end=b'')]
    """
    cell = re.compile(b'(?:"(?:[^"]++|"")*+")?[^' + re.escape(separator) + b"\r\n]*")
    cells: list[bytes] = []
    place = 0
    while place < len(content) or cells:
        found = cell.match(content, place)
        assert found is not None  # an empty cell is one too
        cells.append(found.group())
        place = found.end()
        if content[place : place + 1] == separator:
            place += 1
            continue
        size = 2 if content[place : place + 2] == b"\r\n" else 1
        yield Line(cells, content[place : place + size])
        place, cells = place + size, []


def plain(cell: bytes) -> str:
    """Return what a cell means: without its quotes, and without spaces around it.

    Examples:
        >>> plain(b' 007'), plain(b'"notify ""yes"" now"')
        ('007', 'notify "yes" now')
    """
    if cell.startswith(b'"'):
        inside, _, after = cell[1:].rpartition(b'"')
        cell = inside.replace(b'""', b'"') + after
    return cell.decode().strip()


def quoted(text: str, separator: bytes) -> bytes:
    """Return a text as a cell, in quotes where it needs them.

    Examples:
        >>> quoted("yes", b","), quoted("yes, sir", b",")
        (b'yes', b'"yes, sir"')
    """
    cell = text.encode()
    if any(sign in cell for sign in (separator, b'"', b"\n", b"\r")) or text != text.strip():
        return b'"' + cell.replace(b'"', b'""') + b'"'
    return cell


def write_csv(source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path) -> None:
    """Write the file with the labels in ``changed`` (position -> class) replaced and two columns more."""
    content = source.path.read_bytes()
    start = _BOM if content.startswith(_BOM) else b""
    separator = str(source.found.metadata["separator"]).encode()
    lines = list(lines_of(content[len(start) :], separator))
    new = relabeled(lines, source, changed, sources, separator)
    with out.open("wb") as file:
        file.write(start)
        file.writelines(separator.join(line.cells) + line.end for line in new)


def relabeled(
    lines: Sequence[Line], source: Source, changed: Mapping[int, str], sources: Sequence[str], separator: bytes
) -> list[Line]:
    """Return the rows with other labels, and with what they were and where they are from.

    A label is written as the file writes that class elsewhere. In a file of an earlier round, the two columns keep
    their places, and ``label_original`` what it holds.
    """
    names = [plain(cell) for cell in lines[0].cells]
    rows = [line.cells for line in lines[1:] if not line.blank]
    if len(rows) != len(sources):
        raise ValueError(f"{source.path} changed while it was read: try again.")
    again = has_marks(names, str(source.path), source.column)
    place = None if source.column is None else names.index(source.column)
    beside = [quoted(str(value), separator) for value in source.values] if place is None else []
    before = beside if place is None else [cells[place] for cells in rows]
    first, words = marked(before, sources, *(_earlier(names, rows, source) if again else ()))
    known = as_written(source.labels, before)
    for name in changed.values():
        if name not in known:
            known[name] = quoted(str(written(source, name, source.values)), separator)
    after = [known[changed[row]] if row in changed else cell for row, cell in enumerate(before)]
    columns = [after, first, [word.encode() for word in words]]
    header = [LABEL.encode(), *(mark.encode() for mark in APPLY_COLUMNS)]
    put = [place, *(names.index(mark) if again else None for mark in APPLY_COLUMNS)]
    return _with_columns(lines, put, header, columns)


def _earlier(names: Sequence[str], rows: Sequence[list[bytes]], source: Source) -> tuple[list[bytes], list[str]]:
    original, origin = (names.index(mark) for mark in APPLY_COLUMNS)
    words = known_sources([plain(cells[origin]) for cells in rows], str(source.path))
    return [cells[original] for cells in rows], words


def _with_columns(
    lines: Sequence[Line], put: Sequence[int | None], header: Sequence[bytes], columns: Sequence[list[bytes]]
) -> list[Line]:
    """Return the lines with the cells of ``columns`` in their places, or at the end where the place is None."""
    new, row = [], -1
    for number, line in enumerate(lines):
        cells = list(line.cells)
        if number and line.blank:
            added = sum(place is None for place in put)
            new.append(Line(cells + [b""] * (added if len(cells) > 1 else 0), line.end))  # an empty line stays one
            continue
        for place, name, column in zip(put, header, columns, strict=True):
            if place is None:
                cells.append(name if number == 0 else column[row])
            elif number:
                cells[place] = column[row]
        row += 1
        new.append(Line(cells, line.end))
    return new
