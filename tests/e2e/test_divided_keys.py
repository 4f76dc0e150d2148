"""Shard keys over nodes: in a divided store, beside the same data in one server, and in a store that isn't divided, where nodes follow, are killed and begin anew."""

import json
import random
import shutil
import urllib.request

import pytest
from harness.divided import Divided, one_and_three
from harness.http import Answer
from harness.server import Server
from qdrant_client import models

import compare
import conftest
import sharded
from compare import close
from differential import History
from sharded import Sharded
from test_divided_queries import DIM, POINTS, TEXT, WORDS, Draw, same
from test_shards import KINDS

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs servers")

KEYS = ["north", 7]
PATH = "/collections/docs/points"


def make(http, keys=KEYS):
    vectors = {"a": {"size": DIM, "distance": "Cosine"}, "b": {"size": 3, "distance": "Euclid"}}
    sparse = {"words": {"modifier": "idf"}}
    http.result("PUT", "/collections/docs", {"vectors": vectors, "sparse_vectors": sparse, "sharding_method": "custom"})
    for key in keys:
        http.result("PUT", "/collections/docs/shards", {"shard_key": key})


def fill(http):
    """Every third id is under both keys, with other vectors and payloads."""
    make(http)
    rng = random.Random(5)
    words = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))  # noqa: E731
    for field in ("title", "body"):
        http.result("PUT", "/collections/docs/index?wait=true", {"field_name": field, "field_schema": TEXT})
    http.result("PUT", "/collections/docs/index?wait=true", {"field_name": "n", "field_schema": "integer"})
    http.result("PUT", "/collections/docs/index?wait=true", {"field_name": "label", "field_schema": "keyword"})
    for at, key in enumerate(KEYS):
        points = [
            {
                "id": n,
                "vector": {
                    "a": [rng.uniform(-1, 1) for _ in range(DIM)],
                    "b": [rng.uniform(-1, 1) for _ in range(3)],
                    "words": {"indices": sorted(rng.sample(range(12), 4)), "values": [rng.uniform(0, 1) for _ in range(4)]},
                },
                "payload": {"n": n, "of": key, "group": n % 7, "label": f"l{n % 5}", "title": words(3), "body": words(20)},
            }
            for n in range(POINTS)
            if n % 3 in (at, 2)
        ]
        http.result("PUT", f"{PATH}?wait=true", {"points": points, "shard_key": key})


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with one_and_three(tmp_path_factory.mktemp("keys"), fill) as servers:
        yield servers


@pytest.fixture(scope="module")
def posted(servers):
    """Asks both the same by a path: what they answer, the one server first."""
    https = [server.http() for server in servers]
    yield lambda path, body: [http.result("POST", path, body) for http in https]
    for http in https:
        http.close()


@pytest.fixture(scope="module")
def both(posted):
    return lambda path, body: posted(f"{PATH}/{path}", body)


def some_keys(rng):
    return rng.choice([{}, {"shard_key": []}, {"shard_key": KEYS}, *({"shard_key": key} for key in KEYS), {"shard_key": {"target": "none", "fallback": "north"}}])


def test_stages_over_stages_under_one_key(both):
    draw = Draw("keys")
    for _ in range(80):
        body = draw.stage(3) | {"with_payload": draw.rng.choice([False, ["n", "of"]]), "shard_key": draw.rng.choice(KEYS)}
        one, three = both("query", body)
        same(one["points"], three["points"], str(body))
        assert all(hit["shard_key"] == body["shard_key"] for hit in three["points"])


