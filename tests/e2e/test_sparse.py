"""Sparse vectors, their IDF, and texts by BM25, against the client's local mode."""

import random

import pytest
from qdrant_client import models

from compare import close

DIMS = 60


def vector(rng, most=12):
    dims = rng.sample(range(DIMS), rng.randint(0, most))
    return models.SparseVector(indices=dims, values=[round(rng.uniform(-1, 3), 3) for _ in dims])


def fill(pair, rng, modifier, count=300):
    pair.create(
        {"d": models.VectorParams(size=2, distance=models.Distance.DOT)},
        sparse_vectors_config={"s": models.SparseVectorParams(modifier=modifier)},
    )
    points = [
        models.PointStruct(
            id=i,
            vector={"s": vector(rng)} if rng.random() < 0.9 else {"d": [1.0, float(i)]},
            payload={"g": i % 4},
        )
        for i in range(count)
    ]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))


def same(ours, theirs):
    """Equal scores in order; equal ids where no score comes twice."""
    assert len(ours) == len(theirs)
    scores = [p.score for p in theirs]
    for a, b in zip(ours, theirs):
        assert close(a.score, b.score), (a, b)
        if sum(close(b.score, s) for s in scores) == 1:
            assert a.id == b.id


@pytest.mark.parametrize("modifier", [None, models.Modifier.IDF])
def test_queries(pair, modifier):
    rng = random.Random(5)
    fill(pair, rng, modifier)
    few = models.Filter(must=[models.FieldCondition(key="g", match=models.MatchValue(value=1))])
    for round in range(40):
        query = vector(rng)
        for more in ({}, {"query_filter": few}, {"offset": 3}, {"score_threshold": 0.8}):
            both = pair.both(
                lambda c: c.query_points(pair.name, query=query, using="s", limit=7, **more).points
            )
            same(*both)
    pair.both(lambda c: c.delete(pair.name, points_selector=few, wait=True))
    for round in range(20):
        query = vector(rng)
        same(*pair.both(lambda c: c.query_points(pair.name, query=query, using="s", limit=5).points))


def test_what_is_stored_comes_back(pair):
    rng = random.Random(6)
    fill(pair, rng, None, 50)
    ours, theirs = pair.both(lambda c: c.scroll(pair.name, limit=50, with_vectors=True)[0])
    for a, b in zip(ours, theirs):
        if "s" in b.vector:
            expected = sorted(zip(b.vector["s"].indices, b.vector["s"].values))
            got = sorted(zip(a.vector["s"].indices, a.vector["s"].values))
            assert [d for d, _ in got] == [d for d, _ in expected]
            assert all(close(x, y) for (_, x), (_, y) in zip(got, expected))
    pair.both(lambda c: c.delete_vectors(pair.name, ["s"], [1, 2, 3], wait=True))
    pair.both(
        lambda c: c.update_vectors(
            pair.name,
            [models.PointVectors(id=4, vector={"s": models.SparseVector(indices=[7], values=[9.0])})],
            wait=True,
        )
    )
    query = models.SparseVector(indices=[7], values=[1.0])
    same(*pair.both(lambda c: c.query_points(pair.name, query=query, using="s", limit=9).points))


def test_recommend_and_by_id(pair):
    rng = random.Random(7)
    fill(pair, rng, None)
    having = [i for i in range(60) if "s" in pair.oracle.retrieve(pair.name, [i], with_vectors=True)[0].vector]
    for round in range(10):
        a, b = rng.sample(having, 2)
        same(*pair.both(lambda c: c.query_points(pair.name, query=a, using="s", limit=5).points))
        for strategy in models.RecommendStrategy:
            query = models.RecommendQuery(
                recommend=models.RecommendInput(positive=[a], negative=[b], strategy=strategy)
            )
            same(*pair.both(lambda c: c.query_points(pair.name, query=query, using="s", limit=5).points))


def test_bad_sparse_vectors(pair, http):
    rng = random.Random(8)
    fill(pair, rng, None, 5)
    for vector, code in [
        ({"indices": [1, 1], "values": [1, 2]}, 422),
        ({"indices": [1], "values": [1, 2]}, 422),
        ({"indices": [-1], "values": [1]}, 400),
        ({"indices": [1], "values": ["a"]}, 400),
        ([1.0, 2.0], 400),
    ]:
        body = {"points": [{"id": 1, "vector": {"s": vector}}]}
        assert http.put(f"/collections/{pair.name}/points?wait=true", body).status == code, vector


TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "Dogs and foxes are animals; dogs bark",
    "Vector databases search vectors quickly",
    "A lazy afternoon with a good book",
]


def test_texts_by_bm25(remote, request):
    name = "bm25-" + request.node.name
    remote.create_collection(
        name, vectors_config={}, sparse_vectors_config={"t": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    )
    try:
        document = lambda text: models.Document(text=text, model="qdrant/bm25")  # noqa: E731
        points = [models.PointStruct(id=i, vector={"t": document(t)}) for i, t in enumerate(TEXTS)]
        remote.upsert(name, points, wait=True)
        hits = remote.query_points(name, query=document("dog"), using="t").points
        assert [hit.id for hit in hits] == [1, 0]
        stored = remote.retrieve(name, [0], with_vectors=True)[0].vector["t"]
        assert len(stored.indices) == 6 and len(set(stored.values)) == 1
        assert not remote.query_points(name, query=document("the of and"), using="t").points
        plain = models.Document(text="dogs", model="qdrant/bm25", options={"stemmer": {"type": "none"}, "stopwords": {}})
        assert not remote.query_points(name, query=plain, using="t").points
        with pytest.raises(Exception, match="InferenceService"):
            remote.query_points(name, query=models.Document(text="dog", model="other/model"), using="t")
    finally:
        remote.delete_collection(name)
