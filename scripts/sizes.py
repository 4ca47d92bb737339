"""Fail if a module has grown beyond 350 lines, or a function beyond 50."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE_LINES = 350
FUNCTION_LINES = 50


def faults(path: Path) -> list[str]:
    """What is too long in one file."""
    text = path.read_text(encoding="utf-8")
    found = []
    if (lines := text.count("\n")) > MODULE_LINES:
        found.append(f"{path}: {lines} lines, at most {MODULE_LINES}: has it become two things?")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # The signature and the docstring say what, the body how: only that can be too long.
            size = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            if size > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {size} lines")
    return found


def main() -> int:
    """Check the package; returns the exit code."""
    root = Path(__file__).parent.parent / "scheduld"
    found = [fault for path in sorted(root.rglob("*.py")) for fault in faults(path)]
    for fault in found:
        print(fault)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
