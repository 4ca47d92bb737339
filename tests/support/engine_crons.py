"""Schedules of replicas under test: definitions, what is stored of them, and their history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.schedule import Schedule
from scheduld.store import croncalls
from scheduld.store.cronanswers import CronRecord, TickRecord, tick_records
from scheduld.store.croncalls import Definition
from tests.support.replicas import until

if TYPE_CHECKING:
    from tests.support.replicas import Member, Site


def schedule(name: str = "report", **values: Any) -> Schedule:
    """A schedule of type `a`, every 200 ms unless the values say otherwise."""
    rule = {} if "cron" in values else {"every": "200ms"}
    return Schedule(**{"name": name, "type": "a", "overlap": "allow", **rule, **values})


async def stored(site: Site, name: str = "report", type_name: str = "a") -> CronRecord | None:
    """Read a schedule as it is stored; None if there is none."""
    call = croncalls.read(site.caller(), site.keys.type(type_name), [name])
    return (await site.link.run(call))[0]


async def history(site: Site, name: str = "report", type_name: str = "a") -> list[TickRecord]:
    """Read what became of the ticks, the oldest first."""
    command = croncalls.history(site.keys.type(type_name), name, limit=10_000)
    (reply,) = await site.link.commands(command)
    return tick_records(reply)[::-1]


async def fired(site: Site, name: str = "report", type_name: str = "a") -> list[int]:
    """The instants that were fired, in the order they were."""
    records = await history(site, name, type_name)
    return [one.tick_ms or 0 for one in records if one.outcome == "fired"]


async def has_fired(site: Site, count: int, name: str = "report", type_name: str = "a") -> None:
    """Wait until so many ticks were fired."""

    async def enough() -> bool:
        return len(await fired(site, name, type_name)) >= count

    await until(enough, f"{count} ticks of {name}")


async def add_at_run_time(site: Site, one: Schedule) -> None:
    """Add a schedule as the clients do: its name first, then its definition."""
    await site.link.commands(
        ("HSETNX", site.keys.crons, one.name, f"{one.type} runtime {one.digest}")
    )
    keys = site.keys.type(one.type)
    await site.link.run(croncalls.define(site.caller(), keys, [Definition(one, "runtime")]))


async def remove(site: Site, name: str, type_name: str = "a") -> None:
    """Remove a schedule as the clients do."""
    keys = site.keys.type(type_name)
    await site.link.run(croncalls.remove(site.caller(), keys, name, reason="a test"))
    await site.link.commands(("HDEL", site.keys.crons, name))


def serves(member: Member, name: str = "report") -> str | None:
    """The digest of the definition that a replica fires; None: it fires none."""
    entry = member.replica._timekeeping.ticker._table.get(name)
    return None if entry is None else entry.digest
