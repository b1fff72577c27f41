"""Benchmarks of the paper's tables and figures: plan the jobs, run them, collect and render the results.

    from permll import bench

    plan = bench.plan("table1", tier="tiny", methods=["ce", "permll"], seeds=[1, 2, 3], out="runs/bench")
    failures = bench.run(plan, num_workers=2)
    rows = bench.collect("runs/bench")

Each job is a run folder: finished jobs are skipped and interrupted jobs resume.
"""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.bench.executor import run as run
    from permll.bench.grid import Plan as Plan
    from permll.bench.grid import plan as plan
    from permll.bench.jobs import Job as Job
    from permll.bench.rendering import render as render
    from permll.bench.results import Row as Row
    from permll.bench.results import collect as collect
    from permll.bench.results import read_rows as read_rows
    from permll.bench.results import write_rows as write_rows

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "jobs": ("Job",),
        "results": ("Row", "collect", "read_rows", "write_rows"),
        "grid": ("Plan", "plan"),
        "rendering": ("render",),
        "executor": ("run",),
    },
)
