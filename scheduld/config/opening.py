"""What reading a config begins with, for daemon and client commands alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.config import values
from scheduld.config.faults import BadValue
from scheduld.config.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduld.config.source import Source

URL_VARIABLE = "SCHEDULD_REDIS_URL"


@dataclass(frozen=True)
class Opening:
    """A parsed source with the tables that everyone needs, `${...}` filled in.

    `redis_url` is set, and its key left out of `scheduld`, if it was given from outside.
    """

    source: Source
    report: Report
    scheduld: dict[str, Any]
    embedded: dict[str, Any]
    redis_url: str | None

    def check_durable(self, durable: str, redis_url: str) -> None:
        """Report a `durable` that the server can never meet; a URL from outside goes first."""
        if durable == "replica" and (self.redis_url or redis_url) == "embedded":
            fault = BadValue("the embedded server has no replica", hint='"disk" is the most it can')
            self.report.bad(("scheduld", "durable"), fault)


def begin(source: Source, env: Mapping[str, str], redis_url: str | None) -> Opening:
    """Take the shared tables out of a source; what is wrong with them goes to the report."""
    report = Report(source, env)
    report.unknown("", (), source.data)
    scheduld = dict(report.table(source.data, "scheduld"))
    outside = _outside_url(report, env, redis_url)
    if outside is not None:
        scheduld.pop("redis_url", None)
    return Opening(
        source=source,
        report=report,
        scheduld=report.filled(scheduld, ("scheduld",)),
        embedded=report.filled(report.table(source.data, "embedded"), ("embedded",)),
        redis_url=outside,
    )


def is_url_given(env: Mapping[str, str], redis_url: str | None) -> bool:
    """Whether a URL comes from the command line or the environment."""
    return redis_url is not None or URL_VARIABLE in env


def _outside_url(report: Report, env: Mapping[str, str], redis_url: str | None) -> str | None:
    """Return the URL of the command line, else of the environment, if there is one."""
    if not is_url_given(env, redis_url):
        return None
    name, text = (
        ("--redis-url", redis_url)
        if redis_url is not None
        else (f"${URL_VARIABLE}", env[URL_VARIABLE])
    )
    try:
        return values.REDIS_URL(text)
    except BadValue as exc:
        report.outside(name, exc)
        return ""
