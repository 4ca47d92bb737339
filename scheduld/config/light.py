"""What client commands read of the config: a few keys, quickly, without the model.

Task types and schedules are not checked here, only named, but for the ladders that adds go by:
handlers may not even be installed where a client runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scheduld.config import values
from scheduld.config.faults import BadValue
from scheduld.config.opening import Opening, begin, is_url_given
from scheduld.config.series import client_series
from scheduld.config.settings import DEFAULTS, ClientSettings
from scheduld.config.source import Search, Source, read, search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_PARSERS: dict[str, Callable[[object], Any]] = {
    "redis_url": values.REDIS_URL,
    "redis_timeout": values.REDIS_TIMEOUT,
    "namespace": values.NAMESPACE,
    "timezone": values.ZONE,
    "state_dir": values.STATE_DIR,
    "lease": values.LEASE,
    "max_payload": values.MAX_PAYLOAD,
    "durable": values.DURABLE,
}


def client_settings(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    redis_url: str | None = None,
) -> ClientSettings:
    """Read what a client command needs; raises ConfigError with all problems of it.

    Without a config file a URL must be given (`redis_url`, or `$SCHEDULD_REDIS_URL`): nothing
    is guessed. The other settings are the defaults then.
    """
    found = search(path, env)
    if found.path is None and not is_url_given(env, redis_url):
        raise found.not_found()
    opening = begin(_source(found), env, redis_url)
    given = _values(opening, ("scheduld",), opening.scheduld, _PARSERS)
    embedded = _values(
        opening, ("embedded",), opening.embedded, {"appendfsync": values.APPENDFSYNC}
    )
    timeout_ms = _timeout_ms(opening, given)
    url = given.get("redis_url", DEFAULTS.redis_url)
    durable = given.get("durable", DEFAULTS.durable)
    opening.check_durable(durable, url)
    series = client_series(opening.report, opening.source.data.get("types"))
    opening.report.end()
    return ClientSettings(
        path=opening.source.path,
        redis_url=opening.redis_url or url,
        redis_timeout_ms=timeout_ms,
        namespace=given.get("namespace", DEFAULTS.namespace),
        timezone=given.get("timezone", DEFAULTS.timezone),
        state_dir=given.get("state_dir") or values.default_state_dir(env),
        lease_ms=given.get("lease", DEFAULTS.lease_ms),
        max_payload=given.get("max_payload", DEFAULTS.max_payload),
        durable=durable,
        appendfsync=embedded.get("appendfsync", DEFAULTS.appendfsync),
        notes=opening.source.notes,
        type_names=None if opening.source.path is None else _names(opening.source, "types"),
        schedule_names=_names(opening.source, "schedules"),
        series=series,
    )


def _source(found: Search) -> Source:
    if found.path is None:
        return Source(name=None, path=None, text="", data={}, notes=found.notes)
    return read(found)


def _values(
    opening: Opening,
    place: tuple[str],
    table: Mapping[str, object],
    parsers: Mapping[str, Callable[[object], Any]],
) -> dict[str, Any]:
    """Parse those keys of a table that clients use; faults and unknown keys are reported."""
    opening.report.unknown(place[0], place, table)
    parsed: dict[str, Any] = {}
    for key in parsers.keys() & table.keys():
        try:
            parsed[key] = parsers[key](table[key])
        except BadValue as exc:
            opening.report.bad((*place, key), exc)
    return parsed


def _timeout_ms(opening: Opening, given: Mapping[str, Any]) -> int:
    lease_ms = given.get("lease", DEFAULTS.lease_ms)
    try:
        return values.redis_timeout_ms(
            given.get("redis_timeout"), DEFAULTS.redis_timeout_ms, lease_ms
        )
    except BadValue as exc:
        if ("lease" in opening.scheduld) == ("lease" in given):
            opening.report.bad(("scheduld", "redis_timeout"), exc)
        return DEFAULTS.redis_timeout_ms


def _names(source: Source, table: str) -> frozenset[str]:
    entries = source.data.get(table, {})
    return frozenset(entries) if isinstance(entries, dict) else frozenset()
