"""Random filters over random payloads: count, scroll and search agree with the local mode, with and without payload indexes."""

import pytest
from qdrant_client import models

import conftest
import data
from compare import Pair, same_hits, same_page

POINTS, FILTERS, DIM = 300, 250, 8


def fill(pair, rng, churn):
    """Random points; `churn` writes and deletes so much beside them that flushes and merges happen."""
    pair.create(models.VectorParams(size=DIM, distance=models.Distance.DOT))
    ids = [data.point_id(rng, number) for number in range(POINTS)]
    points = [models.PointStruct(id=i, vector=rng.vector(DIM), payload=data.payload(rng)) for i in ids]
    half = POINTS // 2
    pair.both(lambda c: c.upsert(pair.name, points[:half], wait=True))
    if churn and not conftest.SELF:
        for start in range(1_000_000, 1_006_000, 500):
            filler = {"city": "filler " * 100, "n": start, "tags": ["red"] * 50}
            batch = [models.PointStruct(id=i, vector=[1.0] * DIM, payload=filler) for i in range(start, start + 500)]
            pair.remote.upsert(pair.name, batch, wait=False)
        condition = models.FieldCondition(key="n", range=models.Range(gte=1_000_000))
        pair.remote.delete(pair.name, models.Filter(must=[condition]), wait=True)
    pair.both(lambda c: c.upsert(pair.name, points[half:], wait=True))
    # Some points are replaced, some deleted: old values must not be found any more.
    again = [models.PointStruct(id=i, vector=rng.vector(DIM), payload=data.payload(rng)) for i in rng.sample(ids, POINTS // 5)]
    pair.both(lambda c: c.upsert(pair.name, again, wait=True))
    gone = rng.sample(ids, POINTS // 10)
    pair.both(lambda c: c.delete(pair.name, gone, wait=True))
    return ids


@pytest.fixture(scope="module", params=["fresh", "churned"])
def filled(request, remote):
    rng = data.Random(20 if request.param == "fresh" else 21)
    pair = Pair(remote, name=f"filters-{request.param}")
    ids = fill(pair, rng, churn=request.param == "churned")
    yield pair, ids, rng
    pair.close()


def compare_filters(pair, ids, rng, kind):
    for number in range(FILTERS):
        condition = data.random_filter(rng, ids)
        context = f"filter {number}: {condition.model_dump_json(exclude_none=True)}"
        pair.agree(f"{kind}: counts", lambda c: c.count(pair.name, condition, exact=True).count, context=context)
        pair.agree(
            f"{kind}: scrolls",
            lambda c: c.scroll(pair.name, condition, limit=POINTS, with_payload=False),
            same_page,
            context,
        )
        if number % 3 == 0:
            vector = rng.vector(DIM)
            pair.agree(
                f"{kind}: searches",
                lambda c: c.query_points(pair.name, vector, query_filter=condition, limit=10),
                same_hits,
                context,
            )


def test_filters_without_indexes(filled):
    pair, ids, rng = filled
    pair.same_state()
    compare_filters(pair, ids, rng, "filters")


def test_filters_with_indexes(filled):
    """The same collection after indexes were built over what is there, and some points were written since."""
    pair, ids, rng = filled
    for field, kind in data.INDEXES.items():
        pair.both(lambda c: c.create_payload_index(pair.name, field, kind, wait=True))
    again = [models.PointStruct(id=i, vector=rng.vector(DIM), payload=data.payload(rng)) for i in rng.sample(ids, POINTS // 5)]
    pair.both(lambda c: c.upsert(pair.name, again, wait=True))
    compare_filters(pair, ids, rng, "indexed filters")


def test_one_condition_of_every_kind(filled):
    """Single conditions, so that a kind that fails is named by its filter."""
    pair, ids, rng = filled
    for _ in range(400):
        only = models.Filter(**{rng.choice(["must", "must_not"]): [data.condition(rng, ids, depth=9)]})
        pair.agree(
            "conditions",
            lambda c: c.scroll(pair.name, only, limit=POINTS, with_payload=False),
            same_page,
            only.model_dump_json(exclude_none=True),
        )
