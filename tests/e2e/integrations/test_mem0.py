"""mem0's vector store: memories written, searched, changed, listed, forgotten."""

import uuid

import pytest
from mem0.vector_stores.qdrant import Qdrant

from integrations.conftest import DIM, TEXTS, cosine, dense, nearest

QUERY = "cold water in the winter sea"
IDS = [str(uuid.UUID(int=n + 1)) for n in range(len(TEXTS))]


@pytest.fixture
def store(client, name):
    store = Qdrant(collection_name=name, embedding_model_dims=DIM, client=client)
    payloads = [
        {"data": text, "user_id": "ann" if n < 4 else "bob", "n": n, "created_at": f"2026-01-0{n + 1}T00:00:00+00:00"}
        for n, text in enumerate(TEXTS)
    ]
    store.insert([dense(text) for text in TEXTS], payloads, IDS)
    return store


def data_of(hits):
    return [hit.payload["data"] for hit in hits]


def test_searched(store):
    found = store.search(QUERY, dense(QUERY), top_k=3)
    assert data_of(found) == nearest(QUERY)[:3]
    assert found[0].score == pytest.approx(cosine(QUERY, nearest(QUERY)[0]), abs=1e-5)
    found = store.search(QUERY, dense(QUERY), top_k=8, filters={"user_id": "bob"})
    assert data_of(found) == nearest(QUERY, TEXTS[4:])
    found = store.search(QUERY, dense(QUERY), top_k=8, filters={"n": {"gte": 2, "lt": 4}})
    assert set(data_of(found)) == set(TEXTS[2:4])
    batches = store.search_batch([QUERY, TEXTS[0]], [dense(QUERY), dense(TEXTS[0])], top_k=1)
    assert [data_of(batch) for batch in batches] == [[nearest(QUERY)[0]], [TEXTS[0]]]


def test_changed_listed_forgotten(store, client, name):
    assert name in [c.name for c in store.list_cols().collections]
    assert store.col_info().config.params.vectors is not None
    store.update(IDS[0], vector=dense(TEXTS[7]), payload={"data": "changed", "user_id": "ann"})
    assert store.get(IDS[0]).payload["data"] == "changed"
    store.update(IDS[1], payload={"data": "payload only", "user_id": "ann"})
    assert store.get(IDS[1]).payload["data"] == "payload only"
    listed, _ = store.list(filters={"user_id": "ann"}, top_k=10)
    assert len(listed) == 4
    store.delete(IDS[2])
    assert store.get(IDS[2]) is None
    store.reset()
    assert client.count(name).count == 0
