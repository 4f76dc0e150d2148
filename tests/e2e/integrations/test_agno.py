"""agno's vector store: documents written, searched, filtered, told apart by user, changed, deleted; sync and async."""

import asyncio
import hashlib
from dataclasses import dataclass

import pytest
from agno.knowledge.document import Document
from agno.knowledge.embedder.base import Embedder
from agno.vectordb.qdrant import Qdrant

from conftest import SELF
from integrations.conftest import DIM, TEXTS, dense, nearest

QUERY = "cold water in the winter sea"


@dataclass
class Words(Embedder):
    dimensions: int = DIM

    def get_embedding(self, text):
        return dense(text)

    def get_embedding_and_usage(self, text):
        return dense(text), None

    async def async_get_embedding(self, text):
        return dense(text)

    async def async_get_embedding_and_usage(self, text):
        return dense(text), None


def documents(texts=TEXTS):
    return [Document(content=text, name=f"document {n}", meta_data={"n": n, "even": n % 2 == 0}, content_id=f"content-{n % 2}") for n, text in enumerate(texts)]


def hash_of(text):
    return hashlib.md5(text.encode()).hexdigest()


@pytest.fixture
def store(connect, name):
    store = Qdrant(collection=name, embedder=Words(), **connect)
    store.create()
    for document in documents():
        store.insert(hash_of(document.content), [document])
    return store


def contents(found):
    return [document.content for document in found]


def test_searched(store):
    assert store.exists() and store.get_count() == len(TEXTS)
    assert contents(store.search(QUERY, limit=3)) == nearest(QUERY)[:3]
    assert set(contents(store.search(QUERY, limit=9, filters={"even": True}))) == set(TEXTS[::2])
    assert store.content_hash_exists(hash_of(TEXTS[1])) and not store.content_hash_exists("another")


def test_users_see_their_own(store):
    store.insert("of ann", documents(["ann has a warm cat"]), user_id="ann")
    store.insert("of bob", documents(["bob has a cold dog"]), user_id="bob")
    seen = contents(store.search("a warm cat", limit=20, user_id="ann"))
    assert "ann has a warm cat" in seen and "bob has a cold dog" not in seen and len(seen) == len(TEXTS) + 1


def test_changed_and_deleted(store):
    store.update_metadata("content-0", {"seen": "yes"})
    assert set(contents(store.search(QUERY, limit=9, filters={"filters.seen": "yes"}))) == set(TEXTS[::2])
    store.upsert(hash_of(TEXTS[0]), documents(["the cat left"]))
    assert TEXTS[0] not in contents(store.search(QUERY, limit=20))
    assert store.delete_by_content_id("content-1")
    assert store.get_count() == 4
    assert store.delete_by_name("document 2") and store.delete_by_metadata({"n": 4})
    assert store.get_count() == 2
    store.drop()
    assert not store.exists()


@pytest.mark.skipif(SELF, reason="in memory two clients share nothing")
def test_async(connect, client, name):
    async def run():
        store = Qdrant(collection=name, embedder=Words(), **connect)
        await store.async_create()
        for document in documents():
            await store.async_insert(hash_of(document.content), [document])
        assert contents(await store.async_search(QUERY, limit=2)) == nearest(QUERY)[:2]
        await store.async_drop()
        assert not await store.async_exists()

    asyncio.run(run())
