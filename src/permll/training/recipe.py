"""``Recipe``: everything that a training depends on, validated before it starts."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from permll.utils.messages import did_you_mean

AUTO = "auto"  # value of a setting that is chosen by the data
USER_NETWORK = "given:"  # prefix of the class name of a network that was passed as an object

# Settings that were renamed after results were recorded; hashes use the former names, so that results keep theirs.
FORMER_NAMES = {
    "views": {"normalize": "normalise"},
    "method": {
        "consistency_view": "against",
        "correct_after": "turn_after",
        "min_fraction": "least",
        "mixup_on": "blends",
        "neighbors": "neighbours",
        "refine_labels": "supported",
        "start_before": "earlier",
    },
}
# Settings of the section training that do not change results.
_NOT_HASHED = ("threads", "workers", "checkpoint_minutes", "devices", "num_nodes", "placement", "strategy")


class Section(BaseModel):
    """A section of a recipe: unknown keys are refused, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ComponentSection(BaseModel):
    """A network, method or optimizer: its name, and its settings, which the component checks itself."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.__pydantic_extra__ or {})


class DataSection(Section):
    """Data, split and synthetic noise.

    Args:
        source: name of a built-in data set, or a path.
        root: folder of the built-in data sets.
        options: how to read the data, keyword arguments of ``permll.data.load``.
        train: number of training samples, or a fraction below 1, drawn evenly from all classes; default all.
        validation: number of held-out samples, or a fraction below 1, with labels as noisy as the others; or the name
            of an official split.
        test: name of the test split, or a path; "" for none.
        trusted: number of training samples, or a fraction below 1, that are kept from noise and passed to methods that
            need samples with correct labels; or a file with the ids of such samples, one on each line.
        split_seed: seed of these draws.
        noise: synthetic noise, see ``permll noise list``; "" for none.
        noise_seed: seed of the noise.
        pixels: size to which image files are decoded once; images up to 64 pixels are kept in memory if they fit.
            Default: 64 if network and backbone are chosen by the data.
        backbone: frozen pretrained network that encodes images, "timm:NAME" or "torchvision:NAME".
        weights: file with the weights of the backbone; default: the published ones.
        encoder: sentence-transformers model that encodes texts, a name or a folder; default: tf-idf.
        images: folder with a picture of each sample, which report and review show; nothing is trained on them.
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
    images: str | None = None


class ViewsSection(Section):
    """Augmentation: lists of transforms; default: those for the kind of data.

    Args:
        weak: transforms of the weak view: crop, flip, randaugment, autoaugment, cutout, jitter, drop.
        strong: transforms of the strong view.
        normalize: statistics to normalize by: those of the training "data", of "cifar10", "cifar100" or "imagenet".
        padding: pixels around the image before a crop to its own size.
        padding_mode: "reflect" or "zero".
        crop: size of a crop from larger images.
        resize: size to which image files are resized.
    """

    weak: list[str] | None = None
    strong: list[str] | None = None
    normalize: Literal["data", "cifar10", "cifar100", "imagenet"] = "data"
    padding: int = Field(default=4, ge=0)
    padding_mode: Literal["reflect", "zero"] = "reflect"
    crop: int | None = None
    resize: int | None = None


class ScheduleSection(Section):
    """Learning rate schedule, see ``permll.training.schedule.learning_rate``.

    ``beta1`` is Adam's first decay rate from the first milestone on; default: unchanged.
    """

    kind: Literal["steps", "cosine", "linear", "constant"] = "steps"
    milestones: list[Annotated[float, Field(gt=0)]] = Field(default_factory=list)
    gamma: float = Field(default=0.1, gt=0)
    warm_up: float = Field(default=0.0, ge=0)
    final: float = Field(default=0.0, ge=0, le=1)
    beta1: float | None = Field(default=None, ge=0, lt=1)


class TrainingSection(Section):
    """Length, batch size and hardware. float16 is not offered, since it needs loss scaling; bfloat16 is."""

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
    def _check_devices(cls, devices: int | str) -> int | str:
        if not re.fullmatch(r"auto|[1-9]\d*|\d+(,\d+)+", str(devices)):
            raise PydanticCustomError("devices", 'must be a count >= 1, "auto", or indices such as "0,2"')
        return devices

    @property
    def resolved_batch_size(self) -> int:
        """The batch size, after "auto" was replaced."""
        assert self.batch_size != "auto", "train replaces it"
        return self.batch_size


