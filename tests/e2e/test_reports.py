"""Public reports about servers of this kind, each as a small input (docs/reports.md has their numbers and the verdicts)."""

import threading
import time
import uuid

import pytest

from harness.http import Answer


class Collection:
    def __init__(self, http):
        self.http, self.path = http, f"/collections/report-{uuid.uuid4().hex[:8]}"
        http.call("PUT", self.path, {"vectors": {"size": 2, "distance": "Dot"}})

    def index(self, indexes):
        for field, schema in indexes.items():
            self.http.call("PUT", f"{self.path}/index?wait=true", {"field_name": field, "field_schema": schema})
        return self

    def put(self, payloads, first=1):
        points = [{"id": n, "vector": [1.0, float(n)], "payload": payload} for n, payload in enumerate(payloads, first)]
        self.http.call("PUT", f"{self.path}/points?wait=true", {"points": points})
        return self

    def ask(self, what, body):
        return self.http.result("POST", f"{self.path}/points/{what}", body)

    def ids(self, condition, **more):
        found = [point["id"] for point in self.ask("scroll", {"filter": condition, "limit": 1000, **more})["points"]]
        assert self.ask("count", {"filter": condition, "exact": True})["count"] == len(found)
        return found


@pytest.fixture
def make(http):
    """Collections, which go when the test ends."""
    made = []

    def another():
        made.append(Collection(http))
        return made[-1]

    yield another
    for collection in made:
        http.call("DELETE", collection.path)


def must(*conditions):
    return {"must": list(conditions)}


def field(key, **check):
    return must({"key": key, **check})


DATES = [
    "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00", "2024-01-01T00:00:00", "2024-01-01",
    "01/02/2024", "2024-13-01", "2024-02-30", "soon", 1704067200, None,
]
ARRAYS = [{"a": [{"b": 1}, {"b": []}]}, {"a": [{"b": []}]}, {"a": [{"b": 1}]}, {}, {"a": []}]

