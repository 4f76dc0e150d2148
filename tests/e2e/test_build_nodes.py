"""`ramlet serve --role build`: one node builds indexes and merges, the others take them. No search sees a difference, whoever is killed when."""

import json
import random
import re
import threading
import time

import numpy
import pytest
from qdrant_client import QdrantClient, models

from harness.server import Server

DIM = 32
POINTS = 24_000
FLAGS = ["--takeover-after", "3s", "--no-probe"]


@pytest.fixture
def nodes(tmp_path):
    """Makes nodes over one directory, and ends them."""
    made = []

    def make(name, role, *more, memory="128MB"):
        arguments = ["--store", f"file://{tmp_path / 'store'}", "--role", role, *FLAGS, *more]
        node = Server(tmp_path / name, memory=memory, arguments=arguments)
        made.append(node)
        return node.start()

    yield make
    for node in made:
        node.kill()


def client_of(node):
    return QdrantClient(url=node.url, grpc_port=node.grpc_port, prefer_grpc=True, timeout=120)


def vectors(count, seed):
    return numpy.random.default_rng(seed).standard_normal((count, DIM)).astype(numpy.float32)


def fill(client, all_vectors, name="docs"):
    client.create_collection(
        name,
        models.VectorParams(size=DIM, distance=models.Distance.DOT),
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=500),
    )
    for begin in range(0, len(all_vectors), 1000):
        points = [models.PointStruct(id=i, vector=all_vectors[i].tolist(), payload={"v": 0}) for i in range(begin, min(begin + 1000, len(all_vectors)))]
        client.upsert(name, points, wait=True)


def get(node, path):
    http = node.http(10)
    try:
        return http.raw("GET", path)[2].decode()
    finally:
        http.close()


def jobs(node, kind):
    """How many jobs of a kind a node has done."""
    found = re.search(rf'^ramlet_jobs_total{{kind="{kind}"}} (\d+)', get(node, "/metrics"), re.M)
    return int(found[1])


def built(node):
    """Merges and index builds, those that are a part of flushes too."""
    return int(re.search(r"^ramlet_store_built_total (\d+)", get(node, "/metrics"), re.M)[1])


def store_of(node):
    http = node.http(10)
    try:
        return http.call("GET", "/cluster")["result"]["store"]
    finally:
        http.close()


def indexed(client, name="docs"):
    return client.get_collection(name).indexed_vectors_count


def until(condition, what, timeout=90, pause=0.1):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(pause)


def brought(node):
    """Files of indexes that no list of a collection names: they are on their way."""
    found = []
    for directory in node.data.glob("c*"):
        lists = sorted(directory.glob("MANIFEST-" + "[0-9]" * 12))
        listed = lists[-1].read_bytes() if lists else b""
        names = [path.name for path in directory.glob("[0-9]*") if re.search(r"\.(cen|gra|cod)\d", path.name)]
        found += [name for name in names if name.encode() not in listed]
    return found


def everything(client, name="docs"):
    """Payloads by id, each point once."""
    found, offset = {}, None
    while True:
        points, offset = client.scroll(name, limit=2000, offset=offset, with_payload=True)
        for point in points:
            assert point.id not in found, f"{point.id} came twice"
            found[point.id] = point.payload["v"]
        if offset is None:
            return found


def recall(client, truth, name="docs"):
    """Of the nearest ten by brute force over `truth`, vectors by id."""
    ids = numpy.array(sorted(truth))
    rows = numpy.array([truth[i] for i in ids])
    hits = 0
    for query in vectors(30, 99):
        best = set(ids[numpy.argsort(-(rows @ query))[:10]].tolist())
        found = client.query_points(name, query=query.tolist(), limit=10).points
        for point in found:
            assert abs(point.score - float(truth[point.id] @ query)) < 1e-3 * (1 + abs(point.score)), point
        hits += len(best & {point.id for point in found})
    return hits / 300


@pytest.mark.parametrize("memory", ["128MB", "64MB"])
def test_one_node_builds_for_all(nodes, memory):
    writer = nodes("w", "writer", memory=memory)
    client = client_of(writer)
    client.create_collection("other", models.VectorParams(size=4, distance=models.Distance.DOT))
    builder = nodes("b", "build", memory=memory)
    reader = nodes("r", "reader", memory=memory)
    for node in (writer, reader):
        until(lambda: store_of(node)["builds_elsewhere"], "nobody hears of the node that builds")
    assert store_of(builder)["role"] == "build" and not store_of(builder)["builds_elsewhere"]
    all_vectors = vectors(POINTS, 1)
    fill(client, all_vectors)
    truth = dict(enumerate(all_vectors))
    expected = dict.fromkeys(truth, 0)
    done = threading.Event()

    def change():
        """Updates and deletes as long as segments are built, sent and taken."""
        rng, n = random.Random(3), 0
        new = vectors(20_000, 7)
        while not done.is_set() and n < len(new):
            changed, gone = rng.randrange(POINTS), rng.randrange(4000)
            client.upsert("docs", [models.PointStruct(id=changed, vector=new[n].tolist(), payload={"v": n + 1})], wait=True)
            truth[changed], expected[changed] = new[n], n + 1
            client.delete("docs", [gone], wait=True)
            truth.pop(gone, None)
            expected.pop(gone, None)
            n += 1

    changing = threading.Thread(target=change)
    changing.start()
    clients = [client, client_of(reader)]
    try:
        for one, node in zip(clients, (writer, reader)):
            until(lambda: indexed(one) > POINTS / 2, lambda: f"{indexed(one)} vectors have an index:\n{node.log()[-3000:]}\n{builder.log()[-3000:]}")
            until(lambda: jobs(node, "adopt") >= 1, "an index came from nowhere")
        # A few more seconds of changes on what was taken.
        time.sleep(2)
    finally:
        done.set()
        changing.join()
    assert client.count("docs").count == len(expected)
    for one, node in zip(clients, (writer, reader)):
        slot = store_of(writer)["slot"]
        until(lambda: store_of(node)["slot"] >= slot, "the reader doesn't follow")
        assert everything(one) == expected
        assert recall(one, truth) > 0.9
        assert indexed(one) > POINTS / 2
        # It built nothing itself.
        assert jobs(node, "merge") == 0 and built(node) == 0
    assert built(builder) > 0 and jobs(builder, "adopt") == 0
    # A build node owns nothing, and says what it is.
    shard = store_of(reader)["shards"][0]
    until(lambda: sorted(node["role"] for node in store_of(reader)["shards"][0]["nodes"]) == ["build", "reader", "writer"], f"{shard}")
    # What was taken is there after a kill, and sound.
    reader.kill()
    code, said = reader.check()
    assert code == 0, said
    reader.start()
    assert everything(client_of(reader)) == expected
    assert built(reader) == 0


