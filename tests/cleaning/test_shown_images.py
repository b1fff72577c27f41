"""Pictures of samples whose labels are checked by vectors or tables, in report, review and export."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from permll.cleaning.apply.review_export import export
from permll.cleaning.find_label_errors import find_label_errors
from permll.cleaning.source import load_source
from permll.data.inputs import LazyImages
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.cleaning_files import save_csv
from tests.helpers.command_line import error_message, run_cli, run_process
from tests.helpers.given_predictions import accept_flagged, probabilities, wrong_rows
from tests.helpers.mislabeled_data import mislabeled

NAMES = tuple(f"{row:03}.png" for row in range(200))


def color(row: int) -> tuple[int, int, int]:
    """Return the color of the picture of a row."""
    return row, 255 - row, 7


def write_images(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    for row, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 16), color(row)).save(folder / name)
    return folder


def write_vectors(folder: Path, **arrays: np.ndarray) -> Path:
    known = mislabeled()
    np.savez(folder / "features.npz", X=known.values, y=np.array(known.labels), **arrays)
    np.save(folder / "p.npy", probabilities(map(str, range(200))))
    return folder / "features.npz"


def shown_colors(run: Path) -> dict[str, tuple[int, ...]]:
    """Return the color that the review shows for each id."""
    data = load_source(Run(run))
    assert isinstance(data.inputs, LazyImages)
    return {name: data.inputs.get_sample(row).getpixel((0, 0)) for row, name in enumerate(data.ids)}


def test_clean_trains_on_vectors_and_shows_pictures(tmp_path: Path) -> None:
    """The whole way as processes: training, report, decisions, corrected file."""
    write_vectors(tmp_path)
    write_images(tmp_path / "photos")
    arguments = ("clean", "features.npz", "--images", "photos", "--epochs", "6", "--out", "run")
    found = run_process(*arguments, cwd=tmp_path, OMP_NUM_THREADS="1")
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[0] == "features: 200 samples, 3 classes, Vectors of 8"
    report = (tmp_path / "run" / "report.html").read_text()
    assert report.count("data:image/png;base64,") >= Findings.load(tmp_path / "run").is_issue.sum() > 10
    assert shown_colors(tmp_path / "run") == {str(row): color(row) for row in range(200)}
    accepted = accept_flagged(tmp_path / "run")
    applied = run_process("apply", "run", "--out", "fixed.npz", cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    wrong = mislabeled().wrong
    assert wrong_rows(tmp_path / "fixed.npz") == (wrong - accepted) | (accepted - wrong)
    again = run_cli(*arguments, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, found.stdout)
    exported = export(tmp_path / "run", tmp_path / "tasks.json", "label-studio", limit=1)
    assert exported.num_labels == 1
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    assert any(str(value).endswith(".png") for value in task["data"].values())


def test_images_are_matched_by_id(tmp_path: Path) -> None:
    names = tuple(f"{'ab'[row % 2]}/{199 - row}.jpg" for row in range(200))  # another order than that of the rows
    write_vectors(tmp_path, paths=np.array([name.removesuffix(".jpg") if name[0] == "a" else name for name in names]))
    write_images(tmp_path / "photos", names)
    arguments = ("features.npz", "--id", "paths", "--pred-probs", "p.npy", "--images", "photos", "--out", "run")
    found = run_cli("clean", *arguments, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    colors = shown_colors(tmp_path / "run")
    for row, name in enumerate(names):
        shown = colors[name if name[0] == "b" else name.removesuffix(".jpg")]
        assert np.allclose(shown, color(row), atol=6)  # JPEG


def test_rows_that_are_left_out_have_images_too(tmp_path: Path) -> None:
    labels = ["", *mislabeled().labels[1:]]
    rows = [[str(3 * row % 7), label] for row, label in enumerate(labels)]
    save_csv(tmp_path / "table.csv", ["size", "label"], rows)
    p = probabilities(map(str, range(200)))
    images = write_images(tmp_path / "photos")
    find_label_errors(
        None, p, data=tmp_path / "table.csv", features=None, drop_empty=True, images=images, out=tmp_path / "run"
    )
    assert shown_colors(tmp_path / "run") == {str(row): color(row) for row in range(1, 200)}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (NAMES[:-1], "has 199 images for 200 rows: give one per row, in sorted order, or name them by the ids"),
        ((*NAMES, "x.png"), "has 201 images for 200 rows"),
        ((), "contains no images"),
    ],
)
def test_wrong_folders_are_refused_before_the_training(names: tuple[str, ...], message: str, tmp_path: Path) -> None:
    write_vectors(tmp_path)
    (tmp_path / "photos").mkdir()
    write_images(tmp_path / "photos", names)
    for more in (["--pred-probs", "p.npy"], []):
        result = run_cli("clean", "features.npz", "--images", "photos", "--out", "run", *more, cwd=tmp_path)
        assert message in error_message(result)
        assert not (tmp_path / "run").exists()


def test_ids_need_an_image_each(tmp_path: Path) -> None:
    write_vectors(tmp_path, paths=np.array([f"photo {row}.png" for row in range(200)]))
    write_images(tmp_path / "photos", tuple(f"photo {row}.png" for row in range(1, 201)))
    arguments = ("features.npz", "--id", "paths", "--pred-probs", "p.npy", "--images", "photos")
    result = run_cli("clean", *arguments, cwd=tmp_path)
    assert error_message(result).endswith("has no image for 1 id (photo 0.png): add them, or rename all images.")


def test_numbers_without_zeros_are_warned_of(tmp_path: Path) -> None:
    write_vectors(tmp_path)
    names = tuple(f"{row}.png" for row in range(200))
    write_images(tmp_path / "photos", names)
    arguments = ("clean", "features.npz", "--pred-probs", "p.npy", "--images", "photos", "--out", "run")
    result = run_process(*arguments, cwd=tmp_path)
    assert result.returncode == 0
    assert "the sorted order of their names, so 10.png belongs to row 2:" in result.stderr
    with pytest.warns(UserWarning, match="belongs to row 2"):
        assert shown_colors(tmp_path / "run")["2"] == color(10)


def test_images_of_images_are_refused(tmp_path: Path) -> None:
    photos = write_images(tmp_path / "photos", tuple(f"{'ab'[row % 2]}/{row}.png" for row in range(10)))
    result = run_cli("clean", photos, "--images", photos)
    assert "the data are images already" in error_message(result)


def test_lost_images_are_one_sentence(tmp_path: Path) -> None:
    write_vectors(tmp_path)
    images = write_images(tmp_path / "photos")
    p = np.load(tmp_path / "p.npy")
    found = find_label_errors(None, p, data=tmp_path / "features.npz", images=images, out=tmp_path / "run")
    assert "Vectors" in found.metadata["data"]
    images.rename(tmp_path / "elsewhere")
    result = run_cli("review", tmp_path / "run", "--no-open")
    assert error_message(result) == f"{images}, the folder of images, does not exist: restore it."
    applied = run_cli("apply", tmp_path / "run", "--auto", "--out", tmp_path / "fixed.npz")
    assert applied.returncode == 0, applied.stderr  # needs no pictures


def test_data_in_memory_have_pictures_in_the_report(tmp_path: Path) -> None:
    known = mislabeled()
    images = write_images(tmp_path / "photos")
    p = probabilities(map(str, range(200)))
    find_label_errors(known.labels, p, data=known.values, images=images, out=tmp_path / "run")
    assert "data:image/png;base64," in (tmp_path / "run" / "report.html").read_text()
