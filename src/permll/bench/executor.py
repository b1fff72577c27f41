"""Execution of a plan: unfinished jobs in parallel processes, with errors isolated from each other."""

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
from permll.bench.jobs import Job
from permll.bench.progress import Progress
from permll.bench.real_noise import unpack
from permll.bench.worker import TRACEBACK_FILE, Outcome, init_worker, run_job
from permll.training.signals import graceful_shutdown
from permll.utils.files import atomic_write_text

Failure = dict[str, Any]
FAILURES_FILE = "failures.json"
POLL_SECONDS = 0.3


def run(plan: Plan, num_workers: int = 1, progress: Progress | None = None) -> list[Failure]:
    """Run the unfinished jobs of a plan in parallel processes with one thread each, and return the failures.

    Finished jobs are skipped. A job whose folder holds a run of another recipe is reported and not changed. A failed
    job is reported in ``failures.json``, with its traceback in its folder, and the other jobs continue. Ctrl-C and
    SIGTERM save a checkpoint of each running job, then raise ``KeyboardInterrupt``; the next ``run`` resumes.

    Workers are spawned processes that import the main module: call this under ``if __name__ == "__main__":``.
    """
    if num_workers < 1:
        raise ValueError(f"num_workers must be >= 1, got {num_workers}.")
    progress = progress or Progress(quiet=True)
    statuses = [(job, job.status) for job in plan.jobs]
    failures = [_failure(job, job.conflict) for job, status in statuses if status == "conflict"]
    queue = deque(job for job, status in statuses if status in ("pending", "started"))
    _write_failures(plan, failures)
    progress.on_start(list(queue))
    try:
        with graceful_shutdown() as stop_signals:
            for job in queue:
                if job.source is not None:
                    unpack(job.source, plan.out, job.seed)
            for job, outcome in _run_jobs(queue, num_workers, stop_signals, progress):
                if outcome.status == "failed":
                    failures.append(_failure(job, outcome.message))
                    _write_failures(plan, failures)
                progress.on_job(job, outcome)
    finally:
        progress.on_end()
    if stop_signals:
        raise KeyboardInterrupt("stopped; checkpoints are saved, run the same command again to resume.")
    return failures


def read_failures(plan: Plan) -> list[Failure]:
    """Return the recorded failures of jobs that are still unfinished."""
    unfinished = {str(job.folder) for job in plan.jobs if job.status != "finished"}
    return [failure for failure in _load_failures(plan.out / FAILURES_FILE) if failure["folder"] in unfinished]


class _Worker:
    """A process that runs one job after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # forked processes deadlock in torch
        self.stop_event = context.Event()
        self.pool = ProcessPoolExecutor(1, mp_context=context, initializer=init_worker, initargs=(self.stop_event,))
        self.pid = self.pool.submit(os.getpid)

    def stop(self) -> None:
        """Interrupt the running job, which saves a checkpoint."""
        self.stop_event.set()
        with suppress(BrokenProcessPool, ProcessLookupError):  # it may have ended already
            os.kill(self.pid.result(), signal.SIGINT)


def _run_jobs(
    queue: deque[Job], num_workers: int, stop_signals: Sequence[int], progress: Progress
) -> Iterator[tuple[Job, Outcome]]:
    """Yield the outcome of each job, until the queue is empty or a stop signal arrives."""
    idle = [_Worker() for _ in range(min(num_workers, len(queue)))]
    busy: dict[Future[Outcome], tuple[_Worker, Job]] = {}
    handled_signals = 0
    while busy or (queue and not stop_signals):
        while queue and idle and not stop_signals:
            worker, job = idle.pop(), queue.popleft()
            busy[worker.pool.submit(run_job, job)] = worker, job
        done, _ = wait(busy, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        if len(stop_signals) > handled_signals:  # the first saves a checkpoint, the second exits at once
            handled_signals = len(stop_signals)
            for worker, _ in busy.values():
                worker.stop()
        for future in done:
            worker, job = busy.pop(future)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                worker.pool.shutdown()
                worker = _Worker()
                outcome = Outcome("failed", "the worker process ended unexpectedly, possibly for lack of memory.")
            idle.append(worker)
            yield job, outcome
        progress.on_tick([job for _, job in busy.values()])
    for worker in idle:
        worker.pool.shutdown()


def _failure(job: Job, message: str) -> Failure:
    traceback_file = job.folder / TRACEBACK_FILE
    traceback = str(traceback_file) if traceback_file.is_file() else None
    return {**job.columns, "sentence": message, "traceback": traceback}


def _load_failures(path: Path) -> list[Failure]:
    return json.loads(path.read_text()) if path.is_file() else []


def _write_failures(plan: Plan, failures: Sequence[Failure]) -> None:
    """Write the failures of this plan; those of other plans in the same folder are kept."""
    path = plan.out / FAILURES_FILE
    folders = {str(job.folder) for job in plan.jobs}
    kept = [failure for failure in _load_failures(path) if failure["folder"] not in folders]
    if path.is_file() or failures:
        plan.out.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps([*kept, *failures], indent=2) + "\n")
