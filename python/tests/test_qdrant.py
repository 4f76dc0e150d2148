"""The client of Qdrant over the engine in this process, beside its own local mode."""

import asyncio
import socket

import numpy as np
import pytest
import ramlet

qdrant_client = pytest.importorskip("qdrant_client")
from qdrant_client import QdrantClient, models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode performs exact")
N, DIM = 300, 12


@pytest.fixture
def both(db):
    """The same points in both, of every kind that the local mode knows."""
    rng = np.random.default_rng(4)
    clients = db.qdrant(), QdrantClient(":memory:")
    dense, image = rng.standard_normal((N, DIM)), rng.standard_normal((N, 4))
    points = [
        models.PointStruct(
            id=i if i % 5 else f"00000000-0000-0000-0000-{i:012d}",
            vector={
                "text": dense[i].tolist(),
                "image": image[i].tolist(),
                "words": models.SparseVector(indices=sorted({i % 7, 10 + i % 3, 20 + i % 11}), values=[1.0, 0.5, 0.25]),
            },
            payload={
                "n": i, "even": i % 2 == 0, "tags": [f"t{i % 4}", f"t{i % 6}"], "price": i / 10, "name": f"word{i % 9} other",
                **({"maybe": None} if i % 3 else {}), "nested": {"a": [{"b": i % 5}, {"b": i % 8}]},
                "where": {"lon": (i % 90) * 1.0, "lat": (i % 45) * 1.0},
            },
        )
        for i in range(N)
    ]
    for client in clients:
        client.create_collection(
            "c",
            vectors_config={
                "text": models.VectorParams(size=DIM, distance=models.Distance.COSINE),
                "image": models.VectorParams(size=4, distance=models.Distance.EUCLID),
            },
            sparse_vectors_config={"words": models.SparseVectorParams()},
        )
        client.upload_points("c", points, wait=True)
    clients[0].create_payload_index("c", "n", models.PayloadSchemaType.INTEGER)
    clients[0].create_payload_index("c", "tags", models.PayloadSchemaType.KEYWORD)
    return clients


def condition(rng):
    n = int(rng.integers(0, N))
    return [
        lambda: models.FieldCondition(key="n", range=models.Range(gte=n, lt=n + int(rng.integers(1, 200)))),
        lambda: models.FieldCondition(key="even", match=models.MatchValue(value=bool(n % 2))),
        lambda: models.FieldCondition(key="tags", match=models.MatchAny(any=[f"t{n % 6}", "t0"])),
        lambda: models.FieldCondition(key="tags", match=models.MatchExcept(**{"except": [f"t{n % 6}"]})),
        lambda: models.FieldCondition(key="name", match=models.MatchValue(value=f"word{n % 9} other")),
        lambda: models.FieldCondition(key="tags", values_count=models.ValuesCount(gte=1 + n % 3)),
        lambda: models.IsEmptyCondition(is_empty=models.PayloadField(key="maybe")),
        lambda: models.IsNullCondition(is_null=models.PayloadField(key="maybe")),
        lambda: models.HasIdCondition(has_id=[n + 1 if n % 5 == 0 else n, n + 2 if (n + 1) % 5 == 0 else n + 1]),
        lambda: models.FieldCondition(key="nested.a[].b", match=models.MatchValue(value=n % 8)),
        lambda: models.NestedCondition(
            nested=models.Nested(key="nested.a", filter=models.Filter(must=[models.FieldCondition(key="b", range=models.Range(gt=n % 8))]))
        ),
        lambda: models.FieldCondition(
            key="where",
            geo_bounding_box=models.GeoBoundingBox(
                top_left=models.GeoPoint(lon=0, lat=10 + n % 30), bottom_right=models.GeoPoint(lon=10 + n % 70, lat=0)
            ),
        ),
        lambda: random_filter(rng),
    ][int(rng.integers(0, 13))]()


def random_filter(rng):
    clauses = {}
    for name in ("must", "should", "must_not"):
        if rng.random() < 0.5:
            clauses[name] = [condition(rng) for _ in range(rng.integers(1, 3))]
    return models.Filter(**(clauses or {"must": [condition(rng)]}))


