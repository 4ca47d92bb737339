"""Tasks that other programs added in ways that cannot run: dead with a reason, others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduld.store.answers import Settled
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.model import Claim

YEAR_10000 = 253_402_300_800_000
BEYOND = [YEAR_10000, "1e300", "+inf"]
SECONDS = [1e9, 1_790_000_000, 1e11 - 1]


def assert_dead(store: Store, task_id: str, kind: str, why: str) -> None:
    """The task is dead and nothing else, with its reason in the events and in the hash."""
    assert store.indexes(task_id) == ["dead"]
    event = store.last_event()
    assert "dead" in event["e"]
    assert why in event["error"]
    if store.read(task_id).key_type == "hash":
        assert f'"kind":"{kind}"' in store.error(task_id)
        assert store.fields(task_id)["outcome"] == b"dead"


@pytest.mark.parametrize("score", SECONDS)
def test_seconds_are_not_taken_for_milliseconds(store: Store, score: float) -> None:
    """A score that looks like seconds is dead with a reason instead of running in 1970."""
    store.plain("x", score)
    store.add("good")
    assert [claim.id for claim in store.claim().claims] == ["good"]
    assert_dead(store, "x", "due", "due: looks like seconds")


@pytest.mark.parametrize("score", BEYOND)
def test_beyond_the_year_9999_is_dead(store: Store, score: float | str) -> None:
    """A time that no calendar can tell is dead with a reason, at the next claim."""
    store.plain("x", score)
    store.plain("latest", YEAR_10000 - 1)
    assert store.claim(0).claims == []
    assert_dead(store, "x", "due", "due: beyond the year 9999")
    assert store.state("latest") == "scheduled"


def test_a_key_that_holds_no_hash_is_dead(store: Store) -> None:
    """A wrong type of key is dead with a reason; the key itself stays as it is."""
    store.redis.rpush(store.task_key("x"), "list")
    store.plain("x", NOW - 1, payload=None)
    store.add("good")
    assert [claim.id for claim in store.claim().claims] == ["good"]
    assert_dead(store, "x", "wrong_type", "wrong_type: ")
    assert store.read("x").key_type == "list"


@pytest.mark.parametrize("score", [NOW, 0, "-inf"])
def test_an_index_entry_without_hash_is_dead_after_2_s(store: Store, score: float) -> None:
    """A task whose hash never comes is dead with a reason; it is looked at now and then only."""
    store.plain("x", score, payload=None)
    answer = store.claim()
    assert (answer.claims, answer.next_due_ms) == ([], NOW + 200)
    assert store.number("x", "due") == NOW
    store.pass_ms(1_999)
    assert store.claim().claims == []
    assert store.state("x") == "scheduled"
    store.pass_ms(200)
    assert store.claim().claims == []
    assert_dead(store, "x", "no_hash", "no_hash: ")
    assert set(store.fields("x")) == {"outcome", "error"}


def test_bytes_that_are_not_utf8_are_handed_over(store: Store) -> None:
    """Ids and payloads of any bytes are claimed and can be ended; the daemon decides on them."""
    raw = b"\xff\xfe".decode("utf-8", "surrogateescape")
    store.plain(raw, NOW, b"\xff{")
    store.add("good")
    claims: dict[str, Claim] = {claim.id: claim for claim in store.claim().claims}
    assert (claims[raw].raw_id, claims[raw].payload) == (b"\xff\xfe", b"\xff{")
    error = '{"kind":"payload"}'
    assert store.finish(claims[raw], "dead", detail=error, reason="payload", counted=False) is (
        Settled.STORED
    )
    assert store.number(raw, "failed") == 0
    assert_dead(store, raw, "payload", "payload")


@pytest.mark.parametrize("state", ["done", "dead"])
@pytest.mark.parametrize("score", [1_790_000_000, "+inf"])
def test_an_ended_id_with_a_broken_score_is_dead_once(
    store: Store, state: str, score: float | str
) -> None:
    """A broken new life of an ended id leaves one record of it, not two."""
    store.into(state, "x")
    store.plain("x", score)
    store.claim()
    assert_dead(store, "x", "due", "due: ")


@pytest.mark.parametrize("score", [1_790_000_000, "+inf"])
def test_a_running_id_with_a_broken_score_ends_first(store: Store, score: float | str) -> None:
    """A broken plain add does not hurt the run; its reason shows when the run has ended."""
    store.add("x")
    claim = store.take("x")
    store.plain("x", score)
    store.claim()
    assert store.indexes("x") == ["leased"]
    assert store.finish(claim) is Settled.STORED
    store.claim()
    assert_dead(store, "x", "due", "due: ")


def test_a_hash_removed_during_the_run_is_told(store: Store) -> None:
    """A run whose hash somebody removed cannot be stored, and is not run again as empty."""
    store.add("x")
    claim = store.take("x")
    store.redis.delete(store.task_key("x"))
    assert store.finish(claim) is Settled.REFUSED
    store.pass_ms(LEASE + 1)
    store.recover()
    assert_dead(store, "x", "no_hash", "no_hash: ")


def test_a_key_overwritten_during_the_run_is_told(store: Store) -> None:
    """A run whose key is no hash any more is refused, lost, and dead at the end of its lease."""
    store.add("x")
    claim = store.take("x")
    store.redis.set(store.task_key("x"), "foreign")
    assert [code.name for code in store.renew(claim)] == ["LOST"]
    assert store.finish(claim) is Settled.REFUSED
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert_dead(store, "x", "wrong_type", "wrong_type: ")
    assert store.cancel("x").state == "broken"
    assert store.requeue("x").state == "broken"


def test_a_removed_hash_of_a_plain_add_is_waited_for(store: Store) -> None:
    """A run whose hash was removed for a new one hands over to that, however late it comes."""
    store.add("x")
    store.take("x")
    store.redis.delete(store.task_key("x"))
    store.plain("x", NOW + 90_000, payload=None)
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert (store.indexes("x"), store.read("x").key_type) == (["due"], "none")
    store.plain("x", NOW + 90_000, b'{"n":2}')
    store.pass_ms(90_000)
    assert store.take("x").payload == b'{"n":2}'


def test_a_repeated_claim_survives_changed_fields(store: Store) -> None:
    """What somebody wrote into a running task's hash stops no repeat of its claim."""
    store.add("x")
    store.claim(sequence=5)
    for field in ("due", "started", "failed", "releases", "interruptions"):
        store.redis.hset(store.task_key("x"), field, "x")
    (claim,) = store.claim(sequence=5).claims
    assert (claim.due_ms, claim.start_ms, claim.failed) == (NOW, NOW, 0)


