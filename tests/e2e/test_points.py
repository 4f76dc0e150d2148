"""Upsert, retrieve, delete, payload and vector changes, scroll and count, against the local mode."""

import numpy as np
import pytest
from qdrant_client import models

import data
from compare import same_ordered, same_page, same_records

DIM = 4


@pytest.fixture
def filled(pair):
    rng = data.Random(30)
    pair.create(models.VectorParams(size=DIM, distance=models.Distance.EUCLID))
    ids = [data.point_id(rng, n) for n in range(120)]
    points = [models.PointStruct(id=i, vector=rng.vector(DIM), payload=data.payload(rng)) for i in ids]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    return pair, rng, ids


def same_results(ours, theirs):
    assert ours.status == theirs.status == models.UpdateStatus.COMPLETED


def test_upsert_forms(pair):
    rng = data.Random(31)
    pair.create(models.VectorParams(size=DIM, distance=models.Distance.COSINE))
    vectors = [rng.vector(DIM) for _ in range(5)]
    batch = models.Batch(ids=[1, 2, 3, 4, 5], vectors=vectors, payloads=[{"a": 1}, {"x": "y"}, {}, {"b": None}, {"c": {"d": []}}])
    pair.agree("upserts", lambda c: c.upsert(pair.name, batch, wait=True), same_results)
    pair.same_state()
    text_id = "550e8400-e29b-41d4-a716-446655440000"
    for point_id in [0, 2**63, 2**64 - 1, text_id, text_id.upper(), text_id.replace("-", ""), f"urn:uuid:{text_id}"]:
        point = models.PointStruct(id=point_id, vector=rng.vector(DIM), payload={"id": str(point_id)})
        pair.agree("upserts", lambda c: c.upsert(pair.name, [point], wait=True), same_results, str(point_id))
    pair.same_state()
    arrays = np.array([rng.vector(DIM) for _ in range(50)], dtype=np.float32)
    pair.both(
        lambda c: c.upload_collection(pair.name, arrays, payload=[{"n": i} for i in range(50)], ids=range(100, 150), wait=True)
    )
    pair.same_state()
    # Squares of these still fit an f32: beyond that the local mode itself runs into infinity.
    extreme = [[0.0] * DIM, [1e15] * DIM, [1e-15, -1e-15, 0.0, 1.0]]
    points = [models.PointStruct(id=200 + n, vector=v) for n, v in enumerate(extreme)]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    pair.agree("states", lambda c: c.retrieve(pair.name, [200, 201, 202], with_vectors=True), same_records)


def test_upsert_modes(filled):
    pair, rng, ids = filled
    for mode in [models.UpdateMode.UPSERT, models.UpdateMode.UPDATE_ONLY, models.UpdateMode.INSERT_ONLY]:
        chosen = rng.sample(ids, 5) + [rng.randint(10_000, 10_100)]
        points = [models.PointStruct(id=i, vector=rng.vector(DIM), payload={"mode": mode.value}) for i in chosen]
        pair.both(lambda c: c.upsert(pair.name, points, wait=True, update_mode=mode))
        pair.same_state()
    only = models.Filter(must=[models.FieldCondition(key="flag", match=models.MatchValue(value=True))])
    points = [models.PointStruct(id=i, vector=rng.vector(DIM), payload={"conditional": 1}) for i in rng.sample(ids, 30)]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True, update_filter=only))
    pair.same_state()


def test_retrieve(filled):
    pair, rng, ids = filled
    for _ in range(20):
        chosen = rng.sample(ids, rng.randint(1, 20)) + [77_777]
        rng.shuffle(chosen)
        with_payload = rng.choice([True, False, ["n", "obj.deep"], ["nest[].n"], models.PayloadSelectorExclude(exclude=["obj", "nest[].kind"])])
        with_vectors = rng.maybe(0.5)
        pair.agree(
            "retrieves",
            lambda c: sorted(c.retrieve(pair.name, chosen, with_payload=with_payload, with_vectors=with_vectors), key=lambda r: str(r.id)),
            same_records,
            f"{chosen} {with_payload}",
        )
    pair.agree("retrieves", lambda c: c.retrieve(pair.name, [ids[5], ids[3], ids[5]]) and True)


