"""Time zones: found by name, taken from callers, and asked when their clocks change."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from scheduld.errors import WhenError
from scheduld.names import printable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
# Two depend on the host, Factory is no place; the trees count leap seconds or repeat names.
_NO_ZONES = re.compile(r"localtime|posixrules|Factory|(?:right|posix)/.*")


def load_zone(name: str) -> ZoneInfo:
    """Load a time zone by its IANA name; WhenError names the nearest one there is."""
    if not isinstance(name, str):
        raise WhenError(f"a time zone is a name, not {type(name).__name__}", hint=_zone_hint(""))
    try:
        if _ZONE_NAME.fullmatch(name) and not _NO_ZONES.fullmatch(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass  # not found; no zone file; a folder, or a name too long for a file
    raise WhenError(f"unknown time zone {printable(name[:60])!r}", hint=_zone_hint(name))


def as_zone(zone: str | tzinfo | None) -> tzinfo | None:
    """Return a zone for its IANA name or tzinfo; WhenError for all else, None for None."""
    if zone is None or isinstance(zone, ZoneInfo):
        return zone
    # A zone of pytz answers wrong offsets unless asked in its own way; its name is enough.
    name = getattr(zone, "zone", None) if isinstance(zone, tzinfo) else zone
    if isinstance(name, str):
        return load_zone(name)
    if not isinstance(zone, tzinfo):
        kind = type(zone).__name__
        raise WhenError(f"a time zone is a name or a tzinfo, not {kind}", hint=_zone_hint(""))
    try:
        _EPOCH.astimezone(zone)
    except (TypeError, ValueError, NotImplementedError):
        raise WhenError(f"the tzinfo {type(zone).__name__} is broken") from None
    return zone


def offset_s(second: int, zone: tzinfo) -> int:
    """Offset from UTC, in seconds, that a zone has at a second since the epoch."""
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def first_change(low: int, high: int, zone: tzinfo) -> int:
    """Find the first second after `low` with another offset, at most `high`, by halving.

    Both are seconds since the epoch, and the offsets at them differ.
    """
    before = offset_s(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_s(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high


def _zone_hint(name: str) -> str:
    example = 'use an IANA name such as "Europe/Madrid" or "UTC"'
    # Nearest by letters is wrong for abbreviations: PST is not EST.
    if not name or len(name) > 60 or re.fullmatch(r"[A-Z]{2,5}", name):
        return example
    known = {zone.lower(): zone for zone in sorted(available_timezones())}
    wanted = name.lower().replace(" ", "_")
    cities = [zone for low, zone in known.items() if low.endswith(f"/{wanted}")]
    import difflib

    near = difflib.get_close_matches(wanted, known, n=1)
    found = cities[:1] or [known[low] for low in near if not _NO_ZONES.fullmatch(known[low])]
    return f'did you mean "{found[0]}"?' if found else example
