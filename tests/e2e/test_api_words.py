"""Codes and words that other people's suites ask for, and statistics of a corpus."""

import json
import math
import random
import time

import numpy as np
import pytest

POINTS = [("a", [0, 1]), ("a", [0]), ("b", [0, 1, 2]), ("b", [1])]


@pytest.fixture
def name(http, request):
    """A collection of four points: dense `d`, sparse `s` with IDF, a tenant."""
    name = f"words-{request.node.name}"[:60].replace("[", "-").replace("]", "")
    path = f"/collections/{name}"
    body = {"vectors": {"d": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {"s": {"modifier": "idf"}}}
    http.call("PUT", path, body)
    points = [
        {"id": i, "vector": {"d": [1.0, float(i)], "s": {"indices": dims, "values": [1.0] * len(dims)}}, "payload": {"t": t}}
        for i, (t, dims) in enumerate(POINTS)
    ]
    http.call("PUT", path + "/points?wait=true", {"points": points})
    yield name
    http.call("DELETE", path)


def said(http, method, path, body=None):
    """(status, text)"""
    status, _, answer = http.raw(method, path, None if body is None else json.dumps(body))
    return status, answer.decode()


def of_tenant(value):
    return {"must": [{"key": "t", "match": {"value": value}}]}


def scores(http, name, idf, **more):
    query = {"query": {"indices": [0, 1, 2], "values": [1.0, 1.0, 1.0]}, "using": "s", "params": {"idf": idf}, **more}
    points = http.result("POST", f"/collections/{name}/points/query", query)["points"]
    return {point["id"]: point["score"] for point in points}


def expected(corpus):
    """By the formula, over the points whose numbers are given."""

    def weight(dim):
        n, df = len(corpus), sum(dim in POINTS[i][1] for i in corpus)
        return math.log((n - df + 0.5) / (df + 0.5) + 1)

    return {i: pytest.approx(sum(map(weight, dims)), rel=1e-5) for i, (_, dims) in enumerate(POINTS)}


def test_idf_of_a_corpus(http, name):
    assert scores(http, name, "global") == expected([0, 1, 2, 3])
    assert scores(http, name, {"corpus": of_tenant("a")}) == expected([0, 1])
    assert scores(http, name, {"corpus": of_tenant("nobody")}) == expected([])
    narrow = scores(http, name, {"corpus": of_tenant("a")}, filter=of_tenant("b"))
    assert narrow == {i: score for i, score in expected([0, 1]).items() if POINTS[i][0] == "b"}
    body = {"query": [1.0, 0.0], "using": "d", "params": {"idf": {"corpus": of_tenant("a")}}}
    status, answer = said(http, "POST", f"/collections/{name}/points/query", body)
    assert status == 400 and "idf" in answer


def feedback(b=1.0, **more):
    strategy = {"naive": {"a": 1.0, "b": b, "c": 1.0}}
    return {"relevance_feedback": {"target": [1.0, 2.0], "feedback": [], "strategy": strategy, **more}}


def queries(name):
    """(method, path, body, status, words)"""
    base = f"/collections/{name}"
    query = f"{base}/points/query"
    given = [{"example": 1, "score": 0.5}]
    lookup = {"query": {"recommend": {"positive": [1]}}, "using": "d", "lookup_from": {"collection": "nowhere"}}
    return [
        ("POST", query, {"query": [1.0, 0.0], "using": "d", "params": {"hnsw_ef": 0}}, 422, "hnsw_ef"),
        ("POST", query, {"query": [1.0, 0.0], "using": "d", "limit": 0}, 422, "[internal.limit: value 0 invalid"),
        ("POST", query, {"query": feedback(), "using": "d"}, 422, "feedback elements must be non-empty"),
        ("POST", query, {"query": feedback(-1.0, feedback=given), "using": "d"}, 422, "value -1.0 invalid, must be 0.0 or larger"),
        ("POST", query, lookup, 404, "Collection nowhere not found"),
        ("POST", query, {"filter": {"must": [{"key": "t"}]}}, 422, "At least one field condition must be specified"),
        ("POST", query, {"prefetch": [{}, {"limit": 0}], "query": {"fusion": "rrf"}}, 422, "[internal.prefetch[1].limit: value 0 invalid"),
        ("POST", query, {"query": [1.0, 0.0], "using": "d", "params": {"quantization": {"oversampling": 0.5}}}, 422, "[internal.params.quantization"),
        ("POST", f"{query}/batch", {"searches": [{"query": [1.0, 0.0], "using": "d"}, {"limit": 0}]}, 422, "[searches[1].internal.limit:"),
        ("POST", f"{base}/points/search", {"vector": {"name": "d", "vector": [1.0, 0.0]}, "limit": 0}, 422, "[search_request.limit:"),
        ("POST", f"{base}/points/scroll", {"limit": 0}, 422, "[scroll_request.limit:"),
        ("POST", query, {"filter": {"min_should": {"conditions": [], "min_count": 0}}}, 422, "min_count must be greater than 0"),
        ("POST", query, {"with_payload": {"include": ["a"], "exclude": ["b"]}}, 400, "with_payload"),
        ("POST", f"{base}/points/delete", {"points": []}, 400, "Bad request: Empty update request"),
        ("POST", f"{base}/points/payload", {"payload": {"a": 1}, "points": []}, 400, "Bad request: Empty update request"),
        ("POST", f"{base}/points/vectors/delete", {"vectors": ["d"], "points": []}, 400, "Bad request: Empty update request"),
        ("POST", f"{base}/points/batch", {"operations": [{"delete": {"points": []}}]}, 400, "Bad request: Empty update request"),
        ("PUT", f"{base}-2", [], 400, "expected an object"),
        ("PUT", f"{base}/points/vectors", {"points": [{"id": 1, "vector": {}}]}, 422, "must specify vectors to update"),
        ("PUT", f"{base}/index", {"field_name": "n", "field_schema": {"type": "integer", "lookup": False, "range": False}}, 422, "lookup"),
        ("PUT", f"{base}/snapshots/recover", {"location": "file://whatever"}, 400, "file path must be absolute or on localhost"),
        ("PUT", f"{base}/snapshots/recover", {"location": "file:///etc/passwd"}, 403, "must be inside the snapshots directory"),
        ("PUT", "/collections/nowhere/shards/0/snapshots/recover", {"location": "whatever"}, 404, "nowhere"),
        ("POST", f"{base}/points/scroll", {"filter": {"must": [{"slice": {"total": 4, "index": 4}}]}}, 422, "slice index 4"),
        ("POST", f"{base}/points/scroll", {"filter": {"must": [{"slice": {"total": 0, "index": 0}}]}}, 400, "total"),
        ("GET", f"/collections/{'x' * 256}/points/1", None, 422, "Validation error"),
        ("PUT", f"{base}-2", {"vectors": {"size": 2, "distance": "Dot", "memory": "pinned"}}, 422, "pinned"),
        ("PUT", f"{base}-2", {"sparse_vectors": {"": {}}}, 400, "Sparse vector name cannot be empty"),
        ("PUT", f"{base}-2", {"vectors": {"size": 2, "distance": "Dot"}, "payload": {"memory": "pinned"}}, 422, "pinned"),
        ("PUT", f"{base}-2", {"sparse_vectors": {"x": {"index": {"datatype": "turbo4"}}}}, 400, "sparse vectors do not support"),
    ]


def test_words(http, name):
    for method, path, body, code, words in queries(name):
        status, answer = said(http, method, path, body)
        assert (status, words in answer) == (code, True), (method, path, body, status, answer)


def test_an_alias_takes_a_name(http, name):
    actions = [{"create_alias": {"collection_name": name, "alias_name": f"{name}-alias"}}]
    http.call("POST", "/collections/aliases", {"actions": actions})
    status, answer = said(http, "PUT", f"/collections/{name}-alias", {"vectors": {"size": 2, "distance": "Dot"}})
    assert status == 400 and "lias with the same name already exists" in answer


def test_who_does_not_wait_is_told_no_more_than_taken(http, name):
    body = {"field_name": "t", "field_schema": "keyword"}
    for wait, status in [("", "acknowledged"), ("?wait=false", "acknowledged"), ("?wait=true", "completed")]:
        assert http.result("PUT", f"/collections/{name}/index{wait}", body)["status"] == status
        assert http.result("DELETE", f"/collections/{name}/index/t{wait}")["status"] == status


def test_root(http):
    root = http.get("/")
    assert set(root) == {"title", "version", "commit"}
    assert (root["title"], len(root["commit"])) == ("qdrant - vector search engine", 40)


def test_an_index_once_its_threshold_is_reached(http, name):
    """Also of points that would fit into the write buffer: who set the threshold waits for the count to rise."""
    rng = random.Random(7)
    vectors = [[rng.uniform(-1, 1) for _ in range(64)] for _ in range(200)]
    points = [{"id": i, "vector": vector} for i, vector in enumerate(vectors)]
    kinds = {f"{name}-{threshold}": threshold for threshold in (10, 0)}
    for path, threshold in kinds.items():
        body = {"vectors": {"size": 64, "distance": "Cosine"}, "optimizers_config": {"indexing_threshold": threshold}}
        http.call("PUT", f"/collections/{path}", body)
        http.call("PUT", f"/collections/{path}/points?wait=true", {"points": points})
    indexed, unindexed = kinds
    assert http.result("GET", f"/collections/{indexed}")["status"] in ("yellow", "green")
    end = time.monotonic() + 60
    while not (info := http.result("GET", f"/collections/{indexed}"))["indexed_vectors_count"] and time.monotonic() < end:
        time.sleep(0.1)
    assert (info["indexed_vectors_count"], info["points_count"]) == (200, 200)
    assert http.result("GET", f"/collections/{unindexed}")["indexed_vectors_count"] == 0
    for path in kinds:
        found = http.result("POST", f"/collections/{path}/points/query", {"query": vectors[17], "limit": 1})["points"]
        assert [point["id"] for point in found] == [17]
        http.call("DELETE", f"/collections/{path}")


def test_settings_as_older_clients_name_them(http, name):
    path = f"/collections/{name}-2"
    scalar = {"scalar": {"type": "int8", "quantile": 0.5}}
    graphs = {"inline_storage": True}
    vectors = {
        "plain": {"size": 2, "distance": "Dot", "hnsw_config": graphs},
        "codes": {"size": 2, "distance": "Dot", "hnsw_config": graphs, "quantization_config": scalar},
        "multi": {"size": 2, "distance": "Dot", "hnsw_config": graphs, "multivector_config": {"comparator": "max_sim"}},
    }
    http.call("PUT", path, {"vectors": vectors, "quantization": scalar})
    info = http.result("GET", path)
    assert info["config"]["quantization_config"]["scalar"]["quantile"] == 0.5
    # `inline_storage` needs codes, which the collection's setting gives to all, and can't be had of multivectors.
    assert ["multi" in warning["message"] for warning in info["warnings"]] == [True]
    http.call("DELETE", path)


def test_telemetry_of_what_was_just_written(http, name):
    shown = http.get("/telemetry?details_level=10")["result"]["collections"]["collections"]
    [shard] = [collection["shards"][0]["local"] for collection in shown if collection["id"] == name]
    assert [segment["info"]["num_points"] for segment in shard["segments"]] == [4]
    assert shard["update_queue"] == {"length": 0, "op_num": 1}
    path = f"/collections/{name}/optimizations?with=idle_segments"
    assert [segment["points_count"] for segment in http.result("GET", path)["idle_segments"]] == [4]


def test_what_is_under_way_is_told(http):
    path = "/collections/under-way"
    rng = np.random.default_rng(5)
    http.call("PUT", path, {"vectors": {"v": {"size": 64, "distance": "Cosine", "index": "hnsw"}}, "optimizers_config": {"indexing_threshold": 100}})
    for first in range(0, 8_000, 1000):
        vectors = rng.standard_normal((1000, 64)).round(3).tolist()
        points = [{"id": first + n, "vector": {"v": vector}} for n, vector in enumerate(vectors)]
        http.call("PUT", f"{path}/points?wait=true", {"points": points})
    steps, deadline = set(), time.monotonic() + 120
    while http.result("GET", path)["status"] != "green":
        assert time.monotonic() < deadline, "isn't indexed"
        # Questions without a pause keep the work from its core.
        time.sleep(0.02)
        for job in http.result("GET", f"{path}/optimizations?with=queued")["running"]:
            assert job["status"] == "optimizing" and job["optimizer"] in ("merge", "indexing")
            assert sum(segment["points_count"] for segment in job["segments"]) <= 8_000
            for step in job["progress"]["children"]:
                assert 0 <= step["done"] <= step["total"]
                steps.add(step["name"])
    assert {"v: compare"} <= steps, steps
    assert http.result("GET", f"{path}/optimizations")["running"] == []
    http.call("DELETE", path)


def strict(http, name, **more):
    http.call("PATCH", f"/collections/{name}", {"strict_mode_config": {"enabled": True, **more}})


def test_strict_mode_holds_to_what_indexes_were_made_for(http, name):
    checks = {
        "n": ("match", {"value": 1}, {"type": "integer", "lookup": False, "range": True}, {"type": "integer"}),
        "m": ("range", {"gt": 1}, {"type": "integer", "lookup": True, "range": False}, {"type": "integer"}),
        "k": ("match", {"prefix": "a"}, "keyword", {"type": "keyword", "prefix": True}),
        "p": ("match", {"phrase": "a b"}, "text", {"type": "text", "phrase_matching": True}),
    }
    strict(http, name, unindexed_filtering_retrieve=False)
    for key, (kind, check, without, able) in checks.items():
        for schema, code in [(without, 400), (able, 200)]:
            body = {"field_name": key, "field_schema": schema}
            http.call("PUT", f"/collections/{name}/index?wait=true", body)
            body = {"filter": {"must": [{"key": key, kind: check}]}}
            status, answer = said(http, "POST", f"/collections/{name}/points/scroll", body)
            assert (status, f'for \\"{key}\\"' in answer) == (code, code == 400), (key, schema, answer)


def test_strict_mode_counts_the_hits_of_groups(http, name):
    strict(http, name, max_query_limit=15)
    body = {"query": [1.0, 0.0], "using": "d", "group_by": "t", "limit": 10, "group_size": 3}
    status, answer = said(http, "POST", f"/collections/{name}/points/query/groups", body)
    assert status == 400 and 'Limit exceeded 30 > 15 for \\"limit\\"' in answer
    assert said(http, "POST", f"/collections/{name}/points/query/groups", {**body, "group_size": 1})[0] == 200


def test_strict_mode_without_an_index_for_vectors(http, name):
    """`search_allow_exact`: false, of a vector that is searched exactly always."""

    def ask(**query):
        status, answer = said(http, "POST", f"/collections/{name}/points/query", {"limit": 2, **query})
        assert status == 200 or "global vector indexing is disabled" in answer, answer
        return status

    strict(http, name, search_allow_exact=False)
    nearest = {"query": [1.0, 0.0], "using": "d"}
    assert ask(**nearest) == 200
    http.call("PATCH", f"/collections/{name}", {"vectors": {"d": {"hnsw_config": {"m": 0}}}})
    sparse = {"query": {"indices": [0], "values": [1.0]}, "using": "s"}
    assert [ask(**nearest), ask(**sparse)] == [400, 200]
    assert [ask(prefetch=[sparse], **nearest), ask(prefetch=[nearest], **sparse)] == [200, 400]
    assert ask(query={"fusion": "rrf"}, prefetch=[nearest]) == 400
    tenant = {**nearest, "filter": of_tenant("a")}
    http.call("PATCH", f"/collections/{name}", {"vectors": {"d": {"hnsw_config": {"m": 0, "payload_m": 16}}}})
    assert [ask(**nearest), ask(**tenant)] == [400, 400]
    body = {"field_name": "t", "field_schema": {"type": "keyword", "is_tenant": True}}
    http.call("PUT", f"/collections/{name}/index?wait=true", body)
    assert [ask(**nearest), ask(**tenant)] == [400, 200]
    strict(http, name, search_allow_exact=True)
    assert ask(**nearest) == 200


def test_other_names_of_fields(http, name):
    base = f"/collections/{name}"
    point = {"id": 9, "vectors": {"d": [9.0, 9.0]}, "payload": {"t": "z"}}
    http.call("PUT", f"{base}/points?wait=true", {"points": [point]})
    search = {"vector": {"name": "d", "vector": [1.0, 1.0]}, "top": 1}
    assert [hit["id"] for hit in http.result("POST", f"{base}/points/search", search)] == [9]
    recommend = {"positive": [9], "using": "d", "top": 2}
    assert len(http.result("POST", f"{base}/points/recommend", recommend)) == 2
    http.call("PUT", f"{base}/points/vectors?wait=true", {"points": [{"id": 9, "vectors": {"d": [0.0, 1.0]}}]})
    assert http.result("POST", f"{base}/points", {"ids": [9], "with_vector": True})[0]["vector"]["d"] == [0.0, 1.0]
    http.call("POST", f"{base}/points/vectors/delete?wait=true", {"points": [9], "vectors": ["d"]})
    assert "d" not in http.result("POST", f"{base}/points", {"ids": [9], "with_vector": True})[0]["vector"]
    optimizers = {"indexing_threshold_kb": 55, "max_segment_size_kb": 66, "memmap_threshold_kb": 77}
    http.call("PATCH", base, {"hnsw_config": {"full_scan_threshold_kb": 123}, "optimizers_config": optimizers})
    config = http.result("GET", base)["config"]
    shown = config["optimizer_config"]
    assert config["hnsw_config"]["full_scan_threshold"] == 123
    assert (shown["indexing_threshold"], shown["max_segment_size"], shown["memmap_threshold"]) == (55, 66, 77)


def test_languages_by_their_codes(http, name):
    base = f"/collections/{name}"
    for slot, language in enumerate(["english", "en"]):
        schema = {"type": "text", "stopwords": language, "stemmer": {"type": "snowball", "language": language}}
        http.call("PUT", f"{base}/index?wait=true", {"field_name": f"text{slot}", "field_schema": schema})
        http.call("POST", f"{base}/points/payload?wait=true", {"payload": {f"text{slot}": "the runners were running"}, "points": [1]})
        for words, found in [("run", 1), ("the run", 1), ("walk", 0)]:
            match = {"must": [{"key": f"text{slot}", "match": {"text": words}}]}
            assert http.result("POST", f"{base}/points/count", {"filter": match})["count"] == found, (language, words)
    weights = []
    for language in ["german", "de"]:
        document = {"text": "die Katzen und die Hunde", "model": "qdrant/bm25", "options": {"language": language}}
        http.call("PUT", f"{base}/points?wait=true", {"points": [{"id": 20, "vector": {"s": document}}]})
        weights.append(http.result("POST", f"{base}/points", {"ids": [20], "with_vector": True})[0]["vector"]["s"])
    assert weights[0] == weights[1] and len(weights[0]["indices"]) == 2
