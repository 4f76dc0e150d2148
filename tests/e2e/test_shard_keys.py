"""Shard keys with the official client, over REST and gRPC: made, listed, dropped; what is put under a key is found under it, and elsewhere not."""

import grpc
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest

pytestmark = pytest.mark.skipif(conftest.SELF, reason="the local mode has no shards")

DIM = 4


def refused(act, part):
    """The sentence of a refusal, by either protocol."""
    try:
        act()
    except UnexpectedResponse as error:
        assert error.status_code in (400, 404), error
        told = error.content.decode()
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), error
        told = error.details()
    else:
        raise AssertionError("it was not refused")
    assert part in told.replace("\\", ""), told


def points(ids, **payload):
    return [models.PointStruct(id=n, vector=[float(n), 1.0, 0.0, 0.0], payload={"n": n, **payload}) for n in ids]


def new(client, name, keys):
    client.delete_collection(name)
    vectors = models.VectorParams(size=DIM, distance=models.Distance.DOT)
    client.create_collection(name, vectors_config=vectors, sharding_method=models.ShardingMethod.CUSTOM)
    for key in keys:
        assert client.create_shard_key(name, key)
    return name


@pytest.fixture
def keyed(remote, request):
    name = new(remote, f"keyed-{request.node.name}", ["a", "b", 7])
    remote.upsert(name, points(range(1, 6), of="a"), shard_key_selector="a")
    remote.upsert(name, points(range(4, 9), of="b"), shard_key_selector="b")
    yield remote, name
    remote.delete_collection(name)


def divided_keys(key):
    """Whether a query about these keys is refused where its lists meet: over shards copies of an id aren't told apart."""
    return conftest.SHARDS > 0 and (key is None or isinstance(key, list) and len(key) > 1)


def ids(found):
    return [point.id for point in found]


def test_keys_come_and_go(keyed):
    client, name = keyed
    listed = client.list_shard_keys(name).shard_keys
    assert [key.key for key in listed] == ["a", "b", 7]
    assert client.get_collection(name).config.params.sharding_method == models.ShardingMethod.CUSTOM
    refused(lambda: client.create_shard_key(name, "a"), 'Shard key "a" already exists')
    refused(lambda: client.create_shard_key(name, "c", placement=[12]), "unknown peers: [12]")
    assert client.create_shard_key(name, "c", shards_number=2, replication_factor=3)
    assert client.delete_shard_key(name, "c")
    assert client.delete_shard_key(name, "b")
    assert client.count(name).count == 5
    refused(lambda: client.count(name, shard_key_selector="b"), 'Shard key "b" not found')
    info = client.collection_cluster_info(name)
    assert [shard.shard_key for shard in info.local_shards] == ["a", 7]
    # Of a divided store the node that was asked has its part.
    assert conftest.SHARDS or [shard.points_count for shard in info.local_shards] == [5, 0]
    assert len({shard.shard_id for shard in info.local_shards + info.remote_shards}) == info.shard_count == 2 * max(conftest.SHARDS, 1)
    change = lambda operation: client.cluster_collection_update(name, operation)
    assert change(models.CreateShardingKeyOperation(create_sharding_key=models.CreateShardingKey(shard_key="by-cluster")))
    assert "by-cluster" in [key.key for key in client.list_shard_keys(name).shard_keys]
    assert change(models.DropShardingKeyOperation(drop_sharding_key=models.DropShardingKey(shard_key="by-cluster")))
    move = lambda shard, peer: models.MoveShardOperation(move_shard=models.MoveShard(shard_id=shard, from_peer_id=0, to_peer_id=peer))
    refused(lambda: change(move(9, 0)), "Shard 9 does not exist")
    refused(lambda: change(move(1, 5)), "Peer 5 does not exist")
    refused(lambda: change(move(1, 0)), "the only peer")
    plain = f"{name}-plain"
    client.create_collection(plain, vectors_config=models.VectorParams(size=DIM, distance=models.Distance.DOT))
    refused(lambda: client.create_shard_key(plain, "a"), "Auto sharding method")
    refused(lambda: client.upsert(plain, points([1]), shard_key_selector="a"), 'Shard key "a" not found')
    client.delete_collection(plain)


