"""A trained network comes back from its run, and leaves it in files that need no permll."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from permll.data import LabeledData, Table
from permll.methods import METHODS, FitInfo, MethodInfo, SampleBuffer
from permll.methods.ce import CrossEntropy
from permll.training import Recipe, Run
from permll.training.data_preparation import PreparedData, prepare_data
from permll.training.export.export import export_model
from permll.training.predictor import load_predictor, write_model_card
from permll.training.train import build_trainer, train
from tests.helpers.toy_training import points, quick_recipe, small_net

# Runs where permll cannot be imported. The network is built by hand, from what model.json lists.
STRANGER = """
import sys
sys.modules["permll"] = None
import json
import numpy as np, onnxruntime, torch
from safetensors import safe_open
from torch import nn

samples, expected = np.load("samples.npy"), np.load("expected.npy")
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
found = {"onnx": torch.from_numpy(session.run(["probabilities"], {"input": samples})[0])}
found["one"] = torch.from_numpy(session.run(None, {"input": samples[:1]})[0])
graph = torch.export.load("model.pt2").module()
found["torch_export"] = graph(torch.from_numpy(samples))
with safe_open("model.safetensors", "pt") as file:
    weights = {key: file.get_tensor(key) for key in file.keys()}
    (step,) = json.loads(file.metadata()["preprocessing"])
    classes = json.loads(file.metadata()["classes"])
network = nn.Sequential(
    nn.Flatten(), nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, len(classes))
).eval()
places = {"hidden.0": "1", "hidden.1": "2", "head": "4"}
network.load_state_dict({places[k.rpartition(".")[0]] + "." + k.rpartition(".")[2]: w for k, w in weights.items()})
x = (torch.from_numpy(samples) / 255 - torch.tensor(step["mean"])) / torch.tensor(step["std"])
with torch.no_grad():
    found["safetensors"] = network(x).softmax(-1)
differ = {name: (p - torch.from_numpy(expected[: len(p)])).abs().max().item() for name, p in found.items()}
print(json.dumps({"differ": differ, "classes": json.loads(session.get_modelmeta().custom_metadata_map["classes"]),
                  "input": [session.get_inputs()[0].name, session.get_inputs()[0].shape]}))
