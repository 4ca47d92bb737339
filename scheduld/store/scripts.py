"""The Lua scripts: loaded from `lua/*.lua`, joined with their includes, called by name.

A script's header names its keys and arguments; `Script.keys` and `Script.args` are read
from there, so that caller and header cannot drift apart unseen.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from dataclasses import dataclass
from functools import cache

_INCLUDE = re.compile(r"^-- @include (.+)$", re.MULTILINE)
_KEY = re.compile(r"^-- KEYS\[(\d+)(?:\.\.)?\] +(\w+)", re.MULTILINE)
_ARG = re.compile(r"^-- ARGV\[(\d+)\] +(\w+)", re.MULTILINE)
TYPE_INCLUDE = "type"
"""The include whose keys and arguments every script begins with."""


@dataclass(frozen=True, slots=True)
class Script:
    """One script, complete. `keys` and `args` are the names its header declares, in order."""

    name: str
    source: bytes
    sha: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    own: frozenset[str]
    """Those of `args` that are not common to all scripts."""
    writes: bool


def read_lua(path: str) -> str:
    """Read a file below `lua/`, such as `claim.lua` or `include/type.lua`."""
    data = pkgutil.get_data("scheduld.store", f"lua/{path}")
    if data is None:
        raise FileNotFoundError(path)
    return data.decode()


def script_names() -> list[str]:
    """The names of all scripts."""
    from importlib import resources  # slow to import, and only tests ask

    folder = resources.files("scheduld.store") / "lua"
    return sorted(
        item.name.removesuffix(".lua") for item in folder.iterdir() if item.name.endswith(".lua")
    )


def declared(text: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Names that a header declares, in the order of their numbers."""
    found = sorted((int(number), name) for number, name in pattern.findall(text))
    return tuple(name for _, name in found)


@cache
def load(name: str) -> Script:
    """Load the script `lua/NAME.lua`; a missing file is a FileNotFoundError."""
    text = read_lua(f"{name}.lua")
    shebang, body = text.split("\n", 1)
    match = _INCLUDE.search(body)
    includes = match.group(1).split() if match else []
    parts = [read_lua(f"include/{include}.lua") for include in includes]
    source = "\n".join([shebang, *parts, body]).encode()
    common = read_lua(f"include/{TYPE_INCLUDE}.lua")
    own = declared(text, _ARG)
    return Script(
        name=name,
        source=source,
        sha=hashlib.sha1(source).hexdigest(),  # noqa: S324 - how Redis names scripts
        keys=declared(common, _KEY) + declared(text, _KEY),
        args=declared(common, _ARG) + own,
        own=frozenset(own),
        writes="no-writes" not in shebang,
    )
