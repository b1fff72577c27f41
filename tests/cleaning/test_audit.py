"""The audit: near-duplicates, leaks, outliers, rare classes and empty values, planted in clean data of every kind."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from torch import Tensor

import permll.cleaning.audit as audit_module
from permll.audit import Audit
from permll.cleaning.audit import AuditInput, audit
from permll.cleaning.audit_features import blank_rows, comparable_features
from permll.cleaning.near_duplicates import Pair, find_pairs, group_numbers
from permll.cleaning.text_overlap import WordOverlap, words_of
from permll.data.dataset import LabeledData
from permll.data.datasets.mnist import DEBIAN_FOLDER
from permll.data.encoding import encode
from permll.data.inputs import Images, Inputs, LazyImages, Table, Texts, Vectors
from tests.helpers.real_data import SHARED

FASHION = DEBIAN_FOLDER / "t10k-images-idx3-ubyte.gz"
needs_fashion = pytest.mark.skipif(not FASHION.is_file(), reason=f"{FASHION} is missing: install dataset-fashion-mnist")


def labeled(inputs: Inputs, labels: Any = None, num_classes: int = 2) -> LabeledData:
    n = len(inputs)
    given = torch.arange(n) % num_classes if labels is None else torch.as_tensor(labels)
    return LabeledData(inputs, given, tuple("abcdefghij"[:num_classes]), tuple(f"id {k}" for k in range(n)))


def audited(inputs: Inputs, labels: Any = None, **more: Any) -> Audit:
    data = labeled(inputs, labels)
    return audit(AuditInput(data, encode(data)[0].inputs, **more))


def fashion(rows: int) -> Tensor:
    pixels = np.frombuffer(gzip.decompress(FASHION.read_bytes())[16:], np.uint8)
    return torch.from_numpy(pixels.reshape(-1, 1, 28, 28)[:rows].copy())


def digits() -> Tensor:
    return torch.from_numpy((load_digits().images * 255 / 16).astype(np.uint8))[:, None]


def jpeg(image: Tensor) -> Tensor:
    file = io.BytesIO()
    Image.fromarray(image[0].numpy()).save(file, "JPEG", quality=60)
    return torch.from_numpy(np.array(Image.open(file)))[None]


def noisy(image: Tensor) -> Tensor:
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(int(image.sum())))
    return (image.float() + 5 * noise).clamp(0, 255).to(torch.uint8)


def brighter(image: Tensor) -> Tensor:
    return (image.float() * 1.03).clamp(0, 255).to(torch.uint8)


@needs_fashion
def test_clean_pictures_have_hardly_any_near_duplicates() -> None:
    found = audited(Images(fashion(4000)))
    assert found.facts["near_duplicates"]["samples"] <= 8
    assert found.facts["outliers"]["count"] < 0.015 * 4000
    assert found.facts["empty"] == {"columns": {}, "samples": 0, "ids": []}


@needs_fashion
@pytest.mark.parametrize("change", [jpeg, noisy, brighter])
def test_changed_pictures_are_found(change: Callable[[Tensor], Tensor]) -> None:
    pixels = fashion(3000)
    copies = torch.stack([change(pixels[k]) for k in range(100)])
    assert not torch.equal(copies, pixels[:100])
    found = audited(Images(torch.cat([pixels, copies])))
    numbers = found.near_duplicate_group
    hits = (numbers[:100] > 0) & (numbers[:100] == numbers[3000:])
    assert hits.mean() >= 0.9
    assert (numbers[100:3000] > 0).sum() <= 8


def test_cropped_pictures_are_found_where_pictures_differ_by_more(tmp_path: Path) -> None:
    """Smooth color pictures, as photos are; between centered digits or clothes, a pixel is a large difference."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(600, 3, 5, 5, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, (32, 32), mode="bicubic").clamp(0, 1).mul(255).to(torch.uint8)
    crops = torch.nn.functional.interpolate(pixels[:60, :, 1:, 1:].float(), (32, 32), mode="bilinear").to(torch.uint8)
    numbers = audited(Images(torch.cat([pixels, crops]))).near_duplicate_group
    assert ((numbers[:60] > 0) & (numbers[:60] == numbers[600:])).mean() >= 0.9
    assert not numbers[60:600].any()


