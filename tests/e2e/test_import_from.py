"""`ramlet import --from`: another server's collections, our own server at both ends."""

import subprocess
import threading
import time

import pytest
from qdrant_client import models

import data
from conftest import client_of
from harness.server import Server, binary

DIM = 6


@pytest.fixture
def other(tmp_path):
    with Server(tmp_path / "other") as server:
        yield server


def run(source, target, *arguments, cwd, expect=0):
    command = [str(binary()), "import", "--from", source.url, "--url", target.url, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)
    assert (done.returncode == 0) == (expect == 0), done.stdout + done.stderr
    return done.stdout + done.stderr


def everything(client, name):
    found, offset = {}, None
    while True:
        page, offset = client.scroll(name, limit=200, offset=offset, with_payload=True, with_vectors=True)
        found.update((p.id, (p.payload, p.vector)) for p in page)
        if offset is None:
            return found


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for point, (payload, vector) in theirs.items():
        assert ours[point][0] == payload
        assert flat(ours[point][1]) == pytest.approx(flat(vector), abs=1e-6)


def flat(vector):
    """Numbers of any kind of vector, names and indices among them."""
    if isinstance(vector, dict):
        return [x for name in sorted(vector) for x in [float(sum(map(ord, name))), *flat(vector[name])]]
    if isinstance(vector, models.SparseVector):
        return [float(i) for i in vector.indices] + vector.values
    if isinstance(vector, list) and vector and isinstance(vector[0], list):
        return [x for part in vector for x in part]
    return list(vector or [])


def fill(client, name, count, seed=1, **more):
    rng = data.Random(seed)
    settings = {
        "vectors_config": {
            "a": models.VectorParams(size=DIM, distance=models.Distance.COSINE, on_disk=True),
            "b": models.VectorParams(size=3, distance=models.Distance.MANHATTAN),
        },
        "hnsw_config": models.HnswConfigDiff(m=24),
        "optimizers_config": models.OptimizersConfigDiff(indexing_threshold=50),
        **more,
    }
    client.create_collection(name, **settings)
    client.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER)
    client.create_payload_index(
        name, "city", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    )
    for begin in range(0, count, 200):
        client.upsert(name, [a_point(rng, n) for n in range(begin, min(begin + 200, count))], wait=True)


def a_point(rng, number):
    vectors = {"a": rng.vector(DIM), "b": rng.vector(3)}
    if rng.maybe(0.2):
        del vectors["b"]
    if rng.maybe(0.05):
        vectors = {}
    payload = {"n": rng.randrange(9), "city": rng.choice(data.CITIES), "text": "y" * rng.randrange(300)}
    return models.PointStruct(id=data.point_id(rng, number), vector=vectors, payload=payload)


def test_all_collections(own_server, other, tmp_path):
    theirs, ours = client_of(other), client_of(own_server)
    fill(theirs, "one", 700)
    fill(theirs, "two words", 50, seed=2)
    theirs.create_collection("empty", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    theirs.create_collection("bare", vectors_config={})
    theirs.upsert("bare", [models.PointStruct(id=n, vector={}, payload={"n": n}) for n in range(5)], wait=True)
    theirs.update_collection_aliases(
        [models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name="one", alias_name="first"))]
    )
    said = run(other, own_server, "--wait", cwd=tmp_path)
    assert "700 points into 'one'" in said
    for collection in theirs.get_collections().collections:
        name = collection.name
        same(everything(ours, name), everything(theirs, name))
        a, b = ours.get_collection(name), theirs.get_collection(name)
        assert a.config == b.config
        assert {f: (s.data_type, s.params) for f, s in a.payload_schema.items()} == {
            f: (s.data_type, s.params) for f, s in b.payload_schema.items()
        }
        assert a.status == models.CollectionStatus.GREEN
    same(everything(ours, "first"), everything(theirs, "one"))
    assert not (tmp_path / "ramlet-import.json").exists()
    # Again: nothing changes.
    run(other, own_server, cwd=tmp_path)
    same(everything(ours, "one"), everything(theirs, "one"))


