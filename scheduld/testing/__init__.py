"""A test kit for programs that schedule tasks, and for handlers: see docs/testing.md.

`Scheduler` does what a daemon does, by the same scripts on a real server, but only when the
test says so and at the time that the test sets. `scheduld.testing.fixtures` has it for pytest.
"""

from scheduld.testing.scheduler import Scheduler
from scheduld.testing.server import Server
from scheduld.testing.worker import RunRecord, TooManyRuns

__all__ = ["RunRecord", "Scheduler", "Server", "TooManyRuns"]
