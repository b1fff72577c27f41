"""``permll noise``: each command once as a process, the rest in this process."""

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
from permll.noise import Corruption, corrupt
from tests.cli.conftest import Inside

PERMLL = Path(sys.executable).with_name("permll")
LABELS = np.repeat(np.arange(10), 50)


def run(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"} | environment
    return subprocess.run([PERMLL, "noise", *arguments], capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


@pytest.fixture
def noise(inside: Inside) -> Inside:
    """Run ``permll noise`` in this process."""
    return partial(inside, "noise")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "labels.npz", x=np.zeros((500, 2)), y_train=LABELS.astype(np.uint8))
    (tmp_path / "labels.txt").write_text("\n".join(map(str, LABELS)))
    return tmp_path


def error_message(result: subprocess.CompletedProcess[str]) -> str:
    """Return the error message, which is one line without traceback."""
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("permll: ")
    return line


def test_noise_make_and_inspect(folder: Path) -> None:
    result = run("make", "permll:asym:0.4", "--labels", "labels.npz", "--data-set", "cifar10", "--out", "new/noise.npz",
                "--picture", "pictures", cwd=folder)  # fmt: skip
    assert result.returncode == 0, result.stderr
    record = Corruption.load(folder / "new" / "noise.npz")
    expected = corrupt(LABELS, "permll:asym:0.4", seed=42, data_set="cifar10")
    assert record.hash == expected.hash
    assert (record.seed, record.noise["data_set"]) == (42, "cifar10")
    for text in ("permll:asym:0.4", "42", "500 of 10 classes", "40.00 %", "20.00 % (100 wrong)", record.hash, "truck"):
        assert text in result.stdout
    assert (folder / "pictures" / "noise.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "pictures" / "noise.svg").exists()
    again = run("inspect", "new/noise.npz", "--picture", "pictures2", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("pictures")[0] == result.stdout.split("pictures")[0]
    truck = next(line for line in again.stdout.splitlines() if line.startswith("     truck"))
    assert truck.split() == ["truck", "·", "40", *"·" * 7, "60"]
    assert (folder / "pictures2" / "noise.svg").read_bytes() == (folder / "pictures" / "noise.svg").read_bytes()


def test_noise_inspect_json(folder: Path, noise: Inside) -> None:
    record = corrupt(LABELS, "sym:0.4", seed=7)
    record.save(folder / "noise.npz")
    result = noise("inspect", "noise.npz", "--json", cwd=folder)
    about = json.loads(result.stdout)
    assert (about["name"], about["seed"], about["rate"], about["hash"]) == ("sym:0.4", 7, 0.4, record.hash)
    assert [entry["samples"] for entry in about["by_class"]] == [50] * 10


def test_noise_make_does_not_overwrite_other_file(folder: Path, noise: Inside) -> None:
    command = ("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz")
    assert noise(*command, cwd=folder).stdout.splitlines()[-1] == "wrote noise.npz"
    written = (folder / "noise.npz").stat().st_mtime_ns
    assert noise(*command, cwd=folder).stdout.splitlines()[-1] == "unchanged: noise.npz"
    message = error_message(noise(*command, "--seed", "1", cwd=folder))
    assert message == "permll: noise.npz exists with other content: write to another file, or add --force."
    assert (folder / "noise.npz").stat().st_mtime_ns == written
    assert noise(*command, "--seed", "1", "--force", cwd=folder).returncode == 0
    assert Corruption.load(folder / "noise.npz").seed == 1
    labels = (folder / "labels.txt").read_bytes()
    message = error_message(noise("make", "sym:0.4", "--labels", "labels.txt", "--out", "labels.txt", cwd=folder))
    assert "labels.txt exists with other content" in message
    assert (folder / "labels.txt").read_bytes() == labels


def test_noise_make_on_built_in_data_set(tmp_path: Path, noise: Inside) -> None:
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
    result = noise("make", "asym:0.5", "--data", "fashion_mnist", "--root", ".", "--out", "fashion.npz", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    record = Corruption.load(tmp_path / "fashion.npz")
    assert (record.clean == labels).all()
    assert set(record.noisy[record.changed & (record.clean == 9)]) == {7}
    boot = next(line for line in result.stdout.splitlines() if line.startswith("│ Ankle boot"))
    assert boot.replace("│", "").split() == ["Ankle", "boot", "20", "10", "50.0", "10", "Sneaker"]


def test_noise_make_accepts_number_of_classes(folder: Path, noise: Inside) -> None:
    result = noise("make", "sym:0.4", "--labels", "labels.txt", "--classes", "25", "--out", "noise.npz", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert Corruption.load(folder / "noise.npz").num_classes == 25
    assert "the ten of 25 classes with the highest noise rates" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["asym:0.4", "--labels", "labels.txt"], "asym needs a class map"),
        (["sym:0.4", "--labels", "none.npz"], "label file none.npz does not exist"),
        (["sym:0.4", "--labels", "label.txt"], "label file label.txt does not exist, did you mean labels.txt?"),
        (["permll:sym", "--labels", "labels.txt"], "where the rate is missing"),
        (["asym:0.4", "--data", "digits"], "digits has no published class map for asym"),
        (["sym:0.4", "--labels", "labels.npz", "--key", "z"], "labels.npz has no column or array 'z'"),
        (
            ["sym:0.4", "--labels", "labels.txt", "--data", "cifar10"],
            "either as a file (--labels) or as a built-in data set (--data)",
        ),
    ],
)
def test_noise_make_error_is_one_sentence(arguments: list[str], message: str, folder: Path, noise: Inside) -> None:
    assert message in error_message(noise("make", *arguments, "--out", "noise.npz", cwd=folder))
    assert not (folder / "noise.npz").exists()


def test_noise_inspect_refuses_other_files(folder: Path, noise: Inside) -> None:
    assert "labels.npz is not a noise record: it lacks about, clean, noisy" in error_message(
        noise("inspect", "labels.npz", cwd=folder)
    )
    assert "labels.txt is not a noise record: it is not a complete .npz file" in error_message(
        noise("inspect", "labels.txt", cwd=folder)
    )


def test_noise_make_checks_matplotlib_first(folder: Path) -> None:
    (folder / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    result = run("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz", "--picture", "pictures",
                cwd=folder, PYTHONPATH=str(folder))  # fmt: skip
    assert error_message(result).startswith("permll: figures need matplotlib: pip install 'permll[plots]', or")
    assert not (folder / "noise.npz").exists()


def test_noise_list_shows_kinds_and_conventions(tmp_path: Path) -> None:
    from permll.noise.presets import CONVENTIONS, KINDS

    result = run("list", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for name in (*CONVENTIONS, *KINDS):
        assert f"│ {name} " in result.stdout


def test_noise_inspect_strips_terminal_escapes(folder: Path, noise: Inside) -> None:
    Corruption(LABELS, LABELS, 10, 0, {"name": "sym\x1b[31m[bold]"}).save(folder / "noise.npz")
    result = noise("inspect", "noise.npz", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert "sym[31m[bold]" in result.stdout


def test_noise_make_refuses_labels_from_one(folder: Path, noise: Inside) -> None:
    (folder / "labels.txt").write_text("\n".join(map(str, LABELS + 1)))
    command = ("make", "sym:0.4", "--labels", "labels.txt", "--out", "noise.npz")
    assert error_message(noise(*command, cwd=folder)) == (
        "permll: labels run from 1 to 10: number the classes from 0, or pass --classes 11 if class 0 exists."
    )
    assert noise(*command, "--classes", "11", cwd=folder).returncode == 0


def test_noise_make_accepts_text_labels(folder: Path, noise: Inside) -> None:
    words = ["dog", "cat", "owl", "dog", "cat", "owl"] * 10
    (folder / "words.txt").write_text("\n".join(words))
    result = noise("make", "pair:0.5", "--labels", "words.txt", "--out", "noise.npz", "--picture", ".", cwd=folder)
    assert result.returncode == 0, result.stderr
    record = Corruption.load(folder / "noise.npz")
    assert (len(record.clean), record.clean[:3].tolist()) == (60, [1, 0, 2])
    cat = next(line for line in result.stdout.splitlines() if line.startswith("│ cat"))
    assert cat.replace("│", "").split() == ["cat", "20", "10", "50.0", "20", "dog"]
    about = json.loads(noise("inspect", "noise.npz", "--json", cwd=folder).stdout)
    assert about["class_names"] == ["cat", "dog", "owl"]


def test_noise_inspect_reports_ties(folder: Path, noise: Inside) -> None:
    noisy = (LABELS + np.tile(np.arange(10), 50)) % 10
    Corruption(LABELS, noisy, 10, 0, {}).save(folder / "noise.npz")
    assert noise("inspect", "noise.npz", cwd=folder).stdout.count("all alike") == 10


def test_noise_read_imports_noisy_labels(folder: Path, noise: Inside) -> None:
    noisy = LABELS.copy()
    noisy[:50] = 3
    (folder / "noisy.txt").write_text("\n".join(map(str, noisy)))
    result = run("read", "noisy.txt", "--labels", "labels.txt", "--out", "noise.npz", cwd=folder)
    assert result.returncode == 0, result.stderr
    record = Corruption.load(folder / "noise.npz")
    assert (record.clean.tolist(), record.noisy.tolist()) == (LABELS.tolist(), noisy.tolist())
    torch.save({"clean_label": LABELS, "worse_label": noisy}, folder / "human.pt")
    command = ("read", "human.pt", "--labels", "labels.txt", "--out", "human.npz")
    result = noise(*command, "--which", "worst", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "airplane" in result.stdout
    assert Corruption.load(folder / "human.npz").hash == record.hash
    assert "--which is for CIFAR-N files" in error_message(
        noise(*command, "--which", "worst", "--key", "y", cwd=folder)
    )
    assert "give the clean labels either as a file (--labels)" in error_message(
        noise("read", "noisy.txt", "--out", "new.npz", cwd=folder)
    )
    digits = load("digits", split="train")
    (folder / "digits.csv").write_text("\n".join(["Noisy_Label", *(digits.classes[k] for k in digits.labels)]))
    result = noise("read", "digits.csv", "--data", "digits", "--out", "digits.npz", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert Corruption.load(folder / "digits.npz").rate == 0