def compare(ours, theirs, tolerance=1e-4):
    """The same scores in the same order; ids too, but for ties."""
    assert len(ours) == len(theirs)
    np.testing.assert_allclose([p.score for p in ours], [p.score for p in theirs], atol=tolerance, rtol=1e-4)
    rounded = lambda points: sorted((round(p.score, 3), str(p.id)) for p in points)  # noqa: E731
    last = round(ours[-1].score, 3) if ours else None
    assert [x for x in rounded(ours) if x[0] != last] == [x for x in rounded(theirs) if x[0] != last]
    assert {str(p.id): p.payload for p in ours}.items() >= {
        str(p.id): p.payload for p in theirs if str(p.id) in {str(o.id) for o in ours}
    }.items()


def test_random_queries_and_filters_agree_with_the_local_mode(both):
    ours, theirs = both
    rng, found = np.random.default_rng(5), 0
    for _ in range(300):
        wanted = random_filter(rng) if rng.random() < 0.85 else None
        query, using = {
            0: (rng.standard_normal(DIM).tolist(), "text"),
            1: (rng.standard_normal(4).tolist(), "image"),
            2: (models.SparseVector(indices=[int(rng.integers(0, 7)), int(rng.integers(20, 30))], values=[1.0, 0.7]), "words"),
        }[int(rng.integers(0, 3))]
        asked = dict(query=query, using=using, query_filter=wanted, limit=int(rng.integers(1, 30)), with_payload=True)
        answer = ours.query_points("c", **asked).points
        compare(answer, theirs.query_points("c", **asked).points)
        found += len(answer)
        assert ours.count("c", count_filter=wanted).count == theirs.count("c", count_filter=wanted).count
        scrolled = [client.scroll("c", scroll_filter=wanted, limit=50)[0] for client in both]
        assert {str(p.id) for p in scrolled[0]} == {str(p.id) for p in scrolled[1]} or len(scrolled[0]) == 50
    assert found > 1_000


def test_the_rest_of_the_client(both):
    for client in both:
        prefetch = [
            models.Prefetch(query=[1.0] * DIM, using="text", limit=20),
            models.Prefetch(query=models.SparseVector(indices=[3], values=[1.0]), using="words", limit=20),
        ]
        fused = client.query_points("c", prefetch=prefetch, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=5).points
        assert len(fused) == 5
        batch = client.query_batch_points("c", [models.QueryRequest(query=1, using="text", limit=2), models.QueryRequest(query=[0.5] * 4, using="image")])
        assert [len(each.points) for each in batch] == [2, 10]
        groups = client.query_points_groups("c", group_by="name", query=[1.0] * 4, using="image", limit=3, group_size=2).groups
        assert len(groups) == 3 and all(len(group.hits) == 2 for group in groups)
        client.set_payload("c", {"new": 1}, points=[1, 2])
        client.delete("c", models.Filter(must=[models.FieldCondition(key="n", range=models.Range(gte=250))]))
        assert client.count("c").count == 250
        assert client.retrieve("c", [1], with_vectors=["image"])[0].payload["new"] == 1
        assert client.facet("c", "tags", limit=3).hits if client is both[0] else True
        assert client.collection_exists("c") and not client.collection_exists("d")
    with pytest.raises(qdrant_client.http.exceptions.UnexpectedResponse, match="404"):
        both[0].get_collection("d")


def test_no_port_is_opened_and_no_other_server_asked(db, monkeypatch):
    opened = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, where: opened.append(where))
    monkeypatch.setattr(socket.socket, "bind", lambda self, where: opened.append(where))
    client = db.qdrant()
    client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    client.upload_collection("c", vectors=np.eye(2), ids=[1, 2], payload=[{"a": 1}, {"a": 2}])
    assert db["c"].search([1, 0], limit=1, with_payload=True)[0].payload == {"a": 1}
    assert opened == []
    with pytest.raises(ramlet.BadInputError, match="another server"):
        db.qdrant(url="http://elsewhere")
    snapshot = client.create_snapshot("c")
    assert [each.name for each in client.list_snapshots("c")] == [snapshot.name]
    db.close()
    with pytest.raises(Exception, match="closed"):
        client.get_collections()


def test_the_client_for_asyncio(db):
    async def run():
        client = db.async_qdrant()
        await client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
        await client.upsert("c", [models.PointStruct(id=i, vector=[i, 1]) for i in range(10)])
        answers = await asyncio.gather(*(client.query_points("c", query=[1, i], limit=1) for i in range(20)))
        await client.close()
        return [answer.points[0].id for answer in answers]

    assert asyncio.run(run()) == [9] * 20
