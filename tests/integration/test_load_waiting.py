"""Tasks that wait for their key, at the scripts: whatever becomes of some, the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.test_load_limits import add_many, limit, names
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from tests.support.store import Store


def test_room_that_grew_is_given_without_a_loss(store: Store) -> None:
    """Those that come back stand before what the claim has read: none is lost or runs twice."""
    limit(store, max_running_per_key=1)
    add_many(store, 4, "a", "key=a")
    assert names(store.claim().claims) == ["a00000"]
    limit(store, max_running_per_key=3)
    store.pass_ms(10)
    store.add("new", store.time, load="key=a")
    assert names(store.claim(1).claims) == ["new"]
    assert names(store.claim(9).claims) == ["a00001"]
    assert store.indexes("new") == ["leased"]
    assert [store.indexes(f"a0000{i}") for i in (1, 2, 3)] == [["leased"], ["due"], ["due"]]
