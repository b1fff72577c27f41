"""Noise by name, in the conventions of the papers: ``permll:sym:0.6``, ``dividemix:asym:0.4``.

A name is ``[convention:]kind:rate``. The kinds are ``sym``, ``pair`` and ``asym`` (the map of the data set), and the
other meanings of asymmetric noise, each under a name of its own. A convention says how samples are picked and whether a
picked label may keep its class; without one, exactly the share ``rate`` of all labels changes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from permll.noise import maps
from permll.noise.maps import ClassMap
from permll.noise.models import Noise, Pick, mapped, symmetric
from permll.utils.messages import did_you_mean


class Convention(NamedTuple):
    """How a paper's code draws its noise."""

    source: str
    include_true: bool  # symmetric: may a picked label keep its class?
    sym: Pick
    asym: Pick
    cycle: bool = False
    cifar100: str = "asym_blocks"


# As read in the authors' code, not in their text.
CONVENTIONS: dict[str, Convention] = {
    "plain": Convention("what the words say", include_true=False, sym="exact", asym="per_class"),
    "permll": Convention("PermLL", include_true=True, sym="per_class", asym="per_class", cycle=True),
    # ELR's own code on CIFAR-10 flips some labels twice; not so here.
    "elr": Convention("ELR (Liu et al. 2020)", include_true=True, sym="exact", asym="coin"),
    "joint": Convention("Joint Optimization (Tanaka et al. 2018)", include_true=True, sym="exact", asym="per_class"),
    "dividemix": Convention("DivideMix (Li et al. 2020)", include_true=True, sym="exact", asym="exact"),
    "pencil": Convention("PENCIL (Yi and Wu 2019)", include_true=True, sym="coin", asym="coin"),
    "coteaching": Convention("Co-teaching (Han et al. 2018)", include_true=False, sym="coin", asym="coin"),
    "forward": Convention("Forward correction (Patrini et al. 2017)", include_true=False, sym="coin", asym="coin"),
    "sl": Convention(
        "Symmetric cross-entropy (Wang et al. 2019)",
        include_true=False,
        sym="per_class",
        asym="per_class",
        cifar100="asym_block_pairs",
    ),
}

# The maps of certain data sets, and how many classes those have; None where the map is drawn.
_MAPS: dict[str, tuple[int, ClassMap | None]] = {
    "asym_cifar10": (10, maps.CIFAR10),
    "asym_cifar10_without_dog_to_cat": (10, maps.CIFAR10_WITHOUT_DOG_TO_CAT),
    "asym_fashion_mnist": (10, maps.FASHION_MNIST),
    "asym_blocks": (100, maps.cifar100_blocks()),
    "asym_superclasses": (100, maps.cifar100_superclasses()),
    "asym_block_pairs": (100, None),
}
MEANINGS: dict[str, str] = {
    "sym": "to any class alike",
    "pair": "to the next class, the last to the first",
    "asym": "to the one class it is mistaken for: the map of the data set, of which CIFAR-100 has several",
    "asym_cifar10": "truck to automobile, bird to airplane, deer to horse, cat and dog to each other",
    "asym_cifar10_without_dog_to_cat": "the same, but dogs stay dogs",
    "asym_fashion_mnist": (
        "shirt and dress to T-shirt, ankle boot and sandal to sneaker, pullover and coat to each other"
    ),
    "asym_blocks": "CIFAR-100: to the next class in its block of five in alphabetical order, as most codes do",
    "asym_superclasses": "CIFAR-100: to the next class in its true superclass, as most texts say",
    "asym_block_pairs": "CIFAR-100: two random classes of each block of five to each other, the others stay",
}
KINDS = tuple(MEANINGS)
DATA_SETS = ("cifar10", "cifar100", "fashion_mnist")


def named_noise(name: str, num_classes: int, *, data_set: str | None = None, seed: int = 0) -> Noise:
    """Return the noise that ``name`` stands for; ``data_set`` says whose map ``asym`` means.

    ``seed`` matters to ``asym_block_pairs`` alone, whose pairs of classes are drawn.

    Examples:
        >>> named_noise("permll:sym:0.6", 10)
        Noise('permll:sym:0.6', rate 0.6, 10 classes, pick per_class, cycle)
        >>> float(named_noise("permll:asym:0.4", 10, data_set="cifar10").transition[9, 1])
        0.4
    """
    parts = name.split(":")
    _refuse_gaps(name, parts)
    convention_name, kind = (parts[0], parts[1]) if len(parts) == 3 else ("plain", parts[0])
    convention = CONVENTIONS[_known(convention_name, CONVENTIONS, "convention")]
    kind = _known(kind, KINDS, "kind of noise")
    try:
        rate = float(parts[-1])
    except ValueError:
        raise ValueError(f"the rate in {name!r} is not a number: {parts[-1]!r}.") from None
    if kind == "sym":
        return symmetric(
            num_classes,
            rate,
            include_true=convention.include_true,
            pick=convention.sym,
            cycle=convention.cycle,
            name=name,
        )
    return mapped(
        _map(kind, convention, num_classes, data_set, seed), num_classes, rate, pick=convention.asym, name=name
    )


def _refuse_gaps(name: str, parts: list[str]) -> None:
    """Raise if a part of the name is missing, and say which."""
    form = f"noise is named convention:kind:rate, like permll:sym:0.6; got {name!r}"
    if parts[-1] in KINDS and len(parts) < 3:
        raise ValueError(f"{form}, where the rate is missing.")
    if len(parts) == 2 and parts[0] in CONVENTIONS:
        raise ValueError(f"{form}, where the kind is missing.")
    if len(parts) not in (2, 3):
        raise ValueError(f"{form}. Without a convention it is kind:rate, like sym:0.6.")


def _map(kind: str, convention: Convention, num_classes: int, data_set: str | None, seed: int) -> ClassMap:
    if kind == "pair":
        return maps.next_class(num_classes)
    if kind == "asym":
        if data_set is None:
            raise ValueError("asym means another map for each data set: name the data set, or use pair.")
        if data_set not in DATA_SETS and not did_you_mean(data_set, DATA_SETS):
            raise ValueError(
                f"{data_set} has no published map of which class is mistaken for which: use pair, or Noise from "
                "permll.noise.models.mapped."
            )
        data_set = _known(data_set, DATA_SETS, "data set with a published map")
        kind = convention.cifar100 if data_set == "cifar100" else f"asym_{data_set}"
    classes, class_map = _MAPS[kind]
    if num_classes != classes:
        raise ValueError(f"{kind} is a map of {classes} classes, but there are {num_classes}.")
    return maps.cifar100_block_pairs(seed) if class_map is None else class_map


def _known(word: str, words: Iterable[str], what: str) -> str:
    """Return ``word`` if it is one of ``words``; otherwise say what there is, the nearest first."""
    words = list(words)
    if word in words:
        return word
    raise ValueError(f"{word!r} is no {what}{did_you_mean(word, words) or '.'} There are {', '.join(words)}.")
