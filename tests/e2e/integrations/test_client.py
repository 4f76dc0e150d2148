"""qdrant-client itself, by every transport, sync and async: the calls that a first program makes."""

import asyncio

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from conftest import SELF

DIM = 16


def rows(count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def exact(vectors, query, k):
    scores = (vectors @ query) / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
    return np.argsort(-scores)[:k].tolist()


def params():
    return models.VectorParams(size=DIM, distance=models.Distance.COSINE)


def test_uploaded_and_searched(client, name):
    """As vector-db-benchmark does it: upload in batches, wait for green, search one by one and in batches."""
    vectors = rows(3000)
    client.create_collection(
        name, vectors_config=params(), optimizers_config=models.OptimizersConfigDiff(indexing_threshold=20)
    )
    client.upload_collection(
        name, vectors, payload=[{"n": n % 7} for n in range(3000)], ids=range(3000), batch_size=256, parallel=1, wait=True
    )
    client.upload_points(
        name, [models.PointStruct(id=n, vector=v.tolist(), payload={"n": -1}) for n, v in enumerate(rows(200, 2), 3000)]
    )
    assert client.count(name).count == 3200
    if not SELF:
        for _ in range(600):
            if client.get_collection(name).status == models.CollectionStatus.GREEN:
                break
        assert client.get_collection(name).indexed_vectors_count >= 0
    everything, queries, found = np.vstack([vectors, rows(200, 2)]), rows(50, 3), 0
    for query in queries:
        hits = client.query_points(
            name, query.tolist(), limit=10, search_params=models.SearchParams(hnsw_ef=128)
        ).points
        found += len({hit.id for hit in hits} & set(exact(everything, query, 10)))
    assert found >= 0.9 * 10 * len(queries)
    batch = client.query_batch_points(
        name,
        [models.QueryRequest(query=q.tolist(), limit=5, params=models.SearchParams(exact=True)) for q in queries],
    )
    for query, answer in zip(queries, batch):
        assert [hit.id for hit in answer.points] == exact(everything, query, 5)
    condition = models.FieldCondition(key="n", match=models.MatchValue(value=3))
    hits = client.query_points(name, queries[0].tolist(), query_filter=models.Filter(must=[condition]), limit=5)
    assert all(hit.id % 7 == 3 and hit.id < 3000 for hit in hits.points)


def test_points_changed_and_scrolled(client, name):
    client.create_collection(name, vectors_config=params())
    client.upsert(name, models.Batch(ids=[1, 2, 3], vectors=rows(3).tolist(), payloads=[{"a": n} for n in range(3)]))
    client.set_payload(name, {"b": True}, points=[1])
    client.overwrite_payload(name, {"c": 1.5}, points=[2])
    client.delete_payload(name, ["a"], points=[3])
    records, end = client.scroll(name, with_vectors=True)
    assert end is None
    assert [r.payload for r in records] == [{"a": 0, "b": True}, {"c": 1.5}, {}]
    client.delete(name, [2])
    assert [r.id for r in client.retrieve(name, [1, 2, 3])] == [1, 3]


@pytest.mark.skipif(SELF, reason="in memory two clients share nothing")
def test_async(connect, client, name):
    vectors = rows(300)

    async def run():
        remote = AsyncQdrantClient(**connect)
        await remote.create_collection(name, vectors_config=params())
        await asyncio.gather(
            *[
                remote.upsert(
                    name,
                    [models.PointStruct(id=n, vector=vectors[n].tolist()) for n in range(begin, begin + 50)],
                    wait=True,
                )
                for begin in range(0, 300, 50)
            ]
        )
        answers = await asyncio.gather(
            *[remote.query_points(name, v.tolist(), limit=1, with_vectors=True) for v in vectors[:40]]
        )
        assert [answer.points[0].id for answer in answers] == list(range(40))
        assert (await remote.count(name)).count == 300
        await remote.close()

    asyncio.run(run())
