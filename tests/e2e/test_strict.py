"""Strict mode: every limit refuses what is over it and nothing else, and can be changed."""

import pytest

import conftest

NAME = "strict"
BASE = f"/collections/{NAME}"
VECTOR = [0.2, 0.1, 0.9, 0.7]


@pytest.fixture
def strict(http):
    http.raw("DELETE", BASE)
    body = {"vectors": {"size": 4, "distance": "Dot"}}
    http.call("PUT", BASE, body)
    points = [{"id": i, "vector": VECTOR, "payload": {"city": "Berlin" if i % 2 else "Paris", "n": i}} for i in range(1, 9)]
    http.call("PUT", f"{BASE}/points?wait=true", {"points": points})
    yield http
    http.call("DELETE", BASE)


def limits(http, **strict):
    """Patches the settings; gives them as they are then shown."""
    http.call("PATCH", BASE, {"strict_mode_config": {"enabled": True, **strict}})
    shown = http.result("GET", BASE)["config"]["strict_mode_config"]
    assert {**shown, **strict} == shown
    return shown


def ask(http, method, path, body=None):
    import json

    status, headers, answer = http.raw(method, f"{BASE}{path}", json.dumps(body) if body is not None else None)
    answer = json.loads(answer)
    return status, answer["status"]["error"] if status >= 400 else "", {k.lower(): v for k, v in dict(headers).items()}


CITY = {"must": [{"key": "city", "match": {"value": "Berlin"}}]}
RANGE = {"must": [{"key": "n", "range": {"gte": 3}}]}

