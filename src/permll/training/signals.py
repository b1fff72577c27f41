"""Ctrl-C (SIGINT) and SIGTERM as requests: recorded, and handled when there is time."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def graceful_shutdown(answer: Callable[[int], None] | None = None) -> Iterator[list[int]]:
    """Note both signals inside the block instead of ending at once, and give back their handlers after it.

    Only the main thread is told of signals; elsewhere they go where they went before.

    Args:
        answer: called with how often it was asked by now, from within the signal's handler.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, _: object) -> None:
        asked.append(number)
        if answer is not None:
            answer(len(asked))

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
