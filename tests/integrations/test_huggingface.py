"""``PermLLTrainer`` with tiny models of transformers."""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close
from torch.utils.data import IterableDataset, Subset

from tests.helpers.tiny_encoders import import_torchvision

pytest.importorskip("transformers", reason="transformers is not installed (pip install 'permll[transformers]')")
pytest.importorskip("accelerate", reason="accelerate is not installed (pip install 'permll[transformers]')")
if find_spec("torchvision") is not None:
    import_torchvision()  # which transformers imports

from transformers import Trainer, TrainerCallback

from permll import PermutationLayer
from permll.findings import Findings
from permll.integrations.huggingface import INDEX, LAYER_FILE, PermLLTrainer
from permll.training.run import Run
from tests.helpers import huggingface_training
from tests.helpers.docs_pages import read_examples, read_page
from tests.helpers.huggingface_training import (
    arguments,
    digits,
    image_model,
    paper_layer,
    state,
    text_model,
    train_in_order,
)
from tests.helpers.processes import run_module

WORDS = ["good", "bad", "film", "plot"]
Item = dict[str, Any]


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 0.0) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert_close(value, other[name], rtol=tolerance, atol=tolerance, equal_nan=True, msg=name)


def texts(rows: int = 24) -> list[Item]:
    return [{"input_ids": [2 + i % 2, 4 + i % 7, 1], "label": i % 2} for i in range(rows)]


def text_table(rows: int = 24) -> Any:
    """Return a ``datasets.Dataset`` with texts, tokens, class names, and a column that the model does not take."""
    datasets = pytest.importorskip("datasets")
    columns = {
        "id": [f"row {i}" for i in range(rows)],
        "text": [f"a {WORDS[i % 2]} film, number {i} — été" for i in range(rows)],
        "input_ids": [item["input_ids"] for item in texts(rows)],
        "label": [i % 2 for i in range(rows)],
    }
    return datasets.Dataset.from_dict(columns).cast_column("label", datasets.ClassLabel(names=["good", "bad"]))


def text_trainer(folder: Path, data: Any, model: Any = None, **settings: Any) -> PermLLTrainer:
    own = {"layer", "label_column", "data_collator", "model_init", "compute_metrics", "callbacks", "eval_dataset"}
    given = {name: settings.pop(name) for name in own & settings.keys()}
    model = None if "model_init" in given else model or text_model()
    return PermLLTrainer(model, arguments(folder, **{"max_steps": 2, **settings}), train_dataset=data, **given)


@pytest.mark.slow
def test_accuracy_and_labels_improve_over_the_plain_loss(tmp_path: Path) -> None:
    data = digits(600)
    settings = {"num_train_epochs": 50, "per_device_train_batch_size": 32, "learning_rate": 5e-4}
    trainers = [
        kind(
            image_model(256, layers=2),
            arguments(tmp_path, **settings),
            train_dataset=data.train,
            eval_dataset=data.test,
            compute_metrics=accuracy,
        )
        for kind in (Trainer, PermLLTrainer)
    ]
    for trainer in trainers:
        trainer.train()
    plain, ours = (trainer.evaluate()["eval_accuracy"] for trainer in trainers)
    assert ours > plain + 0.05
    findings = trainers[1].findings()
    corrected = np.where(findings.is_issue, findings.proposed_labels, data.given)
    assert (corrected == data.truth).mean() > (data.given == data.truth).mean() + 0.15


@pytest.mark.parametrize("takes_count", [True, False])
def test_accumulated_batches_equal_one_large_batch(tmp_path: Path, takes_count: bool) -> None:
    large = train_in_order(tmp_path / "large", 32)
    small = train_in_order(
        tmp_path / "small", 8, accumulate=4, takes_count=takes_count
    )  # 90 rows: the last step has 8 + 8 + 8 + 2
    assert small.state.global_step == large.state.global_step == 6
    assert_same(state(small), state(large), 1e-5)
    assert not torch.equal(large.layer.alpha, paper_layer(digits(90)).double().alpha)


