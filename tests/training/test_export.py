"""``load_predictor`` and ``export_model``: the networks of a run, and their files without permll."""

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
from permll.training.build import build_trainer
from permll.training.data_preparation import PreparedData
from permll.training.export.export_model import export_model
from permll.training.predictor import load_predictor
from tests.helpers.toy_training import newest_state, points, points_recipe, quick_recipe, small_net, train_run

# permll cannot be imported here. The network is built by hand from the layers in model.json.
WITHOUT_PERMLL = """
import sys
sys.modules["permll"] = None
import json
import numpy as np, onnxruntime, torch
from safetensors import safe_open
from torch import nn

samples, expected = np.load("samples.npy"), np.load("expected.npy")
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
outputs = {"onnx": torch.from_numpy(session.run(["probabilities"], {"input": samples})[0])}
outputs["one"] = torch.from_numpy(session.run(None, {"input": samples[:1]})[0])
graph = torch.export.load("model.pt2").module()
outputs["torch_export"] = graph(torch.from_numpy(samples))
with safe_open("model.safetensors", "pt") as file:
    weights = {key: file.get_tensor(key) for key in file.keys()}
    (step,) = json.loads(file.metadata()["preprocessing"])
    classes = json.loads(file.metadata()["classes"])
network = nn.Sequential(
    nn.Flatten(), nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, len(classes))
).eval()
layers = {"hidden.0": "1", "hidden.1": "2", "head": "4"}
network.load_state_dict({layers[k.rpartition(".")[0]] + "." + k.rpartition(".")[2]: w for k, w in weights.items()})
x = (torch.from_numpy(samples) / 255 - torch.tensor(step["mean"])) / torch.tensor(step["std"])
with torch.no_grad():
    outputs["safetensors"] = network(x).softmax(-1)
differ = {name: (p - torch.from_numpy(expected[: len(p)])).abs().max().item() for name, p in outputs.items()}
print(json.dumps({"differ": differ, "classes": json.loads(session.get_modelmeta().custom_metadata_map["classes"]),
                  "input": [session.get_inputs()[0].name, session.get_inputs()[0].shape]}))
"""


def two_epochs(**overrides: Any) -> Recipe:
    return points_recipe(**{"training__epochs": 2, **overrides})


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, PreparedData]:
    torch.set_num_threads(1)
    return train_run(quick_recipe(), tmp_path_factory.mktemp("digits") / "run")


def onnx_probabilities(path: Path, samples: Tensor) -> Tensor:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"input": samples.numpy()})[0])


def test_predictor_predicts_as_the_trainer(digits: tuple[Run, PreparedData]) -> None:
    run, prepared = digits
    assert prepared.test is not None
    trainer = build_trainer(run.recipe, prepared)
    trainer.load_state_dict(newest_state(run))
    predictor = load_predictor(run)
    assert torch.equal(predictor.predict(prepared.test.inputs, batch_size=256), trainer.predict(prepared.test))
    assert predictor.classes == prepared.train.classes
    assert predictor.epoch == 3
    assert not any(network.training for network in predictor.networks.values())
    assert (predictor.card["method"], predictor.encoder) == ("permll", None)


