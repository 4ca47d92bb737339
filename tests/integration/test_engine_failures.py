"""Failures and chosen outcomes: retries, dead tasks, snoozes, and how they are counted."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from scheduld.engine import runner
from scheduld.model import Claim, RetryPolicy, State, VerdictKind
from scheduld.outcomes import Dead, Outcome, Retry, Snooze
from scheduld.policies.endings import Raised, verdict
from scheduld.store import calls
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT, Gate, Journal, Payload, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer

QUICK = (10,)


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def fail(payload: Payload, run: Run) -> None:
    """Raise what any handler may raise."""
    raise ValueError(f"no luck in attempt {run.attempt}")


@pytest.mark.parametrize("attempts", [1, 2, 3])
async def test_dead_after_exactly_so_many_failures(site: Site, attempts: int) -> None:
    """A task whose handler always raises is dead after `attempts` runs, with the last error."""
    journal = Journal()
    retry = RetryPolicy(attempts=attempts, delays_ms=QUICK)
    await site.start(duty("a", journal.inline(fail), retry=retry))
    task_id = await site.add("a")
    task = await site.ended("a", task_id, State.DEAD)
    assert [start.attempt for start in journal.starts] == list(range(1, attempts + 1))
    assert (task.failed, task.interruptions) == (attempts, 0)
    assert task.error is not None
    assert (task.error["kind"], task.error["message"]) == (
        "ValueError",
        f"no luck in attempt {attempts}",
    )
    assert "raise ValueError" in task.error["traceback"]


async def test_a_success_after_failures_is_done(site: Site) -> None:
    """A task that fails twice and then succeeds is done at attempt 3, without an error."""
    journal = Journal()

    async def third(payload: Payload, run: Run) -> int:
        if run.attempt < 3:
            raise OSError("not yet")
        return run.attempt

    await site.start(duty("a", journal.inline(third), retry=RetryPolicy(delays_ms=QUICK)))
    task = await site.ended("a", await site.add("a"))
    assert (task.result, task.attempt, task.failed, task.error) == (3, 3, 2, None)


async def test_waits_before_retries_are_the_policys(site: Site) -> None:
    """No retry starts before its wait is over, nor before the server says so."""
    journal = Journal()
    retry = RetryPolicy(attempts=3, backoff="list", delays_ms=(100, 200), jitter=0.0)
    await site.start(duty("a", journal.inline(fail), retry=retry))
    await site.ended("a", await site.add("a"), State.DEAD)
    first, second, third = [start.at for start in journal.starts]
    assert second - first >= 0.1
    assert third - second >= 0.2


class TestMixesOfFailedAndLost:
    """Failed and lost runs are counted apart, each with its own limit (B33)."""

    sequence = 0

    @pytest.mark.parametrize("attempts", [1, 2, 3])
    async def test_every_mix(self, site: Site, attempts: int) -> None:
        """Dead after exactly `attempts` failures or exactly three lost runs, in any order."""
        kind = duty("a", fail, retry=RetryPolicy(attempts=attempts)).kind
        mixes = [mix for n in range(1, 6) for mix in itertools.product("FL", repeat=n)]
        for number, mix in enumerate(mixes):
            fatal = mix.count("F") >= attempts or mix.count("L") >= kind.max_interruptions
            before = mix[:-1]
            over = before.count("F") >= attempts or before.count("L") >= kind.max_interruptions
            if fatal and not over:
                await self._play(site, kind, f"{attempts}-{number}", mix)

    async def _play(self, site: Site, kind: Any, task_id: str, mix: tuple[str, ...]) -> None:
        await site.add("a", id=task_id)
        for index, how in enumerate(mix):
            claim = await self._claim(site, kind, lost=how == "L")
            assert claim is not None, f"{mix}: dead before run {index + 1}"
            assert claim.attempt == mix[:index].count("F") + 1
            if how == "F":
                await self._fail(site, claim, kind.retry)
        assert await self._claim(site, kind, lost=False) is None, f"{mix}: run once more"
        task = await site.task("a", task_id)
        assert task.state is State.DEAD
        assert (task.failed, task.interruptions) == (mix.count("F"), mix.count("L"))

    async def _claim(self, site: Site, kind: Any, *, lost: bool) -> Claim | None:
        """Claim the task; None if there is none to claim, now or when the lease has run out."""
        # A lost run: a lease that ends at once, and nobody who stores a verdict.
        keys, lease_ms = site.keys.type("a"), 1 if lost else 60_000
        while True:
            self.sequence += 1
            request = calls.ClaimRequest(self.sequence, 1, (), bound_ms=2**50)
            call = calls.claim(site.caller(), keys, kind, request, lease_ms=lease_ms)
            answer = await site.link.run(call)
            if answer.claims or not (answer.next_lease_end_ms or answer.next_due_ms):
                return answer.claims[0] if answer.claims else None

    async def _fail(self, site: Site, claim: Claim, policy: RetryPolicy) -> None:
        end = verdict(claim, Raised(ValueError("x")), policy=policy, now_ms=0, fraction=0)
        if end.kind is VerdictKind.RETRY:
            end = verdict(claim, Raised(Retry(0)), policy=policy, now_ms=0, fraction=0)
        await site.link.run(calls.finish(site.caller(), site.keys.type("a"), [end]))


async def test_a_killed_replica_costs_no_attempt(site: Site) -> None:
    """After a replica died in a run, another runs the task, with the same attempt number."""
    journal, gate = Journal(), Gate()
    first = await site.start(duty("a", journal.inline(gate.inline)))
    task_id = await site.add("a")
    await until(lambda: journal.starts, "start")
    await first.kill()
    retry = RetryPolicy(attempts=2, delays_ms=QUICK)
    await site.start(duty("a", journal.inline(fail), retry=retry))
    task = await site.ended("a", task_id, State.DEAD)
    assert [start.attempt for start in journal.starts] == [1, 1, 2]
    assert (task.failed, task.interruptions) == (2, 1)


class TestOutcomes:
    """`Retry`, `Snooze` and `Dead`, returned or raised."""

    @staticmethod
    def once(outcome: Callable[[], Outcome], *, raised: bool) -> Any:
        """Make a handler that chooses `outcome` in its first run."""
        seen: list[int] = []

        async def call(payload: Payload, run: Run) -> Any:
            seen.append(run.attempt)
            if len(seen) > 1:
                return seen
            if raised:
                raise outcome()
            return outcome()

        return call

    @pytest.mark.parametrize("raised", [True, False])
    async def test_retry_waits_exactly_and_counts(self, site: Site, raised: bool) -> None:
        """Retry(after) counts as a failure and waits so long, whatever the policy's cap."""
        journal = Journal()
        call = journal.inline(self.once(lambda: Retry("150ms", "busy"), raised=raised))
        retry = RetryPolicy(delays_ms=(60_000,), max_delay_ms=10, jitter=5.0)
        await site.start(duty("a", call, retry=retry))
        task = await site.ended("a", await site.add("a"))
        assert task.result == [1, 2]
        assert task.failed == 1
        assert journal.starts[1].at - journal.starts[0].at >= 0.15

    @pytest.mark.parametrize("raised", [True, False])
    async def test_snooze_does_not_count(self, site: Site, raised: bool) -> None:
        """Snooze(until) runs the same attempt again at that time, and keeps the nominal due."""
        journal = Journal()
        call = journal.inline(self.once(lambda: Snooze("150ms"), raised=raised))
        await site.start(duty("a", call, retry=ONE_ATTEMPT))
        task = await site.ended("a", await site.add("a"))
        assert task.result == [1, 1]
        assert (task.failed, task.releases, task.interruptions) == (0, 0, 0)
        # It is counted from the least time that the server can have.
        assert journal.starts[1].at - journal.starts[0].at >= 0.14
        assert journal.starts[1].early_ms < journal.starts[0].early_ms - 100

    @pytest.mark.parametrize("raised", [True, False])
    async def test_dead_is_final(self, site: Site, raised: bool) -> None:
        """Dead(reason) ends the task at once, whatever attempts are left."""
        journal = Journal()
        call = journal.inline(self.once(lambda: Dead("no such user"), raised=raised))
        await site.start(duty("a", call))
        task = await site.ended("a", await site.add("a"), State.DEAD)
        assert len(journal.starts) == 1
        assert task.error is not None
        assert task.error["message"] == "no such user"

    @pytest.mark.parametrize(
        "outcome",
        [
            lambda: Retry("soon"),
            lambda: Retry(float("nan")),
            lambda: Snooze(datetime(2030, 1, 1)),  # noqa: DTZ001 - what is refused
            lambda: Snooze(-1),
            lambda: Snooze(None),  # type: ignore[arg-type]
            lambda: Snooze(datetime(2030, 1, 1, tzinfo=NoZone())),
            Outcome,
        ],
    )
    async def test_an_impossible_outcome_is_a_failure(
        self, site: Site, outcome: Callable[[], Outcome]
    ) -> None:
        """An outcome that cannot be read fails the attempt, and the type works on."""
        await site.start(duty("a", self.once(outcome, raised=False), retry=ONE_ATTEMPT))
        task = await site.ended("a", await site.add("a"), State.DEAD)
        assert task.error is not None
        assert task.error["kind"] == "outcome"
        await site.ended("a", await site.add("a"))

    @pytest.mark.parametrize(
        "zone", [UTC, timezone(timedelta(hours=-7)), ZoneInfo("Europe/Madrid")], ids=str
    )
    async def test_a_snooze_means_its_instant(self, site: Site, zone: Any) -> None:
        """Snooze(until) is the same instant in every zone, in summer time too."""
        summer = datetime(2099, 7, 1, 12, tzinfo=zone)
        await site.start(duty("a", self.once(lambda: Snooze(summer), raised=False)))
        task_id = await site.add("a")
        await until(lambda: site.redis.zscore(site.keys.type("a").due, task_id), "snoozed")

        async def snoozed() -> bool:
            due = (await site.task("a", task_id)).due
            return due is not None and due == summer.astimezone(UTC)

        await until(snoozed, "snoozed to the instant", 3)