def test_step_equals_that_of_a_plain_loop(tmp_path: Path) -> None:
    data = digits(90)
    trainer = train_in_order(tmp_path, 32)
    model, layer = image_model(16), paper_layer(data).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, labels = torch.stack([item["pixel_values"] for item in data.train]), torch.tensor(data.given)
    for _ in range(2):
        for index in torch.arange(90).split(32):
            optimizer.zero_grad()
            layer(model(x[index]).logits, index, labels=labels[index]).backward()
            optimizer.step()
            layer.step()
    trained = {f"model.{name}": value for name, value in model.state_dict().items()}
    trained |= {f"layer.{name}": value for name, value in layer.state_dict().items()}
    assert_same(state(trainer), trained, 1e-5)


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_resume_in_the_middle_of_an_epoch_is_exact(tmp_path: Path, kind: str) -> None:
    data = digits(420)

    def build(folder: str) -> PermLLTrainer:
        settings = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "learning_rate": 2e-3}
        settings |= {"save_strategy": "steps", "save_steps": 20, "gradient_accumulation_steps": 2}
        layer = paper_layer(data) if kind == "paper" else None  # 14 steps in an epoch
        args = arguments(tmp_path / folder, **settings)
        return PermLLTrainer(image_model(16), args, train_dataset=data.train, layer=layer)

    whole = build("run")
    whole.train()
    assert (tmp_path / "run/checkpoint-20" / LAYER_FILE).is_file()
    resumed = build("other")
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-20"))
    assert resumed.state.global_step == whole.state.global_step == 42
    assert_same(state(resumed), state(whole))
    (tmp_path / "run/checkpoint-20" / LAYER_FILE).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {LAYER_FILE}: resume from"):
        build("third").train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-20"))


def test_best_model_is_loaded_at_the_end(tmp_path: Path) -> None:
    data = digits(40)
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    settings |= {"load_best_model_at_end": True, "metric_for_best_model": "loss", "learning_rate": 1.0}
    args = arguments(tmp_path, **settings)
    trainer = PermLLTrainer(image_model(16), args, train_dataset=data.train, eval_dataset=data.test[:50])
    trainer.train()
    assert trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-2") != args.output_dir
    assert trainer.evaluate()["eval_loss"] == pytest.approx(trainer.state.best_metric, rel=1e-6)


def test_evaluation_uses_the_plain_loss(tmp_path: Path) -> None:
    data = texts()
    trainer = text_trainer(tmp_path, data, layer=PermutationLayer.paper([i % 2 for i in range(24)], 2, lr=5.0))
    trainer.train()
    before = trainer.layer.alpha.clone()
    plain = Trainer(trainer.model, arguments(tmp_path), train_dataset=data)
    expected = plain.evaluate(data)["eval_loss"]
    assert trainer.evaluate(data)["eval_loss"] == expected  # also on the training set
    logits = trainer.train_logits()
    assert expected == pytest.approx(float(torch.nn.functional.cross_entropy(logits, trainer.layer.labels)), abs=1e-5)
    assert torch.equal(trainer.layer.alpha, before)
    assert not trainer.layer._pending


def test_findings_of_a_table_have_texts_and_class_names(tmp_path: Path) -> None:
    data = text_table()
    trainer = text_trainer(tmp_path, data, train_sampling_strategy="group_by_length", per_device_train_batch_size=5)
    trainer.train()
    expected = Trainer(trainer.model, arguments(tmp_path)).predict(data).predictions
    assert_close(trainer.train_logits(), torch.tensor(expected), rtol=1e-5, atol=1e-5)
    findings = trainer.findings(out=tmp_path / "findings")
    assert findings.classes == ("good", "bad")
    assert findings.texts[3] == data["text"][3]
    assert findings.ids[:2] == ("0", "1")
    assert findings.given_labels.tolist() == data["label"][:]
    assert Findings.load(tmp_path / "findings").texts == findings.texts
    csv = tmp_path / "films.csv"
    data.select_columns(["id", "text", "label"]).to_csv(str(csv))
    named = trainer.findings(csv, text="text", label="label", id="id", classes=["0", "1"])
    assert named.ids[0] == "row 0"