# setting, its value, (method, path, body) that is refused, words of the refusal, one that isn't
LIMITS = [
    ({"max_query_limit": 4}, ("POST", "/points/query", {"query": VECTOR, "limit": 5}), 'Limit exceeded 5 > 4 for "limit". Help: Reduce the "limit" parameter to or below 4.', ("POST", "/points/query", {"query": VECTOR, "limit": 4})),
    ({"max_query_limit": 4}, ("POST", "/points/search", {"vector": VECTOR, "limit": 5}), "limit", ("POST", "/points/search", {"vector": VECTOR, "limit": 4})),
    ({"max_query_limit": 4}, ("POST", "/points/scroll", {"limit": 5}), "limit", ("POST", "/points/scroll", {"limit": 4})),
    ({"max_query_limit": 20}, ("POST", "/points/search/matrix/pairs", {"limit": 3, "sample": 7}), "21 > 20", ("POST", "/points/search/matrix/pairs", {"limit": 4, "sample": 5})),
    ({"max_timeout": 2}, ("POST", "/points/query?timeout=3", {"query": VECTOR}), "timeout", ("POST", "/points/query?timeout=2", {"query": VECTOR})),
    ({"unindexed_filtering_retrieve": False}, ("POST", "/points/query", {"query": VECTOR, "filter": CITY}), 'Index required but not found for "city" of one of the following types: [keyword]', ("POST", "/points/delete", {"filter": {"must": [{"key": "city", "match": {"value": "none"}}]}})),
    ({"unindexed_filtering_retrieve": False}, ("POST", "/points/count", {"filter": RANGE}), "[float, integer]", ("POST", "/points/count", {"filter": {"must": [{"has_id": [1]}]}})),
    ({"unindexed_filtering_retrieve": False}, ("POST", "/points/scroll", {"filter": {"must": [{"nested": {"key": "a", "filter": RANGE}}]}}), '"a[].n"', ("POST", "/points/scroll", {"filter": {"must": []}})),
    ({"unindexed_filtering_update": False}, ("POST", "/points/delete", {"filter": CITY}), "city", ("POST", "/points/count", {"filter": CITY})),
    ({"unindexed_filtering_update": False}, ("POST", "/points/payload", {"payload": {"x": 1}, "filter": CITY}), "city", ("POST", "/points/payload", {"payload": {"x": 1}, "points": [1]})),
    ({"unindexed_filtering_update": False}, ("POST", "/points/batch", {"operations": [{"delete": {"filter": CITY}}]}), "city", ("POST", "/points/batch", {"operations": [{"delete": {"points": [99]}}]})),
    ({"search_max_hnsw_ef": 3}, ("POST", "/points/query", {"query": VECTOR, "params": {"hnsw_ef": 4}}), "hnsw_ef", ("POST", "/points/query", {"query": VECTOR, "params": {"hnsw_ef": 3}})),
    ({"search_allow_exact": False}, ("POST", "/points/query", {"query": VECTOR, "params": {"exact": True}}), "Exact search disabled!. Help: Set exact=false.", ("POST", "/points/query", {"query": VECTOR})),
    ({"search_allow_exact": False}, ("POST", "/points/count", {}), "Exact", ("POST", "/points/count", {"exact": False})),
    ({"search_max_oversampling": 1.5}, ("POST", "/points/query", {"query": VECTOR, "params": {"quantization": {"oversampling": 2.0}}}), "oversampling", ("POST", "/points/query", {"query": VECTOR, "params": {"quantization": {"oversampling": 1.5}}})),
    ({"upsert_max_batchsize": 2}, ("PUT", "/points", {"points": [{"id": i, "vector": VECTOR} for i in (1, 2, 3)]}), "upsert limit", ("PUT", "/points", {"points": [{"id": i, "vector": VECTOR} for i in (1, 2)]})),
    ({"upsert_max_batchsize": 2}, ("PUT", "/points", {"batch": {"ids": [1, 2, 3], "vectors": [VECTOR] * 3}}), "upsert limit", ("PUT", "/points", {"batch": {"ids": [1, 2], "vectors": [VECTOR] * 2}})),
    ({"upsert_max_batchsize": 2}, ("PUT", "/points/vectors", {"points": [{"id": i, "vector": VECTOR} for i in (1, 2, 3)]}), "update limit", ("PUT", "/points/vectors", {"points": [{"id": i, "vector": VECTOR} for i in (1, 2)]})),
    ({"search_max_batchsize": 2}, ("POST", "/points/query/batch", {"searches": [{"query": VECTOR}] * 3}), "search batch size", ("POST", "/points/query/batch", {"searches": [{"query": VECTOR}] * 2})),
    ({"search_max_batchsize": 2}, ("POST", "/points/search/batch", {"searches": [{"vector": VECTOR, "limit": 1}] * 3}), "search batch size", ("POST", "/points/search/batch", {"searches": [{"vector": VECTOR, "limit": 1}] * 2})),
    ({"max_points_count": 8}, ("PUT", "/points", {"points": [{"id": 50, "vector": VECTOR}]}), "Max points count limit of 8 reached!", ("POST", "/points/delete", {"points": [1]})),
    ({"max_collection_vector_size_bytes": 64}, ("PUT", "/points", {"points": [{"id": 50, "vector": VECTOR}]}), "Max vector storage size limit of 0.000061035156MB reached!", ("POST", "/points/payload", {"payload": {"x": 1}, "points": [1]})),
    ({"max_collection_payload_size_bytes": 64}, ("POST", "/points/payload", {"payload": {"x": 1}, "points": [1]}), "Max payload storage size limit", ("POST", "/points/payload/clear", {"points": [1]})),
    ({"filter_max_conditions": 2}, ("POST", "/points/count", {"filter": {"must": [CITY, CITY, CITY]}}), "Filter condition limit reached (3 > 2)", ("POST", "/points/count", {"filter": {"must": [CITY, CITY]}})),
    ({"condition_max_size": 2}, ("POST", "/points/count", {"filter": {"must": [{"key": "n", "match": {"any": [1, 2, 3]}}]}}), "Condition size limit reached (3 > 2)", ("POST", "/points/count", {"filter": {"must": [{"key": "n", "match": {"any": [1, 2]}}]}})),
    ({"max_payload_index_count": 0}, ("PUT", "/index", {"field_name": "n", "field_schema": "integer"}), "Collection already has the maximum number of payload indices (0)", ("DELETE", "/index/n", None)),
]


