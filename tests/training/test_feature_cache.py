"""Photographs and texts: what stands for them is chosen, said, kept through a kill, and the same for new samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from permll import Findings, clean
from permll.cli.main import app
from permll.data import Images, LabeledData, LazyImages, Texts, Vectors, load
from permll.data.decoding import FileOpener
from permll.data.readers.inference_inputs import read_unlabeled
from permll.training import Callback, Recipe, Run, features
from permll.training.data_preparation import prepare
from permll.training.export.export import export_network
from permll.training.predictor import load_predictor
from permll.training.recipe_files import load_recipe
from permll.training.train import train
from tests.helpers.toy_training import files
from tests.networks.test_backbone import TINY, nothing_downloaded, write_weights  # noqa: F401
from tests.networks.test_sentences import tiny_model

SAID = (
    "no pretrained weights at hand, so a small network on 64-pixel images; --backbone timm:NAME takes better features"
)


def write_photographs(folder: Path, count: int = 24, *, gray: bool = False) -> Path:
    """Write warm and cold photographs, of 90 x 70 and more pixels."""
    generator = np.random.default_rng(0)
    for number in range(count):
        own = folder / ("cold", "warm")[number % 2]
        own.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 100, (70, 90 + number % 3, 3))
        pixels[..., 2 * (number % 2)] += 120
        image = Image.fromarray(pixels.astype(np.uint8))
        (image.convert("L") if gray else image).save(own / f"{number}.jpg")
    return folder


def own_recipe(**changes: Any) -> Recipe:
    few = {"training.epochs": 2, "training.threads": 1, "training.checkpoint_minutes": 1e-9}
    return load_recipe("auto/default", few | {key.replace("__", "."): value for key, value in changes.items()})


class Heard(Callback):
    """Writes down what was said of the data."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_data(self, said: str) -> None:
        self.lines.append(said)


@pytest.mark.usefixtures("nothing_downloaded")
def test_photographs_are_made_small_once(tmp_path: Path) -> None:
    folder = write_photographs(tmp_path / "photos")
    heard = Heard()
    run = train(recipe=own_recipe(data__source=str(folder)), out=tmp_path / "run", callbacks=[heard])
    assert heard.lines == [f"24 images, median 91 x 70: {SAID}"]
    assert (run.recipe.data.pixels, run.recipe.data.backbone, run.recipe.network.name) == (64, None, "resnet8")
    inputs = prepare(run.recipe).train.inputs
    assert isinstance(inputs, Images)
    assert inputs.pixels.shape[1:] == (3, 64, 64)
    assert not (run.folder / "features").exists()
    trained = load_predictor(run)
    new = read_unlabeled(folder, trained.seen)
    samples = load(folder)
    assert isinstance(samples.inputs, LazyImages)
    assert new.ids == samples.ids
    small = Images(samples.inputs.resize(64).batch(torch.arange(24)))
    for inputs in (new.inputs, samples.inputs, small):  # as predict reads them, as clean does, by hand
        assert torch.equal(trained.predict(inputs), trained.predict(small))
    again = train(
        str(folder), epochs=2, out=run.folder, overrides={"training.threads": 1, "training.checkpoint_minutes": 1e-9}
    )
    assert again.finished, "the same command finds what the first one chose"


@pytest.mark.usefixtures("nothing_downloaded")
def test_grey_photographs_stay_grey(tmp_path: Path) -> None:
    folder = write_photographs(tmp_path / "photos", gray=True)
    color = load(write_photographs(tmp_path / "colour", 4))
    recipe = own_recipe(data__source=str(folder))
    experiment = prepare(recipe)
    assert isinstance(experiment.train.inputs, Images)
    assert experiment.train.inputs.pixels.shape[1:] == (1, 64, 64)
    with pytest.raises(ValueError, match="the training images are grey, but not all of those to validate or test on"):
        prepare(recipe, test=color)
    mixed = prepare(own_recipe(data__source=str(tmp_path / "colour"), data__validation=None), test=load(folder))
    assert mixed.test is not None
    assert mixed.test.inputs.batch(torch.arange(1)).shape == (1, 3, 64, 64)


class Interrupting(FileOpener):
    """Files, of which one can be opened so many times, and then somebody presses Ctrl-C."""

    left, opened = 10_000, 0

    def __call__(self, position: int) -> Image.Image:
        self.opened += 1
        if self.opened > self.left:
            raise KeyboardInterrupt
        return super().__call__(position)


def photographs_of(folder: Path, left: int = 10_000) -> tuple[LabeledData, Interrupting]:
    data = load(folder)
    assert isinstance(data.inputs, LazyImages)
    assert isinstance(data.inputs.open, FileOpener)
    files_ = Interrupting(data.inputs.open.root, data.inputs.open.names)
    files_.left = left
    return data.with_inputs(LazyImages(files_, data.inputs.rows)), files_


