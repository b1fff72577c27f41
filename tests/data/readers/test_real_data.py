"""Real noisy labels, of crowd workers and of rules."""

import numpy as np
import torch

from permll.data import Texts, Vectors
from permll.data.encoding import encode
from permll.data.readers import read
from permll.noise.annotators import sample_answer
from tests.helpers.reader_files import shared


def test_labelme_with_crowd_labels() -> None:
    path = shared("labelme.npz")
    with np.load(path) as file:
        answers, x, clean = file["answers"], file["x_train"], file["y_train"]
    given = sample_answer(answers, seed=0)
    data = read(path, features="x_train", labels=given, no_label=-1)
    assert isinstance(data.inputs, Vectors)
    assert (len(data), data.num_classes) == (int((given >= 0).sum()), 8)
    rows = np.array([int(name) for name in data.ids])
    assert torch.equal(data.inputs.values, torch.from_numpy(x[rows]))
    numbers = np.array([int(data.classes[label]) for label in data.labels.tolist()])
    assert (numbers == given[rows]).all()
    assert 0.2 < np.mean(numbers != clean[rows]) < 0.35  # the noise is real


def test_trec_with_rule_labels() -> None:
    path = shared("trec_rules.npz")
    with np.load(path) as file:
        weak, names, texts = file["weak_train"], file["names"], file["text_train"]
    data = read(path, text="text_train", label="weak_train", classes="names", no_label=-1, rare="keep")
    assert isinstance(data.inputs, Texts)
    assert data.classes == tuple(names.tolist())
    rows = np.array([int(name) for name in data.ids])
    assert (rows == np.flatnonzero(weak >= 0)).all()
    assert (data.labels.numpy() == weak[rows]).all()
    assert data.inputs.texts == tuple(texts[rows].tolist())
    assert data.metadata["left_out"][0]["count"] == int((weak < 0).sum())
    subset = data.take(range(0, len(data), 5))
    encoded, encoder = encode(subset)
    assert encoded.inputs.values.shape == (len(subset), 256)
    test = read(path, text="text_test", label="y_test", classes=data.classes)
    nearest = (encode(test, encoder)[0].inputs.values @ encoded.inputs.values.T).argmax(1)
    accuracy = (encoded.labels[nearest] == test.labels).float().mean()
    assert accuracy > 0.3  # chance is 1/6