def test_who_writes_says_where(keyed):
    client, name = keyed
    one = models.PointIdsList(points=[1])
    for act in [
        lambda: client.upsert(name, points([1])),
        lambda: client.delete(name, one),
        lambda: client.set_payload(name, {"x": 1}, points=[1]),
        lambda: client.overwrite_payload(name, {"x": 1}, points=[1]),
        lambda: client.delete_payload(name, ["x"], points=[1]),
        lambda: client.clear_payload(name, points_selector=[1]),
        lambda: client.update_vectors(name, [models.PointVectors(id=1, vector=[1.0] * DIM)]),
        lambda: client.delete_vectors(name, [""], points=[1]),
        lambda: client.batch_update_points(name, [models.DeleteOperation(delete=one)]),
    ]:
        refused(act, "Shard key not specified")
    assert client.count(name).count == 10


def test_changes_stay_in_their_shard(keyed):
    client, name = keyed
    of = lambda key: {point.id: point for point in client.scroll(name, limit=100, shard_key_selector=key, with_vectors=True)[0]}
    before = of("b")
    client.set_payload(name, {"x": 1}, points=[4, 5], shard_key_selector="a")
    client.update_vectors(name, [models.PointVectors(id=4, vector=[9.0] * DIM)], shard_key_selector="a")
    client.delete(name, models.FilterSelector(filter=models.Filter(must=[models.HasIdCondition(has_id=[5])])), shard_key_selector="a")
    client.overwrite_payload(name, {"y": 1}, points=[1], shard_key_selector="a")
    client.delete_payload(name, ["n"], points=[2], shard_key_selector="a")
    client.clear_payload(name, points_selector=[3], shard_key_selector="a")
    assert of("b") == before
    a = of("a")
    assert [(n, a[n].payload) for n in sorted(a)] == [(1, {"y": 1}), (2, {"of": "a"}), (3, {}), (4, {"n": 4, "of": "a", "x": 1})]
    assert a[4].vector == [9.0] * DIM and all(point.shard_key == "a" for point in a.values())
    operations = [
        models.UpsertOperation(upsert=models.PointsList(points=points([20]), shard_key=7)),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"z": 1}, points=[20], shard_key=7)),
    ]
    client.batch_update_points(name, operations)
    assert of(7)[20].payload == {"n": 20, "z": 1}
    client.upsert(name, points([30]), shard_key_selector=["a", 7])
    assert 30 in of("a") and 30 in of(7) and 30 not in of("b")
    client.upsert(name, points([31]), shard_key_selector=models.ShardKeyWithFallback(target="none", fallback="b"))
    assert 31 in of("b")


def test_reads_look_where_they_are_told(keyed):
    client, name = keyed
    client.create_payload_index(name, "of", models.PayloadSchemaType.KEYWORD)
    query = [1.0, 0.0, 0.0, 0.0]
    for key, expected in [("a", [5, 4, 3, 2, 1]), ("b", [8, 7, 6, 5, 4]), (7, []), (["b", 7], [8, 7, 6, 5, 4]), (None, [8, 7, 6, 5, 4, 3, 2, 1])]:
        of = {"shard_key_selector": key}
        assert ids(client.query_points(name, query, limit=20, **of).points) == expected, key
        assert ids(client.query_points(name, query, limit=2, offset=1, **of).points) == expected[1:3], key
        batch = [models.QueryRequest(query=query, limit=20, shard_key=key), models.QueryRequest(query=query, limit=1, shard_key="b")]
        assert [ids(found.points) for found in client.query_batch_points(name, batch)] == [expected, [8]]
        assert sorted(ids(client.scroll(name, limit=20, **of)[0])) == sorted(expected)
        assert client.count(name, **of).count == (10 if key is None else len(expected))
        nested = models.Prefetch(query=query, limit=20, prefetch=[models.Prefetch(query=query, limit=20)])
        lists_meet = [
            lambda: ids(client.query_points(name, prefetch=[nested], query=query, limit=20, **of).points),
            lambda: ids(client.query_points(name, prefetch=[nested, nested], query=models.FusionQuery(fusion=models.Fusion.RRF), limit=20, **of).points),
        ]
        for found in lists_meet:
            if divided_keys(key):
                refused(found, "over several shard keys")
            else:
                assert found() == expected, key
        assert sorted(ids(client.query_points(name, limit=20, **of).points)) == sorted(expected)
        facet = {hit.value: hit.count for hit in client.facet(name, "of", **of).hits}
        assert facet == {value: 5 for value in "ab" if key is None or value in (key if isinstance(key, list) else [key])}
        matrix = lambda: client.search_matrix_pairs(name, sample=20, limit=3, **of)
        groups = lambda: client.query_points_groups(name, query=query, group_by="n", limit=20, **of).groups
        if divided_keys(key):
            refused(matrix, "over several shard keys")
            refused(groups, "over several shard keys")
        else:
            assert {pair.a for pair in matrix().pairs} <= set(expected)
            assert sorted(group.id for group in groups()) == sorted(expected)
        found = client.retrieve(name, [1, 4, 8], **of)
        assert ids(found) == [n for n in (1, 4, 8) if n in expected], key
    for hit in client.query_points(name, query, limit=20).points:
        assert hit.shard_key == hit.payload["of"]
    recommended = client.query_points(name, models.RecommendQuery(recommend=models.RecommendInput(positive=[1])), limit=20, shard_key_selector="a")
    assert ids(recommended.points) == [5, 4, 3, 2]
    refused(lambda: client.query_points(name, models.RecommendQuery(recommend=models.RecommendInput(positive=[1])), shard_key_selector="b"), "1")


