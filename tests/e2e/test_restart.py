"""What was acknowledged is there after a restart, whether the server was stopped or killed."""

import pytest
from qdrant_client import models

import compare
import conftest
import data

DIM = 16


def client_of(server):
    # The client asks for the version in a thread of its own, which a restart would meet.
    return conftest.client_of(server, check_compatibility=False)


def fill(client, pair, rng, number):
    points = [
        models.PointStruct(id=data.point_id(rng, n), vector=rng.vector(DIM), payload=data.payload(rng))
        for n in range(number * 400, number * 400 + 600)
    ]
    for start in range(0, len(points), 100):
        pair.both(lambda c: c.upsert(pair.name, points[start : start + 100], wait=rng_wait(rng)))
    gone = [p.id for p in rng.sample(points, 60)]
    pair.both(lambda c: c.delete(pair.name, gone, wait=True))
    changed = [p.id for p in points if p.id not in set(gone)][:50]
    pair.both(lambda c: c.set_payload(pair.name, {"round": number}, points=changed, wait=True))


def rng_wait(rng):
    return rng.maybe(0.5)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_everything_is_there_again(own_server, kill):
    rng = data.Random(40 + kill)
    pair = compare.Pair(client_of(own_server), name="kept")
    pair.create(models.VectorParams(size=DIM, distance=models.Distance.COSINE))
    pair.both(lambda c: c.create_payload_index("kept", "city", models.PayloadSchemaType.KEYWORD, wait=True))
    alias = models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name="alias", collection_name="kept"))
    pair.both(lambda c: c.update_collection_aliases(change_aliases_operations=[alias]))
    for number in range(4):
        fill(pair.remote, pair, rng, number)
        own_server.restart(kill=kill)
        pair.remote = client_of(own_server)
        pair.same_state()
        pair.agree("counts", lambda c: c.count("alias").count)
        for _ in range(10):
            vector, city = rng.vector(DIM), rng.choice(data.CITIES)
            condition = models.Filter(must=[models.FieldCondition(key="city", match=models.MatchValue(value=city))])
            pair.agree("searches", lambda c: c.query_points("kept", vector, limit=10), compare.same_hits)
            pair.agree("searches", lambda c: c.query_points("kept", vector, query_filter=condition, limit=10), compare.same_hits)
        assert set(pair.remote.get_collection("kept").payload_schema) == {"city"}


def test_deleted_collections_stay_deleted(own_server):
    client = client_of(own_server)
    for name in ["a", "b"]:
        client.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
        client.upsert(name, [models.PointStruct(id=1, vector=[1.0, 2.0])], wait=True)
    client.delete_collection("a")
    own_server.restart(kill=True)
    client = client_of(own_server)
    assert [c.name for c in client.get_collections().collections] == ["b"]
    client.create_collection("a", vectors_config=models.VectorParams(size=3, distance=models.Distance.DOT))
    assert client.count("a").count == 0
    own_server.restart()
    assert {c.name for c in client_of(own_server).get_collections().collections} == {"a", "b"}


def test_a_stop_is_clean(own_server):
    client = client_of(own_server)
    client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    assert own_server.stop() == 0
    own_server.start()


def test_two_servers_do_not_share_a_directory(own_server):
    from harness.server import Server

    second = Server(own_server.data)
    second.log_path = own_server.data.parent / "second.log"
    with pytest.raises(RuntimeError) as ended:
        second.start()
    assert "lock" in str(ended.value).lower() or "in use" in str(ended.value).lower(), str(ended.value)
    assert own_server.alive()
