"""gRPC beside REST: codes, keys, payloads, the async client, health and reflection, and clients that mean ill."""

import asyncio
import os
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc import StatusCode
from qdrant_client import AsyncQdrantClient, QdrantClient, grpc as pb, models

import conftest
import data
from harness.server import Server

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

METHODS = [
    f"/qdrant.{service}/{name}"
    for service, names in {
        "Qdrant": "HealthCheck",
        "Collections": "List Get Create Update Delete CollectionExists UpdateAliases ListAliases ListCollectionAliases "
        "CollectionClusterInfo UpdateCollectionClusterSetup CreateShardKey DeleteShardKey ListShardKeys",
        "Points": "Upsert Delete Get UpdateVectors DeleteVectors SetPayload OverwritePayload DeletePayload ClearPayload "
        "CreateFieldIndex DeleteFieldIndex CreateVectorName DeleteVectorName Search SearchBatch SearchGroups Scroll "
        "Recommend RecommendBatch RecommendGroups Discover DiscoverBatch Count UpdateBatch Query QueryBatch QueryGroups "
        "Facet SearchMatrixPairs SearchMatrixOffsets",
        "Snapshots": "Create List Delete CreateFull ListFull DeleteFull",
    }.items()
    for name in names.split()
]
# Everything but success: what a hostile call may be answered with.
REFUSALS = {StatusCode.INVALID_ARGUMENT, StatusCode.RESOURCE_EXHAUSTED, StatusCode.NOT_FOUND, StatusCode.ALREADY_EXISTS, StatusCode.UNIMPLEMENTED}


def call(server, path, message=b"", key=None, compression=None, timeout=60):
    """(code, answer or details, trailing metadata) of one raw call."""
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=options) as channel:
        method = channel.unary_unary(path)
        metadata = [("api-key", key)] if key else None
        try:
            answer = method(message, metadata=metadata, compression=compression, timeout=timeout)
            return StatusCode.OK, answer, {}
        except grpc.RpcError as error:
            return error.code(), error.details(), dict(error.trailing_metadata() or ())