"""


def trained_run(recipe: Recipe, folder: Path, data: LabeledData | None = None, **more: Any) -> tuple[Run, PreparedData]:
    """Train, and write the card of the network."""
    prepared = prepare_data(recipe, data)
    run = train(data, recipe=recipe, out=folder, **more)
    write_model_card(run, build_trainer(run.recipe, prepared, **more), prepared)
    return run, prepared


def own(**overrides: Any) -> Recipe:
    plain = {"data__noise": "", "data__validation": None, "views__weak": None, "views__strong": None}
    return quick_recipe(**{"data__source": "own", "training__epochs": 2, **plain, **overrides})


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, PreparedData]:
    torch.set_num_threads(1)
    return trained_run(quick_recipe(), tmp_path_factory.mktemp("digits") / "run")


def onnx_probabilities(path: Path, samples: Tensor) -> Tensor:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"input": samples.numpy()})[0])


def test_what_is_loaded_predicts_what_the_training_predicted(digits: tuple[Run, PreparedData]) -> None:
    run, prepared = digits
    assert prepared.test is not None
    trainer = build_trainer(run.recipe, prepared)
    state = run.checkpoints.newest()
    assert state is not None
    trainer.load_state_dict(state)
    trained = load_predictor(run)
    assert torch.equal(trained.predict(prepared.test.inputs, batch_size=256), trainer.predict(prepared.test))
    assert trained.classes == prepared.train.classes
    assert trained.epoch == 3
    assert not any(network.training for network in trained.networks.values())
    assert (trained.card["method"], trained.encoder) == ("permll", None)


def test_files_are_used_where_there_is_no_permll(digits: tuple[Run, PreparedData], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    run, prepared = digits
    assert prepared.test is not None
    paths = export_model(run, tmp_path)
    assert [path.name for path in paths] == ["model.safetensors", "model.onnx", "model.pt2", "model.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)
    inputs = prepared.test.inputs
    np.save(tmp_path / "samples.npy", inputs.batch(torch.arange(len(inputs))).numpy())
    np.save(tmp_path / "expected.npy", load_predictor(run).predict(inputs).numpy())
    shown = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert shown.returncode == 0, shown.stderr
    said = json.loads(shown.stdout)
    assert set(said["differ"]) == {"onnx", "one", "torch_export", "safetensors"}
    assert max(said["differ"].values()) < 1e-5
    assert said["classes"] == list(prepared.train.classes)
    assert said["input"] == ["input", ["batch", 1, 8, 8]]


def test_what_is_said_about_the_files(digits: tuple[Run, PreparedData], tmp_path: Path) -> None:
    run, prepared = digits
    paths = export_model(run, tmp_path / "new", formats=["safetensors"])
    about = json.loads(paths[-1].read_text())
    assert list(about["how_to_load"]) == ["model.safetensors"]
    assert about["classes"] == list(prepared.train.classes)
    assert (about["input"]["shape"], about["input"]["dtype"]) == (["batch", 1, 8, 8], "uint8")
    assert about["preprocessing"]["in_words"] == "(value / 255 - mean) / std for each channel."
    assert about["network"]["name"] == "mlp"
    assert about["network"]["options"] == {"widths": [32]}
    assert "  (head): Linear(in_features=32, out_features=10, bias=True)" in about["network"]["layers"]
    everyone = (tmp_path / "new" / "model.json").stat().st_mode & 0o777
    assert paths[0].stat().st_mode & 0o777 == everyone, "whoever may read one may read the other"


def test_several_networks_are_one_mean(tmp_path: Path) -> None:
    run, prepared = trained_run(own(method__networks=3), tmp_path / "run", points())
    export_model(run, tmp_path / "out")
    samples = prepared.train.inputs.batch(torch.arange(7))
    expected = load_predictor(run).predict(prepared.train.inputs)[:7]
    graph = torch.export.load(tmp_path / "out" / "model.pt2").module()
    assert torch.allclose(graph(samples), expected, atol=1e-5)
    assert torch.allclose(onnx_probabilities(tmp_path / "out" / "model.onnx", samples), expected, atol=1e-5)
    head = json.loads((tmp_path / "out" / "model.json").read_text())
    assert head["network"]["networks"] == ["net0", "net1", "net2"]
    assert "net0, net1, net2" in head["how_to_load"]["model.safetensors"]


def test_large_images_are_cropped_in_the_graph(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(8):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (80, 70 + number, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    network = {"name": "cnn", "widths": [4]}
    source = str(tmp_path / "images")
    recipe = own(network=network, data__source=source, views__resize=41, training__batch_size=4)
    run, prepared = trained_run(recipe, tmp_path / "run")
    card = json.loads((run.folder / "network.json").read_text())
    assert card["view"][0] == {"step": "centre_crop", "size": 35}
    assert (card["input_shape"], card["seen"]["shape"], card["seen"]["size"]) == ([3, 35, 35], [3, 41, 41], 41)
    export_model(run, tmp_path / "out")
    expected = load_predictor(run).predict(prepared.train.inputs)
    samples = prepared.train.inputs.batch(torch.arange(8))
    graph = torch.export.load(tmp_path / "out" / "model.pt2").module()
    assert torch.allclose(graph(samples), expected, atol=1e-5)
    assert torch.allclose(onnx_probabilities(tmp_path / "out" / "model.onnx", samples), expected, atol=1e-5)
    content = (tmp_path / "out" / "model.pt2").read_bytes() + (tmp_path / "out" / "model.onnx").read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in content, "no paths of the machine"


def table(rows: int = 40) -> LabeledData:
    colors = np.empty(rows, dtype=object)
    colors[:] = [("red", "blue", "")[row % 3] for row in range(rows)]
    size = np.where(np.arange(rows) % 7 == 0, np.nan, np.arange(rows) % 5.0)
    ids = tuple(f"row {row}" for row in range(rows))
    return LabeledData(Table({"size": size, "colour": colors}), torch.arange(rows) % 2, ("no", "yes"), ids)


def test_a_table_leaves_with_its_encoder(tmp_path: Path) -> None:
    data = table()
    run, prepared = trained_run(own(), tmp_path / "run", data)
    paths = export_model(run, tmp_path / "out", ["torch_export"])
    assert [path.name for path in paths] == ["model.pt2", "encoder.npz", "model.json"]
    about = json.loads(paths[-1].read_text())
    assert [column["name"] for column in about["encoding"]["columns"]] == ["size", "colour"]
    trained = load_predictor(run)
    assert trained.encoder is not None
    vectors = prepared.train.inputs.batch(torch.arange(40))
    assert torch.equal(trained.encoder(data.inputs).values, vectors)
    expected = trained.predict(data.inputs)
    assert torch.equal(trained.predict(prepared.train.inputs), expected), "encoded before or here"
    assert torch.allclose(torch.export.load(paths[0]).module()(vectors), expected, atol=1e-5)


class Teacher(CrossEntropy):
    """Predicts by the mean of all its networks' weights so far, and remembers something of each sample."""

    def on_fit_start(self, info: FitInfo) -> None:
        super().on_fit_start(info)
        self.memory = SampleBuffer(info.labels, info.ids, (info.num_classes,))
        self.register_buffer("bias", torch.zeros(info.num_classes))
        self.bias: Tensor

    def on_step_end(self) -> None:
        self.bias += 0.1 * torch.arange(len(self.bias))

    def predict(self, x: Tensor) -> Tensor:
        return (self.networks["net"](x) + self.bias).softmax(-1)


