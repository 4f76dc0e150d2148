"""agent-framework-qdrant (Microsoft Agent Framework): records of a model written, read, searched with its portable filters, deleted."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import pytest
from agent_framework import Filter, VectorStoreField, vectorstoremodel
from agent_framework_qdrant import QdrantStore
from qdrant_client import AsyncQdrantClient

from conftest import SELF
from integrations.conftest import DIM, TEXTS, cosine, dense, nearest

QUERY = "cold water in the winter sea"

pytestmark = pytest.mark.skipif(SELF, reason="its filters need a server")


@vectorstoremodel
@dataclass
class Text:
    id: Annotated[int, VectorStoreField("key")]
    text: Annotated[str, VectorStoreField("data", is_indexed=True)]
    n: Annotated[int, VectorStoreField("data", is_indexed=True)]
    kind: Annotated[str, VectorStoreField("data", is_indexed=True)]
    embedding: Annotated[list[float] | None, VectorStoreField("vector", dimensions=DIM)] = None


def test_records(connect, client, name):
    async def found(collection, **more):
        hits = await collection.search(vector=dense(QUERY), **more)
        return [(hit["record"].text, hit["score"]) async for hit in hits]

    async def run():
        async with QdrantStore(async_client=AsyncQdrantClient(**connect), managed_client=True) as store:
            collection = store.get_collection(Text, collection_name=name)
            await collection.ensure_collection_exists()
            records = [Text(n, text, n, "even" if n % 2 == 0 else "odd", dense(text)) for n, text in enumerate(TEXTS)]
            await collection.upsert(records, generate_vectors=False)
            assert name in await store.list_collection_names()
            hits = await found(collection, top=3)
            assert [text for text, _ in hits] == nearest(QUERY)[:3]
            assert hits[0][1] == pytest.approx(cosine(QUERY, hits[0][0]), abs=1e-5)
            odd = await found(collection, filter=Filter("kind", "eq", "odd"), top=9)
            assert [text for text, _ in odd] == nearest(QUERY, TEXTS[1::2])
            some = await found(collection, filter=Filter("n", "gte", 6), top=9)
            assert {text for text, _ in some} == set(TEXTS[6:])
            kept = await collection.get([1, 2, 99], include_vectors=True)
            assert {one.id for one in kept} == {1, 2}
            assert kept[0].embedding == pytest.approx(dense(kept[0].text), abs=1e-5)
            await collection.delete([1])
            assert {one.id for one in await collection.get([1, 2])} == {2}
            await collection.ensure_collection_deleted()
            assert not await store.collection_exists(name)

    asyncio.run(run())
