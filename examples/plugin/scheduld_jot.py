"""The handler `jot`: appends a line to a file, once per task however often it is tried.

What it takes to be a plug-in: a function make(options) that checks its options, and returns what
is called for each task.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scheduld import Dead, Run

OPTIONS = {"file"}


def make(options: Mapping[str, Any]) -> Callable[[dict[str, Any], Run], str]:
    faults = [f"{key} is unknown (known: file)" for key in options.keys() - OPTIONS]
    file = options.get("file")
    if not isinstance(file, str) or not Path(file).parent.is_dir():
        faults.append("file must be a path in a folder that exists")
    if faults:
        # Each is told by `scheduld check` and at the start, beside all that is wrong elsewhere.
        raise ValueError(*faults)

    def jot(payload: dict[str, Any], run: Run) -> str:
        if "text" not in payload:
            raise Dead("the payload has no text")
        path = Path(str(file))
        line = json.dumps({"task": run.id, "due": run.due.isoformat(), "text": payload["text"]})
        if path.exists() and line in path.read_text().splitlines():
            return "was there"  # an attempt before this one came so far, and then was lost
        with path.open("a") as lines:
            lines.write(line + "\n")
        return "written"

    return jot
