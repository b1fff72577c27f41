"""Accuracy, top-k accuracy and balanced accuracy.

``outputs`` are (N, c) probabilities or logits, whose argmax is the prediction (the lowest class among ties), or (N,)
predicted classes. ``labels`` are (N,) in 0..c-1. Below, ŷ is the predicted class and y the label.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.evaluation.validation import Outputs, check_predictions, check_scores


def accuracy(outputs: Outputs, labels: Int[Tensor, " samples"]) -> float:
    """Return (1/N) Σ 1[ŷ = y].

    Examples:
        >>> accuracy(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), torch.tensor([0, 1, 1]))
        0.6666666666666666
        >>> accuracy(torch.tensor([0, 1]), torch.tensor([0, 1]))
        1.0
    """
    predicted, labels, _ = check_predictions(outputs, labels)
    return int((predicted == labels).sum()) / len(labels)


def top_k_accuracy(scores: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], k: int = 5) -> float:
    """Return the fraction of samples with fewer than k classes ranked before their label.

    Ties are broken in favor of the lower class, as in ``accuracy``, which equals ``k=1``; scikit-learn breaks them
    otherwise.

    Examples:
        >>> top_k_accuracy(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), torch.tensor([1, 2]), k=2)
        0.5
    """
    scores, labels = check_scores(scores, labels)
    num_classes = scores.shape[1]
    if not 1 <= k <= num_classes:
        raise ValueError(f"k must lie in 1..{num_classes}, the number of classes; got {k}.")
    y = labels[:, None].to(scores.device)
    label_score = scores.gather(1, y)
    is_lower = torch.arange(num_classes, device=scores.device) < y
    num_before = ((scores > label_score) | ((scores == label_score) & is_lower)).sum(1)
    return int((num_before < k).sum()) / len(labels)


def balanced_accuracy(outputs: Outputs, labels: Int[Tensor, " samples"]) -> float:
    """Return the mean recall of the classes that have samples.

    Examples:
        >>> balanced_accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]))
        0.5
    """
    from sklearn.metrics import recall_score

    predicted, labels, _ = check_predictions(outputs, labels)
    # Not balanced_accuracy_score, which warns of predicted classes without samples.
    return float(recall_score(labels.numpy(), predicted.numpy(), labels=labels.unique().numpy(), average="macro"))
