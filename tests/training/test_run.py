"""``Run``: labels of its samples, and folders of another format."""

from pathlib import Path

import pytest

from permll.training import Run, load_predictor, load_recipe
from permll.training.run import FORMAT
from permll.training.train import train
from tests.helpers.toy_training import StopAfter, points, points_recipe


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return train(points(), recipe=points_recipe(data__validation=0.2), out=tmp_path / "run", callbacks=[StopAfter(2)])


def test_run_labels_are_those_of_its_data(run: Run) -> None:
    data, labels = points(), run.labels
    assert labels.classes == data.classes
    assert (len(labels.ids), len(labels.validation_ids)) == (48, 12)
    assert labels.labels.shape == (48,)
    assert labels.by_id() == dict(zip(data.ids, data.labels.tolist(), strict=True))


def test_run_of_another_format_is_refused(run: Run) -> None:
    path = run.folder / "recipe.toml"
    recipe = path.read_text()
    assert recipe.startswith(f"format = {FORMAT}\n")
    for text, found in ((recipe.partition("\n")[2], 1), (recipe.replace(f"format = {FORMAT}", "format = 9"), 9)):
        path.write_text(text)
        message = rf"run was written by another version of permll \(format {found}, this one reads {FORMAT}\): train it"
        for use in (
            lambda: run.recipe,
            lambda: run.labels,
            lambda: load_predictor(run),
            lambda: train(points(), recipe=points_recipe(data__validation=0.2), out=run.folder),
        ):
            with pytest.raises(ValueError, match=message):
                use()


def test_recipe_of_a_run_is_a_recipe_file(run: Run) -> None:
    assert load_recipe(run.folder / "recipe.toml") == run.recipe


def test_missing_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is not a run: pass a folder that permll train has written"):
        _ = Run(tmp_path / "nothing").recipe
