"""Consensus of several annotators (Dawid and Skene 1979); a network may be one more annotator.

With the class k of sample n, its prior π, and C_a[k, y] the probability that annotator a answers y for class k,

    r_n[k] ∝ π[k] Π_(a, y) C_a[k, y]    over the answers (a, y) to sample n.

The EM algorithm fits π and C, starting from the fraction of answers. C_a is smoothed by one answer per class of all
annotators, since most annotators answer few samples.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

PSEUDO_ANSWERS = 1.0  # per class, of all annotators
MAX_STEPS = 100
TOLERANCE = 1e-6  # mean change of a probability


class Answers(NamedTuple):
    """M answers of A annotators to N samples.

    Args:
        samples: (M,) in 0..N-1.
        annotators: (M,) in 0..A-1.
        labels: (M,) in 0..c-1.
        num_samples: N.
        num_annotators: A.
        num_classes: c.
    """

    samples: Int[Tensor, " answers"]
    annotators: Int[Tensor, " answers"]
    labels: Int[Tensor, " answers"]
    num_samples: int
    num_annotators: int
    num_classes: int

    @classmethod
    def from_table(cls, table: Int[Tensor, "samples annotators"], num_classes: int) -> "Answers":
        """Return the answers of a table (N, A) in which -1 stands for no answer.

        Examples:
            >>> Answers.from_table(torch.tensor([[1, -1], [0, 1]]), 2).labels
            tensor([1, 0, 1])
        """
        samples, annotators = (table >= 0).nonzero(as_tuple=True)
        return cls(samples, annotators, table[samples, annotators].long(), len(table), table.shape[1], num_classes)

    def take(self, rows: Int[Tensor, " some"]) -> "Answers":
        """Return the answers to some samples, in their order.

        Examples:
            >>> answers = Answers.from_table(torch.tensor([[1, -1], [0, 1], [1, 1]]), 2).take(torch.tensor([2, 0]))
            >>> answers.samples.tolist(), answers.labels.tolist()
            ([1, 0, 0], [1, 1, 1])
        """
        position = torch.full((self.num_samples,), -1)
        position[rows] = torch.arange(len(rows))
        kept = position[self.samples] >= 0
        return self._replace(
            samples=position[self.samples[kept]],
            annotators=self.annotators[kept],
            labels=self.labels[kept],
            num_samples=len(rows),
        )

    def with_annotator(self, labels: Int[Tensor, " samples"]) -> "Answers":
        """Return the answers with one more annotator, who answers every sample, such as the predictions of a network.

        The predictions must be out of sample.

        Examples:
            >>> answers = Answers.from_table(torch.tensor([[1], [-1]]), 2).with_annotator(torch.tensor([1, 0]))
            >>> answers.annotators.tolist(), answers.labels.tolist()
            ([0, 1, 1], [1, 1, 0])
        """
        new = torch.full_like(labels, self.num_annotators)
        return self._replace(
            samples=torch.cat([self.samples, torch.arange(self.num_samples)]),
            annotators=torch.cat([self.annotators, new]),
            labels=torch.cat([self.labels, labels]),
            num_annotators=self.num_annotators + 1,
        )


class Consensus(NamedTuple):
    """Result of ``dawid_skene``.

    Args:
        posterior: r, (N, c).
        confusion: C, (A, c, c), C[a, k, y] = P(annotator a answers y | class k).
        accuracy: (A,) expected fraction of correct answers of each annotator; NaN without answers.
    """

    posterior: Float[Tensor, "samples classes"]
    confusion: Float[Tensor, "annotators classes classes"]
    accuracy: Float[Tensor, " annotators"]


def dawid_skene(answers: Answers) -> Consensus:
    """Return the consensus of annotators.

    Examples:
        >>> table = torch.tensor([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
        >>> consensus = dawid_skene(Answers.from_table(table, 2))
        >>> consensus.posterior.argmax(1).tolist()
        [0, 1, 0, 1, 0, 1]
        >>> bool(consensus.accuracy[0] > consensus.accuracy[2])
        True
    """
    samples, annotators, labels, n, num_annotators, classes = answers
    r = torch.full((n, classes), 1e-3 / classes, dtype=torch.float64)
    r = _normalized(r.index_put_((samples, labels), torch.ones(len(labels)).double(), accumulate=True))
    for _ in range(MAX_STEPS):
        confusion = _confusion(r, answers)
        log_r = r.mean(0).clamp_min(1e-12).log().expand(n, classes).clone()
        log_r.index_add_(0, samples, confusion.log()[annotators, :, labels])
        previous, r = r, log_r.softmax(1)
        if float((r - previous).abs().mean()) < TOLERANCE:
            break
    hits = torch.zeros(num_annotators, dtype=torch.float64).index_add_(0, annotators, r[samples, labels])
    counts = annotators.bincount(minlength=num_annotators)
    return Consensus(r, _confusion(r, answers), torch.where(counts > 0, hits / counts, torch.nan))


def _confusion(r: Tensor, answers: Answers) -> Tensor:
    """Return C (A, c, c), smoothed."""
    classes = answers.num_classes
    counts = torch.zeros(answers.num_annotators, classes, classes, dtype=torch.float64)  # annotator, answer, class
    counts.index_put_((answers.annotators, answers.labels), r[answers.samples], accumulate=True)
    counts = counts.transpose(1, 2)
    pooled = _normalized(counts.sum(0) + PSEUDO_ANSWERS / classes)
    return _normalized(counts + PSEUDO_ANSWERS * pooled)


def _normalized(values: Tensor) -> Tensor:
    return values / values.sum(-1, keepdim=True)