class NoZone(tzinfo):
    """A zone that does not know its offset."""

    def tzname(self, dt: datetime | None) -> None:
        """Say nothing."""

    def utcoffset(self, dt: datetime | None) -> None:
        """Say nothing."""

    def dst(self, dt: datetime | None) -> None:
        """Say nothing."""


@pytest.mark.parametrize("what", ["codec", "done"])
async def test_a_run_that_breaks_the_runner_is_given_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whatever fails in our own code before or after a call: neighbours run, nothing is stuck."""
    real: Any = getattr(runner, what)
    broken: list[Any] = []

    def fail_once(*given: Any) -> Any:
        if not broken and "bad" in str(given):
            broken.append(given)
            raise MemoryError
        return (real.decode if what == "codec" else real)(*given)

    fake = SimpleNamespace(decode=fail_once) if what == "codec" else fail_once
    monkeypatch.setattr(runner, what, fake)
    monkeypatch.setattr(runner, "_AGAIN_MS", 1)
    ids = [await site.add("a", {"word": word}) for word in ("bad", "good")]
    journal = Journal()
    retry = RetryPolicy(attempts=2, delays_ms=QUICK)
    await site.start(duty("a", journal.inline(), retry=retry))
    tasks = [await site.ended("a", task_id) for task_id in ids]
    assert broken
    # Before the call nothing is held against the task; an end that cannot be read is a failure.
    expected = (1, 0) if what == "codec" else (0, 1)
    assert [(task.releases, task.failed) for task in tasks] == [expected, (0, 0)]
