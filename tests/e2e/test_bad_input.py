"""Bad input gets the API's code and a sentence that says what is wrong; the collection is as it was."""

import json

import pytest

import conftest
from harness.http import Http

NAME = "bad-input"
BASE = f"/collections/{NAME}"


@pytest.fixture(scope="module")
def collection(server):
    if conftest.SELF:
        pytest.skip("needs a server")
    http = server.http()
    http.call("PUT", BASE, {"vectors": {"size": 4, "distance": "Cosine"}})
    http.call("PUT", f"{BASE}/points?wait=true", {"points": [{"id": 1, "vector": [1, 2, 3, 4], "payload": {"n": 1}}]})
    yield http
    assert http.result("POST", f"{BASE}/points/count", {})["count"] == 1, "a refused request changed the collection"
    http.call("DELETE", BASE)
    http.close()


# The API answers 400 to what it can't read and 422 to what it reads and finds out of range.
BAD = (400, 422)


def check(http, method, path, body, status, *words):
    statuses = status if isinstance(status, tuple) else (status,)
    if not isinstance(body, (bytes, str, type(None))):
        body = json.dumps(body)
    got, _, answer = http.raw(method, path, body)
    text = answer.decode(errors="replace")
    assert got in statuses, f"{method} {path} {str(body)[:200]}: {got} {text[:500]}"
    sentence = json.loads(text)["status"]["error"]
    for word in words:
        assert word.lower() in sentence.lower(), f"{word!r} is missing in: {sentence}"
    return sentence


def upsert(vector, **more):
    return {"points": [{"id": 2, "vector": vector, **more}]}


@pytest.mark.parametrize(
    "body, words",
    [
        (upsert([1, 2, 3]), ["expected dim: 4", "got 3"]),
        (upsert([1, 2, 3, 4, 5]), ["expected dim: 4", "got 5"]),
        (upsert([]), []),
        (upsert({"text": [1, 2, 3, 4]}), ["text"]),
        (upsert("abc"), []),
        (upsert([1, 2, 3, "x"]), []),
        (upsert([1, 2, 3, None]), []),
        (upsert([1, 2, 3, 4], payload=5), []),
        (upsert([1, 2, 3, 4], payload=[1]), []),
        ({"points": [{"id": -1, "vector": [1, 2, 3, 4]}]}, []),
        ({"points": [{"id": "six", "vector": [1, 2, 3, 4]}]}, ["six", "valid point id"]),
        ({"points": [{"id": 1.5, "vector": [1, 2, 3, 4]}]}, []),
        ({"points": [{"vector": [1, 2, 3, 4]}]}, ["id"]),
        ({"points": 5}, []),
        ({}, []),
        ([], []),
        (b"", []),
        (b"{", []),
        (b"not json", []),
        (b'{"points":[{"id":2,"vector":[1,2,3,1e999]}]}', []),
        (b'{"points":[{"id":2,"vector":[1,2,3,NaN]}]}', []),
        (b"\xff\xfe{}", []),
        ({"batch": {"ids": [1, 2], "vectors": [[1, 2, 3, 4]]}}, []),
        ({"points": []}, []),
    ],
    ids=lambda value: str(value)[:50] if not isinstance(value, list) else "",
)
def test_upserts(collection, body, words):
    check(collection, "PUT", f"{BASE}/points?wait=true", body, BAD, *words)


def test_one_bad_point_refuses_all(collection):
    good, bad = {"id": 5, "vector": [1, 2, 3, 4]}, {"id": 6, "vector": [1]}
    check(collection, "PUT", f"{BASE}/points?wait=true", {"points": [good, bad, good]}, 400, "expected dim: 4")
    found = collection.result("POST", f"{BASE}/points", {"ids": [5, 6]})
    assert found == []


@pytest.mark.parametrize(
    "body, words",
    [
        ({"query": [1, 2, 3]}, ["expected dim: 4", "got 3"]),
        ({"query": [1, 2, 3, 4], "using": "nothing"}, ["nothing"]),
        ({"query": [1, 2, 3, 4], "limit": -1}, []),
        ({"query": [1, 2, 3, 4], "limit": "ten"}, []),
        ({"query": [1, 2, 3, 4], "limit": 0}, []),
        ({"query": [1, 2, 3, 4], "filter": {"must": [{"key": "n"}]}}, []),
        ({"query": [1, 2, 3, 4], "filter": {"must": [{"key": "n", "match": {"value": {}}}]}}, []),
        ({"query": [1, 2, 3, 4], "filter": {"must": [{"key": "a[", "match": {"value": 1}}]}}, []),
        ({"query": [1, 2, 3, 4], "filter": {"must": [{"key": "g", "geo_radius": {"center": {"lon": 0}, "radius": 1}}]}}, []),
        ({"query": [1, 2, 3, 4], "filter": {"must": [{"key": "w", "range": {"gt": "not a date"}}]}}, []),
        ({"query": [1, 2, 3, 4], "score_threshold": "high"}, []),
        ({"query": "six"}, []),
        (b"[1,2", []),
    ],
    ids=lambda value: str(value)[:60] if not isinstance(value, list) else "",
)
def test_queries(collection, body, words):
    check(collection, "POST", f"{BASE}/points/query", body, BAD, *words)