@pytest.fixture
def filled(server):
    client = conftest.client_of(server, prefer_grpc=True)
    name = f"grpc-{os.getpid()}"
    client.delete_collection(name)
    client.create_collection(name, vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    points = [models.PointStruct(id=n, vector=[n, 1, 0, 0], payload={"n": n}) for n in range(1, 51)]
    client.upsert(name, points, wait=True)
    yield client, name
    client.delete_collection(name)


def test_codes(server, filled):
    client, name = filled

    def code(path, message):
        return call(server, path, message.SerializeToString())[0]

    points = "/qdrant.Points/"
    assert code("/qdrant.Points/Nothing", pb.GetPoints()) == StatusCode.UNIMPLEMENTED
    assert code(points + "Count", pb.CountPoints(collection_name="none")) == StatusCode.NOT_FOUND
    assert code(points + "Count", pb.CountPoints(collection_name="")) == StatusCode.INVALID_ARGUMENT
    wrong = pb.PointStruct(id=pb.PointId(num=1), vectors=pb.Vectors(vector=pb.Vector(dense=pb.DenseVector(data=[1.0]))))
    for wait in [False, True]:
        assert code(points + "Upsert", pb.UpsertPoints(collection_name=name, wait=wait, points=[wrong])) == StatusCode.INVALID_ARGUMENT
    query = pb.QueryPoints(collection_name=name, limit=0)
    assert code(points + "Query", query) == StatusCode.INVALID_ARGUMENT
    create = pb.CreateCollection(collection_name=name)
    assert code("/qdrant.Collections/Create", create) == StatusCode.ALREADY_EXISTS
    assert code("/qdrant.Collections/Get", pb.GetCollectionInfoRequest(collection_name="none")) == StatusCode.NOT_FOUND
    enum = pb.CreateCollection(collection_name="x")
    enum.vectors_config.params.size = 4
    assert code("/qdrant.Collections/Create", enum) == StatusCode.INVALID_ARGUMENT, "no distance"
    assert code(points + "Scroll", pb.ScrollPoints(collection_name=name, timeout=0)) == StatusCode.INVALID_ARGUMENT


def test_the_same_collection_by_both(server, filled):
    client, name = filled
    rest = conftest.client_of(server)
    for method in ["get_collection", "count", "get_collection_aliases", "collection_exists"]:
        ours, theirs = getattr(client, method)(name), getattr(rest, method)(name)
        if method == "get_collection":
            ours, theirs = ours.model_dump(exclude_none=True), theirs.model_dump(exclude_none=True)
            for info in (ours, theirs):
                # An empty list over REST is none over gRPC.
                info.pop("warnings", None)
        assert ours == theirs, method
    assert {c.name for c in client.get_collections().collections} == {c.name for c in rest.get_collections().collections}
    assert client.info().version == rest.info().version


def test_payloads_are_the_same_by_both(server, filled):
    client, name = filled
    rest = conftest.client_of(server)
    rng = data.Random(77)
    payloads = [
        {"deep": [[], {}, [None, [1, {"a": [True, False, -1, 2**62, 1.5, 1e300, -0.0, 1.0]}]]], "": "", "ü\n\"\\": "\t\0é😀"},
        {"long": "x" * 200_000, "list": list(range(5_000)), "nested": {str(n): {"v": [n] * 40} for n in range(50)}},
    ]
    payloads += [data.payload(rng) if hasattr(data, "payload") else {"n": n} for n in range(50)]
    for n, payload in enumerate(payloads):
        for writer in (client, rest):
            writer.upsert(name, [models.PointStruct(id=1000 + n, vector=[1, 2, 3, 4], payload=payload)], wait=True)
            for reader in (client, rest):
                point = reader.retrieve(name, [1000 + n], with_vectors=True)[0]
                assert point.payload == payload, (n, writer, reader)
                assert point.vector == [1, 2, 3, 4]


def test_pages_of_thousands(server, filled):
    client, name = filled
    points = [models.PointStruct(id=n, vector=[n, 0, 0, 1], payload={"n": n, "text": "y" * 100}) for n in range(5_000)]
    for start in range(0, 5_000, 1_000):
        client.upsert(name, points[start : start + 1_000], wait=True)
    page, after = client.scroll(name, limit=5_000, with_vectors=True)
    assert [p.id for p in page] == list(range(5_000)) and after is None
    assert all(p.payload["n"] == p.id and p.vector[0] == p.id for p in page)
    hits = client.query_points(name, [1.0, 0, 0, 0], limit=3_000, with_payload=True).points
    assert [h.id for h in hits] == list(range(4_999, 1_999, -1))
    batches = client.query_batch_points(name, [models.QueryRequest(query=[1.0, 0, 0, 0], limit=n, with_payload=True) for n in (1, 70, 500)])
    assert [len(b.points) for b in batches] == [1, 70, 500]
    assert all(h.payload["n"] == h.id for b in batches for h in b.points)


def test_the_async_client(server, filled):
    _, name = filled

    async def run(prefer_grpc):
        client = AsyncQdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=prefer_grpc, timeout=60)
        found = await asyncio.gather(*[client.query_points(name, [1.0, 0, 0, 0], limit=5) for _ in range(64)])
        page, _ = await client.scroll(name, limit=50)
        await client.close()
        return [[(h.id, h.score) for h in f.points] for f in found], [p.id for p in page]

    assert asyncio.run(run(True)) == asyncio.run(run(False))


def test_keys(tmp_path):
    flags = ["--api-key", "secret", "--read-only-api-key", "reader"]
    with Server(tmp_path / "data", arguments=flags, key="secret") as server:
        read = lambda key: call(server, "/qdrant.Collections/List", key=key)[0]  # noqa: E731
        assert read(None) == StatusCode.UNAUTHENTICATED
        assert read("wrong") == StatusCode.UNAUTHENTICATED
        assert read("reader") == read("secret") == StatusCode.OK
        create = pb.CreateCollection(collection_name="c").SerializeToString()
        assert call(server, "/qdrant.Collections/Create", create, key="reader")[0] == StatusCode.PERMISSION_DENIED
        for path in METHODS[1:]:
            assert call(server, path)[0] == StatusCode.UNAUTHENTICATED, path
        assert call(server, "/qdrant.Qdrant/HealthCheck")[0] == StatusCode.OK
        assert call(server, "/grpc.health.v1.Health/Check")[0] == StatusCode.OK
        client = QdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=True, api_key="secret", https=False)
        assert client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))