def test_a_builder_that_is_killed_is_missed(nodes):
    writer, builder = nodes("w", "writer"), None
    client = client_of(writer)
    client.create_collection("first", models.VectorParams(size=4, distance=models.Distance.DOT))
    builder = nodes("b", "build")
    reader = nodes("r", "reader")
    for node in (writer, reader):
        until(lambda: store_of(node)["builds_elsewhere"], "nobody hears of the node that builds")
    builder.kill()
    all_vectors = vectors(POINTS, 2)
    fill(client, all_vectors)
    truth = dict(enumerate(all_vectors))
    for one, node in zip((client, client_of(reader)), (writer, reader)):
        until(lambda: not store_of(node)["builds_elsewhere"], "a dead node is waited for")
        until(lambda: indexed(one) > POINTS / 2, lambda: f"{indexed(one)} vectors have an index:\n{node.log()[-3000:]}")
        assert built(node) > 0 and jobs(node, "adopt") == 0
        assert recall(one, truth) > 0.9
    # It comes back, and builds for them again.
    builder.start()
    for node in (writer, reader):
        until(lambda: store_of(node)["builds_elsewhere"], "nobody hears of the node that builds")


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_is_killed_while_it_takes_segments(nodes, seed):
    writer = nodes("w", "writer")
    client = client_of(writer)
    client.create_collection("first", models.VectorParams(size=4, distance=models.Distance.DOT))
    builder = nodes("b", "build")
    reader = nodes("r", "reader")
    until(lambda: store_of(reader)["builds_elsewhere"], "nobody hears of the node that builds")
    all_vectors = vectors(POINTS, 3)
    fill(client, all_vectors)
    expected = dict.fromkeys(range(POINTS), 0)
    rng = random.Random(seed)

    def is_taken():
        return json.loads(get(reader, "/collections/docs"))["result"]["indexed_vectors_count"] > POINTS / 2

    # Each time that it has brought something, it is killed: at once, and then some moments later.
    cut_off = 0
    for _ in range(6):
        until(lambda: brought(reader) or is_taken(), lambda: f"{builder.log()[-3000:]}\n{reader.log()[-3000:]}", pause=0.002)
        time.sleep(rng.uniform(0, 0.1) if cut_off else 0)
        reader.kill()
        cut_off += bool(brought(reader))
        code, said = reader.check()
        assert code == 0, said
        reader.start()
        assert everything(client_of(reader)) == expected
        if not cut_off and is_taken():
            # It was faster. All points written once more make another index.
            changed = [models.PointStruct(id=i, vector=vector.tolist(), payload={"v": 0}) for i, vector in enumerate(all_vectors)]
            for begin in range(0, POINTS, 1000):
                client.upsert("docs", changed[begin : begin + 1000], wait=True)
            until(lambda: not is_taken(), "what was written again has its old index")
    one = client_of(reader)
    until(is_taken, lambda: f"no index:\n{reader.log()[-3000:]}")
    assert built(reader) == 0
    assert recall(one, dict(enumerate(all_vectors))) > 0.9
    assert cut_off > 0, "no kill came in the middle"
    # Nothing is left of what was cut off.
    assert not brought(reader)
    client.delete("docs", [0], wait=True)
    until(lambda: everything(one).keys() == set(range(1, POINTS)), "a delete isn't followed")


def test_a_shard_has_a_builder_of_its_own(tmp_path):
    made = []

    def make(name, role, *more):
        arguments = ["--store", f"file://{tmp_path / 'store'}", "--role", role, "--shards", "2", *FLAGS, *more]
        made.append(Server(tmp_path / name, memory="128MB", arguments=arguments))
        return made[-1].start()

    try:
        owners = [make(f"n{shard}", "auto", "--shard", str(shard)) for shard in range(2)]
        client = client_of(owners[0])
        client.create_collection("first", models.VectorParams(size=4, distance=models.Distance.DOT))
        builders = [make(f"b{shard}", "build", "--shard", str(shard)) for shard in range(2)]
        for node in owners:
            until(lambda: store_of(node)["builds_elsewhere"], "nobody hears of the node that builds")
        all_vectors = vectors(2 * POINTS, 4)
        fill(client, all_vectors)
        for node in owners:
            until(lambda: jobs(node, "adopt") >= 1, lambda: node.log()[-3000:])
            assert built(node) == 0
        assert all(built(node) > 0 for node in builders)
        assert everything(client) == dict.fromkeys(range(2 * POINTS), 0)
        assert recall(client, dict(enumerate(all_vectors))) > 0.9
        roles = [sorted(node["role"] for node in shard["nodes"]) for shard in store_of(owners[0])["shards"]]
        assert roles == [["build", "writer"]] * 2
    finally:
        for node in made:
            node.kill()