def test_clean_digits_have_hardly_any_near_duplicates() -> None:
    found = audited(Images(digits()))
    assert found.facts["near_duplicates"]["samples"] <= 8
    assert found.facts["outliers"]["count"] < 0.02 * 1797


@needs_fashion
def test_noise_pictures_are_outliers() -> None:
    noise = torch.randint(0, 256, (20, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = audited(Images(torch.cat([fashion(3000), noise])))
    truth = np.arange(3020) >= 3000
    assert average_precision_score(truth, found.outlier_score) > 0.95
    assert found.is_outlier[truth].mean() >= 0.9
    assert found.is_outlier[~truth].mean() < 0.015


def test_pictures_of_another_data_set_are_outliers() -> None:
    """Photographs among handwritten digits; an uncertain prediction helps."""
    if not (SHARED / "cifar10.npz").is_file():
        pytest.skip(f"the real CIFAR-10 is not in {SHARED}")
    with np.load(SHARED / "cifar10.npz") as saved:
        differences = saved["q_test"][:, :15]
    planes = np.cumsum(np.cumsum(differences, 2, dtype=np.uint8), 3, dtype=np.uint8)  # as the data's README says
    gray = torch.from_numpy(planes[1][:, None].copy()).float()
    photos = torch.nn.functional.adaptive_avg_pool2d(gray, 8).to(torch.uint8)
    pixels, truth = torch.cat([digits(), photos]), np.arange(1797 + len(photos)) >= 1797
    max_probs = torch.where(torch.from_numpy(truth), 0.5, 0.95)
    found = audited(Images(pixels), max_probs=max_probs)
    assert average_precision_score(truth, found.outlier_score) > 0.8


WORDS = ("the", "a", "of", "river", "stone", "bright", "engine", "garden", "quiet", "market", "signal", "paper")


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join([*rng.choice(WORDS, 6), *(f"word{k}" for k in rng.integers(0, 3000, 8))]) for _ in range(count)]


def test_texts_with_one_changed_word_are_found() -> None:
    texts = sentences(800)
    rng = np.random.default_rng(1)
    changed = []
    for text in texts[:80]:
        words = text.split()
        words[rng.integers(len(words))] = "ÜBERALL"
        changed.append(" ".join(words))
    numbers = audited(Texts((*texts, *changed))).near_duplicate_group
    assert ((numbers[:80] > 0) & (numbers[:80] == numbers[800:])).mean() >= 0.9
    assert not numbers[80:800].any()


def test_real_questions_with_one_changed_word_are_found() -> None:
    if not (SHARED / "trec_rules.npz").is_file():
        pytest.skip(f"TREC is not in {SHARED}")
    with np.load(SHARED / "trec_rules.npz") as saved:
        texts = saved["text_train"][:2000].tolist()
    rng, changed = np.random.default_rng(0), []
    for text in texts[:100]:
        words = text.split()
        words[rng.integers(len(words))] = "yesterday"
        changed.append(" ".join(words))
    numbers = audited(Texts((*texts, *changed))).near_duplicate_group
    assert ((numbers[:100] > 0) & (numbers[:100] == numbers[2000:])).mean() >= 0.6
    assert (numbers[100:2000] > 0).mean() < 0.05  # TREC has some itself: "What is a caldera ?" and the like


def test_word_overlap_is_that_of_a_slow_version() -> None:
    texts = [("a", "a", "b"), ("a", "c"), ("b", "c", "d"), ()]
    overlap = WordOverlap(texts)
    weight = {w: np.log(1 + 4 / sum(w in t for t in texts)) for w in "abcd"}
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            low = sum(weight[w] * min(one.count(w), other.count(w)) for w in "abcd")
            high = sum(weight[w] * max(one.count(w), other.count(w)) for w in "abcd")
            assert overlap(i, j) == pytest.approx(low / high if high else 0)
    assert words_of("") == ()


def test_texts_without_known_words_are_no_group() -> None:
    texts = sentences(100)
    assert not audited(Texts((*texts, "!!", "?"))).near_duplicate_group[:100].any()
    found = audited(Texts((*texts, "So good!", "so GOOD")))
    assert found.groups == [[100, 101]]
    assert found.facts["near_duplicates"]["identical"] == 1


def test_groups_with_different_labels_are_conflicts() -> None:
    x = torch.randn(300, 20, generator=torch.Generator().manual_seed(0))
    x[10], x[20], x[21] = x[0] + 0.01, x[5], x[5] - 0.01
    labels = [0, 1] * 150
    found = audited(Vectors(x), labels)
    assert found.groups == [[0, 10], [5, 20, 21]]
    near = found.facts["near_duplicates"]
    assert (near["groups"], near["samples"], near["conflicts"]) == (2, 5, [2])
    assert near["pairs"][0]["labels"] == ["b", "a"]  # conflicts first
    assert {tuple(pair["ids"]) for pair in near["pairs"] if pair["identical"]} == {("id 5", "id 20")}


def test_group_numbers_are_those_of_a_slow_version() -> None:
    rng = np.random.default_rng(0)
    pairs = [Pair(*sorted(rng.choice(60, 2, replace=False).tolist()), 0.9, False) for _ in range(30)]  # type: ignore[misc]
    sets: list[set[int]] = [{row} for row in range(60)]
    for pair in pairs:
        one, other = (next(s for s in sets if row in s) for row in pair[:2])
        if one is not other:
            sets.remove(other)
            one |= other
    groups = sorted(sorted(s) for s in sets if len(s) > 1)
    numbers = group_numbers(pairs, 60)
    assert [numbers[rows].tolist() for rows in groups] == [[k + 1] * len(rows) for k, rows in enumerate(groups)]
    assert (numbers > 0).sum() == sum(map(len, groups))
    assert group_numbers([], 3).tolist() == [0, 0, 0]


def test_leaks_name_both_samples() -> None:
    x = torch.randn(400, 20, generator=torch.Generator().manual_seed(0))
    t = torch.randn(60, 20, generator=torch.Generator().manual_seed(1))
    t[3], t[8], t[9] = x[7], x[50] + 0.01, x[7]
    t[20] = t[30]  # the same twice, but only among the test samples
    test = LabeledData(Vectors(t), torch.arange(60) % 2, ("a", "c"), tuple(f"test {k}" for k in range(60)))
    found = audited(Vectors(x), test=test, encoded_test=test.inputs)
    leaks = found.facts["leaks"]
    assert {tuple(pair["ids"]) for pair in leaks["pairs"]} == {
        ("id 7", "test 3"),
        ("id 7", "test 9"),
        ("id 50", "test 8"),
    }
    assert (leaks["samples"], leaks["count"], leaks["identical"]) == (60, 3, 2)
    assert not found.near_duplicate_group.any()
    assert len(found.near_duplicate_group) == 400


def test_leaks_between_colored_and_gray_images() -> None:
    coarse = torch.rand(100, 1, 5, 5, generator=torch.Generator().manual_seed(0)) * 255
    gray = torch.nn.functional.interpolate(coarse, (24, 24), mode="bilinear").to(torch.uint8)
    test = labeled(Images(gray[95:]))
    leaks = audited(Images(gray.expand(-1, 3, -1, -1)), test=test, encoded_test=test.inputs).facts["leaks"]
    assert {tuple(pair["ids"]) for pair in leaks["pairs"]} == {(f"id {95 + k}", f"id {k}") for k in range(5)}


def test_leaks_of_texts() -> None:
    texts = sentences(200)
    test = labeled(Texts((texts[5].upper(), *sentences(20, seed=9), texts[9] + " indeed")))
    data = labeled(Texts(tuple(texts)))
    encoded, encoder = encode(data)
    leaks = audit(AuditInput(data, encoded.inputs, None, test, encode(test, encoder)[0].inputs)).facts["leaks"]
    assert {tuple(pair["ids"]) for pair in leaks["pairs"]} == {("id 5", "id 0"), ("id 9", "id 21")}


def test_rare_classes_are_those_below_a_tenth_of_the_largest() -> None:
    labels = torch.tensor([0] * 100 + [1] * 10 + [2] * 9)
    x = torch.randn(119, 5, generator=torch.Generator().manual_seed(0))
    data = labeled(Vectors(x), labels, 3)
    classes = audit(AuditInput(data, data.inputs)).facts["classes"]
    assert classes == {"counts": {"a": 100, "b": 10, "c": 9}, "rare": ["c"], "min_ratio": 0.1}


def test_empty_cells_and_rare_categories_are_not_outliers() -> None:
    rng = np.random.default_rng(0)
    columns = {f"size {k}": rng.normal(size=400) for k in range(8)}
    columns["size 3"][:8] = np.nan
    town = np.array(["Ulm", "Köln"] * 200, dtype=object)
    town[10:14] = "Bonn"
    columns["size 5"][20] = 30.0
    found = audited(Table(columns | {"town": town}))
    assert found.is_outlier[20]
    assert not found.is_outlier[:14].any()


def test_empty_cells_are_counted_by_column() -> None:
    rng = np.random.default_rng(0)
    age, town = rng.normal(size=50), np.array(["Ulm", "Köln"] * 25, dtype=object)
    age[:7], town[3] = np.nan, ""
    found = audited(Table({"age": age, "town": town, "full": rng.normal(size=50)}))
    assert found.facts["empty"]["columns"] == {"age": 7, "town": 1}


def test_blank_samples_of_every_kind() -> None:
    pixels = torch.randint(0, 256, (40, 3, 12, 12), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    pixels[4] = 255
    pixels[9, :, 0, 0] = 0
    pixels[11] = torch.tensor([10, 200, 30], dtype=torch.uint8)[:, None, None]
    pictures = [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in pixels]
    lazy = LazyImages(lambda row: pictures[row], torch.arange(40), size=12)
    assert blank_rows(Images(pixels), lambda: torch.arange(0)) == [4, 11]
    assert blank_rows(lazy, lambda: torch.tensor([3, 4, 11])) == [4, 11]
    assert blank_rows(lazy, lambda: torch.empty(0, dtype=torch.int64)) == []
    assert blank_rows(Vectors(torch.eye(3)[[0, 1]] * torch.tensor([[1.0], [0.0]])), lambda: torch.arange(0)) == [1]
    assert comparable_features(lazy).shape == comparable_features(Images(pixels)).shape == (40, 3 * 8 * 8)


def test_a_part_that_fails_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no memory left")

    monkeypatch.setattr(audit_module, "outlier_scores", fail)
    x = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    x[3] = x[1]
    with pytest.warns(UserWarning, match="the audit has no outliers: MemoryError: no memory left"):
        found = audited(Vectors(x))
    assert found.groups == [[1, 3]]
    assert found.facts["failed"] == {"outliers": "MemoryError: no memory left"}
    assert np.isnan(found.outlier_score).all()
    assert not found.is_outlier.any()
    json.dumps(found.facts)


@pytest.mark.parametrize("rows", [2, 5, 25])
def test_few_samples(rows: int) -> None:
    found = audited(Vectors(torch.randn(rows, 3, generator=torch.Generator().manual_seed(0))))
    assert not found.facts["failed"]
    assert not found.near_duplicate_group.any()


def test_identical_samples_do_not_make_pairs_of_all() -> None:
    x = torch.zeros(5000, 4)
    x[:10] = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    assert len(find_pairs(x)) == 4989


def test_features_of_vectors_are_finite() -> None:
    x = torch.tensor([[1e30, 3.0, 0.0], [-1e30, 3.0, 1e-30], [0.0, 3.0, 2e-30]])
    assert comparable_features(Vectors(x)).isfinite().all()