def test_transform_of_images_runs_before_columns_are_removed(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    from PIL import Image

    data = digits(40)
    images = [Image.fromarray((item["pixel_values"][0].numpy() * 255).astype(np.uint8)) for item in data.train]
    columns = {"picture": images, "digit": data.given.tolist(), "note": ["x"] * 40}
    table = datasets.Dataset.from_dict(columns).cast_column("picture", datasets.Image())

    def transform(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        pixels = [torch.tensor(np.asarray(image) / 255, dtype=torch.float32)[None] for image in batch["picture"]]
        return {"pixel_values": pixels, "labels": batch["digit"], "note": batch["note"]}

    table.set_transform(transform)
    args = arguments(tmp_path, max_steps=2)
    trainer = PermLLTrainer(image_model(16), args, train_dataset=table, label_column="digit")
    trainer.train()
    assert trainer.layer.labels.tolist() == data.given.tolist()
    findings = trainer.findings(out=tmp_path / "findings")
    assert len(findings) == 40
    assert findings.classes == tuple("0123456789")


def test_items_and_collator_of_the_user(tmp_path: Path) -> None:
    seen: list[Item] = []

    def collate(items: list[Item]) -> dict[str, Tensor]:
        seen.extend(items)
        return {
            "input_ids": torch.tensor([item["input_ids"] for item in items]),
            "labels": torch.tensor([item["label"] for item in items]),
        }

    data = [{**item, "note": object()} for item in texts()]
    trainer = text_trainer(
        tmp_path, Subset(data, range(4, 20)), data_collator=collate, num_train_epochs=2, max_steps=-1
    )
    batches = list(trainer.get_train_dataloader())
    assert trainer.data_collator is collate
    assert all("note" not in item for item in seen)
    positions = torch.cat([batch[INDEX] for batch in batches])
    assert sorted(positions.tolist()) == list(range(16))
    for batch in batches:
        assert batch["input_ids"].tolist() == [data[4 + i]["input_ids"] for i in batch[INDEX].tolist()]
    trainer.train()
    assert len(trainer.findings()) == 16


def test_collator_that_changes_labels_or_order_is_refused(tmp_path: Path) -> None:
    def collate(items: list[Item]) -> dict[str, Tensor]:
        items = sorted(items, key=lambda item: item["label"])
        return {key: torch.tensor([item[key] for item in items]) for key in ("input_ids", "label")} | {
            "labels": torch.tensor([item["label"] for item in items])
        }

    def keep(items: list[Item]) -> list[Item]:
        return items

    with pytest.raises(ValueError, match="labels of the batch are not the layer's"):
        text_trainer(tmp_path, texts(), data_collator=collate).train()
    with pytest.raises(TypeError, match="collator must return a dict, got list"):
        text_trainer(tmp_path, texts(), data_collator=keep).train()


@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_torch_fused"])
def test_layer_steps_once_per_optimizer_step_and_skips_with_it(tmp_path: Path, optimizer: str) -> None:
    class Overflow(TrainerCallback):
        """Lets the gradients of the first step overflow, and records the layer after each step."""

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            if state.global_step == 0:
                for parameter in kwargs["model"].parameters():
                    parameter.grad.fill_(torch.inf)

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
            states.append(trainer.layer.alpha.clone())
            pending.append(len(trainer.layer._pending))

    layer = PermutationLayer.paper([i % 2 for i in range(24)], 2, lr=5.0)
    states, pending = [layer.alpha.clone()], []
    settings = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 6, "optim": optimizer}
    trainer = text_trainer(tmp_path, texts(), layer=layer, callbacks=[Overflow()], **settings)
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu")
    trainer.train()
    assert [int((before != after).any(1).sum()) for before, after in pairwise(states)] == [0, 12]
    assert pending == [0, 0]


def test_every_training_with_model_init_begins_with_the_initial_layer(tmp_path: Path) -> None:
    layer = PermutationLayer.paper([i % 2 for i in range(24)], 2, lr=5.0)
    first = layer.alpha.clone()
    trainer = text_trainer(tmp_path, texts(), layer=layer, model_init=lambda: text_model())
    results = []
    for _ in range(2):
        trainer.train()
        results.append({name: value.clone() for name, value in state(trainer).items()})
    assert not torch.equal(layer.alpha, first)
    assert_same(*results)


class Stream(IterableDataset[Item]):
    def __iter__(self) -> Any:
        return iter(texts())

    def __len__(self) -> int:
        return 24


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        (None, {}, "train_dataset is missing"),
        (Stream(), {}, "is a Stream, which has no positions"),
        ([], {}, "train_dataset is empty"),
        ([(1, 2)], {}, "items of train_dataset must be dicts, got tuple"),
        ([{"input_ids": [1], "y": 0}], {}, "has input_ids, y, but no labels: name their column with label_column="),
        (texts(), {"label_column": "y"}, "has input_ids, label, but no 'y': name their column with label_column="),
        ([{"input_ids": [1], "label": 0.5}], {}, "'label' of row 0 is 0.5, not a class number"),
        ([{"input_ids": [1], "label": [0, 1]}], {}, "not a class number"),
        ([{"input_ids": [1], "label": "good"}], {}, "'label' of row 0 is 'good', not a class number"),
        ([*texts(2), {"input_ids": [1], "label": None}], {}, "'label' of row 2 is None, not a class number"),
        ([{"input_ids": [1], "label": 2}], {}, "labels must be in 0..1"),
        ([{"input_ids": [1], "label": -1}], {}, "labels must be in 0..1"),
        (texts(), {"label_smoothing_factor": 0.1}, "label_smoothing_factor must be 0"),
        (texts(), {"layer": PermutationLayer([0, 1], 2)}, "the layer has 2 samples, but train_dataset has 24"),
        (texts(), {"model": text_model(1)}, "the model is for regression"),
        (
            texts(),
            {"model": text_model(problem_type="multi_label_classification")},
            "the model is for multi label classification",
        ),
    ],
)
def test_what_contradicts_the_layer_is_refused(
    tmp_path: Path, data: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        text_trainer(tmp_path, data, **settings)


def test_loss_of_the_user_and_streamed_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="compute_loss_func contradicts the layer"):
        PermLLTrainer(text_model(), arguments(tmp_path), train_dataset=texts(), compute_loss_func=lambda *_: 0)
    with pytest.raises(ValueError, match="is a IterableDataset, which has no positions"):
        text_trainer(tmp_path, text_table().to_iterable_dataset())


def test_example_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = read_examples(read_page("docs/integrations.md", "Hugging Face"))
    data = text_table(100)
    labels = [1 - label if i < 10 else label for i, label in enumerate(data["label"])]
    features = data.features
    data = data.remove_columns("label").add_column("label", labels).cast(features)
    settings = {"num_train_epochs": 10, "learning_rate": 0.01}
    names = {"model": text_model(), "arguments": arguments(tmp_path / "run", **settings), "dataset": data}
    exec(example.code, names)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("{")]
    assert len(lines) == 5
    for name, given_label, proposed, _ in lines:
        assert int(name) < 10
        assert (given_label, proposed) in (("good", "bad"), ("bad", "good"))
    assert Run("runs/films").exists


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path) -> None:
    run_module(huggingface_training.__name__, tmp_path, processes=2)
    one = train_in_order(tmp_path / "one", 16, rows=96)
    expected = {"logits": one.train_logits(), **state(one)}
    for rank in range(2):
        assert_same(load_file(tmp_path / f"{rank}.safetensors"), expected, 1e-5)
    assert len(Findings.load(tmp_path / "findings")) == 96