def test_pages_end(keyed):
    client, name = keyed
    seen, offset = [], None
    while True:
        page, offset = client.scroll(name, limit=1, offset=offset)
        seen += ids(page)
        if offset is None:
            break
    assert seen == list(range(1, 9))


def test_large_answers_are_of_the_shard_they_were_found_in(remote, request):
    """More points than come at once: payloads are fetched behind the search, by id and key."""
    name = new(remote, f"keyed-{request.node.name}", ["a", "b"])
    for key in "ab":
        remote.upload_points(name, points(range(1000), of=key), shard_key_selector=key, wait=True)
    for key in "ab":
        found = remote.query_points(name, [1.0, 0.0, 0.0, 0.0], limit=1000, shard_key_selector=key).points
        assert len(found) == 1000 and {hit.payload["of"] for hit in found} == {key}
    found = remote.query_points(name, [1.0, 0.0, 0.0, 0.0], limit=1500).points
    assert len(found) == 1000 and all(hit.payload["of"] == hit.shard_key for hit in found)
    page, _ = remote.scroll(name, limit=1500)
    assert len(page) == 1000 and all(point.payload["of"] == point.shard_key for point in page)
    remote.delete_collection(name)


def test_keys_survive_a_kill_and_snapshots(own_server):
    client = conftest.client_of(own_server)
    name = new(client, "keyed", ["a", "b"])
    client.upsert(name, points(range(5)), shard_key_selector="a")
    client.upsert(name, points([1]), shard_key_selector="b")
    own_server.kill()
    own_server.start()
    counts = lambda of: {key.key: client.count(of, shard_key_selector=key.key).count for key in client.list_shard_keys(of).shard_keys}
    assert counts(name) == {"a": 5, "b": 1}
    snapshot = client.create_snapshot(name)
    client.delete_shard_key(name, "a")
    client.upsert(name, points([2]), shard_key_selector="b")
    own_server.kill()
    own_server.start()
    assert counts(name) == {"b": 2}
    location = f"file://{own_server.data}/snapshots/{name}/{snapshot.name}"
    assert client.recover_snapshot(name, location)
    assert counts(name) == {"a": 5, "b": 1}
    assert client.recover_snapshot("other", location)
    client.delete_collection(name)
    own_server.kill()
    own_server.start()
    assert counts("other") == {"a": 5, "b": 1}
    assert [c.name for c in client.get_collections().collections] == ["other"]


def test_snapshots_of_one_shard(own_server):
    client, http = conftest.client_of(own_server), own_server.http()
    name = new(client, "keyed", ["a", "b"])
    client.upsert(name, points(range(5)), shard_key_selector="a")
    base = f"/collections/{name}/shards"
    assert http.raw("POST", f"{base}/0/snapshots")[0] == 404
    taken = client.create_shard_snapshot(name, 1)
    assert [s.name for s in client.list_shard_snapshots(name, 1)] == [taken.name]
    assert client.list_shard_snapshots(name, 2) == []
    location = f"file://{own_server.data}/snapshots/{name}%2Fshards%2F1/{taken.name}"
    assert client.recover_shard_snapshot(name, 2, location.replace("%", "%25"))
    assert client.count(name, shard_key_selector="b").count == 5
    assert client.count(name, shard_key_selector="a").count == 5
    assert client.delete_shard_snapshot(name, 1, taken.name)
    http.close()
