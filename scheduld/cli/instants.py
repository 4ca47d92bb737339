"""`--at`, `--in` and `--now`: read once, so that a repeat means the same instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime


def check_one(at: str | None, delay: str | None, now: bool) -> None:
    """Refuse more than one of them."""
    if (at is not None) + (delay is not None) + now > 1:
        raise InvalidInput("--at, --in and --now exclude each other", hint="give one of them")


def due_of(
    at: str | None, delay: str | None, timezone: str | None, *, zone: str | None, allow_past: bool
) -> datetime | str | None:
    """Return what --at means, without an offset in `zone`; None if it was not given.

    Checks --timezone and --in as well. Raises InvalidInput.
    """
    from scheduld.duration import parse_duration_ms
    from scheduld.when import load_zone, parse_when

    if timezone is not None:
        load_zone(timezone)
    if delay is not None:
        parse_duration_ms(delay, what="--in")
    if at is None:
        return None
    instant = parse_when(at, timezone=zone, allow_past=allow_past)
    # "+5m" goes on as a text: it counts on the server's clock, as --in does.
    return at if at.strip().startswith("+") else instant


def at_text(at: datetime | str | None) -> str | None:
    """Write an instant as --at takes it, whatever the zone."""
    if at is None or isinstance(at, str):
        return at
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
