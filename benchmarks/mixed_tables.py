"""Tables and texts with noisy and clean labels, as ``permll clean`` reads them from a file.

Tables: breast cancer, wine and digits of scikit-learn; breast cancer with a third of its columns as categories and a
tenth of the other cells empty (``cancer``); and generated customers, whose class depends on numbers, categories and
their interactions (``customers``). Texts: TREC and NoisyAG-News, see benchmarks/noisy_datasets.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from benchmarks.noisy_datasets import MIN_CLASS_SIZE
from permll.data.encoding import TableEncoder
from permll.data.inputs import Table, Texts
from permll.noise import corrupt, named_noise
from permll.noise.annotators import has_answer, majority_vote
from permll.noise.instance import part_dependent

MAX_TEXTS = 2_500
NUM_CUSTOMERS = 1_500
EMPTY = 0.1  # fraction of empty cells

Labels = NDArray[np.int64]
Files = Mapping[str, Path]


@dataclass(frozen=True, eq=False)
class NoisySamples:
    """Samples as they are read.

    Args:
        inputs: N rows of a table, or texts.
        given: (N,) noisy labels.
        truth: (N,) clean labels.
    """

    inputs: Table | Texts
    given: Labels
    truth: Labels

    @property
    def frame(self) -> pd.DataFrame:
        """The samples with their given labels; empty cells are None."""
        if isinstance(self.inputs, Texts):
            columns: dict[str, list[Any]] = {"text": list(self.inputs.texts)}
        else:
            columns = {
                name: [None if value in ("", None) or value != value else value for value in column.tolist()]
                for name, column in self.inputs.columns.items()
            }
        return pd.DataFrame(columns | {"label": [f"class {k}" for k in self.given.tolist()]})


def load_noisy_samples(name: str, seed: int, files: Files, half: int) -> NoisySamples:
    """Return samples by name: ``trec``, ``ag_news``, or DATA-NOISE-PERCENT with NOISE one of sym, pair and part.

    Args:
        name: of the data.
        seed: seed of the noise, or of ties between rules.
        files: files by name: trec, ag_news.
        half: 0 or 1, the half of the texts; the same texts for every seed.
    """
    if "-" not in name:
        inputs, given, truth = (_trec_rules if name == "trec" else _ag_news)(files, seed)
        rows = _half(len(truth), half)
        return NoisySamples(inputs.take(torch.from_numpy(rows)), given[rows], truth[rows])
    data, kind, percent = name.split("-")
    rate = int(percent) / 100
    if data == "trec":
        texts, truth = _trec(files)
        rows = _half(len(truth), half)
        clean, truth = texts.take(torch.from_numpy(rows)), truth[rows]
        return NoisySamples(clean, corrupt(truth, named_noise(f"{kind}:{rate}", 6), seed).noisy, truth)
    table, truth = _TABLES[data]()
    classes = int(truth.max()) + 1
    if kind == "part":
        x = TableEncoder.fit(table)(table).values.numpy()
        return NoisySamples(table, part_dependent(x, truth, classes, rate, seed).noisy, truth)
    return NoisySamples(table, corrupt(truth, named_noise(f"{kind}:{rate}", classes), seed).noisy, truth)


def _half(count: int, half: int) -> Labels:
    rows = np.array_split(np.random.default_rng(0).permutation(count), 2)[half]
    return np.sort(rows[:MAX_TEXTS])


def _numbers(x: NDArray[np.float64], y: Labels) -> tuple[Table, Labels]:
    return Table({f"x{number}": x[:, number].astype(np.float64) for number in range(x.shape[1])}), y


def _cancer() -> tuple[Table, Labels]:
    x, y = load_breast_cancer(return_X_y=True)
    generator, words = np.random.default_rng(0), np.array(["low", "medium", "high", "highest"])
    columns = {}
    for number, column in enumerate(x.T):
        if number % 3:
            columns[f"x{number}"] = np.where(generator.random(len(y)) < EMPTY, np.nan, column)
        else:
            columns[f"x{number}"] = words[np.digitize(column, np.quantile(column, [0.25, 0.5, 0.75]))]
    return Table(columns), y


def _customers() -> tuple[Table, Labels]:
    generator, n = np.random.default_rng(0), NUM_CUSTOMERS
    age, income, hours = generator.normal(45, 15, n), generator.lognormal(3, 0.6, n), generator.normal(38, 9, n)
    effects = {"clerk": 0.0, "driver": -0.6, "nurse": 0.4, "teacher": 0.9, "trader": 1.6, "farmer": -1.2}
    job = generator.choice(list(effects), n, p=[0.25, 0.2, 0.2, 0.15, 0.1, 0.1])
    region = generator.choice(["north", "south", "east", "west"], n)
    score = np.array([effects[word] for word in job.tolist()]) + generator.normal(0, 0.25, n)
    score += 0.05 * (age - 45) * (region == "north") - 0.03 * (age - 45) * (region == "south")
    score += 1.2 * (income > 25) + 0.8 * ((hours > 40) & (age < 40)) - 0.7 * np.abs(age - 50) / 15
    numbers = {"age": age, "income": income, "hours": hours, "visits": generator.normal(size=n)}
    columns = {name: np.where(generator.random(n) < EMPTY, np.nan, column) for name, column in numbers.items()}
    columns |= {"job": np.where(generator.random(n) < EMPTY, "", job), "region": region}
    return Table(columns), np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))


_TABLES: dict[str, Callable[[], tuple[Table, Labels]]] = {
    "breast": lambda: _numbers(*load_breast_cancer(return_X_y=True)),
    "cancer": _cancer,
    "customers": _customers,
    "digits": lambda: _numbers(*load_digits(return_X_y=True)),
    "wine": lambda: _numbers(*load_wine(return_X_y=True)),
}


def _trec(files: Files) -> tuple[Texts, Labels]:
    with np.load(files["trec"]) as file:
        return Texts(tuple(file["text_train"].tolist())), file["y_train"].astype(np.int64)


def _trec_rules(files: Files, seed: int) -> tuple[Texts, Labels, Labels]:
    texts, truth = _trec(files)
    with np.load(files["trec"]) as file:
        rules = file["rules_train"]
    given = majority_vote(rules, 6, seed=seed)
    counts = np.bincount(given[given >= 0], minlength=6)
    rows = np.flatnonzero(has_answer(rules) & (counts[given] >= MIN_CLASS_SIZE))
    return texts.take(torch.from_numpy(rows)), given[rows], truth[rows]


def _ag_news(files: Files, _: int) -> tuple[Texts, Labels, Labels]:
    with np.load(files["ag_news"]) as file:
        texts = Texts(tuple(text.decode() for text in file["text"].tolist()))
        return texts, file["noisy"].astype(np.int64), file["clean"].astype(np.int64)