def test_one_stage_under_any_keys(both):
    """With vectors of points that are named, with words that are weighed by how rare they are there, in any order."""
    draw = Draw("any keys")
    rng = draw.rng
    for turn in range(120):
        kind = rng.choice(["nearest", "text", "sparse", "recommend", "discover", "order", "nothing"])
        keys = some_keys(rng)
        # Of the points that are named the first under these keys counts; this one is under all of them.
        ids = [2, 5]
        body = {
            "nearest": lambda: {"query": draw.vector("b"), "using": "b", "offset": rng.choice([0, 3])},
            "text": lambda: {"query": {"text": " ".join(rng.sample(WORDS, 2))}, "using": "body"},
            "sparse": lambda: {"query": {"indices": sorted(rng.sample(range(12), 3)), "values": [1, 0.5, 0.2]}, "using": "words"},
            "recommend": lambda: {"query": {"recommend": {"positive": ids, "negative": [8], "strategy": rng.choice(["average_vector", "best_score"])}}, "using": "a"},
            "discover": lambda: {"query": {"discover": {"target": 2, "context": [{"positive": 5, "negative": 8}]}}, "using": "a"},
            "order": lambda: {"query": {"order_by": {"key": "n", "direction": rng.choice(["asc", "desc"])}}},
            "nothing": lambda: {},
        }[kind]()
        body |= keys | {"limit": rng.choice([1, 10, 1_000]), "with_payload": ["n", "of"], "with_vector": ["b"] if turn % 4 == 0 else False}
        one, three = both("query", body)
        same(one["points"], three["points"], str(body))
        assert all(hit["shard_key"] == hit["payload"]["of"] for hit in three["points"]), body


def test_reads_without_scores_under_any_keys(posted, both):
    rng = random.Random(9)
    for _ in range(40):
        keys = some_keys(rng)
        for path, body in [
            ("scroll", {"limit": rng.choice([5, 1_000]), "offset": rng.choice([None, 40])}),
            ("scroll", {"limit": 30, "order_by": {"key": "n", "direction": "desc"}}),
            ("count", {"exact": True, "filter": {"must": [{"key": "label", "match": {"value": "l2"}}]}}),
        ]:
            one, three = both(path, body | keys)
            assert one == three, (path, body, keys)
    for keys in ({}, {"shard_key": "north"}, {"shard_key": KEYS}):
        one, three = posted("/collections/docs/facet", {"key": "label", "exact": True} | keys)
        assert one == three, keys
        one, three = posted(PATH, {"ids": [1, 2, 3, 5, 9], "with_payload": ["of"]} | keys)
        assert one == three, keys


def test_groups_and_others_under_one_key(both):
    draw = Draw("grouped")
    for _ in range(20):
        body = draw.stage(1) | {"group_by": "group", "group_size": 2, "limit": 3, "shard_key": draw.rng.choice(KEYS), "with_payload": ["of"]}
        one, three = both("query/groups", body)
        one, three = ([hit for group in answer["groups"] for hit in group["hits"]] for answer in (one, three))
        assert all(hit["shard_key"] == hit["payload"]["of"] == body["shard_key"] for hit in three)
        one, three = (sorted(hit["score"] for hit in hits) for hits in (one, three))
        assert len(one) == len(three) and all(close(a, b) for a, b in zip(one, three)), body
    near = {"query": {"nearest": [1, 0, 0, 1, 0, 0], "mmr": {"diversity": 0.5, "candidates_limit": 40}}, "using": "a", "limit": 9, "shard_key": 7}
    one, three = both("query", near)
    same(one["points"], three["points"])
    for answer in both("search/matrix/pairs", {"sample": 1_000, "limit": 2, "using": "a", "shard_key": 7}):
        assert len(answer["pairs"]) == 2 * len([n for n in range(POINTS) if n % 3 in (1, 2)])


def test_vectors_of_points_elsewhere_are_looked_up_by_key(both):
    for key in KEYS:
        recommend = {"recommend": {"positive": [2]}}
        body = {"query": recommend, "using": "a", "lookup_from": {"collection": "docs", "vector": "a", "shard_key": key}, "limit": 9, "shard_key": "north"}
        one, three = both("query", body)
        same(one["points"], three["points"], str(body))


def test_what_is_refused_is_named(servers, both):
    three = servers[1].http()
    lists = {"prefetch": {"query": [1, 0, 0, 1, 0, 0], "using": "a"}, "query": {"fusion": "rrf"}}
    for path, body in [("query", lists), ("query/groups", {"group_by": "group"}), ("search/matrix/pairs", {"using": "a"})]:
        for keys in ({}, {"shard_key": KEYS}):
            with pytest.raises(Answer) as refused:
                three.call("POST", f"{PATH}/{path}", body | keys)
            assert refused.value.status == 400 and "over several shard keys" in refused.value.sentence(), refused.value
    for body in ({"points": [{"id": 1, "vector": {}}]}, {"points": [{"id": 1, "vector": {}}], "shard_key": "none"}):
        for server in servers:
            http = server.http()
            with pytest.raises(Answer) as refused:
                http.call("PUT", f"{PATH}?wait=true", body)
            assert refused.value.status == 400
            http.close()
    three.close()


