"""Multivectors: max-sim by every metric, with filters, pages, thresholds, updates, against the local mode."""

import json

import pytest
from qdrant_client import models

import compare
import data

DIM = 6
MAX_SIM = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
METRICS = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN]


def params(distance, **more):
    return models.VectorParams(size=DIM, distance=distance, multivector_config=MAX_SIM, **more)


def several(rng, most=7):
    return [rng.vector(DIM) for _ in range(rng.randint(1, most))]


def point(rng, number, name=None):
    vector = several(rng) if name is None else {name: several(rng)}
    return models.PointStruct(id=data.point_id(rng, number), vector=vector, payload=data.payload(rng))


def one_filter(rng):
    return rng.choice(
        [
            None,
            models.Filter(must=[models.FieldCondition(key="city", match=models.MatchAny(any=["Berlin", "Paris", ""]))]),
            models.Filter(must_not=[models.FieldCondition(key="n", range=models.Range(gte=0))]),
            models.Filter(must=[models.HasIdCondition(has_id=[data.point_id(rng, n) for n in rng.sample(range(80), 25)])]),
        ]
    )


def searches(pair, rng, count=40, using=None):
    for _ in range(count):
        query = rng.choice([several(rng, 5), several(rng, 1)])
        filter_, limit, offset = one_filter(rng), rng.randint(1, 30), rng.choice([0, 0, 3])
        threshold = rng.choice([None, None, round(rng.uniform(-2, 6), 2)])
        pair.agree(
            "max-sim searches",
            lambda c: c.query_points(
                pair.name, query=query, using=using, query_filter=filter_, limit=limit, offset=offset,
                score_threshold=threshold, with_vectors=True,
            ),
            compare.same_hits,
            context=f"{filter_} {limit} {offset} {threshold}",
        )


@pytest.mark.parametrize("distance", METRICS)
def test_max_sim(pair, distance):
    rng = data.Random(f"max-sim {distance}")
    pair.create(params(distance))
    pair.both(lambda c: c.upsert(pair.name, [point(data.Random(f"{distance}{n}"), n) for n in range(80)]))
    searches(pair, rng)
    pair.same_state()
    # By the id of a point: it is left out itself.
    for n in range(20):
        wanted = data.point_id(rng, n)
        pair.agree(
            "max-sim searches",
            lambda c: c.query_points(pair.name, query=wanted, limit=12, query_filter=one_filter(data.Random(n))),
            compare.same_hits,
        )


@pytest.mark.parametrize("distance", METRICS)
def test_points_come_change_and_go(pair, distance):
    rng = data.Random(f"changes {distance}")
    pair.create({"late": params(distance), "dense": models.VectorParams(size=4, distance=distance)})
    for turn in range(6):
        numbers = [rng.randint(0, 60) for _ in range(20)]
        points = [point(data.Random(f"{turn} {n}"), n, "late") for n in dict.fromkeys(numbers)]
        for p in points[::3]:
            p.vector["dense"] = rng.vector(4)
        pair.both(lambda c: c.upsert(pair.name, points))
        known = [r.id for r in pair.oracle.scroll(pair.name, limit=1000)[0]]
        some = rng.sample(known, 5)
        changed = [models.PointVectors(id=i, vector={"late": several(rng)}) for i in some]
        pair.both(lambda c: c.update_vectors(pair.name, changed))
        gone, without = rng.sample(known, 2), rng.sample(known, 3)
        pair.both(lambda c: c.delete_vectors(pair.name, ["late"], without))
        pair.both(lambda c: c.delete(pair.name, gone))
        pair.same_state()
        searches(pair, rng, 8, using="late")
        has = models.Filter(must=[models.HasVectorCondition(has_vector="late")])
        pair.agree("counts", lambda c: c.count(pair.name, count_filter=has).count)


def test_a_dense_query_is_a_part(pair):
    """The server takes one part without its own brackets, the client's local mode doesn't."""
    rng = data.Random("one part")
    pair.create(params(models.Distance.DOT))
    points = [point(rng, n) for n in range(30)]
    pair.both(lambda c: c.upsert(pair.name, points))
    query = rng.vector(DIM)
    flat = pair.remote.query_points(pair.name, query=query, limit=10)
    nested = pair.remote.query_points(pair.name, query=[query], limit=10)
    assert [(p.id, p.score) for p in flat.points] == [(p.id, p.score) for p in nested.points]


@pytest.mark.parametrize(
    "vector",
    [[], [[]], [[1.0] * DIM, [1.0] * (DIM - 1)], [[1.0] * (DIM + 1)], [[1.0] * DIM, []], {"": [[1.0] * DIM, [float("nan")] * DIM]}],
    ids=["empty", "empty part", "ragged", "wrong size", "one empty", "nan"],
)
def test_what_is_no_multivector_is_refused(http, pair, vector):
    pair.create(params(models.Distance.DOT))
    body = json.dumps({"points": [{"id": 1, "vector": vector}]}).replace("NaN", "1e999")
    status, _, _ = http.raw("PUT", f"/collections/{pair.name}/points?wait=true", body.encode())
    assert 400 <= status < 500, status
    assert pair.remote.count(pair.name).count == 0


def test_a_sparse_or_dense_field_takes_no_multivector(pair):
    pair.create({"d": models.VectorParams(size=2, distance=models.Distance.DOT), "m": models.VectorParams(size=2, distance=models.Distance.DOT, multivector_config=MAX_SIM)})
    pair.agree("refusals", lambda c: c.upsert(pair.name, [models.PointStruct(id=1, vector={"d": [[1.0, 2.0]]})]))
    pair.agree("refusals", lambda c: c.upsert(pair.name, [models.PointStruct(id=1, vector={"m": models.SparseVector(indices=[1], values=[1.0])})]))
    pair.agree("refusals", lambda c: c.upsert(pair.name, [models.PointStruct(id=1, vector={"m": [[1.0, 2.0, 3.0]]})]))


def test_info_shows_the_comparator(pair):
    pair.create({"m": params(models.Distance.COSINE)})
    shown = pair.remote.get_collection(pair.name).config.params.vectors["m"]
    assert shown.multivector_config == MAX_SIM and shown.size == DIM


@pytest.mark.parametrize("datatype", ["float16", "uint8"])
def test_element_types(remote, pair, datatype):
    """Stored exactly where the numbers fit: whole ones from 0 to 255."""
    rng = data.Random(datatype)
    pair.create(params(models.Distance.DOT, datatype=datatype))
    whole = lambda: [[float(rng.randint(0, 20)) for _ in range(DIM)] for _ in range(rng.randint(1, 5))]  # noqa: E731
    points = [models.PointStruct(id=n, vector=whole()) for n in range(50)]
    pair.both(lambda c: c.upsert(pair.name, points))
    for _ in range(10):
        query = whole()
        pair.agree("max-sim searches", lambda c: c.query_points(pair.name, query=query, limit=20, with_vectors=True), compare.same_hits)


def test_after_a_restart(own_server):
    from conftest import client_of

    rng = data.Random("restart")
    client = client_of(own_server)
    client.create_collection("m", vectors_config=params(models.Distance.COSINE))
    client.upsert("m", [point(rng, n) for n in range(60)])
    query = several(rng)
    before = client.query_points("m", query=query, limit=20, with_vectors=True).points
    own_server.restart()
    after = client_of(own_server).query_points("m", query=query, limit=20, with_vectors=True).points
    assert before == after
