"""Searches for arrays against brute force by numpy, and filters against a naive one."""

import numpy as np
import pytest
import ramlet
from truth import check_hits


@pytest.mark.parametrize("distance", ["cosine", "dot", "euclid", "manhattan"])
def test_the_nearest_are_those_of_brute_force(db, rng, distance):
    rows = rng.standard_normal((3_000, 24), dtype=np.float32)
    queries = rng.standard_normal((40, 24), dtype=np.float32)
    docs = db.create("docs", dim=24, distance=distance)
    docs.add(rows, ids=range(3_000))
    for when in ("fresh", "settled"):
        hits = docs.search(queries, limit=10, exact=True)
        assert hits.ids.shape == hits.scores.shape == (40, 10), when
        for query, of_one in zip(queries, hits):
            check_hits(of_one, distance, rows, query, 10)
        docs.settle()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i4", "i8", ">f4", "bool"])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "negative", "list", "readonly"])
def test_every_type_and_layout(db, rng, dtype, layout):
    whole = rng.integers(0, 2 if dtype == "bool" else 200, (300, 8)).astype(dtype)
    given = {
        "C": lambda: whole,
        "F": lambda: np.asfortranarray(whole),
        "strided": lambda: np.repeat(np.repeat(whole, 2, axis=0), 3, axis=1)[::2, ::3],
        "negative": lambda: whole[::-1, ::-1].copy()[::-1, ::-1],
        "list": whole.tolist,
        "readonly": lambda: np.frombuffer(whole.tobytes(), dtype=dtype).reshape(whole.shape),
    }[layout]()
    docs = db.create("docs", dim=8, distance="dot")
    docs.add(given, ids=range(300))
    plain = whole.astype(np.float32)
    for at, query in enumerate(given[:5] if layout != "list" else given[:5]):
        check_hits(docs.search(query, limit=5, exact=True), "dot", plain, plain[at], 5)
    found = docs.get(list(range(300)), with_vectors=True)
    np.testing.assert_array_equal(np.array([point.vector for point in found], dtype=np.float32), plain)


@pytest.mark.parametrize("datatype", ["float16", "uint8"])
def test_other_datatypes(db, rng, datatype):
    rows = rng.integers(0, 256, (500, 16))
    docs = db.create("docs", dim=16, distance="euclid", datatype=datatype)
    docs.add(rows.astype(np.uint8), ids=range(500))
    docs.add(rows[:10].astype(np.float64), ids=range(10))
    for row in rows[:10]:
        check_hits(docs.search(row, limit=3, exact=True), "euclid", rows, row, 3)


def test_filters_are_those_of_a_naive_scan(db, rng):
    n = 2_000
    rows = rng.standard_normal((n, 8), dtype=np.float32)
    lang = np.array(["en", "de", "fr"])[rng.integers(0, 3, n)]
    year = rng.integers(1990, 2025, n)
    price = np.where(rng.random(n) < 0.2, np.nan, np.round(rng.random(n) * 100, 2))
    docs = db.create("docs", dim=8, indexes={"lang": "keyword", "year": "integer"})
    docs.add(rows, ids=range(n), payload={"lang": lang, "year": year, "price": price})
    cases = [
        ({"lang": "en"}, lang == "en"),
        ({"lang": ["en", "fr"]}, lang != "de"),
        ({"year": {"gte": 2000, "lt": 2010}}, (year >= 2000) & (year < 2010)),
        ({"lang": "de", "price": {"gt": 50}}, (lang == "de") & (price > 50)),
        ({"price": None}, np.isnan(price)),
        ({"year": np.int64(2001)}, year == 2001),
        ({"lang": "xx"}, np.zeros(n, dtype=bool)),
        ({}, np.ones(n, dtype=bool)),
    ]
    for settled in (False, True):
        for where, matches in cases:
            query = rng.standard_normal(8).astype(np.float32)
            hits = docs.search(query, limit=10, where=where, exact=True)
            check_hits(hits, "cosine", rows, query, 10, matches=matches)
            assert docs.count(where=where) == matches.sum(), where
        if not settled:
            docs.settle()
    api = {"should": [{"key": "lang", "match": {"value": "en"}}, {"key": "year", "range": {"lt": 1995}}]}
    matches = (lang == "en") | (year < 1995)
    assert docs.count(filter=api) == matches.sum()
    assert docs.count(filter=api, where={"year": 1992}) == (matches & (year == 1992)).sum()


