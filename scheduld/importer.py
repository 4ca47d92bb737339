"""Load `package.module:attribute`; every way it can fail has its own message."""

from __future__ import annotations

import importlib
import re
import sys
from functools import reduce
from typing import Any

from scheduld.errors import InvalidInput
from scheduld.names import printable

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FORM = re.compile(rf"({_DOTTED}):({_DOTTED})")


def load(path: str) -> Any:
    """Import the module of `path` and return its attribute; raises InvalidInput.

    Whatever the module does while it is imported (`sys.exit()` too) becomes that error; only
    KeyboardInterrupt passes.
    """
    form = _FORM.fullmatch(path)
    if not form:
        raise InvalidInput(f"{path!r} is no import path", hint="package.module:callable")
    module, attribute = form.groups()
    try:
        found = reduce(getattr, attribute.split("."), importlib.import_module(module))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        raise InvalidInput(_reason(module, attribute, exc)) from exc
    if not callable(found):
        raise InvalidInput(f"{path} is not callable but {type(found).__name__}")
    return found


def _reason(module: str, attribute: str, exc: BaseException) -> str:
    # Missing itself, or missing something that it imports?
    if (
        isinstance(exc, ModuleNotFoundError)
        and exc.name
        and f"{module}.".startswith(f"{exc.name}.")
    ):
        return f"there is no module {exc.name!r} (importing {module})"
    # A module that failed is taken out again: this one is there, its attribute is not.
    if isinstance(exc, AttributeError) and module in sys.modules:
        return f"module {module!r} has no attribute {attribute!r}"
    return printable(f"importing {module} failed: {type(exc).__name__}: {exc}")
