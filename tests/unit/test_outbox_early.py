"""Verdicts on their way, and claims ahead of their due."""

from __future__ import annotations

import math

from scheduld.engine.early import Early
from scheduld.engine.outbox import Outbox
from scheduld.engine.plan import LEAD_S
from scheduld.model import Claim, Verdict, VerdictKind


def done(number: int, detail: str = "", fence: int = 1) -> Verdict:
    """Make the verdict of a task."""
    return Verdict(b"t%d" % number, fence, VerdictKind.DONE, detail=detail)


def claim(number: int, fence: int = 1) -> Claim:
    """Make an early claim of a task."""
    return Claim("a", f"t{number}", b"t%d" % number, None, fence, 0, 0, True, 0, 0, 0)


class TestOutbox:
    """Kept until the store has answered."""

    def test_a_batch_stays_until_it_is_answered(self) -> None:
        """Sending changes nothing; the answer removes what it is about, and is told."""
        outbox = Outbox()
        outbox.put(done(1))
        outbox.put(done(2))
        batch = outbox.take()
        assert batch == (done(1), done(2))
        assert not outbox
        assert not outbox.is_empty
        outbox.put(done(3))
        outbox.stored(batch)
        assert outbox.take() == (done(3),)
        outbox.stored((done(3),))
        assert outbox.is_empty

    def test_what_was_not_carried_out_is_sent_again_first(self) -> None:
        """In the order of arrival, whatever has come meanwhile."""
        outbox = Outbox()
        outbox.put(done(1))
        batch = outbox.take()
        outbox.put(done(2))
        outbox.put_back(batch)
        assert outbox.take() == (done(1), done(2))

    def test_batches_keep_the_limits_of_a_call(self) -> None:
        """At most 200 verdicts, the oldest first, and not too many bytes."""
        outbox = Outbox()
        for number in range(450):
            outbox.put(done(number))
        assert outbox.take() == tuple(done(number) for number in range(200))
        assert len(outbox) == 250
        large = Outbox()
        for number in range(5):
            large.put(done(number, "x" * 1_000_000))
        assert [len(large.take()) for _ in range(3)] == [2, 2, 1]

    def test_a_verdict_beyond_the_limit_goes_alone(self) -> None:
        """However large, a verdict is sent, or it would wait for ever."""
        outbox = Outbox()
        outbox.put(done(1, "x" * 3_000_000))
        outbox.put(done(2))
        assert [verdict.raw_id for verdict in outbox.take()] == [b"t1"]


class TestEarly:
    """Held until just before their due."""

    def test_none_is_never_due(self) -> None:
        """Without claims there is nothing to confirm."""
        early = Early()
        assert early.confirm_at == math.inf
        assert not early.is_due(1e12)

    def test_they_are_confirmed_together_a_little_ahead(self) -> None:
        """The nearest decides when; all that are near go at once, and stay until removed."""
        early = Early()
        early.add(claim(1), 100.0)
        early.add(claim(2), 100.0 + LEAD_S / 2)
        early.add(claim(3), 100.04)
        assert early.confirm_at == 100.0 - LEAD_S
        assert not early.is_due(100.0 - 2 * LEAD_S)
        assert early.is_due(100.0)
        assert early.due(100.0) == [claim(1), claim(2)]
        assert early.due(100.0) == [claim(1), claim(2)]
        assert early.remove(claim(1))
        assert not early.remove(claim(1))
        assert early.due(100.0) == [claim(2)]

    def test_a_newer_claim_of_the_same_task_is_another(self) -> None:
        """Letting the old one go keeps the new one."""
        early = Early()
        early.add(claim(1, fence=1), 100.0)
        early.add(claim(1, fence=2), 200.0)
        early.remove(claim(1, fence=1))
        assert early.confirm_at == 200.0 - LEAD_S

    def test_a_stop_takes_all(self) -> None:
        """Clear returns every claim, once."""
        early = Early()
        early.add(claim(1), 100.0)
        early.add(claim(2), 200.0)
        assert early.clear() == [claim(1), claim(2)]
        assert early.clear() == []
        assert early.confirm_at == math.inf
