"""Which keys a config file has, and what is said about one that it has not.

Apart from the model so that client commands know the keys without loading it; a test
compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.config.faults import BadValue, show_path, with_hint

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPE = "types.NAME"
RETRY = "types.NAME.retry"
SCHEDULE = "schedules.NAME"
TABLES: dict[str, tuple[str, ...]] = {
    "": ("scheduld", "embedded", "log", "types", "schedules"),
    "scheduld": (
        "redis_url",
        "redis_timeout",
        "namespace",
        "timezone",
        "state_dir",
        "concurrency",
        "lease",
        "shutdown_grace",
        "max_payload",
        "durable",
    ),
    "embedded": ("appendfsync",),
    "log": ("format", "level", "mask"),
    TYPE: (
        "handler",
        "poll_timeout",
        "poll_batch",
        "empty_poll_timeout",
        "run_timeout",
        "concurrency",
        "isolation",
        "max_memory",
        "max_cpu",
        "max_files",
        "recycle_after",
        "max_running",
        "rate_limit",
        "max_running_per_key",
        "rate_limit_per_key",
        "retry",
        "max_interruptions",
        "keep_done",
        "keep_dead",
        "at_start",
        "reschedule_if",
        "reschedule_timeout",
        "series",
        "anchor",
        "options",
    ),
    RETRY: ("attempts", "backoff", "delay", "max_delay", "jitter"),
    "types.NAME.keep_done": ("count", "age"),
    "types.NAME.keep_dead": ("count", "age"),
    SCHEDULE: (
        "type",
        "cron",
        "every",
        "cron_dialect",
        "timezone",
        "payload",
        "catch_up",
        "catch_up_window",
        "overlap",
        "max_unfinished",
        "starts_at",
        "ends_at",
        "max_runs",
        "jitter",
        "enabled",
        "dst_gap",
        "dst_overlap",
        "keep_history",
    ),
    "schedules.NAME.keep_history": ("count", "age"),
}
"""Keys of each table; `NAME` stands for the name of a type or schedule, "" for the top."""


def unknown_key(table: str, key: str, value: object = None) -> BadValue:
    """Make the fault of a key that its table has not, naming the one that was probably meant."""
    shown = show_path((key,))
    return BadValue(with_hint(f"unknown key {shown}", _meant(table, key, value)))


def unknown_keys(table: str, given: Iterable[str]) -> list[str]:
    """List those of the given keys that the table has not."""
    return [key for key in given if key not in TABLES[table]]


def _meant(table: str, key: str, value: object) -> str:
    homes = [f"[{name}]" for name, keys in TABLES.items() if name and key in keys]
    if homes:
        return f"it belongs in {' or '.join(homes)}"
    if not table and isinstance(value, dict) and "handler" in value:
        return f"did you mean [types.{show_path((key,))}]?"
    near = nearest(key, TABLES[table])
    if near:
        return f"did you mean {near}?"
    return f"known keys are {', '.join(TABLES[table])}"


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the word that is most like this one, None if none is."""
    # Only faults need it: a client command starts faster without.
    import difflib

    matches = difflib.get_close_matches(word.lower(), list(words), n=1, cutoff=0.6)
    return matches[0] if matches else None
