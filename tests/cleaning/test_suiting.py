"""A training suits the number of rows."""

from permll.cleaning.suiting import suited
from permll.training.recipe_files import load_recipe


def test_the_recipe_suits_the_number_of_rows() -> None:
    recipe = load_recipe("own/clean", {"training.epochs": 40})

    def chosen(rows: int, classes: int = 10) -> tuple[int, float | str | None]:
        found = suited(recipe, rows, classes)
        return found.training.epochs, found.data.validation

    assert [chosen(rows) for rows in (39, 40, 20_000, 1_000_000)] == [(40, None), (40, 0.25), (40, 0.1), (6, 0.1)]
    assert [chosen(rows)[1] for rows in (11, 100, 2_500, 5_000)] == [None, 0.2, 0.2, 0.1]
    assert [chosen(100, classes)[1] for classes in (80, 81)] == [0.2, None]  # each keeps a row to train on


def test_what_is_asked_for_stays() -> None:
    recipe = load_recipe("own/clean", {"training.epochs": 40, "data.validation": 0.3})
    asked = suited(recipe, 1_000_000, 10, {"training.epochs", "data.validation"})
    assert (asked.training.epochs, asked.data.validation) == (40, 0.3)
    assert suited(recipe, 1_000_000, 10, {"data.validation"}).training.epochs == 6