# Payloads, the index, a filter, which of the points match: with the index and without, before it and behind it.
CASES = {
    "except nothing, of integers": ([{"n": 1}, {"n": 2}, {}], {"n": "integer"}, field("n", match={"except": []}), [1, 2]),
    "except nothing, of keywords": ([{"n": "a"}, {"n": "b"}, {}], {"n": "keyword"}, field("n", match={"except": []}), [1, 2]),
    "any of nothing": ([{"n": 1}, {}], {"n": "integer"}, field("n", match={"any": []}), []),
    "any of a thousand": ([{"n": f"k{n}"} for n in range(50)], {"n": "keyword"}, field("n", match={"any": [f"k{n}" for n in range(40, 1040)]}), [*range(41, 51)]),
    "is_empty of parts of an array": (ARRAYS, {"a[].b": "integer"}, must({"is_empty": {"key": "a[].b"}}), [2, 4, 5]),
    "is_empty of parts, as a field": (ARRAYS, {"a[].b": "integer"}, field("a[].b", is_empty=True), [2, 4, 5]),
    "no values where there is no field": ([{"n": 1}, {"n": []}, {}, {"n": None}], {"n": "integer"}, field("n", values_count={"lte": 0}), [2, 3, 4]),
    "one of no conditions": ([{}, {}], {"n": "integer"}, {"min_should": {"conditions": [], "min_count": 1}}, []),
    "a bound with a fraction, from below": ([{"n": 1}, {"n": 2}], {"n": "integer"}, field("n", range={"gte": 1.5}), [2]),
    "a bound with a fraction, from above": ([{"n": 1}, {"n": 2}], {"n": "integer"}, field("n", range={"lt": 1.5}), [1]),
    "a negative bound with a fraction": ([{"n": -2}, {"n": -1}], {"n": "integer"}, field("n", range={"lte": -1.5}), [1]),
    "what is no date": ([{"d": date} for date in DATES], {"d": "datetime"}, field("d", range={"gte": "2000-01-01T00:00:00Z"}), [1, 2, 3, 4]),
    "dates without a zone are UTC": ([{"d": date} for date in DATES[:4]], {"d": "datetime"}, field("d", range={"gte": "2024-01-01T00:00:00Z"}), [1, 3, 4]),
    "none is true of a list that isn't there": ([{"n": "a"}, {}], {"n": "keyword"}, {"must_not": [{"key": "n", "match": {"value": "a"}}]}, [2]),
    "a box over the 180th meridian": (
        [{"g": {"lon": lon, "lat": 0}} for lon in (179.9, -179.9, 0)], {"g": "geo"},
        field("g", geo_bounding_box={"top_left": {"lon": 179, "lat": 1}, "bottom_right": {"lon": -179, "lat": -1}}), [1, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_with_and_without_an_index(make, case):
    payloads, indexes, condition, expected = CASES[case]
    assert make().put(payloads).ids(condition) == expected, "no index"
    assert make().put(payloads).index(indexes).ids(condition) == expected, "an index behind the points"
    assert make().index(indexes).put(payloads).ids(condition) == expected, "an index before the points"


REFUSED = [
    {"must": "x"},
    {"must": [{"key": "a"}]},
    {"must": [{"key": "a", "match": {}}]},
    {"must": [{"key": "a", "match": {"value": None}}]},
    {"must": [{"key": "a", "match": {"value": 1.5}}]},
    {"must": [{"key": "a", "range": {"gte": "abc"}}]},
    {"must": [{"unknown": 1}]},
    {"unknown": [{"key": "a", "match": {"value": 1}}]},
    {"must": [{"has_id": ["x"]}]},
    {"must": [{"key": "a", "values_count": {"gte": -1}}]},
    {"must": [{"key": "a", "geo_radius": {"center": {"lon": 500, "lat": 0}, "radius": 1}}]},
    {"min_should": {"conditions": [{"has_id": [1]}], "min_count": 0}},
]


@pytest.mark.parametrize("condition", REFUSED, ids=str)
def test_wrong_filters_are_refused(make, condition):
    collection = make().put([{"a": 1}])
    for what, body in [("scroll", {}), ("count", {}), ("query", {"query": [1, 1]}), ("delete", {})]:
        with pytest.raises(Answer) as refused:
            collection.ask(what, {**body, "filter": condition})
        assert refused.value.status in (400, 422), what
    assert collection.ask("count", {})["count"] == 1


def test_deleted_and_written_again(make):
    collection = make().index({"n": "integer"})
    for turn in range(6):
        collection.put([{"n": turn}] * 3)
        assert collection.ids(field("n", match={"value": turn})) == [1, 2, 3]
        assert collection.ids(field("n", range={"lt": turn})) == []
        hits = collection.ask("query", {"query": [0, 1], "limit": 2, "with_payload": True})["points"]
        assert [(hit["id"], hit["payload"]["n"]) for hit in hits] == [(3, turn), (2, turn)]
        collection.ask("delete?wait=true", {"points": [1, 3]})
        assert [hit["id"] for hit in collection.ask("query", {"query": [0, 1]})["points"]] == [2]
        collection.ask("delete?wait=true", {"points": [2]})
        assert collection.ask("query", {"query": [0, 1]})["points"] == []


def test_pages_of_a_search_and_of_an_order(make):
    collection = make().index({"price": "float"}).put([{"price": n * 37 % 100 / 4} for n in range(100)])

    def pages(body):
        all_ids = []
        for offset in range(0, 100, 7):
            hits = collection.ask("query", {**body, "offset": offset, "limit": 7, "with_payload": True})["points"]
            all_ids.extend((hit["id"], hit["payload"]["price"]) for hit in hits)
        assert len({point for point, _ in all_ids}) == len(all_ids) == 100
        return all_ids

    pages({"query": [1, 0.5]})
    prices = [price for _, price in pages({"prefetch": {"query": [1, 0.5], "limit": 100}, "query": {"order_by": "price"}})]
    assert prices == sorted(prices)


def test_an_index_follows_changes_by_filter_that_overlap(make, server):
    collection = make().index({"source": "keyword"}).put([{"source": f"s{n % 10}", "n": n} for n in range(200)])

    def move(own):
        mine = server.http()
        for turn in range(10):
            body = {"payload": {"source": f"w{own}-{turn}"}, "filter": must({"key": "source", "match": {"value": f"s{own}" if turn == 0 else f"w{own}-{turn - 1}"}})}
            mine.call("POST", f"{collection.path}/points/payload?wait=true", body)
        mine.close()

    threads = [threading.Thread(target=move, args=(own,)) for own in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = collection.ask("scroll", {"limit": 1000, "with_payload": True})["points"]
    assert len(kept) == 200
    for own in range(10):
        expected = [point["id"] for point in kept if point["payload"]["n"] % 10 == own]
        assert collection.ids(field("source", match={"value": f"w{own}-9"})) == expected


SPELLINGS = ["550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000", "550e8400e29b41d4a716446655440000"]


def test_an_id_is_the_same_in_any_spelling_where_a_uuid_index_has_it(make):
    payloads = [{"u": spelling} for spelling in SPELLINGS] + [{"u": "soon"}, {"u": str(uuid.UUID(int=5))}, {}]
    collection = make().index({"u": "uuid"}).put(payloads)

    def check():
        for spelling in SPELLINGS:
            assert collection.ids(field("u", match={"value": spelling})) == [1, 2, 3]
            assert collection.ids(field("u", match={"any": [spelling, "soon"]})) == [1, 2, 3, 4]
            assert collection.ids(field("u", match={"except": [spelling]})) == [4, 5]
        assert collection.ids(field("u", match={"value": "Soon"})) == []

    check()
    # With a threshold that they reach they become a segment.
    collection.http.call("PATCH", collection.path, {"optimizers_config": {"indexing_threshold": 1}})
    collection.put([{"n": n} for n in range(200)], first=100)
    until = time.monotonic() + 60
    while collection.http.result("GET", collection.path)["indexed_vectors_count"] == 0:
        assert time.monotonic() < until, "no segment within a minute"
        time.sleep(0.1)
    check()
    collection.http.call("DELETE", f"{collection.path}/index/u?wait=true")
    assert collection.ids(field("u", match={"value": SPELLINGS[0]})) == [1], "strings are compared"