@pytest.mark.slow
def test_exported_files_work_without_permll(digits: tuple[Run, PreparedData], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    run, prepared = digits
    assert prepared.test is not None
    paths = export_model(run, tmp_path)
    assert [path.name for path in paths] == ["model.safetensors", "model.onnx", "model.pt2", "model.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)
    inputs = prepared.test.inputs
    np.save(tmp_path / "samples.npy", inputs.batch(torch.arange(len(inputs))).numpy())
    np.save(tmp_path / "expected.npy", load_predictor(run).predict(inputs).numpy())
    process = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_PERMLL], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert set(result["differ"]) == {"onnx", "one", "torch_export", "safetensors"}
    assert max(result["differ"].values()) < 1e-5
    assert result["classes"] == list(prepared.train.classes)
    assert result["input"] == ["input", ["batch", 1, 8, 8]]


def test_model_json_describes_the_files(digits: tuple[Run, PreparedData], tmp_path: Path) -> None:
    run, prepared = digits
    paths = export_model(run, tmp_path / "new", formats=["safetensors"])
    description = json.loads(paths[-1].read_text())
    assert list(description["how_to_load"]) == ["model.safetensors"]
    assert description["classes"] == list(prepared.train.classes)
    assert (description["input"]["shape"], description["input"]["dtype"]) == (["batch", 1, 8, 8], "uint8")
    assert description["preprocessing"]["in_words"] == "(value / 255 - mean) / std for each channel."
    assert description["network"]["name"] == "mlp"
    assert description["network"]["options"] == {"widths": [32]}
    assert "  (head): Linear(in_features=32, out_features=10, bias=True)" in description["network"]["layers"]
    mode = (tmp_path / "new" / "model.json").stat().st_mode & 0o777
    assert paths[0].stat().st_mode & 0o777 == mode, "all files have the same permissions"


def test_export_averages_several_networks(tmp_path: Path) -> None:
    run, prepared = train_run(two_epochs(method__networks=3), tmp_path / "run", points())
    export_model(run, tmp_path / "out")
    samples = prepared.train.inputs.batch(torch.arange(7))
    expected = load_predictor(run).predict(prepared.train.inputs)[:7]
    graph = torch.export.load(tmp_path / "out" / "model.pt2").module()
    assert torch.allclose(graph(samples), expected, atol=1e-5)
    assert torch.allclose(onnx_probabilities(tmp_path / "out" / "model.onnx", samples), expected, atol=1e-5)
    head = json.loads((tmp_path / "out" / "model.json").read_text())
    assert head["network"]["networks"] == ["net0", "net1", "net2"]
    assert "net0, net1, net2" in head["how_to_load"]["model.safetensors"]


def test_exported_graph_crops_large_images(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(8):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (80, 70 + number, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    network = {"name": "cnn", "widths": [4]}
    source = str(tmp_path / "images")
    recipe = two_epochs(network=network, data__source=source, views__resize=41, training__batch_size=4)
    run, prepared = train_run(recipe, tmp_path / "run")
    card = json.loads((run.folder / "network.json").read_text())
    assert card["view"][0] == {"step": "center_crop", "size": 35}
    assert (card["input_shape"], card["input_spec"]["shape"], card["input_spec"]["size"]) == (
        [3, 35, 35],
        [3, 41, 41],
        41,
    )
    export_model(run, tmp_path / "out")
    expected = load_predictor(run).predict(prepared.train.inputs)
    samples = prepared.train.inputs.batch(torch.arange(8))
    graph = torch.export.load(tmp_path / "out" / "model.pt2").module()
    assert torch.allclose(graph(samples), expected, atol=1e-5)
    assert torch.allclose(onnx_probabilities(tmp_path / "out" / "model.onnx", samples), expected, atol=1e-5)
    content = (tmp_path / "out" / "model.pt2").read_bytes() + (tmp_path / "out" / "model.onnx").read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in content, "no paths of this machine"


def table(rows: int = 40) -> LabeledData:
    colors = np.empty(rows, dtype=object)
    colors[:] = [("red", "blue", "")[row % 3] for row in range(rows)]
    size = np.where(np.arange(rows) % 7 == 0, np.nan, np.arange(rows) % 5.0)
    ids = tuple(f"row {row}" for row in range(rows))
    return LabeledData(Table({"size": size, "color": colors}), torch.arange(rows) % 2, ("no", "yes"), ids)


def test_export_of_a_table_has_its_encoder(tmp_path: Path) -> None:
    data = table()
    run, prepared = train_run(two_epochs(), tmp_path / "run", data)
    paths = export_model(run, tmp_path / "out", ["torch_export"])
    assert [path.name for path in paths] == ["model.pt2", "encoder.npz", "model.json"]
    description = json.loads(paths[-1].read_text())
    assert [column["name"] for column in description["encoding"]["columns"]] == ["size", "color"]
    predictor = load_predictor(run)
    assert predictor.encoder is not None
    vectors = prepared.train.inputs.batch(torch.arange(40))
    assert torch.equal(predictor.encoder(data.inputs).values, vectors)
    expected = predictor.predict(data.inputs)
    assert torch.equal(predictor.predict(prepared.train.inputs), expected), "encoded before or by the predictor"
    assert torch.allclose(torch.export.load(paths[0]).module()(vectors), expected, atol=1e-5)


class Teacher(CrossEntropy):
    """Overrides ``predict``, and has per-sample state that its predictions do not use."""

    def on_fit_start(self, info: FitInfo) -> None:
        super().on_fit_start(info)
        self.memory = SampleBuffer(info.labels, info.ids, (info.num_classes,))
        self.register_buffer("bias", torch.zeros(info.num_classes))
        self.bias: Tensor

    def on_step_end(self) -> None:
        self.bias += 0.1 * torch.arange(len(self.bias))

    def predict(self, x: Tensor) -> Tensor:
        return (self.networks["net"](x) + self.bias).softmax(-1)


def test_export_uses_the_predict_of_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        METHODS, "teacher", MethodInfo("teacher", "Teacher", "a summary", None, "none", f"{__name__}:Teacher")
    )
    run, prepared = train_run(two_epochs(method={"name": "teacher"}), tmp_path / "run", points())
    trainer = build_trainer(run.recipe, prepared)
    trainer.load_state_dict(newest_state(run))
    expected = trainer.predict(prepared.train)
    assert torch.equal(load_predictor(run).predict(prepared.train.inputs), expected)
    paths = export_model(run, tmp_path / "out", ["safetensors", "torch_export"])
    program = torch.export.load(paths[1])
    samples = prepared.train.inputs.batch(torch.arange(60))
    assert torch.allclose(program.module()(samples), expected, atol=1e-5)
    kept = {name: tensor.numel() for name, tensor in program.state_dict.items() if "memory" in name}
    assert sum(kept.values()) == 0, "no per-sample state"
    assert "its own way to predict" in json.loads(paths[-1].read_text())["how_to_load"]["model.safetensors"]


def test_user_network_must_be_passed_to_load_predictor(tmp_path: Path) -> None:
    network = small_net(4, 3)
    run, prepared = train_run(two_epochs(), tmp_path / "run", points(), network=network)
    with pytest.raises(ValueError, match=r"trained a user-defined network, torch.nn.*Sequential: in Python, pass"):
        load_predictor(run)
    with pytest.raises(ValueError, match=r"do not fit this .*Sequential: .*size mismatch"):
        load_predictor(run, small_net(4, 5))
    fresh = small_net(4, 3, seed=9)
    before = fresh[0].weight.clone()
    predictor = load_predictor(run, fresh)
    assert torch.equal(fresh[0].weight, before), "the network of the caller is unchanged"
    network.eval()
    rows = torch.arange(60)
    x = predictor.view(prepared.train.inputs.batch(rows), rows)
    assert torch.equal(predictor.predict(prepared.train.inputs), network(x).softmax(-1))
    export_model(run, tmp_path / "out", ["safetensors"], network=fresh)


class Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * (1 if float(x.sum()) > 0 else 2)


def test_export_errors_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is not a run: pass a folder that permll train has written"):
        load_predictor(Run(tmp_path / "nothing"))
    run, _ = train_run(two_epochs(), tmp_path / "run", points(), network=Untraceable())
    with pytest.raises(ValueError, match=r"unknown format 'onx', did you mean onnx\?"):
        export_model(run, tmp_path / "out", ["onx"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"cannot be exported as a graph: .*formats=\['safetensors'\]"):
        export_model(run, tmp_path / "out", ["torch_export"], network=Untraceable())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxscript", None)
        with pytest.raises(ImportError, match=r"pip install 'permll\[export\]'"):
            export_model(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (run.folder / "network.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no network.json"):
        load_predictor(run)


def test_load_predictor_takes_a_folder(digits: tuple[Run, PreparedData], tmp_path: Path) -> None:
    run, prepared = digits
    inputs = prepared.train.inputs.take(torch.arange(5))
    expected = load_predictor(run).predict(inputs)
    for folder in (run.folder, str(run.folder)):
        assert torch.equal(load_predictor(folder).predict(inputs), expected)
    with pytest.raises(FileNotFoundError, match="nothing is not a run"):
        load_predictor(tmp_path / "nothing")