@pytest.mark.parametrize("limit, bad, words, good", LIMITS, ids=lambda v: str(v)[:45] if isinstance(v, dict) else "")
def test_a_limit(strict, limit, bad, words, good):
    assert ask(strict, *bad)[0] == 200, "allowed without strict mode"
    strict.call("PATCH", BASE, {"strict_mode_config": {**limit, "enabled": False}})
    assert ask(strict, *bad)[0] == 200, "not enabled"
    if "max_points_count" in limit or "max_collection" in str(limit):
        points = [{"id": i, "vector": VECTOR, "payload": {"city": "Berlin", "n": i}} for i in range(1, 9)]
        strict.call("PUT", f"{BASE}/points?wait=true", {"points": points})
    if "max_payload_index_count" in limit:
        strict.call("DELETE", f"{BASE}/index/n")
    limits(strict, **limit)
    status, sentence, _ = ask(strict, *bad)
    assert status == 400 and sentence.startswith("Bad request: ") and words in sentence, (status, sentence)
    status, sentence, _ = ask(strict, *good)
    assert status == 200, sentence
    limits(strict, enabled=False)
    assert ask(strict, *bad)[0] == 200, "no more enabled"


def test_an_index_lets_the_filter_pass(strict):
    limits(strict, unindexed_filtering_retrieve=False, unindexed_filtering_update=False)
    assert ask(strict, "POST", "/points/count", {"filter": CITY})[0] == 400
    strict.call("PUT", f"{BASE}/index", {"field_name": "city", "field_schema": "integer"})
    assert ask(strict, "POST", "/points/count", {"filter": CITY})[0] == 400, "of the wrong kind"
    strict.call("PUT", f"{BASE}/index", {"field_name": "city", "field_schema": "keyword"})
    assert ask(strict, "POST", "/points/count", {"filter": CITY})[0] == 200
    assert ask(strict, "POST", "/points/delete", {"filter": CITY})[0] == 200


def test_settings_are_changed_one_by_one(strict):
    first = limits(strict, max_query_limit=10, max_timeout=2)
    assert first == {"enabled": True, "max_query_limit": 10, "max_timeout": 2}
    second = limits(strict, max_timeout=3, read_rate_limit=1000)
    assert second == {"enabled": True, "max_query_limit": 10, "max_timeout": 3, "read_rate_limit": 1000}


@pytest.mark.parametrize(
    "config, status, words",
    [
        ({"max_query_limit": 0}, 422, "strict_mode_config.max_query_limit: value 0 invalid, must be 1 or larger"),
        ({"max_timeout": 0}, 422, "max_timeout"),
        ({"read_rate_limit": 0}, 422, "read_rate_limit"),
        ({"write_rate_limit": 0}, 422, "write_rate_limit"),
        ({"max_points_count": 0}, 422, "max_points_count"),
        ({"max_resident_memory_percent": 101}, 422, "max_resident_memory_percent"),
        ({"max_query_limit": -1}, 400, "Format error in JSON body"),
        ({"max_query_limit": "ten"}, 400, "Format error in JSON body"),
        ({"enabled": "yes"}, 400, "Format error in JSON body"),
        ({"search_max_oversampling": "high"}, 400, "Format error in JSON body"),
    ],
)
def test_settings_out_of_range(strict, config, status, words):
    got, sentence, _ = ask(strict, "PATCH", "", {"strict_mode_config": config})
    assert got == status and words in sentence, (got, sentence)


def test_read_rate(strict):
    limits(strict, read_rate_limit=3)
    assert ask(strict, "POST", "/points/query", {"query": VECTOR})[0] == 200
    assert ask(strict, "POST", "/points/query", {"query": VECTOR, "filter": CITY})[0] == 200
    status, sentence, headers = ask(strict, "POST", "/points/query", {"query": VECTOR, "limit": 2})
    assert status == 429 and "Rate limiting exceeded: Read rate limit exceeded: Operation requires 1 tokens" in sentence
    assert 15 <= int(headers["retry-after"]) <= 20
    status, sentence, headers = ask(strict, "POST", "/points", {"ids": [1, 2, 3, 4]})
    assert status == 429 and "please try to split your request" in sentence and "retry-after" not in headers
    limits(strict, read_rate_limit=100)
    assert ask(strict, "POST", "/points", {"ids": [1, 2, 3, 4]})[0] == 200, "a new limit begins anew"
    # What reads points costs, with the conditions above it; what ranks what was found anew doesn't.
    one, two = {"query": VECTOR}, {"query": VECTOR, "prefetch": {"query": VECTOR, "prefetch": {"query": VECTOR}}}
    fused = {"prefetch": [one, one], "query": {"fusion": "rrf"}}
    for limit, query, status in [(1, two, 200), (1, fused, 429), (2, fused, 200), (3, fused | {"filter": CITY}, 429), (4, fused | {"filter": CITY}, 200)]:
        limits(strict, read_rate_limit=limit)
        assert ask(strict, "POST", "/points/query", query)[0] == status, (limit, query)