class EstimatorSection(Section):
    """scikit-learn estimators that check the labels of ``permll clean`` by cross-validation.

    Args:
        name: names joined by "+", whose probabilities are averaged, see ``permll.cleaning.estimators``.
        folds: number of folds.
        given: text of an estimator that was passed as an object.
    """

    name: str
    folds: int = Field(default=5, ge=2)
    given: str = ""


class Recipe(Section):
    """A training: data, augmentation, network, method, optimizer, schedule, length and hardware."""

    title: str = ""
    tier: Literal["tiny", "mini", "lite", "paper", "own"] = "own"
    data: DataSection
    views: ViewsSection = ViewsSection()
    network: ComponentSection
    method: ComponentSection
    optimizer: ComponentSection
    schedule: ScheduleSection = ScheduleSection()
    training: TrainingSection
    estimator: EstimatorSection | None = None  # checks the labels of permll clean instead of a network

    @property
    def classifier(self) -> str:
        """The name of what predicts the labels: the estimator, or the method that trains the network."""
        return self.method.name if self.estimator is None else self.estimator.name

    @property
    def hash(self) -> str:
        """The first 16 hex digits of the SHA-256 of everything that a result depends on."""
        content = self.model_dump(mode="json", exclude={"title": True, "data": {"root", "images"}}, exclude_none=True)
        for name in _NOT_HASHED:
            content["training"].pop(name, None)
        content["training"]["strategy"] = AUTO  # a constant, for the same hashes as ever
        for section, names in FORMER_NAMES.items():
            content[section] = {names.get(key, key): value for key, value in content[section].items()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def with_training(self, **changes: Any) -> "Recipe":
        """Return the recipe with other values in its section ``training``."""
        return self.model_copy(update={"training": self.training.model_copy(update=changes)})

    def with_data(self, **changes: Any) -> "Recipe":
        """Return the recipe with other values in its section ``data``."""
        return self.model_copy(update={"data": self.data.model_copy(update=changes)})

    def to_toml(self) -> str:
        """Return the recipe as a TOML file."""
        import tomli_w

        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def recipe_diff(one: Recipe, other: Recipe) -> str:
    """Return the settings in which two recipes differ, the first three of them: "training.epochs 3 and 5"."""
    first, second = (flatten(recipe.model_dump(mode="json", exclude_none=True)) for recipe in (one, other))
    ignored = {"title", *(f"training.{name}" for name in _NOT_HASHED)}
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key) and key not in ignored]
    return ", ".join(f"{key} {first.get(key)} and {second.get(key)}" for key in keys[:3]) + ", ..." * (len(keys) > 3)


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their dotted names.

    Examples:
        >>> flatten({"optimizer": {"lr": 0.1}, "title": "run"})
        {'optimizer.lr': 0.1, 'title': 'run'}
    """
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def parse_recipe(content: Mapping[str, Any], where: str) -> Recipe:
    """Return a validated recipe, or raise a ``ValueError`` that lists all errors, with suggestions for unknown keys."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{where}: {'; '.join(_error_messages(error))}.") from None


def _error_messages(validation: ValidationError) -> Iterator[str]:
    for error in validation.errors():
        key = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            yield f"unknown key {key}{_suggest_key(error['loc']).rstrip('?')}"
        elif error["type"] == "missing":
            yield f"{key} is missing"
        else:
            yield f"{key} is {error['input']!r}, but {error['msg'][0].lower()}{error['msg'][1:]}"


def _suggest_key(location: tuple[Any, ...]) -> str:
    """Return ", did you mean X?": a key of the same section, else a key of another section."""
    word = str(location[-1])
    model: Any = Recipe
    for part in location[:-1]:
        model = model.model_fields[part].annotation
    suggestion = did_you_mean(word, model.model_fields)
    if suggestion or len(location) > 1:
        return suggestion
    keys = {"lr": "optimizer.lr", "momentum": "optimizer.momentum", "weight_decay": "optimizer.weight_decay"}
    for name, section in Recipe.model_fields.items():
        keys |= {key: f"{name}.{key}" for key in getattr(section.annotation, "model_fields", ())}
    key = did_you_mean(word, keys).removeprefix(", did you mean ").rstrip("?")
    return f", did you mean {keys[key]}?" if key else ""
