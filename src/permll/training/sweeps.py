"""Sweeps made real: streams for the draws of a sweep, and both as they go into a checkpoint."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from permll.data.streams import Share, Stream
from permll.data.transforms.image_transforms import View
from permll.methods._base import Draw, Meet, Sweep

if TYPE_CHECKING:
    from permll.training.standing import Standing

SHARES: Mapping[Meet, Share] = {"nothing": "rows", "losses": "views", "inputs": "nothing"}


def open_streams(sweep: Sweep, loop: "Standing") -> dict[str, Stream]:
    """Return the streams of a sweep, each at the beginning of the loop's epoch.

    The first sets the pace and has one epoch for each of the loop's. The others may come round several times in one,
    so that each epoch of the loop has a series of its own.
    """
    streams: dict[str, Stream] = {}
    for name, draw in sweep.streams.items():
        own = f"{loop.number}/{name}" if not streams else f"{loop.epoch}/{loop.number}/{name}"
        stream = Stream(
            loop.data,
            max(round(loop.batch_size * draw.batch_factor), 2 * loop.ranks.size),
            views={view: find_view(loop.views, view) for view in draw.views},
            order=draw.order,
            rows=draw.rows,
            draws=draw.draws,
            seed=loop.seed,
            name=own,
            rank=loop.ranks.rank,
            ranks=loop.ranks.size,
            share=SHARES[loop.meet],
            owned=loop.sharded,
            workers=loop.workers,
        )
        if draw.labels is not None:
            stream.balance(draw.labels)
        stream.seek(loop.epoch if not streams else 0)
        streams[name] = stream
    return streams


def find_view(views: Mapping[str, View], name: str) -> View:
    """Return the view called ``name``; ``"weak:2"`` is another draw of ``"weak"``."""
    base = name.partition(":")[0]
    if base not in views:
        raise ValueError(f"the method asks for the view {base!r}, but there are {', '.join(views)}.")
    return views[base]


def sweep_state(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep as a checkpoint holds it."""
    draws = {name: vars(draw) for name, draw in sweep.streams.items()}
    return {"streams": draws, "loss": sweep.loss, "networks": sweep.networks}


def sweep_from_state(state: Mapping[str, Any]) -> Sweep:
    """Undo ``sweep_state``."""
    draws = {name: Draw(**{**draw, "views": tuple(draw["views"])}) for name, draw in state["streams"].items()}
    return Sweep(draws, state["loss"], None if state["networks"] is None else tuple(state["networks"]))


def streams_state(streams: Mapping[str, Stream]) -> dict[str, Any]:
    """Return where the streams stand."""
    return {name: stream.state_dict() for name, stream in streams.items()}