def test_one_collection_into_another_shape(own_server, other, tmp_path):
    theirs, ours = client_of(other), client_of(own_server)
    fill(theirs, "one", 30)
    fill(theirs, "two", 30, seed=2)
    run(other, own_server, "--collection", "two", cwd=tmp_path)
    assert [c.name for c in ours.get_collections().collections] == ["two"]
    ours.create_collection("one", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    said = run(other, own_server, "--collection", "one", cwd=tmp_path, expect=1)
    assert "exists with the vectors" in said
    said = run(other, own_server, "--collection", "none", "--state", "s.json", cwd=tmp_path, expect=1)
    assert "none of this name" in said


def test_keys(tmp_path):
    arguments = lambda key: ["--api-key", key]  # noqa: E731
    with (
        Server(tmp_path / "a", arguments=arguments("from"), key="from") as source,
        Server(tmp_path / "b", arguments=arguments("to"), key="to") as target,
    ):
        fill(client_of(source, api_key="from"), "c", 40)
        said = run(source, target, "--api-key", "to", cwd=tmp_path, expect=1)
        assert "401" in said
        run(source, target, "--api-key", "to", "--from-api-key", "from", cwd=tmp_path)
        assert client_of(target, api_key="to").count("c").count == 40


def test_cut_off_and_resumed(own_server, other, tmp_path):
    theirs, ours = client_of(other), client_of(own_server)
    fill(theirs, "one", 3000)
    state = tmp_path / "ramlet-import.json"
    command = [str(binary()), "import", "--from", other.url, "--url", own_server.url, "--batch", "20"]
    for _ in range(3):
        # Killed once it has got a little further than it was.
        before = state.read_text() if state.exists() else None
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not state.exists() or state.read_text() == before):
            time.sleep(0.002)
        process.kill()
        assert process.wait() != 0, "it was done before it was killed"
    said = run(other, own_server, cwd=tmp_path)
    assert "continuing after" in said
    assert "imported 3,000 points" not in said
    assert not state.exists()
    same(everything(ours, "one"), everything(theirs, "one"))


def test_the_target_goes_away_and_comes_back(own_server, other, tmp_path):
    theirs = client_of(other)
    fill(theirs, "one", 2000)
    thread = threading.Thread(target=run, args=(other, own_server, "--batch", "20"), kwargs={"cwd": tmp_path})
    thread.start()
    time.sleep(0.3)
    own_server.restart(kill=True)
    thread.join()
    same(everything(client_of(own_server), "one"), everything(theirs, "one"))


def test_own_settings_and_strict_mode(own_server, other, tmp_path):
    """Limits of either side make pages and requests smaller; what only Ramlet knows comes along."""
    http = other.http()
    vectors = {"a": {"size": DIM, "distance": "Dot", "recall": 0.98}, "b": {"size": 2, "distance": "Dot"}}
    settings = {"vectors": vectors, "index": "hnsw", "recall": 0.9, "wal_config": {"wal_capacity_mb": 7}, "payload": {"memory": "cold"}}
    http.call("PUT", "/collections/c", settings)
    points = [{"id": n, "vector": {"a": [n] * DIM}, "payload": {"n": n}} for n in range(500)]
    http.call("PUT", "/collections/c/points?wait=true", {"points": points})
    strict = {"enabled": True, "max_query_limit": 20, "upsert_max_batchsize": 3}
    http.call("PATCH", "/collections/c", {"strict_mode_config": strict})
    run(other, own_server, cwd=tmp_path)
    ours, theirs = (http_of.call("GET", "/collections/c")["result"] for http_of in (own_server.http(), http))
    assert ours["config"] == theirs["config"]
    assert ours["ramlet"]["vectors"] == theirs["ramlet"]["vectors"]
    assert theirs["ramlet"]["vectors"]["a"]["index"] == "hnsw"
    # Again, into a collection that has the limits by now.
    run(other, own_server, cwd=tmp_path)
    for server in (own_server, other):
        server.http().call("PATCH", "/collections/c", {"strict_mode_config": {"enabled": False}})
    copied = everything(client_of(own_server), "c")
    assert len(copied) == 500
    same(copied, everything(client_of(other), "c"))


def test_one_that_fails_and_one_that_is_gone(own_server, other, tmp_path):
    theirs, ours = client_of(other), client_of(own_server)
    for name in ("a", "b", "c"):
        fill(theirs, name, 60)
    ours.create_collection("b", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    said = run(other, own_server, cwd=tmp_path, expect=1)
    assert "exists with the vectors" in said and "1 of 3 collections failed: 'b'" in said
    assert [ours.count(name).count for name in ("a", "b", "c")] == [60, 0, 60]
    # Of those that are done one is dropped, and one has lost points.
    ours.delete_collection("a")
    ours.delete_collection("b")
    lost = [p.id for p in ours.scroll("c", limit=20)[0]]
    ours.delete("c", lost, wait=True)
    said = run(other, own_server, cwd=tmp_path, expect=1)
    assert "60 points" in said and "sent again" in said
    assert "'c' has 40 points" in said and "lists 60 as imported" in said and "ramlet-import.json" in said
    for name in ("a", "b"):
        same(everything(ours, name), everything(theirs, name))
    (tmp_path / "ramlet-import.json").unlink()
    run(other, own_server, cwd=tmp_path)
    same(everything(ours, "c"), everything(theirs, "c"))


def test_https_of_a_server_without_tls(own_server, other, tmp_path):
    other.url = other.url.replace("http:", "https:")
    said = run(other, own_server, cwd=tmp_path, expect=1)
    assert "doesn't speak TLS" in said and "SSL_CERT_FILE" not in said