@pytest.mark.parametrize("grpc", [False, True])
def test_random_histories_under_one_key(tmp_path, grpc):
    """The random operations of the differential tests, through all nodes by turns, against the local mode; points are under one key, which queries needn't say."""
    with Divided(tmp_path, f"file://{tmp_path}/store", 3) as three:
        pair = compare.Pair(conftest.client_of(three, prefer_grpc=grpc), name="keyed")
        clients = [Sharded(conftest.client_of(node, prefer_grpc=grpc)) for node in three.nodes]
        pair.remote = clients[0]
        kept, sharded.KEYS[:] = list(sharded.KEYS), ["only"]
        try:
            history = History(pair, f"divided keys {grpc}")
            kinds = [kind for kind, weight in KINDS.items() for _ in range(weight)]
            for step in range(120):
                pair.remote = clients[step % 3]
                getattr(history, history.rng.choice(kinds).replace(" ", "_"))()
                if step % 20 == 19:
                    pair.same_state()
        finally:
            sharded.KEYS[:] = kept
        assert three.stop() == 0
        code, said = three.check()
        assert code == 0, said


def alone(server, shard, method, path, body):
    """Of one shard, as another node would ask."""
    asked = urllib.request.Request(f"{server.url}{path}", method=method, data=json.dumps(body).encode(), headers={"ramlet-shard": str(shard), "content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)["result"]


def test_a_key_that_was_dropped_in_part(tmp_path):
    """Its points don't come back under a key of the same name."""
    with Divided(tmp_path, f"file://{tmp_path}/store", 3, bound=(0, 1, 2)) as three:
        http = three.http()
        make(http, ["a"])
        points = [{"id": n, "vector": {"b": [n, 1, 1]}} for n in range(60)]
        http.result("PUT", f"{PATH}?wait=true", {"points": points, "shard_key": "a"})
        alone(three.nodes[0], 0, "POST", "/collections/docs/shards/delete", {"shard_key": "a"})
        assert http.result("GET", "/collections/docs/shards")["shard_keys"] == []
        with pytest.raises(Answer) as refused:
            http.call("PUT", "/collections/docs/shards", {"shard_key": "a"})
        assert refused.value.status == 400 and "dropped in part" in refused.value.sentence(), refused.value
        http.result("POST", "/collections/docs/shards/delete", {"shard_key": "a"})
        http.result("PUT", "/collections/docs/shards", {"shard_key": "a"})
        assert http.result("POST", f"{PATH}/count", {"shard_key": "a"})["count"] == 0
        # One that was made in part is made by who repeats it.
        for shard, node in enumerate(three.nodes[1:], 1):
            alone(node, shard, "PUT", "/collections/docs/shards", {"shard_key": "b"})
        http.result("PUT", "/collections/docs/shards", {"shard_key": "b"})
        http.result("PUT", f"{PATH}?wait=true", {"points": points, "shard_key": "b"})
        assert http.result("POST", f"{PATH}/count", {"shard_key": "b"})["count"] == 60
        http.close()


def node(folder, name, role, *more):
    arguments = ["--store", f"file://{folder}/store", "--role", role, "--no-probe", *more]
    return Server(folder / name, memory="96MB", arguments=arguments)


def counts(http):
    keys = [one["key"] for one in http.result("GET", "/collections/docs/shards")["shard_keys"]]
    return {key: http.result("POST", f"{PATH}/count?consistency=majority", {"shard_key": key})["count"] for key in keys}


def put(http, key, ids):
    points = [{"id": n, "vector": {"b": [n, 1, 1]}} for n in ids]
    http.result("PUT", f"{PATH}?wait=true", {"points": points, "shard_key": key})


@pytest.mark.parametrize("keep", ["8", "1"])
def test_nodes_of_one_store_have_the_same_keys(tmp_path, keep):
    """Keys come, go and come again while a reader follows, and another one begins anew; then all are killed, and one with an old directory takes over."""
    more = ("--store-backup-every", "20", "--store-keep", keep)
    with node(tmp_path, "w", "writer", *more) as writer, node(tmp_path, "r", "reader", *more) as reader:
        at_writer, at_reader = writer.http(), reader.http()
        make(at_writer, ["a", "b"])
        put(at_writer, "a", range(50))
        put(at_reader, "b", range(20))
        assert counts(at_writer) == counts(at_reader) == {"a": 50, "b": 20}
        reader.kill()
        old = tmp_path / "old"
        shutil.copytree(tmp_path / "r", old)
        # By the writer alone: both routes, and what is refused takes no number.
        at_writer.result("POST", "/collections/docs/cluster", {"drop_sharding_key": {"shard_key": "a"}})
        with pytest.raises(Answer):
            at_writer.call("PUT", "/collections/docs/shards", {"shard_key": "b"})
        at_writer.result("POST", "/collections/docs/cluster", {"create_sharding_key": {"shard_key": "a"}})
        put(at_writer, "a", range(7))
        at_writer.result("PUT", "/collections/docs/shards", {"shard_key": 9})
        at_writer.result("PUT", "/collections/more", {"vectors": {"size": 2, "distance": "Dot"}})
        at_writer.result("PUT", "/collections/more/points?wait=true", {"points": [{"id": 1, "vector": [1, 1]}]})
        for n in range(30):
            put(at_writer, 9, [n])
        expected = {"a": 7, "b": 20, 9: 30}
        assert counts(at_writer) == expected
        reader.start()
        at_reader = reader.http()
        assert counts(at_reader) == expected
        # Replayed once more, over what is there: drops of keys that were made anew since then.
        for server in (reader, writer):
            server.kill()
        shutil.copy(old / "store.json", tmp_path / "r" / "store.json")
        writer.start()
        reader.start()
        at_writer, at_reader = writer.http(), reader.http()
        assert counts(at_writer) == counts(at_reader) == expected
        with node(tmp_path, "new", "reader", *more) as new, node(tmp_path, "old", "reader", *more) as other:
            for server in (new, other):
                http = server.http()
                assert counts(http) == expected
                assert http.result("POST", "/collections/more/points/count", {})["count"] == 1
                http.close()
        writer.kill()
        shutil.rmtree(old)
        with node(tmp_path, "next", "writer", *more) as second:
            http = second.http()
            put(http, "b", range(100, 110))
            assert counts(http) == expected | {"b": 30}
            assert counts(at_reader) == expected | {"b": 30}
            http.close()
        for http in (at_writer, at_reader):
            http.close()
    for name in ("r", "next"):
        code, said = node(tmp_path, name, "reader").check()
        assert code == 0, said


def test_the_client_makes_keys_by_grpc(tmp_path):
    with Divided(tmp_path, f"file://{tmp_path}/store", 2) as two:
        clients = [conftest.client_of(server, prefer_grpc=True) for server in two.nodes]
        clients[0].create_collection("docs", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT), sharding_method=models.ShardingMethod.CUSTOM)
        assert clients[1].create_shard_key("docs", "a")
        assert clients[0].create_shard_key("docs", 5)
        clients[1].upsert("docs", [models.PointStruct(id=n, vector=[n, 1]) for n in range(20)], shard_key_selector=["a", 5])
        for client in clients:
            assert [key.key for key in client.list_shard_keys("docs").shard_keys] == ["a", 5]
            assert client.count("docs", shard_key_selector=5).count == 20 and client.count("docs").count == 40
            info = client.collection_cluster_info("docs")
            assert info.shard_count == 4 and {shard.shard_key for shard in info.local_shards} == {"a", 5} == {shard.shard_key for shard in info.remote_shards}
            assert len({shard.shard_id for shard in info.local_shards + info.remote_shards}) == 4
            assert {shard.peer_id for shard in info.remote_shards} and info.peer_id not in {shard.peer_id for shard in info.remote_shards}
        assert clients[0].delete_shard_key("docs", "a")
        assert clients[1].count("docs").count == 20
        for client in clients:
            client.close()