def test_deletes(filled):
    pair, rng, ids = filled
    for _ in range(8):
        chosen = rng.sample(ids, 5) + [99_999]
        pair.agree("deletes", lambda c: c.delete(pair.name, chosen, wait=True), same_results)
        pair.agree("counts", lambda c: c.count(pair.name).count)
    for _ in range(8):
        selector = models.FilterSelector(filter=models.Filter(must=[data.condition(rng, ids, depth=9), data.condition(rng, ids, depth=9)]))
        pair.agree("deletes", lambda c: c.delete(pair.name, selector, wait=True), same_results, str(selector))
        pair.same_state()
    # A deleted id can be written again, and nothing of the old point comes back.
    points = [models.PointStruct(id=i, vector=rng.vector(DIM)) for i in ids[:20]]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    pair.same_state()


def selector(rng, ids):
    if rng.maybe(0.5):
        return rng.sample(ids, rng.randint(1, 8))
    return models.Filter(must=[data.condition(rng, ids, depth=9)])


def test_payload_changes(filled):
    pair, rng, ids = filled
    keys = ["n", "city", "obj.deep.x", "obj.deep", "nest[].kind", "nest[0]", "nest[]", "tags", "missing", "a.b", "loc.lat"]
    for _ in range(60):
        chosen, kind = selector(rng, ids), rng.random()
        small = {rng.choice(["n", "city", "new", "obj"]): rng.choice([1, "x", None, [1, 2], {"deep": {"y": 1}}])}
        if kind < 0.3:
            change = lambda c: c.set_payload(pair.name, small, points=chosen, wait=True)  # noqa: E731
        elif kind < 0.5:
            key = rng.choice(["obj", "obj.deep", "nest[0]", "nest[]", "fresh", "fresh.sub"])
            change = lambda c: c.set_payload(pair.name, {"k": rng_value}, points=chosen, key=key, wait=True)  # noqa: E731
            rng_value = rng.randint(0, 9)
        elif kind < 0.65:
            change = lambda c: c.overwrite_payload(pair.name, small, points=chosen, wait=True)  # noqa: E731
        elif kind < 0.9:
            gone = rng.sample(keys, rng.randint(1, 3))
            change = lambda c: c.delete_payload(pair.name, gone, points=chosen, wait=True)  # noqa: E731
        else:
            change = lambda c: c.clear_payload(pair.name, chosen, wait=True)  # noqa: E731
        pair.agree("payload changes", change, same_results, f"{chosen}")
        pair.same_state(with_vectors=False)


def test_missing_points(filled):
    """A change of a point that isn't there is refused, and done to the others."""
    pair, _, ids = filled
    for change in [
        lambda c: c.set_payload(pair.name, {"x": 1}, points=[ids[0], 777_777, ids[1]], wait=True),
        lambda c: c.delete_payload(pair.name, ["n"], points=[777_777, ids[2]], wait=True),
        lambda c: c.clear_payload(pair.name, [ids[3], 777_777], wait=True),
        lambda c: c.update_vectors(pair.name, [models.PointVectors(id=777_777, vector=[1.0] * DIM)], wait=True),
    ]:
        pair.agree("refusals", change)
        pair.same_state()


def test_vector_changes(pair):
    rng = data.Random(33)
    config = {name: models.VectorParams(size=DIM, distance=models.Distance.DOT) for name in ["a", "b", "c"]}
    pair.create(config)
    points = [
        models.PointStruct(id=n, vector={name: rng.vector(DIM) for name in config if rng.maybe(0.8)}, payload={"n": n, "odd": n % 2})
        for n in range(60)
    ]
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    odd = models.Filter(must=[models.FieldCondition(key="odd", match=models.MatchValue(value=1))])
    for _ in range(25):
        if rng.maybe(0.5):
            change = [
                models.PointVectors(id=i, vector={rng.choice(["a", "b", "c"]): rng.vector(DIM)}) for i in rng.sample(range(60), 6)
            ]
            pair.agree("vector changes", lambda c: c.update_vectors(pair.name, change, wait=True), same_results)
        else:
            names = rng.sample(["a", "b", "c"], rng.randint(1, 2))
            chosen = rng.sample(range(60), 5) if rng.maybe(0.7) else odd
            pair.agree("vector changes", lambda c: c.delete_vectors(pair.name, names, points=chosen, wait=True), same_results)
        pair.same_state()
        vector = rng.vector(DIM)
        pair.agree("searches", lambda c: c.query_points(pair.name, vector, using="b", limit=100).points and True)


