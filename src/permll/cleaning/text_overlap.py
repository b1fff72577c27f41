"""Overlap of the words of two texts; rare words count more than frequent ones."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case.

    Examples:
        >>> words_of("So GOOD, it's!")
        ('so', 'good', 'it', 's')
    """
    return tuple(_WORD.findall(text.casefold()))


class WordOverlap:
    """Weighted Jaccard similarity of texts: sum over words of w min(n, m) / sum of w max(n, m).

    n and m are how often the word occurs in each text, and w = log(1 + N / number of texts with the word).

    Args:
        texts: the words of N texts.

    Examples:
        >>> overlap = WordOverlap([("a", "b", "c"), ("a", "b", "d"), ("a", "e")])
        >>> round(overlap(0, 1), 3), overlap(0, 0)
        (0.367, 1.0)
    """

    def __init__(self, texts: Sequence[tuple[str, ...]]) -> None:
        self.texts = texts
        counts = Counter(word for words in texts for word in set(words))
        self.weights = {word: math.log1p(len(texts) / count) for word, count in counts.items()}

    def __call__(self, first: int, second: int) -> float:
        """Return the similarity of two texts, in [0, 1]; 0 if neither has words."""
        one, other = Counter(self.texts[first]), Counter(self.texts[second])
        common = sum(self.weights[word] * count for word, count in (one & other).items())
        union = sum(self.weights[word] * count for word, count in (one | other).items())
        return common / union if union else 0.0
