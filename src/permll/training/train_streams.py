"""Data streams of a trainer, and a ``TrainPass`` as a checkpoint holds it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from permll.data.dataset import LabeledData
from permll.data.streams import Sharding, Stream
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
    if trainer.batch_coupling == "none" and len(train_pass.streams) > 1 and not trainer.group.is_single:
        raise ValueError("with several processes and batch_coupling 'none', a pass must have one stream.")
    streams: dict[str, Stream] = {}
    for name, spec in train_pass.streams.items():
        unique = f"{trainer.pass_number}/{name}" if not streams else f"{trainer.epoch}/{trainer.pass_number}/{name}"
        stream = open_stream(
            trainer,
            trainer.data,
            max(round(trainer.batch_size * spec.batch_factor), 2 * trainer.group.size),
            spec.views,
            name=unique,
            order=spec.order,
            rows=spec.rows,
            draws=spec.draws,
            sharding=SHARES[trainer.batch_coupling],
            shard_by_index=trainer.sharded,
        )
        if spec.labels is not None:
            stream.balance(spec.labels)
        stream.seek(trainer.epoch if not streams else 0)
        streams[name] = stream
    return streams


def open_stream(trainer: "Trainer", data: LabeledData, batch_size: int, views: Iterable[str], **options: Any) -> Stream:
    """Return a stream of the trainer's views; ``"weak:2"`` is a second draw of ``"weak"``."""
    transforms = {}
    for view in views:
        base = view.partition(":")[0]
        if base not in trainer.views:
            raise ValueError(f"the method asks for the view {base!r}, but there are {', '.join(trainer.views)}.")
        transforms[view] = trainer.views[base]
    return Stream(
        data,
        batch_size,
        views=transforms,
        seed=trainer.seed,
        rank=trainer.group.rank,
        world_size=trainer.group.size,
        workers=trainer.workers,
        **options,
    )


def train_pass_state(train_pass: TrainPass) -> dict[str, Any]:
    """Return a pass as a checkpoint holds it."""
    specs = {name: vars(spec) for name, spec in train_pass.streams.items()}
    return {"streams": specs, "loss": train_pass.loss, "networks": train_pass.networks}


def train_pass_from_state(state: Mapping[str, Any]) -> TrainPass:
    """Undo ``train_pass_state``."""
    specs = {name: StreamSpec(**{**spec, "views": tuple(spec["views"])}) for name, spec in state["streams"].items()}
    return TrainPass(specs, state["loss"], None if state["networks"] is None else tuple(state["networks"]))