def test_few_hits_leave_places_empty(db):
    docs = db.create("docs", dim=2)
    docs.add([[1, 0], [0, 1]], ids=[7, 9], payload=[{"n": 1}, {"n": 2}])
    hits = docs.search([[1, 0], [0, 1]], limit=3)
    assert hits.counts.tolist() == [2, 2]
    assert hits.ids[:, 2].tolist() == [2**64 - 1] * 2 and np.isnan(hits.scores[:, 2]).all()
    assert [[point.id for point in one] for one in hits] == [[7, 9], [9, 7]]
    assert docs.search([1, 0], limit=3).ids.tolist() == [7, 9]
    assert docs.search([[1, 0]], limit=1, offset=1).ids.tolist() == [[9]]
    assert docs.search([1, 0], score_threshold=0.5).ids.tolist() == [7]


def test_payloads_and_vectors_on_request(db):
    docs = db.create("docs", vectors={"a": 2, "b": {"size": 3, "distance": "Dot"}}, sparse=["s"])
    payload = [{"x": 1, "y": {"z": [True, None, "ü"]}}, None]
    docs.add({"a": [[3, 4], [1, 0]], "b": np.eye(3)[:2], "s": [{"indices": [5], "values": [0.5]}, None]}, ids=[1, 2], payload=payload)
    with pytest.raises(ramlet.BadInputError, match="using='a'"):
        docs.search([3, 4])
    hits = docs.search([3, 4], using="a", with_payload=True, with_vectors=True)
    assert hits.payloads == [payload[0], {}]
    np.testing.assert_allclose(hits.vectors[0]["a"], [0.6, 0.8])
    assert hits.vectors[0]["s"]["indices"].tolist() == [5]
    assert hits[0].payload == payload[0] and hits[1].payload == {}
    assert docs.search([3, 4], using="a", with_payload=["x"]).payloads == [{"x": 1}, {}]
    assert docs.search([3, 4], using="a", with_payload={"exclude": ["y"]}).payloads == [{"x": 1}, {}]
    assert docs.search([3, 4], using="a", with_vectors=["b"]).vectors[0].keys() == {"b"}
    sparse = docs.query({"indices": [5], "values": [2.0]}, using="s")
    assert [(point.id, point.score) for point in sparse] == [(1, 1.0)]


def test_a_large_batch_is_spread_and_told(db, rng):
    rows = rng.standard_normal((500, 16), dtype=np.float32)
    docs = db.create("docs", dim=16)
    docs.add(rows, ids=range(500))
    told = []
    hits = docs.search(np.tile(rows, (10, 1)), limit=1, progress=lambda done, total: told.append((done, total)))
    assert hits.ids[:, 0].tolist() == list(range(500)) * 10
    assert told[-1] == (5_000, 5_000) and [done for done, _ in told] == sorted({done for done, _ in told})


def test_texts_hybrid_and_groups(db):
    docs = db.create("docs", dim=2, indexes={"body": {"type": "text", "scoring": True}, "kind": "keyword"})
    bodies = ["red wheel barrow", "white chickens", "red chickens", "glazed with rain"]
    docs.add([[1, 0], [0, 1], [1, 1], [-1, 0]], ids=[1, 2, 3, 4], payload={"body": bodies, "kind": ["a", "a", "b", "b"]})
    assert [point.id for point in docs.query("wheel barrow", using="body")] == [1]
    found = docs.query(
        {"fusion": "rrf"},
        prefetch=[{"query": {"text": "chickens"}, "using": "body"}, {"query": np.array([0, 1.0])}],
        with_payload=True,
    )
    assert found[0].id == 2 and found[0].payload["body"] == "white chickens"
    groups = docs.query_groups([1, 0], group_by="kind", group_size=1)
    assert [(group.id, [point.id for point in group.points]) for group in groups] == [("a", [1]), ("b", [3])]
    formula = docs.query({"formula": {"sum": ["$score", 1.0]}}, prefetch={"query": [1, 0]}, limit=1)
    assert formula[0].id == 1 and abs(formula[0].score - 2.0) < 1e-5
    assert docs.facet("kind") == {"a": 2, "b": 2}
    explained = docs.explain([1, 0])
    assert explained["rows_scored"] == 4


def test_a_handle_follows_its_name(db):
    docs = db.create("docs", vectors={"old": 2})
    docs.add({"old": [[1, 0]]}, ids=[1])
    assert docs.search([1, 0]).ids.tolist() == [1]
    db.delete_collection("docs")
    db.create("docs", vectors={"new": 3}).add({"new": [[1, 0, 0]]}, ids=[2])
    assert docs.search([1, 0, 0]).ids.tolist() == [2]
    with pytest.raises(ramlet.BadInputError, match="expected dim: 3"):
        docs.search([1, 0])
