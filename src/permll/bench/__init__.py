"""Benchmarks: the grid of a table or figure, its cells as runs, and the rows that come of them.

    from permll import bench

    grid = bench.plan("table1", tier="tiny", methods=["ce", "permll"], seeds=[1, 2, 3], out="runs/bench")
    failures = bench.run(grid, jobs=2)
    rows = bench.collect("runs/bench")

A cell is a run folder, so whatever is finished is never trained again, and what was interrupted goes on.
"""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.bench.executor import run as run
    from permll.bench.grid import Plan as Plan
    from permll.bench.grid import plan as plan
    from permll.bench.jobs import Cell as Cell
    from permll.bench.rendering import render as render
    from permll.bench.results import Row as Row
    from permll.bench.results import collect as collect
    from permll.bench.results import read_rows as read_rows
    from permll.bench.results import write_rows as write_rows

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "jobs": ("Cell",),
        "results": ("Row", "collect", "read_rows", "write_rows"),
        "grid": ("Plan", "plan"),
        "rendering": ("render",),
        "executor": ("run",),
    },
)