def test_broken_counters_of_a_type_stop_nothing(store: Store) -> None:
    """A counter that somebody overwrote, or a fence and lease that are none, fail no call."""
    for field in ("n:added", "n:claimed", "fence", "lease"):
        store.redis.hset(store.type.meta, field, "x")
    store.add("x")
    assert store.take("x").fence == NOW * 1000
    assert store.recover() == 0


COUNTERS = ["failed", "releases", "interruptions"]
RUN_FIELDS = ["due", "fence", "owner", "early", "started", "seen", "settled", "cancel"]
OTHER_FIELDS = ["outcome", "next", "next_payload", "next_token", "token", "error"]
FIELDS = [*COUNTERS, *RUN_FIELDS, *OTHER_FIELDS]
VALUES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"", b"x", b"-1", b"1.5", b"nan", b"inf", b"-inf", b"1e400", b"9" * 30]),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
@example(dict.fromkeys(FIELDS, b"x"))
@example(dict.fromkeys(FIELDS, b"nan"))
@example(dict.fromkeys([*COUNTERS, "due"], b"x"))
@example({"next": b"x"})
def test_no_field_of_a_hash_can_stop_a_type(fast_store: Store, fields: dict[str, bytes]) -> None:
    """Whatever a program writes into its hash, every call goes on and the good task runs."""
    store = fast_store
    store.now = NOW
    store.twice.add("x")
    for name, value in fields.items():
        store.redis.hset(store.task_key("x"), name, value)
    store.plain("x", NOW)
    store.add("good", on_conflict="replace")
    claims = {claim.id: claim for claim in store.claim().claims}
    assert set(claims) == {"x", "good"}
    store.start(*claims.values())
    store.renew(*claims.values())
    for kind in ("retry", "release", "snooze"):
        store.finish(claims["x"], kind)
        store.pass_ms(1)
        claims |= {claim.id: claim for claim in store.claim().claims}
    store.pass_ms(LEASE * 2)
    store.recover()
    store.add("x", on_conflict="replace")
    store.cancel("x")
    store.requeue("x")
    store.wipe()
