"""Noise by name, in the conventions of the papers: ``permll:sym:0.6``, ``dividemix:asym:0.4``.

A name is ``[convention:]kind:rate``. Kinds are ``sym``, ``pair``, ``asym`` (the class map of the data set) and the
variants of ``asym``. The convention determines how samples are selected and whether a selected label may keep its
class. Without a convention, symmetric noise changes exactly the fraction ``rate`` of the labels.
"""

from collections.abc import Iterable
from typing import NamedTuple

from permll.noise import class_maps as maps
from permll.noise.class_maps import ClassMap
from permll.noise.synthetic import Noise, Pick, asymmetric, symmetric
from permll.utils.messages import did_you_mean


class NoiseConvention(NamedTuple):
    """How the code of a paper samples label noise."""

    source: str
    include_true: bool  # whether a label selected by symmetric noise may keep its class
    sym_pick: Pick
    asym_pick: Pick
    cycle: bool = False
    cifar100_asym: str = "asym_blocks"  # meaning of ``asym`` on CIFAR-100


# As in the authors' code, which may differ from their text.
CONVENTIONS: dict[str, NoiseConvention] = {
    "plain": NoiseConvention("none: exact rates", False, "exact", "per_class"),
    "permll": NoiseConvention("PermLL", True, "per_class", "per_class", cycle=True),
    # ELR's code flips some labels of CIFAR-10 twice; this implementation does not.
    "elr": NoiseConvention("ELR (Liu et al. 2020)", True, "exact", "coin"),
    "joint": NoiseConvention("Joint Optimization (Tanaka et al. 2018)", True, "exact", "per_class"),
    "dividemix": NoiseConvention("DivideMix (Li et al. 2020)", True, "exact", "exact"),
    "pencil": NoiseConvention("PENCIL (Yi and Wu 2019)", True, "coin", "coin"),
    "coteaching": NoiseConvention("Co-teaching (Han et al. 2018)", False, "coin", "coin"),
    "forward": NoiseConvention("Forward correction (Patrini et al. 2017)", False, "coin", "coin"),
    "sl": NoiseConvention(
        "Symmetric cross-entropy (Wang et al. 2019)", False, "per_class", "per_class", cifar100_asym="asym_block_pairs"
    ),
}

# Number of classes and class map of each variant of asym; None for a random map.
_MAPS: dict[str, tuple[int, ClassMap | None]] = {
    "asym_cifar10": (10, maps.CIFAR10),
    "asym_cifar10_without_dog_to_cat": (10, maps.CIFAR10_WITHOUT_DOG_TO_CAT),
    "asym_fashion_mnist": (10, maps.FASHION_MNIST),
    "asym_blocks": (100, maps.cifar100_blocks()),
    "asym_superclasses": (100, maps.cifar100_superclasses()),
    "asym_block_pairs": (100, None),
}
KIND_DESCRIPTIONS: dict[str, str] = {
    "sym": "any class, uniformly",
    "pair": "the next class; the last class becomes the first",
    "asym": "one similar class: the class map of the data set, of which CIFAR-100 has several",
    "asym_cifar10": "truck to automobile, bird to airplane, deer to horse, cat and dog swapped",
    "asym_cifar10_without_dog_to_cat": "as asym_cifar10, but dog is unchanged",
    "asym_fashion_mnist": "shirt and dress to T-shirt, ankle boot and sandal to sneaker, pullover and coat swapped",
    "asym_blocks": "CIFAR-100: next class in its block of five in alphabetical order, as in most code",
    "asym_superclasses": "CIFAR-100: next class in its superclass, as in most texts",
    "asym_block_pairs": "CIFAR-100: two random classes of each block of five swapped, the others unchanged",
}
KINDS = tuple(KIND_DESCRIPTIONS)
DATA_SETS = ("cifar10", "cifar100", "fashion_mnist")


def named_noise(
    name: str, num_classes: int, *, data_set: str | None = None, class_map: ClassMap | None = None, seed: int = 0
) -> Noise:
    """Return the noise with the given name.

    Args:
        name: ``[convention:]kind:rate``, such as ``"permll:sym:0.6"``.
        num_classes: c.
        data_set: data set whose published class map ``asym`` uses.
        class_map: class map of ``asym``, true class -> given class, instead of a published one.
        seed: random seed of the class pairs of ``asym_block_pairs``.

    Examples:
        >>> named_noise("permll:sym:0.6", 10)
        Noise('permll:sym:0.6', rate 0.6, 10 classes, pick per_class, cycle)
        >>> float(named_noise("permll:asym:0.4", 10, data_set="cifar10").transition[9, 1])
        0.4
    """
    parts = name.split(":")
    _check_parts(name, parts)
    convention_name, kind = (parts[0], parts[1]) if len(parts) == 3 else ("plain", parts[0])
    convention = CONVENTIONS[_check_choice(convention_name, CONVENTIONS, "noise convention")]
    kind = _check_choice(kind, KINDS, "kind of noise")
    try:
        rate = float(parts[-1])
    except ValueError:
        raise ValueError(f"the rate in {name!r} is not a number: {parts[-1]!r}.") from None
    if class_map is not None and kind != "asym":
        raise ValueError(f"class_map applies only to asym, not to {kind}.")
    if kind == "sym":
        return symmetric(
            num_classes,
            rate,
            include_true=convention.include_true,
            pick=convention.sym_pick,
            cycle=convention.cycle,
            name=name,
        )
    if class_map is None:
        class_map = _find_class_map(kind, convention, num_classes, data_set, seed)
    return asymmetric(class_map, num_classes, rate, pick=convention.asym_pick, name=name)


def _check_parts(name: str, parts: list[str]) -> None:
    """Raise if a part of the name is missing."""
    message = f"a noise name is convention:kind:rate, such as permll:sym:0.6; got {name!r}"
    if parts[-1] in KINDS and len(parts) < 3:
        raise ValueError(f"{message}, where the rate is missing.")
    if len(parts) == 2 and parts[0] in CONVENTIONS:
        raise ValueError(f"{message}, where the kind is missing.")
    if len(parts) not in (2, 3):
        raise ValueError(f"{message}. The convention may be omitted, as in sym:0.6.")


def _find_class_map(
    kind: str, convention: NoiseConvention, num_classes: int, data_set: str | None, seed: int
) -> ClassMap:
    if kind == "pair":
        return maps.next_class(num_classes)
    if kind == "asym":
        if data_set is None:
            raise ValueError("asym needs a class map: give the data set or a class map, or use pair.")
        if data_set not in DATA_SETS and not did_you_mean(data_set, DATA_SETS):
            raise ValueError(f"{data_set} has no published class map for asym: use pair, or pass class_map= in Python.")
        data_set = _check_choice(data_set, DATA_SETS, "data set with a published class map")
        kind = convention.cifar100_asym if data_set == "cifar100" else f"asym_{data_set}"
    map_classes, class_map = _MAPS[kind]
    if num_classes != map_classes:
        raise ValueError(f"{kind} is defined for {map_classes} classes, but there are {num_classes}.")
    return maps.cifar100_block_pairs(seed) if class_map is None else class_map


def _check_choice(choice: str, choices: Iterable[str], noun: str) -> str:
    """Return ``choice`` if it is one of ``choices``; otherwise raise an error that lists them."""
    choices = list(choices)
    if choice in choices:
        return choice
    hint = did_you_mean(choice, choices) or "."
    raise ValueError(f"unknown {noun} {choice!r}{hint} Available: {', '.join(choices)}.")