def test_grpc_can_be_off(tmp_path):
    server = Server(tmp_path / "data")
    server.arguments = ["--grpc-port", "disabled"]
    command = server.command()
    at = command.index("--grpc-port")
    server.command = lambda: command[:at] + command[at + 2 :]
    with server, pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.grpc_port), timeout=5)


def test_health_and_reflection(server):
    def text(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    assert call(server, "/grpc.health.v1.Health/Check")[1] == b"\x08\x01"
    assert call(server, "/grpc.health.v1.Health/Check", text(1, b"qdrant.Points"))[1] == b"\x08\x01"
    assert call(server, "/grpc.health.v1.Health/Check", text(1, b"nothing"))[0] == StatusCode.NOT_FOUND
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert next(watch) == b"\x08\x01"
        watch.cancel()
        for version in ["v1", "v1alpha"]:
            reflect = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
            answers = list(reflect(iter([text(7, b""), text(4, b"qdrant.Points.Upsert"), text(4, b"no.such"), text(3, b"points.proto")])))
            assert len(answers) == 4
            assert b"qdrant.Collections" in answers[0] and b"grpc.health.v1.Health" in answers[0]
            assert b"points_service.proto" in answers[1] and b"UpsertPoints" in answers[3]
            assert b"there is no" in answers[2]


def test_garbage(server, filled):
    """Random bytes, and messages cut or changed at random, to every method: refused, or answered, and nothing dies."""
    rng = data.Random(5)
    whole = pb.QueryPoints(collection_name=filled[1], limit=3, query=pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2, 3, 4]))))
    whole.filter.must.add().field.key = "n"
    whole = whole.SerializeToString()
    seen = set()
    harmless = [m for m in METHODS if not m.endswith(("Full", "Snapshots/Create"))]
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=options) as channel:
        for path in harmless:
            method = channel.unary_unary(path)
            for _ in range(12):
                kind = rng.randint(0, 2)
                if kind == 0:
                    message = bytes(rng.randint(0, 255) for _ in range(rng.randint(0, 60)))
                else:
                    message = bytearray(whole)
                    for _ in range(rng.randint(1, 4)):
                        message[rng.randint(0, len(message) - 1)] = rng.randint(0, 255)
                    message = bytes(message[: rng.randint(0, len(message))] if kind == 1 else message)
                try:
                    method(message, timeout=60)
                    seen.add(StatusCode.OK)
                except grpc.RpcError as error:
                    seen.add(error.code())
                    assert error.code() in REFUSALS, (path, message.hex(), error.code(), error.details())
    assert StatusCode.INVALID_ARGUMENT in seen
    assert server.alive()


def nested(depth, inner=b""):
    """Filters in filters: condition (must = 2) of kind filter (4)."""

    def field(number, value):
        out, n = bytes([number << 3 | 2]), len(value)
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n]) + value

    for _ in range(depth):
        inner = field(2, field(4, inner))
    return inner, field


def test_deep_messages(server, filled):
    for depth in [5, 20, 44, 60, 1_000, 20_000]:
        inner, field = nested(depth)
        message = field(1, filled[1].encode()) + field(2, inner)
        code, details, _ = call(server, "/qdrant.Points/Count", message)
        assert code in ({StatusCode.OK} if depth <= 20 else REFUSALS | {StatusCode.OK}), (depth, details)
        if depth >= 1_000:
            assert code == StatusCode.INVALID_ARGUMENT and "inside of each other" in details
    deep = b""
    for _ in range(300):
        _, field = nested(0)
        deep = field(7, field(1, deep))
    point = field(3, field(1, b"k") + field(2, deep)) + field(1, b"\x08\x01") + field(4, field(1, field(1, struct.pack("<4f", 1, 2, 3, 4))))
    code, details, _ = call(server, "/qdrant.Points/Upsert", field(1, filled[1].encode()) + field(3, point))
    assert code == StatusCode.INVALID_ARGUMENT and "levels" in details


