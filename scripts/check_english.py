"""Check that docstrings, comments, messages and documents are in plain US English, without private idioms.

python scripts/check_english.py [FILE ...]      default: the whole repository; exit code 1 if anything is found

Each match is printed as ``file:line: phrase``. To allow a phrase, end its line with the comment ``english: ok``, or add
it to ``EXCEPTIONS``. Code in docstrings and documents is not checked, nor are strings without a space, which are keys.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = "english: ok"
# Phrases that a file may contain, such as quotations and titles of papers.
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "scripts/check_english.py": ("",),  # the patterns themselves
}

IDIOMS = (
    r"of (?:yours|old)",
    r"one's own",
    r"anew",
    r"mend(?:s|ed|ing)?",
    r"(?:some|any|every|no)body",
    r"whoever",
    r"so many",
    r"lest",
    r"by heart",
    r"s[ck]eptic\w*",
    r"head start",
    r"go(?:es)? on",
    r"(?<!there\s)(?:is|are) no (?!(?:longer|more|less|better|worse|greater|larger|smaller|different)\b)[a-z]+",
    r"houses?",
    r"doors?",
    r"rooms?",
    r"desks?",
    r"judg(?:e|es|ed|ing)",
)
VERBS = (
    "categor|central|character|custom|discret|emphas|equal|factor|final|general|initial|local|maxim|memor|minim|neutral|"
    "normal|optim|organ|parametr|penal|priorit|quant|random|real|recogn|regular|serial|special|standard|summar|synchron|"
    "token|util|vector|visual"
)
BRITISH = (
    rf"(?:un|re|de)?(?:{VERBS})is(?:e|es|ed|er|ers|ing|ation|ations)",
    r"\w*colour\w*",
    r"centr(?:e|es|ed)",
    r"(?:un|re|mis)?label(?:led|ling)",
    r"model(?:led|ling)",
    r"cancel(?:led|ling)",
    r"neighbour\w*",
    r"behaviours?",
    r"favour\w*",
    r"grey",
    r"licence[sd]?",
    r"artefacts?",
    r"per cent",
    r"whilst",
)
PHRASES = "|".join((*IDIOMS, *BRITISH)).replace(" ", r"\s+")
# Phrases outside of paths and code.
PATTERN = re.compile(rf"(?<![\w/])(?<!\w\.)(?:{PHRASES})(?![\w/(=]|\.\w)", re.IGNORECASE)
# Parts that are not prose: literals in double backticks and doctest lines; in Markdown also code, links and comments.
DOCSTRING_CODE = re.compile(r"``.*?``|^\s*(?:>>>|\.\.\. )[^\n]*", re.DOTALL | re.MULTILINE)
MARKDOWN_CODE = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|^(?:--8<--|:::)[^\n]*|https?://\S+", re.DOTALL | re.MULTILINE
)


def check_python(text: str, *, messages: bool = True) -> Iterator[tuple[int, str]]:
    """Yield line and phrase of matches in docstrings and comments, and optionally in other strings."""
    if not PATTERN.search(text):
        return
    starts_line = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name == "COMMENT":
            yield from _matches(token.string, token.start[0])
        elif name == "STRING" and starts_line:
            yield from _matches(_blank(DOCSTRING_CODE, token.string), token.start[0])
        elif name in ("STRING", "FSTRING_MIDDLE") and messages and " " in token.string:
            yield from _matches(re.sub(r"\{[^{}]*\}", "_", token.string), token.start[0])
        if name not in ("COMMENT", "NL"):
            starts_line = name in ("NEWLINE", "INDENT", "DEDENT", "ENCODING")


def check_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and phrase of matches outside code, links and comments."""
    if PATTERN.search(text):
        yield from _matches(_blank(MARKDOWN_CODE, text), 1)


def check_file(path: Path, root: Path = ROOT) -> list[str]:
    """Return the matches in a file as lines ``file:line: phrase``."""
    name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    is_test = name.startswith("tests/")
    matches = check_python(text, messages=not is_test) if path.suffix == ".py" else check_markdown(text)
    lines = text.splitlines()
    exceptions = EXCEPTIONS.get(name, ())
    return [
        f"{name}:{line}: {phrase}"
        for line, phrase in matches
        if ALLOWED not in lines[line - 1] and not any(allowed in phrase for allowed in exceptions)
    ]


def files() -> Iterator[Path]:
    """Yield the checked files of the repository."""
    for folder in ("src", "benchmarks", "scripts", "tests"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted((ROOT / "src").rglob("*.toml"))
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def main(names: list[str]) -> int:
    """Print all matches; return 1 if there are any."""
    paths = [Path(name).resolve() for name in names] if names else list(files())
    lines = [line for path in paths for line in check_file(path)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by dots, which keep line numbers and are not words."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", ".", match[0]), text)


def _matches(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    for match in PATTERN.finditer(text):
        yield first_line + text.count("\n", 0, match.start()), " ".join(match[0].split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
