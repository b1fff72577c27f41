"""What a recipe is: everything a training depends on, checked before anything starts."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from permll.utils.messages import did_you_mean

AUTO = "auto"  # left to the data
GIVEN = "given:"  # the name of a network that was given as an object goes after it


class Section(BaseModel):
    """A part of a recipe: known keys only, and none that changes under one's hands."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ComponentSection(BaseModel):
    """A name and the settings that go with it: which ones there are, what is named knows."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def settings(self) -> dict[str, Any]:
        """Return all but the name."""
        return dict(self.__pydantic_extra__ or {})


class DataSection(Section):
    """What to train on.

    Args:
        source: the name of a built-in set, or a path to one's own data.
        root: where built-in sets are.
        options: how to read it, as ``permll.data.load`` takes them.
        train: train on so many rows only (below 1: this share), drawn evenly from all classes.
        validation: how many rows (below 1: which share) are set aside to choose an epoch by, with labels as noisy as
            the others; or the name of an official split.
        test: the split, or for one's own data the path, to test on; "" for none.
        trusted: how many training rows (below 1: which share) keep their labels whatever noise comes, and are known to
            a method that needs rows known to be right; or a file with the ids of such rows, one a line.
        split_seed: of these draws.
        noise: put on the labels, as ``permll noise list`` names it; "" for none.
        noise_seed: of its draws.
        pixels: decode images in files once, to so many pixels a side; up to 64 they are kept in memory if they fit. By
            default 64, where network and backbone are left to the data.
        backbone: see images through a pretrained network that stays as it is, "timm:NAME".
        weights: a file of its weights; default those its makers publish.
        encoder: see texts as embeddings, by a sentence-transformers model's name or folder; default by their words.
    """

    source: str
    root: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    train: int | float | None = Field(default=None, gt=0)
    validation: int | float | str | None = None
    test: str = "test"
    trusted: int | float | str | None = None
    split_seed: int = Field(default=42, ge=0)
    noise: str = ""
    noise_seed: int = Field(default=42, ge=0)
    pixels: int | None = Field(default=None, ge=1)
    backbone: str | None = None
    weights: str | None = None
    encoder: str | None = None


class ViewsSection(Section):
    """What the network sees: lists of steps, or nothing for what suits the kind of data.

    Args:
        weak: steps of the weak view: crop, flip, randaugment, autoaugment, cutout, jitter, drop.
        strong: steps of the strong view.
        normalise: by the statistics of the training "data", or those of "cifar10", "cifar100" or "imagenet".
        padding: pixels around the image before a crop of its own size.
        padding_mode: "reflect" or "zero".
        crop: size of a crop out of larger images.
        resize: what images in files are resized to.
    """

    weak: list[str] | None = None
    strong: list[str] | None = None
    normalize: Literal["data", "cifar10", "cifar100", "imagenet"] = "data"
    padding: int = Field(default=4, ge=0)
    padding_mode: Literal["reflect", "zero"] = "reflect"
    crop: int | None = None
    resize: int | None = None


class ScheduleSection(Section):
    """The learning rate over the epochs, as ``permll.training.schedule.learning_rate`` takes it.

    ``beta1`` is what Adam's first decay rate becomes at the first milestone, if it changes there.
    """

    kind: Literal["steps", "cosine", "linear", "constant"] = "steps"
    milestones: list[Annotated[float, Field(gt=0)]] = Field(default_factory=list)
    gamma: float = Field(default=0.1, gt=0)
    warm_up: float = Field(default=0.0, ge=0)
    final: float = Field(default=0.0, ge=0, le=1)
    beta1: float | None = Field(default=None, ge=0, lt=1)


class TrainingSection(Section):
    """How long, how large, on what. 16-bit floats are bfloat16: half precision would need the loss to be scaled."""

    epochs: int = Field(ge=1)
    batch_size: Annotated[int, Field(ge=2)] | Literal["auto"] = 128
    seed: int = Field(default=0, ge=0)
    workers: int = Field(default=0, ge=0)
    threads: int | None = None
    accelerator: str = "auto"
    devices: int | str = 1
    num_nodes: int = Field(default=1, ge=1)
    strategy: str = "auto"
    placement: Literal["auto", "replicated", "sharded"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "bf16-true", "64-true"] = "32-true"
    evaluate_every: int = Field(default=1, ge=1)
    checkpoint_minutes: float = Field(default=10.0, gt=0)

    @field_validator("devices")
    @classmethod
    def _can_be(cls, devices: int | str) -> int | str:
        if not re.fullmatch(r"auto|[1-9]\d*|\d+(,\d+)+", str(devices)):
            raise PydanticCustomError("devices", "it must be how many, from 1, or auto, or their numbers as in 0,2")
        return devices

    @property
    def resolved_batch_size(self) -> int:
        """The size of a batch, once it is known."""
        assert self.batch_size != "auto", "fit chooses it by the data"
        return self.batch_size


class Recipe(Section):
    """A whole training."""

    title: str = ""
    tier: Literal["tiny", "mini", "lite", "paper", "own"] = "own"
    data: DataSection
    views: ViewsSection = ViewsSection()
    network: ComponentSection
    method: ComponentSection
    optimizer: ComponentSection
    schedule: ScheduleSection = ScheduleSection()
    training: TrainingSection

    @property
    def hash(self) -> str:
        """The first 16 hex digits of the SHA-256 of everything that a result depends on."""
        content = self.model_dump(mode="json", exclude={"title": True, "data": {"root"}}, exclude_none=True)
        for incidental in ("threads", "workers", "checkpoint_minutes", "devices", "num_nodes", "placement"):
            content["training"].pop(incidental, None)
        content["training"]["strategy"] = "auto"  # neither does it depend on this one
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def with_training(self, **changes: Any) -> "Recipe":
        """Return the recipe with other values in its section ``training``."""
        return self.model_copy(update={"training": self.training.model_copy(update=changes)})

    def to_toml(self) -> str:
        """Return the recipe as its file."""
        import tomli_w

        content: str = tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))
        return content


def recipe_diff(one: Recipe, other: Recipe) -> str:
    """Say in what two recipes differ: "training.epochs 3 and 5"."""
    first, second = (_flat(recipe.model_dump(mode="json", exclude_none=True)) for recipe in (one, other))
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key) and key != "title"]
    return ", ".join(f"{key} {first.get(key)} and {second.get(key)}" for key in keys[:3]) + ", ..." * (len(keys) > 3)


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def parse_recipe(content: Mapping[str, Any], where: str) -> Recipe:
    """Return a checked recipe; all that is wrong with it in one sentence, unknown keys with the nearest known."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as wrong:
        raise ValueError(f"{where}: {'; '.join(_complaints(wrong))}.") from None


