"""``permll noise``: every command of it as the process a user would start, the rest in this process."""

import json
import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from permll.data import load
from permll.noise import Corruption, corrupt, named_noise
from tests.cli.conftest import Inside

PERMLL = Path(sys.executable).with_name("permll")
LABELS = np.repeat(np.arange(10), 50)


def run(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"} | environment
    return subprocess.run([PERMLL, "noise", *arguments], capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


@pytest.fixture
def noise(inside: Inside) -> Inside:
    """Run it in this process."""
    return partial(inside, "noise")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "labels.npz", x=np.zeros((500, 2)), y_train=LABELS.astype(np.uint8))
    (tmp_path / "labels.txt").write_text("\n".join(map(str, LABELS)))
    return tmp_path


def sentence(shown: subprocess.CompletedProcess[str]) -> str:
    """Return what was said of a mistake: one line, no traceback."""
    assert shown.returncode == 1
    (line,) = shown.stderr.splitlines()
    assert line.startswith("permll: ")
    return line


def test_make_and_inspect(folder: Path) -> None:
    shown = run("make", "permll:asym:0.4", "--labels", "labels.npz", "--data-set", "cifar10", "--out", "new/noise.npz",
                "--picture", "pictures", cwd=folder)  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    record = Corruption.load(folder / "new" / "noise.npz")
    expected = corrupt(LABELS, named_noise("permll:asym:0.4", 10, data_set="cifar10"), seed=42)
    assert record.hash == expected.hash
    assert (record.seed, record.noise["data_set"]) == (42, "cifar10")
    for text in ("permll:asym:0.4", "42", "500 of 10 classes", "40.00 %", "20.00 % (100 wrong)", record.hash, "truck"):
        assert text in shown.stdout
    assert (folder / "pictures" / "noise.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "pictures" / "noise.svg").exists()
    again = run("inspect", "new/noise.npz", "--picture", "pictures2", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("pictures")[0] == shown.stdout.split("pictures")[0]
    truck = next(line for line in again.stdout.splitlines() if line.startswith("     truck"))
    assert truck.split() == ["truck", "·", "40", *"·" * 7, "60"]
    assert (folder / "pictures2" / "noise.svg").read_bytes() == (folder / "pictures" / "noise.svg").read_bytes()


def test_inspect_as_json(folder: Path, noise: Inside) -> None:
    record = corrupt(LABELS, named_noise("sym:0.4", 10), seed=7)
    record.save(folder / "noise.npz")
    shown = noise("inspect", "noise.npz", "--json", cwd=folder)
    about = json.loads(shown.stdout)
    assert (about["name"], about["seed"], about["rate"], about["hash"]) == ("sym:0.4", 7, 0.4, record.hash)
    assert [entry["samples"] for entry in about["by_class"]] == [50] * 10


def test_a_different_file_is_not_overwritten(folder: Path, noise: Inside) -> None:
    command = ("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz")
    assert noise(*command, cwd=folder).stdout.splitlines()[-1] == "wrote noise.npz"
    written = (folder / "noise.npz").stat().st_mtime_ns
    assert noise(*command, cwd=folder).stdout.splitlines()[-1] == "already there: noise.npz"
    said = sentence(noise(*command, "--seed", "1", cwd=folder))
    assert said == "permll: noise.npz holds something else: write to another file, or add --force."
    assert (folder / "noise.npz").stat().st_mtime_ns == written
    assert noise(*command, "--seed", "1", "--force", cwd=folder).returncode == 0
    assert Corruption.load(folder / "noise.npz").seed == 1
    labels = (folder / "labels.txt").read_bytes()
    said = sentence(noise("make", "sym:0.4", "--labels", "labels.txt", "--out", "labels.txt", cwd=folder))
    assert "labels.txt holds something else" in said
    assert (folder / "labels.txt").read_bytes() == labels


def test_a_built_in_data_set_brings_its_labels_and_its_map(tmp_path: Path, noise: Inside) -> None:
    digits = noise("make", "sym:0.4", "--data", "digits", "--out", "digits.npz", cwd=tmp_path)
    assert digits.returncode == 0, digits.stderr
    record = Corruption.load(tmp_path / "digits.npz")
    assert (len(record.clean), record.num_classes) == (1347, 10)
    assert (record.clean == load("digits", split="train").labels.numpy()).all()
    fashion = tmp_path / "fashion_mnist"
    fashion.mkdir()
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 20)).astype(np.uint8)
    (fashion / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, 200) + labels.tobytes())
    (fashion / "train-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, 200, 2, 2) + bytes(800))
    shown = noise("make", "asym:0.5", "--data", "fashion_mnist", "--root", ".", "--out", "fashion.npz", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    record = Corruption.load(tmp_path / "fashion.npz")
    assert (record.clean == labels).all()
    assert set(record.noisy[record.changed & (record.clean == 9)]) == {7}
    boot = next(line for line in shown.stdout.splitlines() if line.startswith("│ Ankle boot"))
    assert boot.replace("│", "").split() == ["Ankle", "boot", "20", "10", "50.0", "10", "Sneaker"]


def test_classes_can_be_more_than_the_labels_show(folder: Path, noise: Inside) -> None:
    shown = noise("make", "sym:0.4", "--labels", "labels.txt", "--classes", "25", "--out", "noise.npz", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert Corruption.load(folder / "noise.npz").num_classes == 25
    assert "the ten of 25 classes with the highest noise rates" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["asym:0.4", "--labels", "labels.txt"], "asym means another map for each data set"),
        (["sym:0.4", "--labels", "none.npz"], "there is no label file none.npz"),
        (["sym:0.4", "--labels", "label.txt"], "there is no label file label.txt, did you mean labels.txt?"),
        (["permll:sym", "--labels", "labels.txt"], "where the rate is missing"),
        (["asym:0.4", "--data", "digits"], "digits has no published map of which class is mistaken for which"),
        (["sym:0.4", "--labels", "labels.npz", "--key", "z"], "labels.npz has nothing called 'z'"),
        (["sym:0.4", "--labels", "labels.txt", "--data", "cifar10"], "Name a file with --labels or a data set"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], message: str, folder: Path, noise: Inside) -> None:
    assert message in sentence(noise("make", *arguments, "--out", "noise.npz", cwd=folder))
    assert not (folder / "noise.npz").exists()


def test_what_is_no_record_is_one_sentence(folder: Path, noise: Inside) -> None:
    assert "labels.npz is no noise record: it lacks about, clean, noisy" in sentence(
        noise("inspect", "labels.npz", cwd=folder)
    )
    assert "labels.txt is no noise record: it is not a .npz file" in sentence(
        noise("inspect", "labels.txt", cwd=folder)
    )


def test_a_missing_extra_is_named_before_any_work(folder: Path) -> None:
    (folder / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    shown = run("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz", "--picture", "pictures",
                cwd=folder, PYTHONPATH=str(folder))  # fmt: skip
    assert sentence(shown) == "permll: figures need matplotlib: pip install 'permll[plots]'"
    assert not (folder / "noise.npz").exists()


def test_list_names_every_kind_and_convention(tmp_path: Path) -> None:
    from permll.noise.presets import CONVENTIONS, KINDS

    shown = run("list", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for name in (*CONVENTIONS, *KINDS):
        assert f"│ {name} " in shown.stdout


def test_the_steering_of_terminals_is_not_passed_on(folder: Path, noise: Inside) -> None:
    Corruption(LABELS, LABELS, 10, 0, {"name": "sym\x1b[31m[bold]"}).save(folder / "noise.npz")
    shown = noise("inspect", "noise.npz", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "\x1b" not in shown.stdout
    assert "sym[31m[bold]" in shown.stdout


def test_labels_that_count_from_one_are_refused(folder: Path, noise: Inside) -> None:
    (folder / "labels.txt").write_text("\n".join(map(str, LABELS + 1)))
    command = ("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz")
    assert sentence(noise(*command, cwd=folder)) == (
        "permll: labels run from 1 to 10: count from 0, or say how many classes there are (--classes 11 if class 0 is "
        "real)."
    )
    assert noise(*command, "--classes", "11", cwd=folder).returncode == 0


def test_words_are_labels_and_stay_in_the_record(folder: Path, noise: Inside) -> None:
    words = ["dog", "cat", "owl", "dog", "cat", "owl"] * 10
    (folder / "words.txt").write_text("\n".join(words))
    shown = noise("make", "pair:0.5", "--labels", "words.txt", "--out", "noise.npz", "--picture", ".", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    record = Corruption.load(folder / "noise.npz")
    assert (len(record.clean), record.clean[:3].tolist()) == (60, [1, 0, 2])
    cat = next(line for line in shown.stdout.splitlines() if line.startswith("│ cat"))
    assert cat.replace("│", "").split() == ["cat", "20", "10", "50.0", "20", "dog"]
    about = json.loads(noise("inspect", "noise.npz", "--json", cwd=folder).stdout)
    assert about["class_names"] == ["cat", "dog", "owl"]


def test_exact_symmetric_noise_takes_all_classes_alike(folder: Path, noise: Inside) -> None:
    noisy = (LABELS + np.tile(np.arange(10), 50)) % 10
    Corruption(LABELS, noisy, 10, 0, {}).save(folder / "noise.npz")
    assert noise("inspect", "noise.npz", cwd=folder).stdout.count("all alike") == 10


def test_read_makes_a_record_of_labels_that_others_gave(folder: Path, noise: Inside) -> None:
    noisy = LABELS.copy()
    noisy[:50] = 3
    (folder / "noisy.txt").write_text("\n".join(map(str, noisy)))
    shown = run("read", "noisy.txt", "--labels", "labels.txt", "--out", "noise.npz", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    record = Corruption.load(folder / "noise.npz")
    assert (record.clean.tolist(), record.noisy.tolist()) == (LABELS.tolist(), noisy.tolist())
    torch.save({"clean_label": LABELS, "worse_label": noisy}, folder / "human.pt")
    command = ("read", "human.pt", "--labels", "labels.txt", "--out", "human.npz")
    shown = noise(*command, "--which", "worst", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "airplane" in shown.stdout
    assert Corruption.load(folder / "human.npz").hash == record.hash
    assert "--which names a label set" in sentence(noise(*command, "--which", "worst", "--key", "y", cwd=folder))
    assert "Name a file with --labels" in sentence(noise("read", "noisy.txt", "--out", "new.npz", cwd=folder))
    digits = load("digits", split="train")
    (folder / "digits.csv").write_text("\n".join(["Noisy_Label", *(digits.classes[k] for k in digits.labels)]))
    shown = noise("read", "digits.csv", "--data", "digits", "--out", "digits.npz", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert Corruption.load(folder / "digits.npz").rate == 0
