"""Data streams of a ``TrainPass``, and a pass as a checkpoint holds it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from permll.data.streams import Sharding, Stream
from permll.data.transforms.image_transforms import Transform
from permll.methods._base import BatchCoupling, StreamSpec, TrainPass

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

# What of a batch the processes share, by how its samples interact.
SHARES: Mapping[BatchCoupling, Sharding] = {"none": "rows", "logits": "views", "inputs": "nothing"}


def open_streams(train_pass: TrainPass, trainer: "Trainer") -> dict[str, Stream]:
    """Return the streams of a pass, each at the beginning of the trainer's epoch.

    The first stream has one epoch for each epoch of the trainer. The others may repeat within an epoch, so each epoch
    of the trainer has its own random series.
    """
    streams: dict[str, Stream] = {}
    for name, spec in train_pass.streams.items():
        number = trainer.pass_number
        unique = f"{number}/{name}" if not streams else f"{trainer.epoch}/{number}/{name}"
        stream = Stream(
            trainer.data,
            max(round(trainer.batch_size * spec.batch_factor), 2 * trainer.group.size),
            views={view: find_view(trainer.views, view) for view in spec.views},
            order=spec.order,
            rows=spec.rows,
            draws=spec.draws,
            seed=trainer.seed,
            name=unique,
            rank=trainer.group.rank,
            world_size=trainer.group.size,
            sharding=SHARES[trainer.batch_coupling],
            shard_by_index=trainer.sharded,
            workers=trainer.workers,
        )
        if spec.labels is not None:
            stream.balance(spec.labels)
        stream.seek(trainer.epoch if not streams else 0)
        streams[name] = stream
    return streams


def find_view(views: Mapping[str, Transform], name: str) -> Transform:
    """Return the transform of a view; ``"weak:2"`` is a second draw of ``"weak"``."""
    base = name.partition(":")[0]
    if base not in views:
        raise ValueError(f"the method asks for the view {base!r}, but there are {', '.join(views)}.")
    return views[base]


def train_pass_state(train_pass: TrainPass) -> dict[str, Any]:
    """Return a pass as a checkpoint holds it."""
    specs = {name: vars(spec) for name, spec in train_pass.streams.items()}
    return {"streams": specs, "loss": train_pass.loss, "networks": train_pass.networks}


def train_pass_from_state(state: Mapping[str, Any]) -> TrainPass:
    """Undo ``train_pass_state``."""
    specs = {name: StreamSpec(**{**spec, "views": tuple(spec["views"])}) for name, spec in state["streams"].items()}
    return TrainPass(specs, state["loss"], None if state["networks"] is None else tuple(state["networks"]))