def test_batch_update(filled):
    pair, rng, ids = filled
    filter_ = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(gte=3))])
    operations = [
        models.UpsertOperation(upsert=models.PointsList(points=[models.PointStruct(id=1, vector=rng.vector(DIM), payload={"b": 1})])),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"set": True}, points=[1, ids[4]])),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"by": "filter"}, filter=filter_)),
        models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload={"only": 1}, points=[ids[6]])),
        models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["city", "obj.name"], points=ids[7:20])),
        models.ClearPayloadOperation(clear_payload=models.PointIdsList(points=[ids[21]])),
        models.UpdateVectorsOperation(
            update_vectors=models.UpdateVectors(points=[models.PointVectors(id=ids[22], vector=rng.vector(DIM))])
        ),
        models.DeleteOperation(delete=models.PointIdsList(points=[ids[23]])),
        models.DeleteOperation(delete=models.FilterSelector(filter=models.Filter(must=[filter_.must[0], data.condition(rng, ids, 9)]))),
    ]
    pair.both(lambda c: c.batch_update_points(pair.name, operations, wait=True))
    pair.same_state()


def test_scroll_pages(filled):
    pair, rng, ids = filled
    for limit in [1, 7, 50, 120, 1000]:
        offset, pages = None, 0
        while pages < 30:
            here = offset
            page = pair.agree("pages", lambda c: c.scroll(pair.name, limit=limit, offset=here, with_vectors=pages % 2 == 0), same_page)
            offset, pages = page[1], pages + 1
            if offset is None:
                break
    for _ in range(30):
        condition, limit, offset = data.random_filter(rng, ids), rng.randint(1, 40), rng.choice([None, None, rng.choice(ids), 50, 10_000])
        pair.agree(
            "pages",
            lambda c: c.scroll(pair.name, condition, limit=limit, offset=offset, with_payload=["n"]),
            same_page,
            f"{condition} {offset}",
        )


@pytest.mark.parametrize("field", ["n", "price", "when", "obj.deep.x"])
def test_scroll_by_value(filled, field):
    pair, rng, ids = filled
    pair.both(lambda c: c.create_payload_index(pair.name, field, data.INDEXES[field], wait=True))
    starts = {"n": [-3, 4], "price": [-1.5, 20], "when": [data.EPOCH, "2024-06-01T00:00:00Z"], "obj.deep.x": [2]}[field]
    for direction in [models.Direction.ASC, models.Direction.DESC]:
        for start in [None, *starts]:
            for limit in [1, 10, 500]:
                condition = rng.choice([None, data.random_filter(rng, ids)])
                order = models.OrderBy(key=field, direction=direction, start_from=start)
                pair.agree(
                    "ordered pages",
                    lambda c: c.scroll(pair.name, condition, limit=limit, order_by=order),
                    same_ordered,
                    f"{order} {condition}",
                )
    pair.agree("ordered pages", lambda c: c.scroll(pair.name, limit=20, order_by=field), same_ordered)


def test_count(filled):
    pair, rng, ids = filled
    pair.agree("counts", lambda c: c.count(pair.name).count)
    for _ in range(30):
        condition = data.random_filter(rng, ids)
        pair.agree("counts", lambda c: c.count(pair.name, condition, exact=True).count, context=str(condition))


def test_a_point_that_is_asked_for_twice_comes_once(remote, pair):
    """As from the API's server; its client's local mode repeats it."""
    pair.create(models.VectorParams(size=2, distance=models.Distance.DOT))
    points = [models.PointStruct(id=i, vector=[1.0, 2.0]) for i in (1, 2, "550e8400-e29b-41d4-a716-446655440002")]
    pair.both(lambda c: c.upsert(pair.name, points))
    ids = [2, "550E8400E29B41D4A716446655440002", 1, 2, 7, 1, "550e8400-e29b-41d4-a716-446655440002"]
    assert [p.id for p in pair.remote.retrieve(pair.name, ids)] == [2, "550e8400-e29b-41d4-a716-446655440002", 1]
