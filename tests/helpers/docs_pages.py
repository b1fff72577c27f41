"""The code of README and docs: commands with the output that they print, and Python, in the order of the page."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("permll ", "pip ", "make ")
_FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


class Example(NamedTuple):
    """A command or a block of Python code of a page.

    Args:
        kind: "command" or "python".
        code: the command without its comment, or the code.
        output: lines that the page prints below a command; "..." stands for any lines.
    """

    kind: str
    code: str
    output: tuple[str, ...] = ()


def read_page(name: str, section: str | None = None) -> str:
    """Return the text of a page, or of one of its sections."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if section is None:
        return text
    (found,) = (part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.startswith(f"{section}\n"))
    return found


def read_examples(text: str) -> list[Example]:
    """Return the examples of a page. Indented lines are code, too, if they are commands.

    Examples:
        >>> read_examples("```\\npermll clean a.csv   # a table\\n3 labels\\n```\\n")
        [Example(kind='command', code='permll clean a.csv', output=('3 labels',))]
    """
    found: list[Example] = []
    for language, block in _blocks(text):
        if language == "python":
            found.append(Example("python", block))
        elif language == "":
            _add_commands(found, block.splitlines())
    return found


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield language and content of fenced and indented blocks, in order."""
    end = 0
    for match in [*_FENCE.finditer(text), None]:
        between = text[end : match.start() if match else len(text)]
        indented = [line.strip() for line in between.splitlines() if re.match(rf"    ({'|'.join(PROGRAMS)})", line)]
        yield "", "\n".join(indented)
        if match:
            yield match[1], match[2]
            end = match.end()


def _add_commands(found: list[Example], lines: Sequence[str]) -> None:
    for line in lines:
        if line.startswith(PROGRAMS):
            found.append(Example("command", line.split(" #")[0].strip()))
        elif line and found and found[-1].kind == "command":
            found[-1] = found[-1]._replace(output=(*found[-1].output, line))


def prints(output: str, expected: Sequence[str]) -> bool:
    """Return whether a command prints these lines, up to the numbers; a line "..." stands for any lines.

    Examples:
        >>> prints("a\\nabout 3.5 % of 1,000\\nb\\nc\\n", ["a", "about 25 % of 200", "...", "c"])
        True
        >>> prints("a\\nb\\n", ["a"])
        False
    """
    lines = [".*" if line == "..." else re.escape(_NUMBER.sub("0", line)) for line in expected]
    actual = [_NUMBER.sub("0", line) for line in output.splitlines() if line]
    pattern = "\n".join(lines).replace("\n.*\n", "\n(.*\n)*")
    return re.fullmatch(pattern, "\n".join(actual)) is not None


def split_command(command: str) -> tuple[list[str], str | None]:
    """Return the words of a command, and the file that its output is written to.

    Examples:
        >>> split_command("permll review run --log > log.csv")
        (['permll', 'review', 'run', '--log'], 'log.csv')
    """
    words = shlex.split(command)
    return (words[:-2], words[-1]) if ">" in words else (words, None)