def test_features_survive_a_kill_and_are_the_same_for_new_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = write_weights(tmp_path / "w.safetensors")
    folder = write_photographs(tmp_path / "photos")
    monkeypatch.setattr(features, "_BLOCK", 8)
    recipe = own_recipe(data__backbone=TINY, data__weights=str(weights))
    heard = Heard()
    whole = train(photographs_of(folder)[0], recipe=recipe, out=tmp_path / "whole", callbacks=[heard])
    assert heard.lines == ["24 images, median 91 x 70: a small network on what timm:test_resnet sees in them"]
    assert whole.recipe.network.name == "mlp"
    data, opened = photographs_of(folder, left=24 + 14)  # 24 to tell their sizes
    with pytest.raises(KeyboardInterrupt):
        train(data, recipe=recipe, out=tmp_path / "run", callbacks=[])
    assert not Run(tmp_path / "run").exists
    assert len(list((tmp_path / "run" / "features").iterdir())) == 1, "the first eight are kept"
    data, opened = photographs_of(folder)
    run = train(data, recipe=recipe, out=tmp_path / "run", callbacks=[])
    assert opened.opened == 24 + 16
    assert files(run.folder) == files(whole.folder)
    weights.unlink()
    trained = load_predictor(run)
    assert trained.encoder is not None
    data, opened = photographs_of(folder)
    known = trained.encoder(data.inputs)
    assert opened.opened == 0, "what was seen in training is not computed again"
    (run.folder / "features").rename(tmp_path / "elsewhere")
    new = read_unlabeled(folder, trained.seen)
    assert isinstance(new.inputs, Vectors)
    assert torch.allclose(new.inputs.values, known.values, atol=1e-5)
    assert torch.allclose(trained.predict(new.inputs), trained.predict(data.inputs), atol=1e-5)
    assert not (run.folder / "features").exists(), "to predict changes nothing in a run"
    about = export_network(run, tmp_path / "out", ["safetensors"])[-1].read_text()
    assert "vectors that encoder.npz makes of images" in about
    assert '"name": "timm:test_resnet"' in about


def test_other_weights_make_other_files(tmp_path: Path) -> None:
    images = photographs_of(write_photographs(tmp_path / "photos", 4))[0].inputs
    made = []
    for seed in (0, 1):
        backbone = features.Backbone.load(TINY, write_weights(tmp_path / f"{seed}.safetensors", seed=seed))
        made.append(features.CachedEncoder(backbone, tmp_path / "features")(images).values)
        assert torch.equal(
            features.CachedEncoder(backbone, tmp_path / "features", write=False)(images).values, made[-1]
        )
    assert not torch.allclose(*made)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_texts_as_embeddings(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    said = Texts(("good film", "bad film", "this film is good", "this label is bad") * 6)
    data = LabeledData(said, torch.arange(24) % 2, ("good", "bad"), tuple(map(str, range(24))))
    heard = Heard()
    run = train(data, recipe=own_recipe(data__encoder=str(folder)), out=tmp_path / "run", callbacks=[heard])
    assert heard.lines == [f"24 texts: a small network on the embeddings of {folder}"]
    trained = load_predictor(run)
    assert trained.seen.shape == (32,)
    keys = [np.load(path)["keys"] for path in sorted((run.folder / "features").iterdir())]
    assert sum(map(len, keys)) == 4, "equal texts once"
    folder.rename(tmp_path / "moved")
    assert trained.predict(said).shape == (24, 2), "kept"
    with pytest.raises(ValueError, match="is no folder with a sentence model"):
        trained.predict(Texts(("a new text",)))


def test_texts_are_their_words_unless_asked(tmp_path: Path) -> None:
    data = LabeledData(
        Texts(("good film", "bad film") * 8), torch.arange(16) % 2, ("good", "bad"), tuple(map(str, range(16)))
    )
    heard = Heard()
    run = train(data, recipe=own_recipe(), out=tmp_path / "run", callbacks=[heard])
    assert heard.lines == ["16 texts: a small network on their words; --encoder NAME embeds them"]
    assert repr(load_predictor(run).encoder) == "TextEncoder of 5 words in 2 dimensions"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone": TINY}, r"^timm:test_resnet takes images, but these are vectors of 2: leave it out\.$"),
        ({"encoder": "mini"}, r"^mini takes texts, but these are vectors of 2: leave it out\.$"),
        ({"weights": "w.pt"}, r"^the weights w.pt need the name of their network too: --backbone timm:NAME\.$"),
    ],
)
def test_what_does_not_fit_the_data_is_one_sentence(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        clean(torch.rand(8, 2), [0, 1] * 4, out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    folder = write_photographs(tmp_path / "photos", 4)
    with pytest.raises(FileExistsError, match="mine is no run, and not empty"):
        train(recipe=own_recipe(data__source=str(folder)), out=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.usefixtures("nothing_downloaded")
def test_the_commands_clean_and_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run = write_photographs(tmp_path / "photos"), tmp_path / "run"
    app(["clean", str(folder), "--epochs", "1", "--out", str(run)], standalone_mode=False)
    assert capsys.readouterr().err.splitlines()[0] == f"24 images, median 91 x 70: {SAID}"
    assert Run(run).recipe.data.pixels == 64
    app(["predict", str(run), str(folder / "warm")], standalone_mode=False)
    assert len(capsys.readouterr().out.splitlines()) == 13
    asked = ["clean", str(folder), "--epochs", "1", "--out", str(tmp_path / "other"), "--backbone", TINY]
    with pytest.raises(FileNotFoundError, match=r"^there are no weights at nowhere.safetensors: give"):
        app([*asked, "--weights", "nowhere.safetensors"], standalone_mode=False)
    app([*asked, "--weights", str(write_weights(tmp_path / "w.safetensors"))], standalone_mode=False)
    assert "a small network on what timm:test_resnet sees in them" in capsys.readouterr().err
    assert Findings.load(tmp_path / "other").neighbors.shape[1] > 0