def test_large_messages_and_bombs(server, filled):
    name = filled[1]
    before, _ = server.rss()
    big = pb.UpsertPoints(collection_name=name).SerializeToString() + b"\0" * 0
    code, details, _ = call(server, "/qdrant.Points/Count", big + b"\x12" + b"\xff\xff\xff\xff\x0f")
    assert code == StatusCode.INVALID_ARGUMENT
    code, details, _ = call(server, "/qdrant.Points/Upsert", b"\x1a\x00" * (20 << 20))
    assert code == StatusCode.RESOURCE_EXHAUSTED, details
    # Two bytes each that would become hundreds.
    code, details, _ = call(server, "/qdrant.Points/Upsert", big + b"\x1a\x00" * (4 << 20))
    assert code == StatusCode.RESOURCE_EXHAUSTED, details
    zeros = b"\x1a\x00" * (100 << 20)
    code, details, _ = call(server, "/qdrant.Points/Upsert", zeros, compression=grpc.Compression.Gzip)
    assert code == StatusCode.RESOURCE_EXHAUSTED, details
    query = pb.QueryPoints(collection_name=name, limit=3, query=pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2, 3, 4]))))
    assert call(server, "/qdrant.Points/Query", query.SerializeToString(), compression=grpc.Compression.Gzip)[0] == StatusCode.OK
    ids = pb.GetPoints(collection_name=name, ids=[pb.PointId(num=1)] * 200_000).SerializeToString()
    assert call(server, "/qdrant.Points/Get", ids)[0] in {StatusCode.OK, StatusCode.RESOURCE_EXHAUSTED}
    _, peak = server.rss()
    assert peak < 130e6, f"{before / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at the most"
    assert filled[0].count(name).count == 50


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def test_silent_and_odd_clients(server, filled):
    """Connections that say nothing, half a preface, HTTP/1, broken frames; and streams that are opened and reset."""
    sockets = []
    for said in [b"", PREFACE[:10], b"GET / HTTP/1.1\r\n\r\n", PREFACE, PREFACE + b"\xff" * 64, PREFACE + frame(4, 0, 0)]:
        for _ in range(4):
            sock = socket.create_connection(("127.0.0.1", server.grpc_port), timeout=10)
            try:
                sock.sendall(said)
            except OSError:
                pass
            sockets.append(sock)
    client, name = filled
    assert client.count(name).count == 50
    # :method POST, :scheme http, :path /, without the rest: 200 thousand times, each given up at once.
    flood = socket.create_connection(("127.0.0.1", server.grpc_port), timeout=10)
    flood.sendall(PREFACE + frame(4, 0, 0))
    head = bytes([0x83, 0x86, 0x84])
    try:
        for start in range(1, 40_001, 200):
            flood.sendall(b"".join(frame(1, 4, n, head) + frame(3, 0, n, b"\0\0\0\x08") for n in range(start, start + 200, 2)))
    except OSError:
        pass
    assert client.count(name).count == 50
    for sock in sockets + [flood]:
        sock.close()
    assert server.alive()


def old_multivector(numbers, count):
    """As clients before 1.16 send it: all numbers, and how many vectors they are."""
    return pb.Vector(data=[0.5] * numbers, vectors_count=count)


def test_counts_that_nothing_stands_behind(tmp_path):
    """A few bytes that claim billions of vectors take no memory; parts that are there take what they weigh."""
    with Server(tmp_path / "data", memory="128MB") as server:
        client = conftest.client_of(server, prefer_grpc=True)
        multi = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        client.create_collection("m", vectors_config=models.VectorParams(size=128, distance=models.Distance.DOT, multivector_config=multi))

        def upsert(vector):
            point = pb.PointStruct(id=pb.PointId(num=1), vectors=pb.Vectors(vector=vector))
            return call(server, "/qdrant.Points/Upsert", pb.UpsertPoints(collection_name="m", wait=True, points=[point]).SerializeToString(), timeout=20)

        before, _ = server.rss()
        for numbers, count in [(0, 2**32 - 1), (0, 30_000_000), (0, 0), (128, 0), (128, 3)]:
            code, details, _ = upsert(old_multivector(numbers, count))
            assert code == StatusCode.INVALID_ARGUMENT, (numbers, count, code, details)
            recommend = pb.RecommendPoints(collection_name="m", limit=1, positive_vectors=[old_multivector(numbers, count)])
            code, details, _ = call(server, "/qdrant.Points/Recommend", recommend.SerializeToString(), timeout=20)
            assert code == StatusCode.INVALID_ARGUMENT, (numbers, count, code, details)
        code, details, _ = upsert(old_multivector(128 * 2000, 2000))
        assert code == StatusCode.OK, details
        record = client.retrieve("m", [1], with_vectors=True)[0]
        assert len(record.vector) == 2000 and set(record.vector[-1]) == {0.5}
        _, peak = server.rss()
        assert peak - before < 64 << 20, "a message of one megabyte"