def _complaints(wrong: ValidationError) -> Iterator[str]:
    for error in wrong.errors():
        where = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            yield f"there is no key {where}{_nearest_key(error['loc']).rstrip('?')}"
        elif error["type"] == "missing":
            yield f"{where} is missing"
        else:
            yield f"{where} is {error['input']!r}, but {error['msg'][0].lower()}{error['msg'][1:]}"


def _nearest_key(place: tuple[Any, ...]) -> str:
    """Return ", did you mean X?": a key of the same section, or one of that name, or nearly so, elsewhere."""
    word = str(place[-1])
    near = did_you_mean(word, _known_keys(place[:-1]))
    if near or len(place) > 1:
        return near
    sections = {name: field.annotation for name, field in Recipe.model_fields.items()}
    known = {
        key: f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, BaseModel)
        for key in section.model_fields
    } | {"lr": "optimizer.lr", "momentum": "optimizer.momentum", "weight_decay": "optimizer.weight_decay"}
    found = did_you_mean(word, known).removeprefix(", did you mean ").rstrip("?")
    return f", did you mean {known[found]}?" if found else ""


def _known_keys(place: tuple[Any, ...]) -> list[str]:
    model: Any = Recipe
    for part in place:
        model = model.model_fields[part].annotation
    return list(model.model_fields)
