"""langgraph-store-qdrant: memories put, read, searched by meaning and by filter, listed by namespace, forgotten, expired."""

from datetime import datetime, timedelta, timezone

import pytest
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.qdrant import QdrantStore

from integrations.conftest import DIM, TEXTS, dense, nearest

QUERY = "cold water in the winter sea"


@pytest.fixture
def store(client, name):
    index = {"dims": DIM, "embed": lambda texts: [dense(text) for text in texts], "fields": ["text"]}
    store = QdrantStore(client, collection_name=name, index=index, ttl={"default_ttl": None, "omit_expired": True})
    store.setup()
    for n, text in enumerate(TEXTS):
        store.put(("memories", "ann" if n < 4 else "bob"), f"m{n}", {"text": text, "n": n, "tags": ["a", f"t{n}"], "deep": {"even": n % 2 == 0}})
    return store


def keys(items):
    return {item.key for item in items}


def test_read_and_searched(store):
    assert store.get(("memories", "ann"), "m1").value["text"] == TEXTS[1]
    assert store.get(("memories", "bob"), "m1") is None
    hits = store.search(("memories",), query=QUERY, limit=3)
    assert [hit.value["text"] for hit in hits] == nearest(QUERY)[:3]
    assert [hit.value["text"] for hit in store.search(("memories", "ann"), query=QUERY, limit=2)] == nearest(QUERY, TEXTS[:4])[:2]
    assert keys(store.search(("memories",), filter={"n": {"$gte": 3, "$lt": 6}}, limit=20)) == {"m3", "m4", "m5"}
    assert keys(store.search(("memories", "bob"), filter={"deep": {"even": True}}, limit=20)) == {"m4", "m6"}
    assert keys(store.search(("memories",), filter={"n": {"$ne": 0}}, limit=20)) == {f"m{n}" for n in range(1, 8)}
    assert store.list_namespaces(prefix=("memories",)) == [("memories", "ann"), ("memories", "bob")]


def test_in_batches_and_forgotten(store):
    store.batch([PutOp(("memories", "eve"), "new", {"text": "the sea"}), PutOp(("memories", "ann"), "m0", None)])
    [found] = store.batch([SearchOp(("memories",), query="the sea", limit=1)])
    assert keys(found) == {"new"}
    assert store.get(("memories", "ann"), "m0") is None
    store.delete(("memories", "eve"), "new")
    assert keys(store.search(("memories",), limit=20)) == {f"m{n}" for n in range(1, 8)}


def test_what_is_over_is_gone(store, client, name):
    store.put(("memories", "ann"), "short", {"text": "soon over"}, ttl=60)
    assert store.get(("memories", "ann"), "short") is not None
    # An hour passes.
    past = (datetime.now(timezone.utc) - timedelta(minutes=1)).isoformat()
    points, _ = client.scroll(name, limit=100, with_payload=True)
    [point] = [point for point in points if point.payload.get("key") == "short"]
    client.set_payload(name, {"expires_at": past}, points=[point.id])
    assert store.get(("memories", "ann"), "short") is None
    assert store.sweep_ttl() == 1
