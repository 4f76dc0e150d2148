"""Nearest points by every distance, element type and selector, against the local mode."""

import pytest
from qdrant_client import models

import data
from compare import same_batches, same_hits

DISTANCES = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN]


def fill(pair, rng, dim, count=300, bytes_only=False):
    vector = (lambda: [float(rng.randint(0, 255)) for _ in range(dim)]) if bytes_only else (lambda: rng.vector(dim))
    points = [
        models.PointStruct(id=data.point_id(rng, n), vector=vector(), payload={"n": n, "even": n % 2 == 0, "tag": rng.choice(data.TAGS)})
        for n in range(count)
    ]
    for start in range(0, count, 100):
        pair.both(lambda c: c.upsert(pair.name, points[start : start + 100], wait=True))
    return [p.id for p in points], vector


def query(pair, name, kind="searches", **arguments):
    return pair.agree(kind, lambda c: c.query_points(name, **arguments), same_hits, str(arguments))


@pytest.mark.parametrize("dim", [1, 3, 8, 100, 257])
@pytest.mark.parametrize("distance", DISTANCES)
def test_distances_and_dimensions(pair, distance, dim):
    rng = data.Random(dim)
    pair.create(models.VectorParams(size=dim, distance=distance))
    ids, vector = fill(pair, rng, dim, count=200)
    for _ in range(12):
        query(pair, pair.name, query=vector(), limit=rng.choice([1, 5, 10, 50]), offset=rng.choice([0, 0, 3, 40]))
    for point in rng.sample(ids, 4):
        query(pair, pair.name, query=point, limit=10, with_vectors=True)
    query(pair, pair.name, query=vector(), limit=1000)
    query(pair, pair.name, query=vector(), limit=10, offset=195)
    query(pair, pair.name, query=vector(), limit=10, offset=500)


@pytest.mark.parametrize("distance", DISTANCES)
def test_score_threshold(pair, distance):
    rng = data.Random(5)
    pair.create(models.VectorParams(size=6, distance=distance))
    _, vector = fill(pair, rng, 6)
    for _ in range(10):
        target = vector()
        hits = pair.oracle.query_points(pair.name, target, limit=60).points
        # Between two scores that stand apart, so that rounding decides nothing.
        gaps = [(a.score + b.score) / 2 for a, b in zip(hits, hits[1:]) if abs(a.score - b.score) > 1e-3]
        for threshold in rng.sample(gaps, min(4, len(gaps))):
            query(pair, pair.name, query=target, limit=30, score_threshold=threshold)


@pytest.mark.parametrize("distance", [models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN])
@pytest.mark.parametrize("datatype", [models.Datatype.FLOAT32, models.Datatype.UINT8, models.Datatype.FLOAT16])
def test_element_types(pair, datatype, distance):
    """Whole numbers up to 255 are exact in all three."""
    rng = data.Random(7)
    pair.create(models.VectorParams(size=32, distance=distance, datatype=datatype))
    _, vector = fill(pair, rng, 32, bytes_only=True)
    for _ in range(10):
        query(pair, pair.name, query=vector(), limit=20, with_vectors=True)


def test_filtered(pair):
    rng = data.Random(8)
    pair.create(models.VectorParams(size=10, distance=models.Distance.COSINE))
    _, vector = fill(pair, rng, 10)
    for _ in range(40):
        low = rng.randint(0, 290)
        must = [models.FieldCondition(key="n", range=models.Range(gte=low, lt=low + rng.choice([2, 20, 200])))]
        if rng.maybe(0.5):
            must.append(models.FieldCondition(key="even", match=models.MatchValue(value=True)))
        query(pair, pair.name, query=vector(), query_filter=models.Filter(must=must), limit=10, offset=rng.choice([0, 2]))


def test_selectors_and_params(pair):
    rng = data.Random(9)
    pair.create(models.VectorParams(size=4, distance=models.Distance.EUCLID))
    _, vector = fill(pair, rng, 4)
    include, exclude = models.PayloadSelectorInclude(include=["n"]), models.PayloadSelectorExclude(exclude=["n", "even"])
    for with_payload in [True, False, ["n", "tag"], ["missing"], include, exclude]:
        for with_vectors in [True, False]:
            query(pair, pair.name, query=vector(), limit=5, with_payload=with_payload, with_vectors=with_vectors)
    quantization = models.QuantizationSearchParams(ignore=False, rescore=True, oversampling=2.0)
    for params in [
        models.SearchParams(exact=True),
        models.SearchParams(hnsw_ef=256),
        models.SearchParams(exact=True, quantization=quantization),
        models.SearchParams(exact=True, indexed_only=False),
    ]:
        query(pair, pair.name, query=vector(), limit=5, search_params=params)


def test_named_vectors(pair):
    rng = data.Random(10)
    config = {
        "text": models.VectorParams(size=5, distance=models.Distance.COSINE),
        "image": models.VectorParams(size=3, distance=models.Distance.EUCLID),
        "größe": models.VectorParams(size=2, distance=models.Distance.DOT),
    }
    pair.create(config)
    points = []
    for n in range(150):
        vectors = {name: rng.vector(params.size) for name, params in config.items() if rng.maybe(0.7)}
        points.append(models.PointStruct(id=n, vector=vectors, payload={"n": n}))
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    pair.same_state()
    for name, params in config.items():
        has = models.Filter(must=[models.HasVectorCondition(has_vector=name)])
        pair.agree("counts", lambda c: c.count(pair.name, has).count)
        for _ in range(5):
            query(pair, pair.name, query=rng.vector(params.size), using=name, limit=20, with_vectors=[name])
            query(pair, pair.name, query=rng.vector(params.size), using=name, limit=200, with_vectors=True)
    query(pair, pair.name, kind="refusals", query=rng.vector(5), using="nothing")
    query(pair, pair.name, kind="refusals", query=rng.vector(4), using="text")


def test_batches(pair):
    rng = data.Random(11)
    pair.create(models.VectorParams(size=6, distance=models.Distance.COSINE))
    _, vector = fill(pair, rng, 6)
    requests = [
        models.QueryRequest(query=vector(), limit=rng.randint(1, 20), with_payload=rng.maybe(0.5), with_vector=rng.maybe(0.5))
        for _ in range(20)
    ]
    pair.agree("batches", lambda c: c.query_batch_points(pair.name, requests), same_batches)


def test_search_sees_changes(pair):
    """Writes with wait=True are in the very next search."""
    rng = data.Random(12)
    pair.create(models.VectorParams(size=4, distance=models.Distance.DOT))
    ids, vector = fill(pair, rng, 4, count=60)
    for _ in range(30):
        kind = rng.random()
        if kind < 0.5:
            point = models.PointStruct(id=rng.choice(ids), vector=vector(), payload={"n": rng.randint(0, 9)})
            pair.both(lambda c: c.upsert(pair.name, [point], wait=True))
        elif kind < 0.8:
            point = rng.choice(ids)
            pair.both(lambda c: c.delete(pair.name, [point], wait=True))
        query(pair, pair.name, query=vector(), limit=15)


def test_searching_nothing(pair):
    pair.create(models.VectorParams(size=4, distance=models.Distance.DOT))
    query(pair, pair.name, query=[1.0, 0.0, 0.0, 0.0], limit=5)
    pair.agree("counts", lambda c: c.count(pair.name).count)
