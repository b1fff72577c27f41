"""Encoders of images and texts: the choice, its message, the cache, and inference."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from permll import Findings, clean
from permll.cli.main import app
from permll.data import Images, LabeledData, LazyImages, Texts, Vectors, decoding, load
from permll.data.decoding import FileOpener
from permll.data.readers.inference_inputs import read_unlabeled
from permll.training import Callback, Recipe, Run, feature_cache
from permll.training.data_preparation import prepare_data
from permll.training.export.export_model import export_model
from permll.training.predictor import load_predictor
from permll.training.recipe_files import load_recipe
from permll.training.train import train
from tests.helpers.tiny_encoders import TINY, block_downloads, need_timm, tiny_sentence_model, write_weights
from tests.helpers.toy_training import run_bytes

DOWNSCALED = (
    "a small network on 64-pixel images, since no pretrained weights were found; --backbone timm:NAME uses better "
    "features"
)


@pytest.fixture
def no_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block_downloads(tmp_path, monkeypatch)


def write_images(folder: Path, count: int = 24, *, gray: bool = False) -> Path:
    """Write red and blue images of 90 x 70 pixels and more."""
    generator = np.random.default_rng(0)
    for number in range(count):
        class_folder = folder / ("cold", "warm")[number % 2]
        class_folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 100, (70, 90 + number % 3, 3))
        pixels[..., 2 * (number % 2)] += 120
        image = Image.fromarray(pixels.astype(np.uint8))
        (image.convert("L") if gray else image).save(class_folder / f"{number}.jpg")
    return folder


def auto_recipe(**changes: Any) -> Recipe:
    few = {"training.epochs": 2, "training.threads": 1, "training.checkpoint_minutes": 1e-9}
    return load_recipe("auto/default", few | {key.replace("__", "."): value for key, value in changes.items()})


class Messages(Callback):
    """Records messages about the data."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_message(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.usefixtures("no_downloads")
