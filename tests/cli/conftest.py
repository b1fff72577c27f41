"""Fixtures of the command line tests; new tests call tests.helpers.command_line directly."""

from collections.abc import Callable

import pytest

from tests.helpers.command_line import Result, run_cli

Inside = Callable[..., Result]


@pytest.fixture
def inside() -> Inside:
    """Run the command line in this process."""
    return run_cli
