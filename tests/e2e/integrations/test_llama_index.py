"""llama-index-vector-stores-qdrant: nodes written, queried (dense, sparse, hybrid, MMR), filtered, deleted; sync and async."""

import asyncio

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore

from conftest import SELF
from integrations.conftest import TEXTS, cosine, dense, nearest, sparse

QUERY = "cold water in the winter sea"


def words(texts):
    pairs = [sparse(text) for text in texts]
    return [indices for indices, _ in pairs], [values for _, values in pairs]


def nodes():
    made = []
    for n, text in enumerate(TEXTS):
        node = TextNode(
            id_=f"00000000-0000-4000-8000-{n:012d}",
            text=text,
            embedding=dense(text),
            metadata={"n": n, "kind": "even" if n % 2 == 0 else "odd", "tags": ["a", f"t{n}"]},
        )
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"document-{n // 2}")
        made.append(node)
    return made


@pytest.fixture
def store(client, name):
    store = QdrantVectorStore(collection_name=name, client=client)
    store.add(nodes())
    return store


@pytest.fixture
def hybrid(client, name):
    store = QdrantVectorStore(
        collection_name=name, client=client, enable_hybrid=True, sparse_doc_fn=words, sparse_query_fn=words
    )
    store.add(nodes())
    return store


def ask(**more):
    return VectorStoreQuery(query_embedding=dense(QUERY), query_str=QUERY, similarity_top_k=3, **more)


def texts_of(result):
    return [node.get_content() for node in result.nodes]


def only(key, value, operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def test_dense(store):
    result = store.query(ask())
    assert texts_of(result) == nearest(QUERY)[:3]
    assert result.similarities == pytest.approx([cosine(QUERY, text) for text in nearest(QUERY)[:3]], abs=1e-5)


@pytest.mark.parametrize(
    "operator, value, expected",
    [
        (FilterOperator.EQ, 3, {3}),
        (FilterOperator.NE, 3, {0, 1, 2, 4, 5, 6, 7}),
        (FilterOperator.GT, 5, {6, 7}),
        (FilterOperator.GTE, 5, {5, 6, 7}),
        (FilterOperator.LT, 2, {0, 1}),
        (FilterOperator.LTE, 2, {0, 1, 2}),
        (FilterOperator.IN, [1, 4], {1, 4}),
        (FilterOperator.NIN, [1, 4], {0, 2, 3, 5, 6, 7}),
    ],
)
def test_filters(store, operator, value, expected):
    query = ask(filters=only("n", value, operator))
    query.similarity_top_k = 20
    assert {node.metadata["n"] for node in store.query(query).nodes} == expected


def test_filters_joined(store):
    both = [MetadataFilter(key="kind", value="even"), MetadataFilter(key="n", value=3, operator=FilterOperator.GT)]
    found = store.get_nodes(filters=MetadataFilters(filters=both, condition=FilterCondition.AND))
    assert {node.metadata["n"] for node in found} == {4, 6}
    found = store.get_nodes(filters=MetadataFilters(filters=both, condition=FilterCondition.OR))
    assert {node.metadata["n"] for node in found} == {0, 2, 4, 5, 6, 7}


def test_documents_and_nodes_are_deleted(store, client, name):
    query = ask(doc_ids=["document-1"])
    assert {node.metadata["n"] for node in store.query(query).nodes} == {2, 3}
    store.delete("document-1")
    assert client.count(name).count == 6
    ids = [node.node_id for node in nodes()[:2]]
    assert len(store.get_nodes(ids)) == 2
    store.delete_nodes(ids)
    assert store.get_nodes(ids) == [] and client.count(name).count == 4
    store.clear()
    assert not client.collection_exists(name)


def test_maximal_marginal_relevance(store):
    result = store.query(ask(mode=VectorStoreQueryMode.MMR, mmr_threshold=0.5))
    assert len(result.nodes) == 3 and texts_of(result)[0] == nearest(QUERY)[0]


def test_sparse_and_hybrid(hybrid):
    found = hybrid.query(ask(mode=VectorStoreQueryMode.SPARSE, sparse_top_k=3))
    asked = dict(zip(*sparse(QUERY)))
    overlap = {text: sum(asked.get(i, 0) * v for i, v in zip(*sparse(text))) for text in TEXTS}
    assert found.similarities == pytest.approx(sorted(overlap.values(), reverse=True)[:3])
    found = hybrid.query(ask(mode=VectorStoreQueryMode.HYBRID, sparse_top_k=5, hybrid_top_k=4, alpha=0.5))
    assert 1 <= len(found.nodes) <= 4
    assert texts_of(found)[0] in nearest(QUERY)[:3]
    found = hybrid.query(ask(mode=VectorStoreQueryMode.HYBRID, sparse_top_k=8, filters=only("kind", "odd")))
    assert {node.metadata["kind"] for node in found.nodes} == {"odd"}


@pytest.mark.skipif(SELF, reason="in memory two clients share nothing")
def test_async(client, connect, name):
    from qdrant_client import AsyncQdrantClient

    async def run():
        store = QdrantVectorStore(collection_name=name, aclient=AsyncQdrantClient(**connect))
        await store.async_add(nodes())
        result = await store.aquery(ask())
        assert texts_of(result) == nearest(QUERY)[:3]
        await store.adelete("document-0")
        assert {n.metadata["n"] for n in await store.aget_nodes(filters=only("n", 4, FilterOperator.LT))} == {2, 3}
        await store.aclear()

    asyncio.run(run())
    assert not client.collection_exists(name)