def test_large_images_are_downscaled_once(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    messages = Messages()
    run = train(recipe=auto_recipe(data__source=str(folder)), out=tmp_path / "run", callbacks=[messages])
    assert messages.lines == [f"24 images, median size 91 x 70: {DOWNSCALED}"]
    assert (run.recipe.data.pixels, run.recipe.data.backbone, run.recipe.network.name) == (64, None, "resnet8")
    inputs = prepare_data(run.recipe).train.inputs
    assert isinstance(inputs, Images)
    assert inputs.pixels.shape[1:] == (3, 64, 64)
    assert not (run.folder / "features").exists()
    predictor = load_predictor(run)
    new = read_unlabeled(folder, predictor.input_spec)
    samples = load(folder)
    assert isinstance(samples.inputs, LazyImages)
    assert new.ids == samples.ids
    pixels = Images(samples.inputs.resize(64).batch(torch.arange(24)))
    for inputs in (new.inputs, samples.inputs, pixels):  # as read by predict, by clean, by hand
        assert torch.equal(predictor.predict(inputs), predictor.predict(pixels))
    again = train(
        str(folder), epochs=2, out=run.folder, overrides={"training.threads": 1, "training.checkpoint_minutes": 1e-9}
    )
    assert again.finished, "the same command has the same choices"


def count_decodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the file name of every image whose pixels are decoded."""
    names: list[str] = []
    load_pixels = JpegImageFile.load

    def load_and_count(image: JpegImageFile) -> Any:
        if image.tile:  # not decoded yet
            names.append(Path(image.filename).name)
        return load_pixels(image)

    monkeypatch.setattr(JpegImageFile, "load", load_and_count)
    return names


@pytest.mark.usefixtures("no_downloads")
@pytest.mark.parametrize("options", [{}, {"data__options": {"check": False}}, {"data__pixels": 32}], ids=str)
def test_reading_decodes_every_photo_once(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_images(tmp_path / "photos")
    Image.new("RGB", (20, 30), (200, 9, 9)).save(folder / "warm" / "small.jpg")
    size = options.get("data__pixels", 64)
    samples = load(folder)
    assert isinstance(samples.inputs, LazyImages)
    pixels = dict(zip(samples.ids, samples.inputs.resize(size).batch(torch.arange(25)), strict=True))
    decoded = count_decodes(monkeypatch)
    train = prepare_data(auto_recipe(data__source=str(folder), data__validation=None, **options)).train
    assert sorted(decoded) == sorted(Path(name).name for name in samples.ids)
    assert isinstance(train.inputs, Images)
    assert torch.equal(train.inputs.pixels, torch.stack([pixels[name] for name in train.ids]))


@pytest.mark.usefixtures("no_downloads")
def test_clean_decodes_every_photo_once_before_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_images(tmp_path / "photos")
    (folder / "cold" / "broken.jpg").write_bytes((folder / "cold" / "0.jpg").read_bytes()[:900])
    decoded: list[str] = []
    to_pixels = decoding.to_pixels

    def decode_and_count(image: Image.Image, *arguments: Any) -> Any:
        decoded.append(Path(image.filename).name)
        return to_pixels(image, *arguments)

    monkeypatch.setattr(decoding, "to_pixels", decode_and_count)
    found = clean(folder, out=tmp_path / "run", epochs=1, skip_unreadable=True)
    assert len(found) == 24
    assert sorted(decoded) == sorted([*(f"{number}.jpg" for number in range(24)), "broken.jpg"])


@pytest.mark.usefixtures("no_downloads")
def test_small_images_of_one_size_stay_as_they_are(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / "images" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 30), (number, 9, 9)).save(tmp_path / "images" / "ab"[number % 2] / f"{number}.png")
    recipe = auto_recipe(data__source=str(tmp_path / "images"), data__validation=None, data__options={"rare": "drop"})
    assert prepare_data(recipe).train.inputs.batch(torch.arange(12)).shape == (12, 3, 30, 20)
    (tmp_path / "images" / "c").mkdir()
    Image.new("RGB", (200, 300)).save(tmp_path / "images" / "c" / "large.png")  # the only one of its class: left out
    assert prepare_data(recipe).train.inputs.batch(torch.arange(12)).shape == (12, 3, 30, 20)


@pytest.mark.usefixtures("no_downloads")
def test_gray_images_stay_gray(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos", gray=True)
    color = load(write_images(tmp_path / "color", 4))
    recipe = auto_recipe(data__source=str(folder))
    prepared = prepare_data(recipe)
    assert isinstance(prepared.train.inputs, Images)
    assert prepared.train.inputs.pixels.shape[1:] == (1, 64, 64)
    with pytest.raises(
        ValueError, match="the training images are gray, but some validation or test images have colors"
    ):
        prepare_data(recipe, test=color)
    mixed = prepare_data(auto_recipe(data__source=str(tmp_path / "color"), data__validation=None), test=load(folder))
    assert mixed.test is not None
    assert mixed.test.inputs.batch(torch.arange(1)).shape == (1, 3, 64, 64)


class Interrupting(FileOpener):
    """Counts opened files, and raises ``KeyboardInterrupt`` after a limit."""

    limit, opened = 10_000, 0

    def __call__(self, position: int) -> Image.Image:
        self.opened += 1
        if self.opened > self.limit:
            raise KeyboardInterrupt
        return super().__call__(position)


def counted_images(folder: Path, limit: int = 10_000) -> tuple[LabeledData, Interrupting]:
    data = load(folder)
    assert isinstance(data.inputs, LazyImages)
    assert isinstance(data.inputs.open, FileOpener)
    files_ = Interrupting(data.inputs.open.root, data.inputs.open.names)
    files_.limit = limit
    return data.with_inputs(LazyImages(files_, data.inputs.rows)), files_


@pytest.mark.usefixtures("no_downloads")
def test_download_that_fails_falls_back_to_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("permll.networks.pretrained_files._failed", set())
    folder, messages = write_images(tmp_path / "photos"), Messages()
    run = train(recipe=auto_recipe(data__source=str(folder)), out=tmp_path / "run", callbacks=[messages])
    assert messages.lines == [
        "downloading timm:vit_small_patch16_224.augreg_in21k_ft_in1k (88 MB, once); --backbone none trains on pixels "
        "instead",
        "timm/vit_small_patch16_224.augreg_in21k_ft_in1k cannot be downloaded (network access)",
        f"24 images, median size 91 x 70: {DOWNSCALED}",
    ]
    assert run.recipe.data.pixels == 64


@pytest.mark.usefixtures("no_downloads")
def test_backbone_none_trains_on_pixels(tmp_path: Path) -> None:
    write_cached_resnet(tmp_path)
    folder, messages = write_images(tmp_path / "photos"), Messages()
    recipe = auto_recipe(data__source=str(folder), data__backbone="none")
    run = train(recipe=recipe, out=tmp_path / "run", callbacks=[messages])
    assert (run.recipe.data.backbone, run.recipe.data.pixels, run.recipe.network.name) == (None, 64, "resnet8")
    assert train(recipe=recipe, out=run.folder).finished, "the same recipe has the same choices"


def write_cached_resnet(folder: Path) -> None:
    """Put random weights of a ResNet-18 into torch's cache in a folder."""
    need_timm()
    path = folder / "torch" / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(importlib.import_module("timm").create_model("resnet18").state_dict(), path)


@pytest.mark.usefixtures("no_downloads")
def test_few_small_color_images_are_encoded_by_the_default_backbone(tmp_path: Path) -> None:
    write_cached_resnet(tmp_path)
    pixels = torch.randint(256, (24, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pixels[::2, 0] //= 4
    messages = Messages()
    found = clean(pixels, [0, 1] * 12, out=tmp_path / "run", epochs=1, callbacks=[messages])
    assert len(found) == 24
    assert messages.lines == ["24 images, median size 16 x 16: a small network on features of timm:resnet18.tv_in1k"]
    run = Run(tmp_path / "run")
    assert (run.recipe.data.backbone, run.recipe.network.name) == ("timm:resnet18.tv_in1k", "mlp")
    assert load_predictor(run).predict(Images(pixels)).shape == (24, 2)


def test_cached_features_survive_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = write_weights(tmp_path / "w.safetensors")
    folder = write_images(tmp_path / "photos")
    monkeypatch.setattr(feature_cache, "BLOCK_ROWS", 8)
    recipe = auto_recipe(data__backbone=TINY, data__weights=str(weights))
    messages = Messages()
    uninterrupted = train(
        counted_images(folder)[0], recipe=recipe, out=tmp_path / "uninterrupted", callbacks=[messages]
    )
    assert messages.lines == ["24 images, median size 91 x 70: a small network on features of timm:test_resnet"]
    assert uninterrupted.recipe.network.name == "mlp"
    data, opened = counted_images(folder, limit=24 + 14)  # 24 for the median size
    with pytest.raises(KeyboardInterrupt):
        train(data, recipe=recipe, out=tmp_path / "run", callbacks=[])
    assert not Run(tmp_path / "run").exists
    assert len(list((tmp_path / "run" / "features").iterdir())) == 1, "the first block is cached"
    data, opened = counted_images(folder)
    run = train(data, recipe=recipe, out=tmp_path / "run", callbacks=[])
    assert opened.opened == 24 + 16
    assert run_bytes(run.folder) == run_bytes(uninterrupted.folder)
    weights.unlink()
    predictor = load_predictor(run)
    assert predictor.encoder is not None
    data, opened = counted_images(folder)
    known = predictor.encoder(data.inputs)
    assert opened.opened == 0, "features of training samples are cached"
    (run.folder / "features").rename(tmp_path / "elsewhere")
    new = read_unlabeled(folder, predictor.input_spec)
    assert isinstance(new.inputs, Vectors)
    assert torch.allclose(new.inputs.values, known.values, atol=1e-5)
    assert torch.allclose(predictor.predict(new.inputs), predictor.predict(data.inputs), atol=1e-5)
    assert not (run.folder / "features").exists(), "inference does not write to a run"
    description = export_model(run, tmp_path / "out", ["safetensors"])[-1].read_text()
    assert "vectors, encoded by encoder.npz from images" in description
    assert '"name": "timm:test_resnet"' in description


def test_cache_is_separate_for_other_weights(tmp_path: Path) -> None:
    images = counted_images(write_images(tmp_path / "photos", 4))[0].inputs
    values = []
    for seed in (0, 1):
        backbone = feature_cache.Backbone.load(TINY, write_weights(tmp_path / f"{seed}.safetensors", seed=seed))
        values.append(feature_cache.CachedEncoder(backbone, tmp_path / "features")(images).values)
        assert torch.equal(
            feature_cache.CachedEncoder(backbone, tmp_path / "features", write=False)(images).values, values[-1]
        )
    assert not torch.allclose(*values)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_sentence_encoder_embeds_texts(tmp_path: Path) -> None:
    folder = tiny_sentence_model(tmp_path / "tiny")
    texts = Texts(("good film", "bad film", "this film is good", "this label is bad") * 6)
    data = LabeledData(texts, torch.arange(24) % 2, ("good", "bad"), tuple(map(str, range(24))))
    messages = Messages()
    run = train(data, recipe=auto_recipe(data__encoder=str(folder)), out=tmp_path / "run", callbacks=[messages])
    assert messages.lines == [f"24 texts: a small network on embeddings of {folder}"]
    predictor = load_predictor(run)
    assert predictor.input_spec.shape == (32,)
    keys = [np.load(path)["keys"] for path in sorted((run.folder / "features").iterdir())]
    assert sum(map(len, keys)) == 4, "equal texts are encoded once"
    folder.rename(tmp_path / "moved")
    assert predictor.predict(texts).shape == (24, 2), "cached"
    with pytest.raises(ValueError, match="not a folder of a sentence model"):
        predictor.predict(Texts(("a new text",)))


def test_default_sentence_encoder_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_sentence_model(tmp_path / "tiny")
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    shutil.copytree(model, repository / "snapshots" / "0")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path / "hub"), raising=False)
    data = {"text": ["good film", "bad film", "this film is good", "this label is bad"] * 6, "label": ["+", "-"] * 12}
    messages = Messages()
    clean(pl.DataFrame(data), text="text", label="label", out=tmp_path / "run", epochs=1, callbacks=[messages])
    assert messages.lines == ["24 texts: a small network on embeddings of all-MiniLM-L6-v2"]
    assert Run(tmp_path / "run").recipe.data.encoder == "all-MiniLM-L6-v2"


def test_texts_are_tf_idf_by_default(tmp_path: Path) -> None:
    data = LabeledData(
        Texts(("good film", "bad film") * 8), torch.arange(16) % 2, ("good", "bad"), tuple(map(str, range(16)))
    )
    messages = Messages()
    run = train(data, recipe=auto_recipe(), out=tmp_path / "run", callbacks=[messages])
    assert messages.lines == ["16 texts: a small network on tf-idf features; --encoder NAME uses embeddings"]
    assert repr(load_predictor(run).encoder) == "TextEncoder of 5 words in 2 dimensions"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone": TINY}, r"^timm:test_resnet encodes images, but the data are vectors of 2: remove this option\.$"),
        ({"encoder": "mini"}, r"^mini encodes texts, but the data are vectors of 2: remove this option\.$"),
        ({"weights": "w.pt"}, r"^the weights w.pt need the name of their network: --backbone timm:NAME\.$"),
    ],
)
def test_encoder_for_other_data_is_refused(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        clean(torch.rand(8, 2), [0, 1] * 4, out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_folder_in_use_is_refused_before_features(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    folder = write_images(tmp_path / "photos", 4)
    with pytest.raises(FileExistsError, match="mine is not a run and not empty"):
        train(recipe=auto_recipe(data__source=str(folder)), out=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.usefixtures("no_downloads")
def test_commands_clean_and_predict_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run = write_images(tmp_path / "photos"), tmp_path / "run"
    app(["clean", str(folder), "--epochs", "1", "--out", str(run)], standalone_mode=False)
    assert capsys.readouterr().err.splitlines()[0] == f"24 images, median size 91 x 70: {DOWNSCALED}"
    assert Run(run).recipe.data.pixels == 64
    app(["predict", str(run), str(folder / "warm")], standalone_mode=False)
    assert len(capsys.readouterr().out.splitlines()) == 13
    arguments = ["clean", str(folder), "--epochs", "1", "--out", str(tmp_path / "other"), "--backbone", TINY]
    with pytest.raises(FileNotFoundError, match=r"^no weights file at nowhere.safetensors: pass"):
        app([*arguments, "--weights", "nowhere.safetensors"], standalone_mode=False)
    app([*arguments, "--weights", str(write_weights(tmp_path / "w.safetensors"))], standalone_mode=False)
    assert "a small network on features of timm:test_resnet" in capsys.readouterr().err
    assert Findings.load(tmp_path / "other").neighbors.shape[1] > 0
