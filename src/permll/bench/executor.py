"""Carry out a plan: the missing cells, in several processes, whatever happens to single ones."""

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any

from permll.bench.grid import Plan
from permll.bench.jobs import Cell
from permll.bench.progress import Watcher
from permll.bench.real_noise import unpack
from permll.bench.worker import FAILURE, Outcome, prepare_worker, train_cell
from permll.training.signals import graceful_shutdown
from permll.utils.files import atomic_write_text

Failure = dict[str, Any]
FAILURES = "failures.json"
TICK = 0.3  # seconds between two looks at signals and at the cells under way


def run(plan: Plan, jobs: int = 1, watcher: Watcher | None = None) -> list[Failure]:
    """Train the cells that are not finished, ``jobs`` at a time with one thread each; return what failed.

    Finished cells are not touched, and one whose folder holds a run of another recipe is reported and left alone. A
    cell that fails is reported, in ``failures.json`` and with the traceback in its folder, and the others go on. Ctrl-C
    and SIGTERM let the cells under way save, then raise ``KeyboardInterrupt``; the next ``run`` goes on.

    Workers are new processes that import the main module: a script calls this under ``if __name__ == "__main__":``.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be one or more, got {jobs}.")
    watcher = watcher or Watcher()
    standings = [(cell, cell.standing) for cell in plan.cells]
    failures = [_failure(cell, cell.obstacle) for cell, standing in standings if standing == "other"]
    waiting = deque(cell for cell, standing in standings if standing in ("missing", "begun"))
    _note(plan, failures)
    watcher.on_start(list(waiting))
    try:
        with graceful_shutdown() as asked:
            for cell in waiting:
                if cell.source is not None:
                    unpack(cell.source, plan.out, cell.seed)
            for cell, outcome in _outcomes(waiting, jobs, asked, watcher):
                if outcome.kind == "failed":
                    failures.append(_failure(cell, outcome.sentence))
                    _note(plan, failures)
                watcher.on_cell(cell, outcome)
    finally:
        watcher.on_end()
    if asked:
        raise KeyboardInterrupt("stopped and saved; the same command goes on.")
    return failures


def read_failures(plan: Plan) -> list[Failure]:
    """Return what is known to have failed of a plan and is not finished since."""
    path = plan.out / FAILURES
    known = json.loads(path.read_text()) if path.is_file() else []
    open_ = {str(cell.folder) for cell in plan.cells if cell.standing != "finished"}
    return [failure for failure in known if failure["folder"] in open_]


class _Worker:
    """A process that trains one cell after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # torch and forks do not go together
        self.stopping = context.Event()
        self.pool = ProcessPoolExecutor(1, mp_context=context, initializer=prepare_worker, initargs=(self.stopping,))
        self.pid = self.pool.submit(os.getpid)

    def start(self, cell: Cell) -> Future[Outcome]:
        return self.pool.submit(train_cell, cell)

    def stop(self) -> None:
        """Let the cell under way save."""
        self.stopping.set()
        with suppress(BrokenProcessPool, ProcessLookupError):  # it may have died by itself
            os.kill(self.pid.result(), signal.SIGINT)


def _outcomes(
    waiting: deque[Cell], jobs: int, asked: Sequence[int], watcher: Watcher
) -> Iterator[tuple[Cell, Outcome]]:
    """Yield what became of each cell, until none is left or somebody asks to stop."""
    idle = [_Worker() for _ in range(min(jobs, len(waiting)))]
    busy: dict[Future[Outcome], tuple[_Worker, Cell]] = {}
    heard = 0
    while busy or (waiting and not asked):
        while waiting and idle and not asked:
            worker, cell = idle.pop(), waiting.popleft()
            busy[worker.start(cell)] = worker, cell
        done, _ = wait(busy, timeout=TICK, return_when=FIRST_COMPLETED)
        if len(asked) > heard:  # once to save, once more to leave at once
            heard = len(asked)
            for worker, _ in busy.values():
                worker.stop()
        for future in done:
            worker, cell = busy.pop(future)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                worker.pool.shutdown()
                worker = _Worker()
                outcome = Outcome("failed", "the process that trained it died: there may have been too little memory.")
            idle.append(worker)
            yield cell, outcome
        watcher.on_tick([cell for _, cell in busy.values()])
    for worker in idle:
        worker.pool.shutdown()


def _failure(cell: Cell, sentence: str) -> Failure:
    note = cell.folder / FAILURE
    return {
        "tier": cell.tier,
        "data": cell.data,
        "noise": cell.noise,
        "method": cell.method,
        "variant": cell.variant,
        "seed": cell.seed,
        "folder": str(cell.folder),
        "command": cell.command,
        "sentence": sentence,
        "traceback": str(note) if note.is_file() else None,
    }


def _note(plan: Plan, failures: Sequence[Failure]) -> None:
    """Write down what failed; what an earlier plan in the same folder left there stays, unless it is tried again."""
    path: Path = plan.out / FAILURES
    ours = {str(cell.folder) for cell in plan.cells}
    known = json.loads(path.read_text()) if path.is_file() else []
    kept = [failure for failure in known if failure["folder"] not in ours]
    if path.is_file() or failures:
        plan.out.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps([*kept, *failures], indent=2) + "\n")
