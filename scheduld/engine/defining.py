"""Stores the definitions of this replica's config where they are the ones that are to run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from scheduld.engine.acceptance import Known, Stand, known_as, stand
from scheduld.engine.announced import digests_of
from scheduld.engine.orphans import remove
from scheduld.engine.timetable import listed
from scheduld.errors import Conflict
from scheduld.store import croncalls
from scheduld.store.answers import server_ms, to_ms
from scheduld.store.cronanswers import Defined
from scheduld.store.croncalls import MOST_SCHEDULES, NOTHING, Definition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from scheduld.engine.announced import Announced
    from scheduld.schedule import Schedule
    from scheduld.store.calls import Caller
    from scheduld.store.croncalls import Carried
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.schedules")
_ROUNDS = 3
_FORGET_MS = 30 * 86_400_000
_MOST_SEEN = 20
"""Of more definitions of one name than that, the older ones are forgotten once they are so old."""
_MOST_BYTES = 1024 * 1024


class Definer:
    """Decides about the schedules of one config, and defines those that are accepted."""

    def __init__(
        self, link: AsyncLink, caller: Caller, announced: Announced, own: Mapping[str, Schedule]
    ) -> None:
        self._link = link
        self._caller = caller
        self._announced = announced
        self._own = own
        self._told: dict[str, Stand] = {}
        self._broken: set[str] = set()

    async def first_see(self) -> None:
        """Note when this config's definitions were first seen; to be done before announcing."""
        if not self._own:
            return
        # Asked, not estimated: it stays, and this may be the first that is heard of the server.
        (time,) = await self._link.commands(("TIME",))
        now_ms, defs = server_ms(time), self._caller.keys.defs
        commands = [("HSETNX", defs, _seen_as(one), now_ms) for one in self._own.values()]
        await self._link.commands(*commands)

    async def forget_old(self) -> None:
        """Forget when definitions were first seen that are long gone, of a live schedule too."""
        keys = self._caller.keys
        flat, names = await self._link.commands(("HGETALL", keys.defs), ("HKEYS", keys.crons))
        limit_ms = self._link.server.now_ms() - _FORGET_MS
        known = {*names, *(name.encode() for name in self._own)}
        own = {_seen_as(one).encode() for one in self._own.values()}
        by_name: dict[bytes, list[tuple[int, bytes]]] = {}
        for entry, seen in zip(flat[::2], flat[1::2], strict=True):
            by_name.setdefault(entry.partition(b" ")[0], []).append((to_ms(seen) or 0, entry))
        old: list[bytes] = []
        for name, found in by_name.items():
            spare = sorted(found, reverse=True)[_MOST_SEEN if name in known else 0 :]
            old += [entry for seen_ms, entry in spare if seen_ms < limit_ms and entry not in own]
        if old:
            await self._link.commands(("HDEL", keys.defs, *old))

    async def settle(
        self,
        names: Collection[str],
        known: Mapping[str, Known | None],
        seen: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Define what is to be; returns the watermarks of the schedules that this replica fires.

        `known`: what `ns:crons` tells of all these names. `seen`: the watermarks of those that it
        has fired until now; one that the store has lost goes on from there.
        """
        marks: dict[str, int] = {}
        carried: dict[str, Carried] = {name: {"mark": mark_ms} for name, mark_ms in seen.items()}
        stored, left = dict(known), list(names)
        for _ in range(_ROUNDS):
            stands = await self._stands(left, stored)
            chosen = [n for n in left if stands[n] in (Stand.FIRES, Stand.TAKES_OVER)]
            for name in chosen:
                carried |= await self._mark_moved(name, known[name])
            left = await self._define(chosen, stored, marks, carried)
            if not left:
                break
        for name in marks:
            await self._remove_moved(name, known[name])
        # The index last: a move that was cut short before is made anew.
        await self._name([name for name in marks if known[name] != self._as_own(name)])
        return marks

    def _as_own(self, name: str) -> Known:
        return known_as(self._own[name], "config")

    async def _name(self, fresh: Collection[str]) -> None:
        """Write what is defined now into the index of all schedules."""
        if fresh:
            flat = [part for name in fresh for part in (name, str(self._as_own(name)))]
            await self._link.commands(("HSET", self._caller.keys.crons, *flat))
            log.info("schedules defined", schedules=listed(fresh))

    async def _mark_moved(self, name: str, before: Known | None) -> dict[str, Carried]:
        """Let nothing be fired any more in the type that a schedule leaves; what it takes along."""
        one = self._own[name]
        if before is None or before.type == one.type:
            return {}
        keys = self._caller.keys.type(before.type)
        try:
            await self._link.run(croncalls.move(self._caller, keys, name, to=one.type))
            (record,) = await self._link.run(croncalls.read(self._caller, keys, [name]))
        except Conflict as error:
            self._tell_broken(one, error.message)
            return {}
        return {} if record is None else {name: record.carried}

    async def _remove_moved(self, name: str, before: Known | None) -> None:
        one = self._own[name]
        if before is not None and before.type != one.type:
            try:
                await remove(self._link, self._caller, before.type, name, f"moved to {one.type}")
            except Conflict as error:
                self._tell_broken(one, error.message)

    async def _stands(
        self, names: Collection[str], known: Mapping[str, Known | None]
    ) -> dict[str, Stand]:
        differing = [name for name in names if known[name] != self._as_own(name)]
        sets = await self._announced.live() if differing else []
        live = {name: digests_of(name, sets) for name in differing}
        seen = await self._first_seen(live)
        stands = {
            name: stand(self._own[name], known[name], live.get(name, ()), seen.get(name, {}))
            for name in names
        }
        self._tell(stands)
        return stands

    async def _first_seen(self, live: Mapping[str, set[str]]) -> dict[str, dict[str, int]]:
        pairs = [
            (n, digest) for n, found in live.items() for digest in {*found, self._own[n].digest}
        ]
        if not pairs:
            return {}
        fields = [f"{name} {digest}" for name, digest in pairs]
        (values,) = await self._link.commands(("HMGET", self._caller.keys.defs, *fields))
        seen: dict[str, dict[str, int]] = {}
        for (name, digest), value in zip(pairs, values, strict=True):
            seen.setdefault(name, {})[digest] = to_ms(value) or 0
        return seen

    async def _define(
        self,
        names: Iterable[str],
        known: dict[str, Known | None],
        marks: dict[str, int],
        carried: Mapping[str, Carried],
    ) -> list[str]:
        """Define schedules; returns those that others were quicker with."""
        again: list[str] = []
        for batch in _batches([self._own[name] for name in names]):
            type_keys = self._caller.keys.type(batch[0].type)
            definitions = [
                Definition(
                    one,
                    "config",
                    _expected(known[one.name], one),
                    carried.get(one.name, NOTHING),
                )
                for one in batch
            ]
            call = croncalls.define(self._caller, type_keys, definitions)
            try:
                answers = await self._link.run(call)
            except Conflict as error:  # one type's keys: the others go on
                for one in batch:
                    self._tell_broken(one, error.message)
                continue
            for one, answer in zip(batch, answers, strict=True):
                if answer.code.is_stored:
                    marks[one.name] = answer.mark_ms
                    self._broken.discard(one.name)
                elif answer.code is Defined.OTHER_DIGEST:
                    # Its own digest stands for none: what was to be replaced is gone.
                    is_gone = answer.digest == one.digest
                    known[one.name] = None if is_gone else Known(one.type, "config", answer.digest)
                    again.append(one.name)
                elif answer.code is Defined.OTHER_ORIGIN:
                    known[one.name] = Known(one.type, "runtime", answer.digest)
                    again.append(one.name)
                else:
                    key = type_keys.cron(one.name)
                    self._tell_broken(one, f"{key} or a key beside it holds another kind of value")
        return again

    def _tell(self, stands: Mapping[str, Stand]) -> None:
        """Say once which schedules do not run as this config has them."""
        for kind, words in _WORDS.items():
            new = [n for n, one in stands.items() if one is kind and self._told.get(n) is not kind]
            if new:
                log.warning(words, schedules=listed(new))
        self._told.update(stands)

    def _tell_broken(self, one: Schedule, why: str) -> None:
        if one.name not in self._broken:
            self._broken.add(one.name)
            log.error("schedule is not fired", schedule=one.name, error=why)


_WORDS = {
    Stand.YIELDS: "schedules run as another replica's config has them",
    Stand.TAKEN: "schedules of the config do not run: their names were taken at run time",
}


def _seen_as(schedule: Schedule) -> str:
    return f"{schedule.name} {schedule.digest}"


def _expected(known: Known | None, schedule: Schedule) -> str:
    """The digest that a definition is to replace, within its own type."""
    return known.digest if known is not None and known.type == schedule.type else ""


def _batches(schedules: Iterable[Schedule]) -> Iterator[list[Schedule]]:
    """Part schedules by type, and so that a call stays small."""
    by_type: dict[str, list[Schedule]] = {}
    for one in schedules:
        by_type.setdefault(one.type, []).append(one)
    for group in by_type.values():
        batch: list[Schedule] = []
        size = 0
        for one in group:
            batch.append(one)
            size += 2 * len(one.to_json())
            if len(batch) == MOST_SCHEDULES or size > _MOST_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
