"""Named vectors that come to a collection and go from it, against the local mode."""

import json

import grpc
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import compare
import data


def dense(size=4, distance=models.Distance.DOT, **more):
    return models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=size, distance=distance, **more))


def search(pair, rng, name, size=4):
    query = rng.vector(size)
    pair.agree(
        "searches",
        lambda c: c.query_points(pair.name, query=query, using=name, limit=15, with_vectors=True),
        compare.same_hits,
    )


def test_names_come_and_go(pair):
    rng = data.Random("names")
    pair.create({"a": models.VectorParams(size=4, distance=models.Distance.DOT)})
    points = [models.PointStruct(id=n, vector={"a": rng.vector(4)}, payload=data.payload(rng)) for n in range(40)]
    pair.both(lambda c: c.upsert(pair.name, points))
    for turn in range(4):
        metric = rng.choice([models.Distance.DOT, models.Distance.EUCLID, models.Distance.COSINE])
        pair.both(lambda c: c.create_vector_name(pair.name, "b", dense(4, metric)))
        search(pair, rng, "b")
        pair.same_state()
        given = [models.PointVectors(id=n, vector={"b": rng.vector(4)}) for n in rng.sample(range(40), 15)]
        pair.both(lambda c: c.update_vectors(pair.name, given))
        new = [models.PointStruct(id=100 + n + 10 * turn, vector={"b": rng.vector(4)}) for n in range(8)]
        pair.both(lambda c: c.upsert(pair.name, new))
        for name in "ab":
            search(pair, rng, name)
        has = models.Filter(must=[models.HasVectorCondition(has_vector="b")])
        pair.agree("counts", lambda c: c.count(pair.name, count_filter=has).count)
        pair.both(lambda c: c.delete_vector_name(pair.name, "b"))
        pair.agree("refusals", lambda c: c.query_points(pair.name, query=rng.vector(4), using="b", limit=3))
        search(pair, rng, "a")
        pair.same_state()
    assert list(pair.remote.get_collection(pair.name).config.params.vectors) == ["a"]


def test_beside_the_default_vector(pair):
    rng = data.Random("default")
    pair.create(models.VectorParams(size=4, distance=models.Distance.EUCLID))
    points = [models.PointStruct(id=n, vector=rng.vector(4)) for n in range(20)]
    pair.both(lambda c: c.upsert(pair.name, points))
    pair.both(lambda c: c.create_vector_name(pair.name, "new", dense()))
    given = [models.PointVectors(id=n, vector={"new": rng.vector(4)}) for n in range(0, 20, 2)]
    pair.both(lambda c: c.update_vectors(pair.name, given))
    search(pair, rng, "new")
    search(pair, rng, None)
    shown = pair.remote.get_collection(pair.name).config.params.vectors
    assert set(shown) == {"", "new"}


def test_the_same_again_is_nothing_and_another_is_refused(pair):
    pair.create({"a": models.VectorParams(size=4, distance=models.Distance.DOT)})
    for config in [dense(), dense(5), dense(4, models.Distance.COSINE), models.SparseVectorNameConfig(sparse=models.SparseVectorConfig())]:
        pair.agree("vector names", lambda c: c.create_vector_name(pair.name, "a", config).status)
    for name in ["x", "a/b", "a<", ".", "n" * 201, "n" * 200]:
        if "/" not in name and name != ".":
            pair.agree("vector names", lambda c: c.create_vector_name(pair.name, name, dense()).status)
        pair.agree("vector names", lambda c: c.delete_vector_name(pair.name, "nobody").status)
    pair.agree("vector names", lambda c: c.create_vector_name(pair.name, "big", dense(65_537)).status)
    pair.agree("vector names", lambda c: c.create_vector_name(pair.name, "none", dense(0)).status)


def test_without_a_collection(remote):
    with pytest.raises((UnexpectedResponse, grpc.RpcError), match="404|NOT_FOUND"):
        remote.create_vector_name("nowhere-at-all", "a", dense())
    with pytest.raises((UnexpectedResponse, grpc.RpcError), match="404|NOT_FOUND"):
        remote.delete_vector_name("nowhere-at-all", "a")


def test_wrong_bodies(http, pair):
    pair.create({"a": models.VectorParams(size=4, distance=models.Distance.DOT)})
    path = f"/collections/{pair.name}/vectors/b"
    for body in [{}, {"dense": {}}, {"dense": {"size": 3}}, {"sparse": {"modifier": "x"}}, {"dense": {"size": -1, "distance": "Dot"}}]:
        assert http.raw("PUT", path, json.dumps(body))[0] in (400, 422), body


def test_after_a_restart(own_server):
    from conftest import client_of

    rng = data.Random("restart")
    client = client_of(own_server)
    client.create_collection("c", vectors_config={"a": models.VectorParams(size=4, distance=models.Distance.DOT)})
    client.upsert("c", [models.PointStruct(id=n, vector={"a": rng.vector(4)}) for n in range(30)])
    client.create_vector_name("c", "b", dense(3))
    client.update_vectors("c", [models.PointVectors(id=n, vector={"b": [1.0, 2.0, float(n)]}) for n in range(10)])
    client.delete_vector_name("c", "a")
    own_server.restart(kill=True)
    client = client_of(own_server)
    points = client.scroll("c", limit=100, with_vectors=True)[0]
    assert [p.vector for p in points[:11]] == [{"b": [1.0, 2.0, float(n)]} for n in range(10)] + [{}]
    assert len(client.query_points("c", query=[0, 0, 1], using="b", limit=50).points) == 10
