"""Graceful shutdown: SIGINT (Ctrl-C) and SIGTERM are recorded as requests to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def graceful_shutdown(on_signal: Callable[[int], None] | None = None) -> Iterator[list[int]]:
    """Record both signals within the block instead of terminating, and restore their handlers after it.

    Signals reach the main thread only; in other threads the block changes nothing.

    Args:
        on_signal: called in the signal handler with the number of signals received so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(number: int, _: object) -> None:
        received.append(number)
        if on_signal is not None:
            on_signal(len(received))

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