def test_many_calls_at_once(server, filled):
    client, name = filled
    with ThreadPoolExecutor(32) as pool:
        counts = list(pool.map(lambda _: client.count(name).count, range(500)))
    assert set(counts) == {50}


def test_connections_of_many_processes(tmp_path):
    """Each process of a program has its own: all of them are answered while all are open, in a small server too."""
    with Server(tmp_path / "data", memory="64MB") as server:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) for _ in range(40)]
        for channel in channels:
            channel.unary_unary("/qdrant.Qdrant/HealthCheck")(b"", timeout=10)
        for channel in channels:
            channel.close()


def test_many_ids_at_once_in_a_small_server(tmp_path):
    with Server(tmp_path / "data", memory="64MB") as server:
        client = conftest.client_of(server, prefer_grpc=True)
        vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
        client.create_collection("ids", vectors_config=vectors)
        ids = list(range(20_000))
        for first in ids[::2000]:
            some = ids[first : first + 2000]
            client.upsert("ids", models.Batch(ids=some, vectors=[[1.0, n] for n in some]), wait=True)
        has_id = models.Filter(must=[models.HasIdCondition(has_id=ids[1:])])
        assert client.count("ids", count_filter=has_id).count == 19_999
        client.delete("ids", models.PointIdsList(points=ids[1:]), wait=True)
        assert client.count("ids").count == 1


def test_a_stop_finishes_what_is_under_way(tmp_path):
    with Server(tmp_path / "data") as server:
        client = conftest.client_of(server, prefer_grpc=True)
        client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
        assert client.count("c").count == 0
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 10


def test_who_answers_is_the_same(server):
    rest, over_grpc = (conftest.client_of(server, prefer_grpc=by).info() for by in (False, True))
    assert rest == over_grpc and len(rest.commit) == 40


def test_words_of_messages(server, filled):
    """What the API says of a message, and kinds that there aren't."""
    _, name = filled
    sparse = pb.Vectors(vectors=pb.NamedVectors(vectors={"s": pb.Vector(data=[1.0], indices=pb.SparseIndices(data=[1, 2]))}))
    many = pb.Vectors(vector=pb.Vector(data=[1.0] * 7, vectors_count=2))
    point = lambda vectors: pb.PointStruct(id=pb.PointId(num=1), vectors=vectors)  # noqa: E731
    no_kind = pb.ReadConsistency(type=9)
    for method, message, words in [
        ("Upsert", pb.UpsertPoints(collection_name=name, points=[point(sparse)]), "Validation error in body: [points[0].vectors.vectors_options.vectors.[].values: "),
        ("Upsert", pb.UpsertPoints(collection_name=name, points=[point(many)]), "Validation error: invalid dense vector length for vectors count"),
        ("Search", pb.SearchPoints(collection_name=name, vector=[1.0], sparse_indices=pb.SparseIndices(data=[1, 2]), limit=1), "Sparse indices does not match sparse vector conditions: values: "),
        ("Query", pb.QueryPoints(collection_name=name, limit=0), "Validation error in body: [limit: "),
        ("Upsert", pb.UpsertPoints(collection_name=name, ordering=pb.WriteOrdering(type=9)), "no value of `ordering`"),
        ("Scroll", pb.ScrollPoints(collection_name=name, read_consistency=no_kind), "no value of `read_consistency`"),
        ("Count", pb.CountPoints(collection_name=name, read_consistency=pb.ReadConsistency(factor=0)), "read_consistency.factor: value 0 invalid"),
        ("Delete", pb.DeletePoints(collection_name=name, points=pb.PointsSelector(points=pb.PointsIdsList())), "Empty update request"),
    ]:
        code, said, _ = call(server, f"/qdrant.Points/{method}", message.SerializeToString())
        assert code == StatusCode.INVALID_ARGUMENT and words in said, (method, words, said)
