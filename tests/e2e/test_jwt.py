"""Tokens that say what they open, over REST and gRPC: made here, by the standard library."""

import base64
import hashlib
import hmac
import json
import time

import grpc
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest
from harness.http import Http
from harness.server import Server

SECRET, OTHER_SECRET = "a-secret", "the-next-secret"


def token(claims, secret=SECRET, alg="HS256"):
    part = lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=")  # noqa: E731
    message = part(json.dumps({"alg": alg, "typ": "JWT"}).encode()) + b"." + part(json.dumps(claims).encode())
    return (message + b"." + part(hmac.new(secret.encode(), message, hashlib.sha256).digest())).decode()


def only(collection, access):
    return token({"access": [{"collection": collection, "access": access}]})


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    if conftest.SELF:
        pytest.skip("needs a server")
    flags = ["--api-key", SECRET, "--alt-api-key", OTHER_SECRET, "--jwt-rbac"]
    with Server(tmp_path_factory.mktemp("jwt") / "data", arguments=flags, key=SECRET) as server:
        http = server.http()
        for name in ("c", "d"):
            http.call("PUT", f"/collections/{name}", {"vectors": {"size": 2, "distance": "Dot"}})
            http.call("PUT", f"/collections/{name}/points?wait=true", {"points": [{"id": i, "vector": [i, 1], "payload": {"g": i % 2}} for i in range(4)]})
        http.call("POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": "d", "alias_name": "e"}}]})
        yield server


def ask(server, key, method, path, body=None):
    http = Http(server.url, key)
    try:
        status, _, text = http.raw(method, path, json.dumps(body) if body is not None else None)
        return status, json.loads(text) if text.startswith(b"{") else text
    finally:
        http.close()


QUERY = {"query": [1.0, 2.0]}
POINTS = {"points": [{"id": 9, "vector": [1.0, 2.0]}]}
# Who may: a global reader, and one of the collection, a writer of it, a writer of its points alone.
ROUTES = [
    ("GET", "/collections", None, "r c w p"),
    ("GET", "/aliases", None, "r c w p"),
    ("GET", "/telemetry", None, "r c w p"),
    ("GET", "/issues", None, "r c w p"),
    ("GET", "/metrics", None, "r"),
    ("GET", "/memory", None, "r"),
    ("GET", "/cluster", None, "r"),
    ("GET", "/quotas", None, "r"),
    ("GET", "/snapshots", None, "r"),
    ("GET", "/collections/c", None, "r c w p"),
    ("GET", "/collections/c/exists", None, "r c w p"),
    ("GET", "/collections/c/points/1", None, "r c w p"),
    ("POST", "/collections/c/points/query", QUERY, "r c w p"),
    ("POST", "/collections/c/points/scroll", {}, "r c w p"),
    ("POST", "/collections/c/points/count", {}, "r c w p"),
    ("GET", "/collections/c/snapshots", None, "r c w"),
    ("GET", "/collections/c/snapshots/none", None, "r c w"),
    ("PUT", "/collections/c/points?wait=true", POINTS, "w p"),
    ("POST", "/collections/c/points/delete", {"points": [9]}, "w p"),
    ("POST", "/collections/c/points/payload", {"payload": {"x": 1}, "points": [1]}, "w p"),
    ("POST", "/collections/c/points/batch", {"operations": [{"delete": {"points": [9]}}]}, "w p"),
    ("PUT", "/collections/c/index?wait=true", {"field_name": "x", "field_schema": "integer"}, "w"),
    ("DELETE", "/collections/c/index/x?wait=true", None, "w"),
    ("PUT", "/collections/c/vectors/v", {"dense": {"size": 2, "distance": "Dot"}}, "w"),
    ("DELETE", "/collections/c/vectors/v", None, "w"),
    ("POST", "/collections/c/snapshots", None, "w"),
    ("DELETE", "/collections/c/snapshots/none", None, "w"),
    ("PUT", "/collections/c/snapshots/recover", {"location": "file:///none"}, ""),
    ("PATCH", "/collections/c", {"optimizers_config": {"indexing_threshold": 20000}}, ""),
    ("PUT", "/collections/new", {"vectors": {"size": 2, "distance": "Dot"}}, ""),
    ("POST", "/collections/aliases", {"actions": []}, ""),
    ("DELETE", "/collections/new", None, ""),
    ("POST", "/snapshots", None, ""),
    ("PUT", "/quotas", {}, ""),
]