def test_things_that_are_not_there(collection):
    check(collection, "GET", "/collections/nothing", None, 404, "nothing", "doesn't exist")
    check(collection, "POST", "/collections/nothing/points/query", {"query": [1, 2, 3, 4]}, 404, "nothing")
    check(collection, "PUT", "/collections/nothing/points", upsert([1, 2, 3, 4]), 404, "nothing")
    check(collection, "POST", f"{BASE}/points/query", {"query": 777}, 404, "777")
    check(collection, "GET", f"{BASE}/points/777", None, 404, "777")
    assert collection.raw("GET", "/no/such/route")[0] == 404
    assert collection.raw("PATCH", f"{BASE}/points")[0] == 405


def test_collections(collection):
    check(collection, "PUT", BASE, {"vectors": {"size": 4, "distance": "Cosine"}}, 409, NAME, "already exists")
    for vectors in [
        {"size": 0, "distance": "Dot"},
        {"size": -4, "distance": "Dot"},
        {"size": 10**9, "distance": "Dot"},
        {"size": 4, "distance": "Hamming"},
        {"size": 4},
        {"a": {"size": 4}},
        5,
    ]:
        check(collection, "PUT", "/collections/not-made", {"vectors": vectors}, BAD)
    assert collection.raw("GET", "/collections/not-made")[0] == 404


@pytest.mark.parametrize("datatype", ["float16", "turbo4"])
def test_numbers_beyond_their_datatype(collection, datatype):
    """An infinite half would come back as null."""
    base = "/collections/halves"
    collection.call("PUT", base, {"vectors": {"size": 2, "distance": "Dot", "datatype": datatype}})
    try:
        put = f"{base}/points?wait=true"
        check(collection, "PUT", put, {"points": [{"id": 1, "vector": [1.0, 65520]}]}, 400, "element 1", "65504")
        collection.result("PUT", put, {"points": [{"id": 1, "vector": [1.0, -65519]}]})
        assert collection.result("GET", f"{base}/points/1")["vector"] == [1.0, -65504.0]
    finally:
        collection.call("DELETE", base)


def test_deep_nesting(collection):
    """Filters and payloads a thousand levels deep are refused, not run into the stack's end."""
    deep = '{"filter":' + '{"must":[' * 2000 + "]}" * 2000 + "}"
    assert collection.raw("POST", f"{BASE}/points/scroll", deep)[0] in (400, 413, 422)
    payload = '{"points":[{"id":9,"vector":[1,2,3,4],"payload":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}]}"
    assert collection.raw("PUT", f"{BASE}/points?wait=true", payload)[0] in (400, 413, 422)


def test_a_body_larger_than_the_budget(collection, server):
    """Refused by its announced length, before the bytes are sent."""
    import socket

    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        head = f"PUT {BASE}/points HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {10**12}\r\n\r\n"
        sock.sendall(head.encode())
        answer = sock.recv(65536).decode(errors="replace")
    assert answer.startswith("HTTP/1.1 413"), answer[:300]
    assert server.alive()


def test_half_a_body(collection, server):
    """A client that goes away in the middle of a request leaves nothing behind."""
    import socket

    body = json.dumps(upsert([1, 2, 3, 4]))
    for cut in [1, len(body) // 2, len(body) - 1]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
            head = f"PUT {BASE}/points HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            sock.sendall(head.encode() + body[:cut].encode())
    assert collection.result("POST", f"{BASE}/points", {"ids": [2]}) == []


def test_null_and_unknown_fields(collection):
    """Optional fields may be null, unknown ones are ignored, as the API does."""
    query = {
        "query": [1, 2, 3, 4],
        "filter": None,
        "params": None,
        "limit": None,
        "offset": None,
        "with_payload": None,
        "with_vector": None,
        "score_threshold": None,
        "using": None,
        "prefetch": None,
        "shard_key": None,
        "lookup_from": None,
        "not_a_field": 1,
    }
    hits = collection.result("POST", f"{BASE}/points/query", query)["points"]
    assert [h["id"] for h in hits] == [1]
    page = collection.result("POST", f"{BASE}/points/scroll", {"limit": None, "offset": None, "filter": None, "order_by": None})
    assert [p["id"] for p in page["points"]] == [1] and page["next_page_offset"] is None


def test_keep_alive_survives_errors(collection):
    http = Http(f"http://127.0.0.1:{collection.address[1]}")
    for _ in range(5):
        assert http.raw("GET", "/collections/nothing")[0] == 404
        assert http.raw("GET", BASE)[0] == 200
    http.close()
