"""Keys of classes: unique, stable, and those of single digits and letters."""

from hypothesis import given
from hypothesis import strategies as st

from permll.review.class_keys import KEYS, add_keys, assign_keys

names = st.lists(st.text("01aAbZßcat é", min_size=1, max_size=3), unique=True, max_size=50)


@given(names, names)
def test_keys_are_unique_and_stay_when_classes_are_added(classes: list[str], added: list[str]) -> None:
    keys = assign_keys(classes)
    assert len(set(keys.values())) == len(keys) == min(len(classes), len(KEYS))
    assert set(keys) <= set(classes)
    new = [name for name in added if name not in classes]
    longer = add_keys(keys, new)
    assert keys.items() <= longer.items()
    assert len(set(longer.values())) == len(longer) == min(len(classes) + len(new), len(KEYS))
    for end in range(len(new)):
        assert add_keys(keys, new[:end]).items() <= longer.items()


@given(names)
def test_class_named_by_a_key_has_it(classes: list[str]) -> None:
    keys = assign_keys(classes)
    for name, key in keys.items():
        if name in KEYS and (name.isdigit() or name.lower() not in classes):
            assert key == name


def test_digits_and_letters_keep_their_meaning() -> None:
    assert assign_keys([str(k) for k in range(12)]) == {**{str(k): str(k) for k in range(10)}, "10": "A", "11": "B"}
    assert assign_keys(["b", "B", "a"]) == {"a": "A", "b": "B", "B": "1"}
    many = assign_keys([f"class {k}" for k in range(21_000)])
    assert list(many.values()) == list(KEYS)