def test_a_method_that_predicts_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        METHODS, "teacher", MethodInfo("teacher", "Teacher", "an idea", None, "none", f"{__name__}:Teacher")
    )
    run, prepared = trained_run(own(method={"name": "teacher"}), tmp_path / "run", points())
    trainer = build_trainer(run.recipe, prepared)
    state = run.checkpoints.newest()
    assert state is not None
    trainer.load_state_dict(state)
    expected = trainer.predict(prepared.train)
    assert torch.equal(load_predictor(run).predict(prepared.train.inputs), expected)
    paths = export_model(run, tmp_path / "out", ["safetensors", "torch_export"])
    program = torch.export.load(paths[1])
    samples = prepared.train.inputs.batch(torch.arange(60))
    assert torch.allclose(program.module()(samples), expected, atol=1e-5)
    kept = {name: tensor.numel() for name, tensor in program.state_dict.items() if "memory" in name}
    assert sum(kept.values()) == 0, "nothing about the training samples"
    assert "way of its own" in json.loads(paths[-1].read_text())["how_to_load"]["model.safetensors"]


def test_a_network_that_was_given_must_be_given_again(tmp_path: Path) -> None:
    network = small_net(4, 3)
    run, prepared = trained_run(own(), tmp_path / "run", points(), network=network)
    with pytest.raises(ValueError, match=r"trained a network of yours, torch.nn.*Sequential: in Python, give"):
        load_predictor(run)
    with pytest.raises(ValueError, match=r"do not fit this .*Sequential: .*size mismatch"):
        load_predictor(run, small_net(4, 5))
    fresh = small_net(4, 3, seed=9)
    before = fresh[0].weight.clone()
    trained = load_predictor(run, fresh)
    assert torch.equal(fresh[0].weight, before), "the caller's stays as it was"
    network.eval()
    rows = torch.arange(60)
    seen = trained.view(prepared.train.inputs.batch(rows), rows)
    assert torch.equal(trained.predict(prepared.train.inputs), network(seen).softmax(-1))
    export_model(run, tmp_path / "out", ["safetensors"], network=fresh)


class Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * (1 if float(x.sum()) > 0 else 2)


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is no run: give a folder that permll train made"):
        load_predictor(Run(tmp_path / "nothing"))
    run, _ = trained_run(own(), tmp_path / "run", points(), network=Untraceable())
    with pytest.raises(ValueError, match=r"'onx' is no format, did you mean onnx\?"):
        export_model(run, tmp_path / "out", ["onx"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"cannot be written as a graph: .*formats=\['safetensors'\]"):
        export_model(run, tmp_path / "out", ["torch_export"], network=Untraceable())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxscript", None)
        with pytest.raises(ImportError, match=r"pip install 'permll\[export\]'"):
            export_model(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (run.folder / "network.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no network.json"):
        load_predictor(run)