@pytest.mark.parametrize("who", ["r", "c", "w", "p", "m", "none"])
def test_what_each_opens(locked, who):
    key = {
        "r": token({"access": "r"}),
        "c": only("c", "r"),
        "w": only("c", "rw"),
        "p": only("c", "prw"),
        "m": token({}),
        "none": token({"access": []}),
    }[who]
    for method, path, body, may in ROUTES:
        status, answer = ask(locked, key, method, path, body)
        some = path in ("/collections", "/aliases", "/telemetry", "/issues")
        opened = who == "m" or who in may.split() or (who == "none" and some)
        assert (status != 403) == opened and status not in (401, 500), (method, path, status, answer)


def test_a_token_for_one_collection_shows_no_other(locked):
    key = only("c", "rw")
    assert ask(locked, key, "GET", "/collections")[1]["result"] == {"collections": [{"name": "c"}]}
    assert ask(locked, key, "GET", "/aliases")[1]["result"] == {"aliases": []}
    told = ask(locked, key, "GET", "/telemetry?details_level=3&per_collection=true")[1]["result"]
    assert [c["id"] for c in told["collections"]["collections"]] == ["c"] and '"d"' not in json.dumps(told)
    for path in ("/collections/d", "/collections/e", "/collections/nowhere"):
        status, answer = ask(locked, key, "GET", path)
        name = path.rsplit("/", 1)[1]
        assert (status, answer["status"]["error"]) == (403, f"Forbidden: Access to collection {name} is required")
    # By its alias where that is what the token names.
    assert ask(locked, only("e", "r"), "POST", "/collections/e/points/count", {})[0] == 200


OWN = {"id", "app", "collections"}
ALL = OWN | {"cluster", "requests", "quota"}
DEEP = ALL | {"memory", "hardware", "search_pool"}


@pytest.mark.parametrize("access", ["r", "rw", "prw"])
def test_what_the_telemetry_tells_whom(locked, access):
    for level, all_fields in [(0, ALL), (1, DEEP), (10, DEEP)]:
        path = f"/telemetry?details_level={level}"
        for key, fields in [(SECRET, all_fields), (token({"access": "r"}), all_fields), (only("c", access), OWN), (token({"access": []}), OWN)]:
            assert set(ask(locked, key, "GET", path)[1]["result"]) == fields, (level, key)


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("POST", "/collections/c/nothing"), ("PUT", "/telemetry"), ("GET", "//collections//c//nothing/")])
def test_which_paths_there_are_is_told_to_nobody_without_a_key(locked, method, path):
    for key, status in [
        (None, 401),
        ("guessed", 401),
        (token({}, alg="none"), 401),
        (token({}, "guessed"), 403),
        (token({"exp": 1}), 403),
        (only("c", "r"), None),
        (SECRET, None),
    ]:
        got = ask(locked, key, method, path)[0]
        assert got == status if status else got in (404, 405), (key, got)


def test_which_methods_there_are_is_told_to_nobody_without_a_key(locked):
    with grpc.insecure_channel(f"127.0.0.1:{locked.grpc_port}") as channel:
        for key, code in [(None, "UNAUTHENTICATED"), ("guessed", "UNAUTHENTICATED"), (only("c", "r"), "UNIMPLEMENTED"), (SECRET, "UNIMPLEMENTED")]:
            call = channel.unary_unary("/qdrant.Points/Nothing", lambda raw: raw, lambda raw: raw)
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", metadata=[("api-key", key)] if key else [])
            assert refused.value.code().name == code, key


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", {"query": {"recommend": {"positive": [1]}}, "lookup_from": {"collection": "d"}}),
        ("query", {"prefetch": {"prefetch": {"query": 1, "lookup_from": {"collection": "d"}}, "query": 1}, "query": {"fusion": "rrf"}}),
        ("query/batch", {"searches": [QUERY, {"query": 1, "lookup_from": {"collection": "d"}}]}),
        ("query/groups", {"query": [1.0, 2.0], "group_by": "g", "with_lookup": "d"}),
        ("query/groups", {"query": 1, "group_by": "g", "lookup_from": {"collection": "d"}}),
        ("recommend", {"positive": [1], "limit": 3, "lookup_from": {"collection": "d"}}),
        ("recommend/groups", {"positive": [1], "limit": 3, "group_by": "g", "group_size": 1, "with_lookup": {"collection": "d"}}),
        ("discover", {"target": 1, "limit": 3, "lookup_from": {"collection": "d"}}),
    ],
)
def test_points_of_other_collections(locked, path, body):
    status, answer = ask(locked, only("c", "rw"), "POST", f"/collections/c/points/{path}", body)
    assert (status, answer["status"]["error"]) == (403, "Forbidden: Access to collection d is required")
    both = token({"access": [{"collection": "c", "access": "r"}, {"collection": "d", "access": "r"}]})
    assert ask(locked, both, "POST", f"/collections/c/points/{path}", body)[0] == 200