def test_write_rate(strict):
    strict.call("PUT", f"{BASE}/index?wait=true", {"field_name": "city", "field_schema": "keyword"})
    limits(strict, write_rate_limit=5)
    assert ask(strict, "PUT", "/points?wait=true", {"points": [{"id": i, "vector": VECTOR} for i in range(6)]})[0] == 429
    assert ask(strict, "POST", "/points/delete?wait=true", {"points": [1, 3]})[0] == 200
    # Three of Paris are left, four would be too many.
    status, sentence, headers = ask(strict, "POST", "/points/payload?wait=true", {"payload": {"x": 1}, "filter": {"must_not": [CITY]}})
    assert status == 429 and "Write rate limit exceeded" in sentence and int(headers["retry-after"]) >= 1
    assert ask(strict, "POST", "/points/count", {})[0] == 200, "reads have their own"
    # No index knows whom this is about: half of the six count, though it is nobody.
    limits(strict, write_rate_limit=2)
    nobody = {"must": [{"key": "n", "match": {"value": 99}}]}
    status, sentence, _ = ask(strict, "POST", "/points/payload?wait=true", {"payload": {"x": 1}, "filter": nobody})
    assert status == 429 and "please try to split your request" in sentence


def test_an_id_costs_what_its_multivector_has(http):
    http.raw("DELETE", BASE)
    config = {"vectors": {"m": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}}}
    http.call("PUT", BASE, config)
    points = [{"id": 1, "vector": {"m": [[1, 2], [3, 4], [5, 6]]}}, {"id": 2, "vector": {"m": [[1, 0]]}}]
    http.call("PUT", f"{BASE}/points?wait=true", {"points": points})
    limits(http, read_rate_limit=2)
    for query in [1, {"nearest": 1}, {"recommend": {"positive": [1], "strategy": "best_score"}}]:
        status, sentence, _ = ask(http, "POST", "/points/query", {"query": query, "using": "m"})
        assert status == 429 and "larger than rate limiter capacity" in sentence, query
    prefetch = {"prefetch": {"query": 1, "using": "m"}, "query": {"fusion": "rrf"}}
    assert ask(http, "POST", "/points/query/batch", {"searches": [prefetch]})[0] == 429
    assert ask(http, "POST", "/points/query", {"query": 2, "using": "m"})[0] == 200, "of one part"
    http.call("DELETE", BASE)


def test_it_survives_a_restart(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    from harness.server import Server

    with Server(tmp_path / "data") as server:
        http = server.http()
        http.call("PUT", BASE, {"vectors": {"size": 4, "distance": "Dot"}, "strict_mode_config": {"enabled": True, "max_query_limit": 2}})
        server.restart(kill=True)
        http = server.http()
        assert ask(http, "POST", "/points/query", {"query": VECTOR, "limit": 3})[0] == 400
        assert ask(http, "POST", "/points/query", {"query": VECTOR, "limit": 2})[0] == 200


@pytest.mark.skipif(conftest.SELF, reason="needs a server")
def test_the_deadline_of_a_client_is_no_timeout_of_a_request(strict, server):
    import grpc
    from qdrant_client import grpc as api

    limits(strict, max_timeout=2)
    points = api.PointsStub(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))
    # Clients send one with each call: the Python client 5 s.
    assert points.Count(api.CountPoints(collection_name=NAME), timeout=5).result.count == 8
    with pytest.raises(grpc.RpcError, match='Limit exceeded 3 > 2 for "timeout"'):
        points.Count(api.CountPoints(collection_name=NAME, timeout=3), timeout=5)
