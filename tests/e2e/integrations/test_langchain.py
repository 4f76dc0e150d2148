"""langchain-qdrant: dense, sparse and hybrid retrieval."""

import uuid

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
from qdrant_client import models

from integrations.conftest import DIM, TEXTS, cosine, dense, nearest, sparse

QUERY = "cold water in the winter sea"


class Dense(Embeddings):
    def embed_documents(self, texts):
        return [dense(text) for text in texts]

    def embed_query(self, text):
        return dense(text)


class Sparse(SparseEmbeddings):
    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        indices, values = sparse(text)
        return SparseVector(indices=indices, values=values)


def store(client, name, mode, vector_name="", sparse_name="words", distance=models.Distance.COSINE):
    vectors = {vector_name: models.VectorParams(size=DIM, distance=distance)} if mode != RetrievalMode.SPARSE else {}
    client.create_collection(
        name,
        vectors_config=vectors[""] if "" in vectors else vectors,
        sparse_vectors_config=None if mode == RetrievalMode.DENSE else {sparse_name: models.SparseVectorParams()},
    )
    return QdrantVectorStore(
        client=client,
        collection_name=name,
        embedding=Dense(),
        sparse_embedding=Sparse(),
        retrieval_mode=mode,
        vector_name=vector_name,
        sparse_vector_name=sparse_name,
        distance=distance,
    )


def texts_of(documents):
    return [document.page_content for document in documents]


@pytest.mark.parametrize("vector_name", ["", "words-of-it"])
@pytest.mark.parametrize("batch", [1, 64])
def test_dense(client, name, vector_name, batch):
    vectors = store(client, name, RetrievalMode.DENSE, vector_name)
    ids = vectors.add_texts(TEXTS, [{"n": n, "even": n % 2 == 0} for n in range(len(TEXTS))], batch_size=batch)
    assert len(ids) == len(TEXTS)
    assert texts_of(vectors.similarity_search(QUERY, k=3)) == nearest(QUERY)[:3]
    for document, score in vectors.similarity_search_with_score(QUERY, k=len(TEXTS)):
        assert score == pytest.approx(cosine(QUERY, document.page_content), abs=1e-5)
    by_vector = vectors.similarity_search_by_vector(dense(QUERY), k=2)
    assert texts_of(by_vector) == nearest(QUERY)[:2]
    condition = models.FieldCondition(key="metadata.even", match=models.MatchValue(value=True))
    found = vectors.similarity_search(QUERY, k=10, filter=models.Filter(must=[condition]))
    assert texts_of(found) == nearest(QUERY, TEXTS[::2])
    assert texts_of(vectors.similarity_search(QUERY, k=2, offset=1)) == nearest(QUERY)[1:3]
    threshold = vectors.similarity_search(QUERY, k=10, score_threshold=0.4)
    assert texts_of(threshold) == [text for text in nearest(QUERY) if cosine(QUERY, text) >= 0.4]
    first = vectors.get_by_ids(ids[:2])
    assert {d.page_content for d in first} == set(TEXTS[:2]) and first[0].metadata["n"] in (0, 1)
    assert vectors.delete(ids[:1]) is True
    assert vectors.get_by_ids(ids[:1]) == []
    assert TEXTS[0] not in texts_of(vectors.similarity_search(QUERY, k=10))


def test_maximal_marginal_relevance(client, name):
    vectors = store(client, name, RetrievalMode.DENSE)
    vectors.add_texts([*TEXTS, *TEXTS])
    found = texts_of(vectors.max_marginal_relevance_search(QUERY, k=4, fetch_k=16, lambda_mult=0.5))
    assert len(set(found)) == 4, "the same text isn't found twice"
    assert found[0] == nearest(QUERY)[0]
    assert len(vectors.max_marginal_relevance_search_with_score_by_vector(dense(QUERY), k=3)) == 3


def test_sparse(client, name):
    vectors = store(client, name, RetrievalMode.SPARSE)
    vectors.add_documents([Document(page_content=text, metadata={"n": n}) for n, text in enumerate(TEXTS)])
    words = dict(zip(*sparse(QUERY)))

    def overlap(text):
        return sum(words.get(index, 0.0) * value for index, value in zip(*sparse(text)))

    found = vectors.similarity_search_with_score(QUERY, k=len(TEXTS))
    assert [score for _, score in found] == sorted((s for s in map(overlap, TEXTS) if s > 0), reverse=True)
    for document, score in found:
        assert score == pytest.approx(overlap(document.page_content))
    below = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(lt=3))])
    found = vectors.similarity_search(QUERY, k=10, filter=below)
    assert set(texts_of(found)) == {text for text in TEXTS[:3] if overlap(text)}


def test_hybrid(client, name):
    vectors = store(client, name, RetrievalMode.HYBRID, "meaning")
    vectors.add_texts(TEXTS, [{"n": n} for n in range(len(TEXTS))])
    found = vectors.similarity_search_with_score(QUERY, k=4)
    assert found[0][0].page_content in nearest(QUERY)[:2]
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True) and len(scores) == 4
    weighed = vectors.similarity_search(
        QUERY, k=3, hybrid_fusion=models.FusionQuery(fusion=models.Fusion.DBSF)
    )
    assert len(weighed) == 3
    condition = models.FieldCondition(key="metadata.n", match=models.MatchAny(any=[1, 2]))
    found = vectors.similarity_search(QUERY, k=5, filter=models.Filter(must=[condition]))
    assert set(texts_of(found)) == set(TEXTS[1:3])


@pytest.mark.parametrize("mode", list(RetrievalMode))
def test_from_texts_makes_the_collection(connect, client, name, mode):
    if connect.get("location") == ":memory:":
        pytest.skip("the local mode of one client isn't seen by another")
    made = QdrantVectorStore.from_texts(
        TEXTS, Dense(), sparse_embedding=Sparse(), retrieval_mode=mode, collection_name=name, **connect
    )
    assert len(made.similarity_search(QUERY, k=2)) == 2
    opened = QdrantVectorStore.from_existing_collection(
        name, Dense(), sparse_embedding=Sparse(), retrieval_mode=mode, **connect
    )
    assert texts_of(opened.similarity_search(QUERY, k=2)) == texts_of(made.similarity_search(QUERY, k=2))
    again = QdrantVectorStore.from_texts(
        TEXTS[:2],
        Dense(),
        sparse_embedding=Sparse(),
        retrieval_mode=mode,
        collection_name=name,
        force_recreate=True,
        **connect,
    )
    assert len(again.similarity_search("the cat", k=10)) <= 2
    assert client.count(name).count == 2


def test_as_a_retriever(client, name):
    vectors = store(client, name, RetrievalMode.DENSE)
    vectors.add_texts(TEXTS, ids=[str(uuid.uuid4()) for _ in TEXTS])
    plain = vectors.as_retriever(search_kwargs={"k": 2})
    assert texts_of(plain.invoke(QUERY)) == nearest(QUERY)[:2]
    threshold = vectors.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"k": 8, "score_threshold": 0.5}
    )
    assert len(threshold.invoke(QUERY)) >= 1
    mmr = vectors.as_retriever(search_type="mmr", search_kwargs={"k": 2, "fetch_k": 6})
    assert len(mmr.invoke(QUERY)) == 2
