"""qdrant-haystack: the document store and its retrievers (dense, sparse, hybrid, by groups)."""

import uuid

import pytest
from haystack import Document
from haystack.dataclasses import SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack_integrations.components.retrievers.qdrant import (
    QdrantEmbeddingRetriever,
    QdrantHybridRetriever,
    QdrantSparseEmbeddingRetriever,
)
from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

from integrations.conftest import DIM, TEXTS, cosine, dense, nearest, sparse

QUERY = "cold water in the winter sea"


def sparse_of(text):
    indices, values = sparse(text)
    return SparseEmbedding(indices=indices, values=values)


def documents(with_sparse):
    return [
        Document(
            content=text,
            embedding=dense(text),
            sparse_embedding=sparse_of(text) if with_sparse else None,
            meta={"n": n, "kind": "even" if n % 2 == 0 else "odd", "number": n / 2, "group": n // 3},
        )
        for n, text in enumerate(TEXTS)
    ]


def make(connect, with_sparse=False, **more):
    options = {"index": f"haystack-{uuid.uuid4().hex[:10]}", "embedding_dim": DIM, "return_embedding": True}
    options |= {"similarity": "cosine", "use_sparse_embeddings": with_sparse, "wait_result_from_api": True}
    # What its constructor hasn't a name for goes to the client as it is.
    reached = {"client_kwargs": connect} if "transport" in connect else connect
    store = QdrantDocumentStore(**reached, **options, **more)
    store.write_documents(documents(with_sparse))
    return store


@pytest.fixture
def store(connect):
    store = make(connect)
    yield store
    store._client.delete_collection(store.index)


@pytest.fixture
def hybrid(connect):
    store = make(connect, with_sparse=True)
    yield store
    store._client.delete_collection(store.index)


def test_written_counted_filtered(store):
    assert store.count_documents() == len(TEXTS)
    everything = store.filter_documents()
    assert {d.content for d in everything} == set(TEXTS)
    assert everything[0].embedding == pytest.approx(dense(everything[0].content), abs=1e-5)

    def numbers(filters):
        return {d.meta["n"] for d in store.filter_documents(filters)}

    field = lambda name, operator, value: {"field": f"meta.{name}", "operator": operator, "value": value}  # noqa: E731
    assert numbers(field("kind", "==", "odd")) == {1, 3, 5, 7}
    assert numbers(field("kind", "!=", "odd")) == {0, 2, 4, 6}
    assert numbers(field("number", ">", 2.0)) == {5, 6, 7}
    assert numbers(field("n", "in", [1, 6, 99])) == {1, 6}
    assert numbers(field("n", "not in", [1, 6, 99])) == {0, 2, 3, 4, 5, 7}
    both = {"operator": "AND", "conditions": [field("kind", "==", "even"), field("n", ">=", 4)]}
    assert numbers(both) == {4, 6}
    either = {"operator": "OR", "conditions": [field("n", "==", 0), field("number", "<=", 1.0)]}
    assert numbers(either) == {0, 1, 2}
    negated = {"operator": "NOT", "conditions": [field("kind", "==", "even")]}
    assert numbers(negated) == {1, 3, 5, 7}


def test_written_again(store):
    with pytest.raises(DuplicateDocumentError):
        store.write_documents(documents(False), policy=DuplicatePolicy.FAIL)
    store.write_documents(documents(False), policy=DuplicatePolicy.SKIP)
    changed = documents(False)[0]
    changed.meta["kind"] = "changed"
    store.write_documents([changed], policy=DuplicatePolicy.OVERWRITE)
    assert store.count_documents() == len(TEXTS)
    found = store.get_documents_by_id([changed.id])
    assert [d.meta["kind"] for d in found] == ["changed"]


def test_deleted(store):
    ids = [d.id for d in documents(False)]
    store.delete_documents(ids[:3])
    assert store.count_documents() == 5
    odd = {"field": "meta.kind", "operator": "==", "value": "odd"}
    assert store.delete_by_filter(odd) == 3
    assert {d.meta["n"] for d in store.filter_documents()} == {4, 6}
    store.delete_all_documents()
    assert store.count_documents() == 0


def test_metadata(store):
    even = {"field": "meta.kind", "operator": "==", "value": "even"}
    assert store.count_documents_by_filter(even) == 4
    assert store.update_by_filter(even, {"kind": "e"}) == 4
    assert store.count_documents_by_filter({**even, "value": "e"}) == 4
    bounds = store.get_metadata_field_min_max("n")
    assert (bounds["min"], bounds["max"]) == (0, 7)
    assert store.count_unique_metadata_by_filter({}, ["group"]) == {"group": 3}


def test_dense_retriever(store):
    found = QdrantEmbeddingRetriever(store, top_k=3).run(query_embedding=dense(QUERY))["documents"]
    assert [d.content for d in found] == nearest(QUERY)[:3]
    found = QdrantEmbeddingRetriever(store, top_k=3, scale_score=False).run(query_embedding=dense(QUERY))["documents"]
    assert [d.score for d in found] == pytest.approx([cosine(QUERY, t) for t in nearest(QUERY)[:3]], abs=1e-5)
    odd = {"field": "meta.kind", "operator": "==", "value": "odd"}
    found = QdrantEmbeddingRetriever(store, filters=odd).run(query_embedding=dense(QUERY))["documents"]
    assert [d.content for d in found] == nearest(QUERY, TEXTS[1::2])


def test_groups(store):
    retriever = QdrantEmbeddingRetriever(store, top_k=2, group_by="meta.group", group_size=2)
    found = retriever.run(query_embedding=dense(QUERY))["documents"]
    groups = [d.meta["group"] for d in found]
    assert len(set(groups)) == 2 and max(groups.count(g) for g in groups) <= 2


def test_sparse_and_hybrid_retrievers(hybrid):
    asked = dict(zip(*sparse(QUERY)))
    overlap = {text: sum(asked.get(i, 0) * v for i, v in zip(*sparse(text))) for text in TEXTS}
    retriever = QdrantSparseEmbeddingRetriever(hybrid, top_k=3, scale_score=False)
    found = retriever.run(query_sparse_embedding=sparse_of(QUERY))["documents"]
    assert [d.score for d in found] == pytest.approx(sorted(overlap.values(), reverse=True)[:3])
    retriever = QdrantHybridRetriever(hybrid, top_k=4)
    found = retriever.run(query_embedding=dense(QUERY), query_sparse_embedding=sparse_of(QUERY))["documents"]
    assert len(found) == 4 and found[0].content in nearest(QUERY)[:3]