def test_tokens_that_do_not_count(locked):
    now = int(time.time())
    told = lambda key: ask(locked, key, "GET", "/collections")  # noqa: E731
    assert told(token({"exp": now + 60}))[0] == 200 and told(token({"exp": now - 10}))[0] == 200, "clocks may differ by half a minute"
    assert told(token({}, OTHER_SECRET))[0] == 200
    for key, status, words in [
        (token({"exp": now - 60}), 403, "ExpiredSignature"),
        (token({}, "guessed"), 403, "InvalidSignature"),
        (token({}, alg="none"), 401, "Invalid API key or JWT"),
        (token({}).rsplit(".", 1)[0] + ".", 403, "InvalidSignature"),
        (token({"access": "w"}), 401, "Invalid API key or JWT"),
        (token({"access": None}), 401, "Invalid API key or JWT"),
        (token({"access": "r", "exp": None}), 401, "Invalid API key or JWT"),
        (token({"access": [{"collection": "c", "access": "r", "payload": {"g": 1}}]}), 401, "payload"),
        ("x.y.z", 401, "Invalid API key or JWT"),
    ]:
        got, answer = told(key)
        assert got == status and words in answer["status"]["error"], (got, answer)


def test_a_point_that_must_be_there(locked):
    key = token({"access": "r", "value_exists": {"collection": "users", "matches": [{"key": "token.id", "value": "t42"}]}})
    told = lambda: ask(locked, key, "POST", "/collections/c/points/count", {})[0]  # noqa: E731
    admin = locked.http()
    assert told() == 403, "no such collection"
    admin.call("PUT", "/collections/users", {"vectors": {}})
    assert told() == 401
    admin.call("PUT", "/collections/users/points?wait=true", {"points": [{"id": 1, "vector": {}, "payload": {"token": {"id": "t42"}}}]})
    assert told() == 200
    admin.call("POST", "/collections/users/points/delete?wait=true", {"points": [1]})
    assert told() == 401
    admin.call("DELETE", "/collections/users")


def test_over_grpc(locked):
    def client(key):
        return QdrantClient(url=locked.url, grpc_port=locked.grpc_port, api_key=key, prefer_grpc=True, check_compatibility=False)

    writer = client(only("c", "prw"))
    assert [c.name for c in writer.get_collections().collections] == ["c"]
    writer.upsert("c", [models.PointStruct(id=50, vector=[1.0, 2.0])])
    assert len(writer.query_points("c", query=[1.0, 2.0]).points) == 5
    writer.delete("c", [50])
    for refused in (
        lambda: writer.query_points("d", query=[1.0, 2.0]),
        lambda: writer.query_points("c", query=1, lookup_from=models.LookupLocation(collection="d")),
        lambda: writer.create_payload_index("c", "x", "integer"),
        lambda: writer.delete_collection("c"),
        lambda: client(token({"access": "r"})).delete("c", [1]),
    ):
        with pytest.raises((grpc.RpcError, UnexpectedResponse)) as error:
            refused()
        assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(grpc.RpcError) as error:
        client(token({}, alg="none")).get_collections()
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_no_tokens_unless_asked_for(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", arguments=["--api-key", SECRET], key=SECRET) as server:
        assert ask(server, token({}), "GET", "/collections")[0] == 401
        assert ask(server, SECRET, "GET", "/telemetry?details_level=1")[1]["result"]["app"]["jwt_rbac"] is False
    with pytest.raises(RuntimeError, match="--jwt-rbac needs --api-key"):
        Server(tmp_path / "other", arguments=["--jwt-rbac"]).start()
