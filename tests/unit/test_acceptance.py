"""Which definition of a schedule runs while replicas have differing configs."""

from __future__ import annotations

import pytest

from scheduld.engine.acceptance import Known, Stand, known_as, stand
from scheduld.schedule import Schedule

OLD = Schedule(name="report", type="mail", cron="0 7 * * *")
NEW = Schedule(name="report", type="mail", cron="0 8 * * *")
SEEN = {OLD.digest: 1_000, NEW.digest: 2_000}


@pytest.mark.parametrize(
    ("own", "known", "live", "expected"),
    [
        # Nobody has defined it yet.
        (OLD, None, {OLD.digest}, Stand.TAKES_OVER),
        (OLD, None, {OLD.digest, NEW.digest}, Stand.YIELDS),
        # A rolling deploy: the new config takes over, also from replicas that live.
        (NEW, known_as(OLD, "config"), {OLD.digest, NEW.digest}, Stand.TAKES_OVER),
        (OLD, known_as(NEW, "config"), {OLD.digest, NEW.digest}, Stand.YIELDS),
        (OLD, known_as(OLD, "config"), {OLD.digest, NEW.digest}, Stand.FIRES),
        # A roll back: the old one takes over when the last replica with the new one is gone.
        (OLD, known_as(NEW, "config"), {OLD.digest}, Stand.TAKES_OVER),
        # A third config that nobody has any more.
        (OLD, Known("mail", "config", "0123"), {OLD.digest}, Stand.TAKES_OVER),
        # It moves to another type.
        (OLD, Known("sms", "config", OLD.digest), {OLD.digest}, Stand.TAKES_OVER),
        # One that was added at run time keeps its name.
        (OLD, known_as(OLD, "runtime"), {OLD.digest}, Stand.TAKEN),
        # Its own announcement is not seen yet, or was lost.
        (NEW, None, {OLD.digest}, Stand.TAKES_OVER),
        (OLD, None, set(), Stand.TAKES_OVER),
    ],
)
def test_the_newest_definition_of_the_live_ones_wins(
    own: Schedule, known: Known | None, live: set[str], expected: Stand
) -> None:
    """First seen last wins among the live; the accepted one fires; run-time ones keep theirs."""
    assert stand(own, known, live, SEEN) is expected


def test_two_replicas_never_both_take_over() -> None:
    """Of two definitions seen in the same millisecond exactly one wins, whoever decides."""
    same = {OLD.digest: 5, NEW.digest: 5}
    stands = {stand(own, None, set(same), same) for own in (OLD, NEW)}
    assert stands == {Stand.TAKES_OVER, Stand.YIELDS}


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"mail",
        b"mail config",
        b"mail other 12",
        b"a b c d",
        b"{b} config 12",
        b"\xff\xfe",
    ],
)
def test_what_is_no_entry_is_none(text: bytes | None) -> None:
    """Anything may stand in Redis: what is no entry counts as no schedule."""
    assert Known.read(text) is None


def test_an_entry_reads_as_it_was_written() -> None:
    """The entry of a schedule says type, origin and digest."""
    known = known_as(OLD, "config")
    assert Known.read(str(known).encode()) == known
