"""Fixtures for pytest: `pytest_plugins = ["scheduld.testing.fixtures"]` in conftest.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.testing import Scheduler, Server


@pytest.fixture(scope="session")
def scheduld_server() -> Iterator[Server]:
    """An empty server for the session (of each xdist worker), private to it."""
    # Loaded when a test asks for it: a suite of a thousand tests may have three that do.
    from scheduld.errors import ScheduldError
    from scheduld.testing.server import Server

    try:
        server = Server()
    except ScheduldError as error:
        # A test that was skipped would look as if it had been right.
        pytest.fail(f"{error.message} ({error.hint})" if error.hint else error.message, False)
    with server:
        yield server


@pytest.fixture
def scheduld(scheduld_server: Server) -> Iterator[Scheduler]:
    """A scheduler for one test, with nothing in it and a clock that the test moves."""
    from scheduld.testing.scheduler import Scheduler

    with Scheduler(server=scheduld_server) as scheduler:
        yield scheduler
