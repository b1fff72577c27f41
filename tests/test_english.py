"""``scripts/check_english.py`` on short texts."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parent.parent / "scripts" / "check_english.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_english", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


english = load_script()

BAD = '''"""Reads data of yours.

    Examples:
        >>> print("by heart")
        by heart
"""

def read(colour):  # nobody calls it
    """Return what ``one's own`` reader
    normalises."""
    key = "colour"
    raise ValueError(f"{key} is no recipe: " + "mend it.")
'''
CLEAN = '''"""Read a data set; there is no default.

``one's own`` is code, as are docs/images/memorisation.png and results/mini.memorisation.md.
"""

SETTINGS = {"normalise": "memorisation"}  # old keys
raise ValueError("unknown recipe; it is no longer available")
'''


def test_python_matches_have_lines() -> None:
    assert list(english.check_python(BAD)) == [
        (1, "of yours"),
        (5, "by heart"),
        (8, "nobody"),
        (10, "normalises"),
        (12, "is no recipe"),
        (12, "mend"),
    ]


def test_messages_of_tests_are_not_checked() -> None:
    assert [phrase for _, phrase in english.check_python(BAD, messages=False)][-1] == "normalises"


def test_clean_python_passes() -> None:
    assert list(english.check_python(CLEAN)) == []


@pytest.mark.parametrize(
    "phrase",
    ["goes on with", "so\nmany", "one's own", "sceptical", "labelled", "neighbouring", "per cent", "Behaviour"],
)
def test_phrase_is_found(phrase: str) -> None:
    assert len(list(english.check_markdown(f"It {phrase} something."))) == 1


def test_markdown_matches_skip_code_and_links() -> None:
    text = "`labelled` ![of the\nlabels](images/memorisation.png)\n```\nanew\n```\n<!-- lest -->\nA colour is wrong.\n"
    assert list(english.check_markdown(text)) == [(7, "colour")]


def test_allowed_phrases_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "module.py"
    path.write_text("# A house.  english: ok\n# A door.\n# The centre of a paper's title.\n")
    monkeypatch.setitem(english.EXCEPTIONS, "module.py", ("centre",))
    assert english.check_file(path, tmp_path) == ["module.py:2: door"]


def test_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main([str(PATH)]) == 0
    assert capsys.readouterr().out == ""
