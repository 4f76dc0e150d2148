"""Facets and distance matrices against the local mode over random data."""

import pytest
from qdrant_client import models

import data
from compare import CASES, close

POINTS = 600
DIM = 6
# Fields whose index can be matched; the local mode counts values of any type, so only these are told apart.
FACETED = ["city", "tags", "n", "flag", "uid", "nest[].n", "nest[].kind", "obj.deep.x"]


def filled(pair, seed):
    rng = data.Random(seed)
    pair.create({"": models.VectorParams(size=DIM, distance=models.Distance.EUCLID), "b": models.VectorParams(size=3, distance=models.Distance.COSINE)})
    for field, kind in data.INDEXES.items():
        pair.both(lambda c, f=field, k=kind: c.create_payload_index(pair.name, f, k))
    ids = [data.point_id(rng, number) for number in range(POINTS)]
    points = []
    for number in ids:
        vectors = {"": rng.vector(DIM)}
        if rng.maybe(0.7):
            vectors["b"] = rng.vector(3)
        points.append(models.PointStruct(id=number, vector=vectors, payload=data.payload(rng)))
    pair.both(lambda c: c.upsert(pair.name, points, wait=True))
    gone = rng.sample(ids, 60)
    pair.both(lambda c: c.delete(pair.name, gone, wait=True))
    return rng, [i for i in ids if i not in gone], {p.id: p.vector for p in points}


@pytest.mark.parametrize("seed", [1, 2])
def test_facets(pair, seed):
    rng, ids, _ = filled(pair, seed)
    for _ in range(120):
        ask = {
            "key": rng.choice(FACETED),
            "limit": rng.choice([1, 2, 3, 10, 1000]),
            "facet_filter": data.random_filter(rng, ids) if rng.maybe(0.6) else None,
            "exact": rng.maybe(0.5),
        }

        def same(ours, theirs):
            assert [(h.value, h.count) for h in ours.hits] == [(h.value, h.count) for h in theirs.hits]

        pair.agree("facets", lambda c, ask=ask: c.facet(pair.name, **ask), same, context=str(ask))


def test_facets_need_an_index(http):
    http.call("PUT", "/collections/facet-none", {"vectors": {}})
    http.call("PUT", "/collections/facet-none/index", {"field_name": "price", "field_schema": "float"})
    for key in ["price", "city"]:
        status, _, body = http.raw("POST", "/collections/facet-none/facet", f'{{"key":"{key}"}}')
        assert status == 400 and b"No appropriate index for faceting" in body and key.encode() in body
    status, _, body = http.raw("POST", "/collections/facet-none/facet", '{"key":"price","limit":0}')
    assert (status, b"limit: value 0 invalid, must be 1 or larger" in body) == (422, True)
    status, _, _ = http.raw("POST", "/collections/facet-missing/facet", '{"key":"price"}')
    assert status == 404
    http.call("DELETE", "/collections/facet-none")


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5


def test_matrix(pair):
    """Which points are sampled is chance; what is said of them isn't."""
    rng, ids, vectors = filled(pair, 3)
    for _ in range(25):
        sample, limit = rng.choice([2, 5, 20, 100]), rng.choice([1, 3, 10])
        query_filter = data.random_filter(rng, ids) if rng.maybe(0.5) else None
        matching = {str(r.id) for r in pair.oracle.scroll(pair.name, query_filter, limit=10_000)[0]}
        pairs = pair.remote.search_matrix_pairs(pair.name, query_filter=query_filter, limit=limit, sample=sample).pairs
        by_point = {}
        for p in pairs:
            assert p.a != p.b
            assert {str(p.a), str(p.b)} <= matching
            assert close(p.score, distance(vectors[p.a][""], vectors[p.b][""]))
            by_point.setdefault(p.a, []).append(p.score)
        picked = min(sample, len(matching))
        if picked < 2:
            assert pairs == []
        else:
            assert len(by_point) == picked
            assert all(len(scores) == min(limit, picked - 1) and scores == sorted(scores) for scores in by_point.values())
        offsets = pair.remote.search_matrix_offsets(pair.name, query_filter=query_filter, limit=limit, sample=sample)
        assert len(offsets.ids) == (picked if picked > 1 else 0)
        numbers = [i for i in offsets.ids if isinstance(i, int)]
        assert numbers == sorted(numbers)
        for row, col, score in zip(offsets.offsets_row, offsets.offsets_col, offsets.scores):
            assert close(score, distance(vectors[offsets.ids[row]][""], vectors[offsets.ids[col]][""]))
        CASES["matrices"] += 2


def test_a_matrix_of_all_points_is_the_local_modes(pair):
    """Where all points are sampled nothing is left to chance."""
    filled(pair, 4)

    def rows(client):
        pairs = client.search_matrix_pairs(pair.name, limit=2, sample=10_000, using="b").pairs
        scores = {}
        for p in pairs:
            scores.setdefault(str(p.a), []).append(p.score)
        return scores

    def same(ours, theirs):
        assert ours.keys() == theirs.keys()
        for key, scores in theirs.items():
            assert all(close(x, y) for x, y in zip(ours[key], scores)) and len(ours[key]) == len(scores)

    pair.agree("matrices", rows, same)


def test_matrix_bounds(http):
    http.call("PUT", "/collections/matrix", {"vectors": {"size": 2, "distance": "Dot"}})
    base = "/collections/matrix/points/search/matrix"
    for path in [f"{base}/pairs", f"{base}/offsets"]:
        for body, status, word in [
            ('{"sample":1}', 422, "sample: value 1 invalid, must be 2 or larger"),
            ('{"limit":0}', 422, "limit: value 0 invalid, must be 1 or larger"),
            ('{"limit":-1}', 400, "-1"),
            ('{"using":"nothing"}', 400, "nothing"),
            ('{"filter":{"must":[{"key":"a"}]}}', 422, "'a' has no match"),
            ("{}", 200, ""),
        ]:
            got, _, answer = http.raw("POST", path, body)
            assert got == status and word in answer.decode(), (path, body, got, answer)
    http.call("DELETE", "/collections/matrix")
