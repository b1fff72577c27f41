"""Findings of a training loop with a permutation layer: from the loop to a corrected file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import permll
from permll.cleaning.apply.api import apply
from permll.cleaning.apply.corrections import select_corrections
from permll.data.loading import load
from permll.evaluation.detection import average_precision
from permll.findings import Findings
from permll.layer.paper import PaperPermutationLayer
from tests.helpers.cleaning_files import write_dataset
from tests.helpers.given_predictions import accept_flagged, true_class, wrong_rows
from tests.helpers.mislabeled_data import mislabeled

Layer = permll.PermutationLayer | PaperPermutationLayer


def train(layer: Layer, x: torch.Tensor, epochs: int = 8) -> torch.Tensor:
    """Train a linear network with a layer; return its logits."""
    torch.manual_seed(0)
    net = nn.Linear(x.shape[1], layer.num_classes)
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(32):
            loss = layer(net(x[index]), index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            layer.step()
    with torch.no_grad():
        return net(x)


def make_layer(kind: str, labels: torch.Tensor, **options: object) -> Layer:
    if kind == "default":
        return permll.PermutationLayer(labels, num_classes=3, **options)  # type: ignore[arg-type]
    return permll.PermutationLayer.paper(labels, 3, epochs=8, **options)


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_loop_leads_to_a_corrected_file(kind: str, tmp_path: Path) -> None:
    known, path = mislabeled(800), tmp_path / "vectors.npz"
    np.savez(path, X=known.values, y=np.array(known.labels))
    wrong = known.wrong
    layer = make_layer(kind, load(path).labels)
    logits = train(layer, torch.from_numpy(known.values))
    found = layer.findings(path, logits, out=tmp_path / "run")
    is_wrong = torch.tensor([int(id) in wrong for id in found.ids])
    assert average_precision(torch.from_numpy(found.label_quality), is_wrong) > 0.95
    accepted = accept_flagged(tmp_path / "run")
    assert len(accepted & wrong) >= 0.6 * len(wrong)
    assert len(accepted - wrong) <= 0.1 * len(wrong)
    apply(tmp_path / "run", tmp_path / "fixed.npz")
    assert wrong_rows(tmp_path / "fixed.npz") == (wrong - accepted) | (accepted - wrong)
    assert "a training loop with the permutation layer" in (tmp_path / "run" / "report.html").read_text()
    with pytest.raises(ValueError, match="has no network, since its findings come from a training loop"):
        permll.load_predictor(tmp_path / "run")


def test_default_layer_has_predictions_of_its_own() -> None:
    known = mislabeled(800)
    layer = make_layer("default", torch.from_numpy(known.given))
    train(layer, torch.from_numpy(known.values))
    found = layer.findings(known.values)
    t = layer.predictions.values
    expected = layer.findings(known.values, (t / t.sum(1, keepdim=True)).log())
    assert np.allclose(found.label_quality, expected.label_quality, atol=1e-5)
    is_wrong = torch.tensor([row in known.wrong for row in range(800)])
    assert average_precision(torch.from_numpy(found.label_quality), is_wrong) > 0.95


def test_layer_that_has_seen_nothing_flags_nothing() -> None:
    known = mislabeled()
    found = make_layer("default", torch.from_numpy(known.given)).findings(known.values)
    assert not found.is_issue.any()


def test_labels_change_automatically_only_with_held_out_samples() -> None:
    known = mislabeled(800)
    labels, x = torch.from_numpy(known.given), torch.from_numpy(known.values)
    for layer in (make_layer("paper", labels), permll.PermutationLayer(labels, num_classes=3, held_out=0)):
        found = layer.findings(known.values, train(layer, x))
        assert found.has_proposal.any()
        assert not found.conservative_confidence.any()
        assert select_corrections(found, {}, auto=True) == []
    layer = make_layer("default", labels)
    found = layer.findings(known.values, train(layer, x))
    assert found.conservative_confidence.any()
    changes = select_corrections(found, {}, auto=True)
    assert sum(change.row not in known.wrong for change in changes) <= 0.05 * len(changes)


def test_reasons_tell_what_the_training_corrected() -> None:
    known = mislabeled()
    layer = make_layer("paper", torch.from_numpy(known.given))
    found = layer.findings(known.values, train(layer, torch.from_numpy(known.values)))
    corrected = (layer.corrected_labels() != layer.labels).numpy()
    assert corrected.any()
    assert np.array_equal((found.reasons & 1) > 0, corrected)


def test_layer_of_a_part_of_the_data_is_matched_by_ids(tmp_path: Path) -> None:
    """A split of a data set: findings about its samples only, and a corrected file with all rows."""
    wrong = {int(id) for id in write_dataset("vectors", tmp_path)}
    path = tmp_path / "vectors.npz"
    data = load(path)
    rows = torch.randperm(200, generator=torch.Generator().manual_seed(1))[:150]
    part = data.take(rows)
    logits = 6.0 * nn.functional.one_hot(torch.tensor([true_class(id) for id in part.ids]), 3).float()
    layer = permll.PermutationLayer(part.labels, num_classes=3, ids=part.ids)
    found = layer.findings(path, logits, out=tmp_path / "run")
    assert sorted(found.ids) == sorted(part.ids)
    accepted = accept_flagged(tmp_path / "run")
    assert accepted <= wrong & set(rows.tolist())
    assert accepted
    apply(tmp_path / "run", tmp_path / "fixed.npz")
    assert wrong_rows(tmp_path / "fixed.npz") == wrong - accepted
    assert len(load(tmp_path / "fixed.npz")) == 200


def test_classes_without_a_label_keep_their_number() -> None:
    labels = np.tile([0, 2], 30)
    layer = permll.PermutationLayer(torch.from_numpy(labels), num_classes=4)
    found = layer.findings(np.random.default_rng(0).random((60, 2)), torch.randn(60, 4))
    assert found.classes == ("0", "1", "2", "3")
    assert found.given_labels.tolist() == labels.tolist()


def test_findings_say_what_does_not_match(tmp_path: Path) -> None:
    known = mislabeled()
    labels, logits = torch.from_numpy(known.given), torch.zeros(200, 3)
    layer, paper = (make_layer(kind, labels) for kind in ("default", "paper"))
    write_dataset("vectors", tmp_path)
    path = tmp_path / "vectors.npz"
    with pytest.raises(ValueError, match=r"logits must have shape \(200, 3\), one row per sample; got \(199, 3\)\.$"):
        layer.findings(path, logits[1:])
    with pytest.raises(ValueError, match="logits of 200 of 200 samples are NaN or infinite"):
        layer.findings(path, logits / 0)
    with pytest.raises(ValueError, match="keeps no predictions: pass logits=, those of the network"):
        paper.findings(path)
    with pytest.raises(ValueError, match=r"the layer has other labels than .*vectors.npz for \d+ samples"):
        make_layer("default", labels.flip(0)).findings(path, logits)
    with pytest.raises(ValueError, match=r"has 3 classes, but the layer has 4\.$"):
        permll.PermutationLayer(labels, num_classes=4).findings(path, torch.zeros(200, 4))
    with pytest.raises(ValueError, match=r"the layer has 150 rows, but .* has 200 labeled samples"):
        make_layer("default", labels[:150]).findings(path, logits[:150])
    with pytest.raises(ValueError, match=r"has 0 of the layer's 200 samples|the layer has no row of"):
        make_layer("default", labels, ids=[f"x{row}" for row in range(200)]).findings(path, logits)
    with pytest.raises(TypeError, match=r"findings\(\) got an unexpected keyword 'lable', did you mean label\?"):
        layer.findings(path, logits, lable="y")


def test_findings_are_written_only_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = mislabeled()
    layer = make_layer("default", torch.from_numpy(known.given))
    layer.findings(known.values, torch.randn(200, 3))
    assert list(tmp_path.iterdir()) == []
    layer.findings(known.values, torch.randn(200, 3), out="auto")
    (run,) = (tmp_path / "runs").iterdir()
    assert len(Findings.load(run)) == 200
