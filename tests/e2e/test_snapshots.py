"""Snapshots as the client takes, sends and restores them; what comes back is compared with what was there."""

import hashlib
import random
import threading

import httpx
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from conftest import client_of
from harness.server import Server

DIM = 8
PARAMS = {
    "a": models.VectorParams(size=DIM, distance=models.Distance.COSINE),
    "b": models.VectorParams(size=3, distance=models.Distance.EUCLID, datatype=models.Datatype.FLOAT16),
}


@pytest.fixture
def client(own_server):
    return client_of(own_server)


def points(rng, ids):
    return [
        models.PointStruct(
            id=n,
            vector={"a": [rng.uniform(-1, 1) for _ in range(DIM)], "b": [rng.uniform(-1, 1) for _ in range(3)]},
            payload={"n": rng.randrange(10), "text": "x" * rng.randrange(200)},
        )
        for n in ids
    ]


def fill(client, name, count=400, seed=1):
    rng = random.Random(seed)
    client.create_collection(
        name, vectors_config=PARAMS, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=1)
    )
    client.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER)
    for begin in range(0, count, 100):
        client.upsert(name, points(rng, range(begin, begin + 100)), wait=True)
    client.delete(name, models.FilterSelector(filter=match(3)))


def match(n):
    return models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=n))])


def everything(client, name):
    found, offset = {}, None
    while True:
        page, offset = client.scroll(name, limit=97, offset=offset, with_payload=True, with_vectors=True)
        found.update((p.id, (p.payload, p.vector)) for p in page)
        if offset is None:
            return found


def download(server, path):
    answer = httpx.get(f"{server.url}{path}", timeout=60)
    answer.raise_for_status()
    return answer.content


@pytest.mark.parametrize("name", ["日本 語", "a+b'c", "LOCK", "é" * 127])
def test_a_path_has_the_name_of_the_collection(client, own_server, name):
    """As clients build it, whatever its directory is called."""
    fill(client, name)
    before = everything(client, name)
    taken = client.create_snapshot(name)
    client.delete(name, models.FilterSelector(filter=models.Filter()))
    location = f"file://{own_server.data.resolve()}/snapshots/{name}/{taken.name}"
    assert client.recover_snapshot(name, location=location, wait=True) is True
    assert everything(client, name) == before


def test_there_and_back(client, own_server, tmp_path):
    fill(client, "c")
    before = everything(client, "c")
    info = client.get_collection("c")
    assert client.list_snapshots("c") == []
    taken = client.create_snapshot("c")
    assert client.list_snapshots("c") == [taken]
    file = download(own_server, f"/collections/c/snapshots/{taken.name}")
    assert (len(file), hashlib.sha256(file).hexdigest()) == (taken.size, taken.checksum)

    client.delete("c", models.FilterSelector(filter=models.Filter()))
    client.upsert("c", points(random.Random(9), range(1000, 1010)), wait=True)
    location = f"file://{own_server.data.resolve()}/snapshots/c/{taken.name}"
    assert client.recover_snapshot("c", location=location, checksum=taken.checksum, wait=True) is True
    assert everything(client, "c") == before

    client.recover_snapshot("d", location=location, priority=models.SnapshotPriority.NO_SYNC)
    assert everything(client, "d") == before
    restored = client.get_collection("d")
    assert restored.config.params == info.config.params
    assert restored.payload_schema.keys() == info.payload_schema.keys()
    for n in range(10):
        assert client.count("d", match(n)) == client.count("c", match(n))

    own_server.restart(kill=True)
    assert everything(client, "c") == everything(client, "d") == before
    assert client.delete_snapshot("c", taken.name)
    assert client.list_snapshots("c") == []
    with pytest.raises(UnexpectedResponse) as error:
        client.delete_snapshot("c", taken.name)
    assert error.value.status_code == 404
    client.close()
    own_server.stop()
    code, said = own_server.check()
    assert code == 0, said


def test_upload_into_another_server(client, own_server, tmp_path):
    fill(client, "c")
    before = everything(client, "c")
    taken = client.create_snapshot("c")
    path = tmp_path / "c.snapshot"
    path.write_bytes(download(own_server, f"/collections/c/snapshots/{taken.name}"))
    with Server(tmp_path / "other") as other:
        there = client_of(other)
        with open(path, "rb") as file:
            answer = there.http.snapshots_api.recover_from_uploaded_snapshot(
                "e", wait=True, priority="snapshot", checksum=taken.checksum, snapshot=file
            )
        assert answer.result is True
        assert everything(there, "e") == before
        for name, body, code in [
            ("e", path.read_bytes()[:-5000], 400),
            ("e", b"nothing", 400),
            ("other-shape", path.read_bytes(), 400),
        ]:
            if name == "other-shape":
                there.create_collection(
                    name, vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT)
                )
            url = f"{other.url}/collections/{name}/snapshots/upload"
            answer = httpx.post(url, files={"snapshot": ("x", body)}, timeout=60)
            assert answer.status_code == code, answer.text
        assert everything(there, "e") == before
        assert list((tmp_path / "other" / "snapshots").glob("*.tmp")) == []


def test_taken_while_points_come_and_go(client, own_server):
    """Each update sets one number in all points: a snapshot has one number."""
    client.create_collection("c", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    stop, written = threading.Event(), []

    def write():
        n = 0
        while not stop.is_set():
            batch = [models.PointStruct(id=i, vector=[n, i], payload={"n": n}) for i in range(60)]
            client.upsert("c", batch, wait=True)
            written.append(n)
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not written:
            pass
        taken = [client.create_snapshot("c") for _ in range(8)]
    finally:
        stop.set()
        writer.join()
    for snapshot in taken:
        location = f"file://{own_server.data.resolve()}/snapshots/c/{snapshot.name}"
        client.recover_snapshot("d", location=location)
        found = everything(client, "d")
        assert len(found) == 60
        assert len({payload["n"] for payload, _ in found.values()}) == 1


def test_the_whole_storage(client, own_server, tmp_path):
    fill(client, "c", 200, seed=2)
    fill(client, "with/../odd name".replace("/", "-"), 100, seed=3)
    client.update_collection_aliases(
        [models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name="c", alias_name="alias"))]
    )
    names = [c.name for c in client.get_collections().collections]
    before = {name: everything(client, name) for name in names}
    full = client.create_full_snapshot()
    assert client.list_full_snapshots() == [full]
    path = tmp_path / "full.snapshot"
    path.write_bytes(download(own_server, f"/snapshots/{full.name}"))
    assert client.delete_full_snapshot(full.name)
    assert client.list_full_snapshots() == []

    with Server(tmp_path / "other", arguments=["--storage-snapshot", str(path)]) as other:
        restored = client_of(other)
        assert {c.name: everything(restored, c.name) for c in restored.get_collections().collections} == before
        assert everything(restored, "alias") == before["c"]
        other.stop()
        with pytest.raises(RuntimeError, match="already exists"):
            other.start()
        other.arguments.append("--force-snapshot")
        other.start()
        assert everything(restored, "c") == before["c"]


def test_a_collection_at_the_start(client, own_server, tmp_path):
    fill(client, "c", 200)
    taken = client.create_snapshot("c")
    path = own_server.data / "snapshots" / "c" / taken.name
    arguments = ["--snapshot", f"{path}:x", "--snapshot", f"{path}:y", "--snapshots-path", str(tmp_path / "elsewhere")]
    with Server(tmp_path / "other", arguments=arguments) as other:
        restored = client_of(other)
        assert everything(restored, "x") == everything(restored, "y") == everything(client, "c")
        mine = restored.create_snapshot("x")
        assert (tmp_path / "elsewhere" / "x" / mine.name).stat().st_size == mine.size


def test_paths_and_urls(client, own_server, tmp_path):
    fill(client, "c", 100)
    taken = client.create_snapshot("c")
    directory = own_server.data.resolve() / "snapshots"
    outside = tmp_path / "outside.snapshot"
    outside.write_bytes((directory / "c" / taken.name).read_bytes())
    (directory / "c" / "link.snapshot").symlink_to(outside)
    (directory / "linked").symlink_to(tmp_path)
    for location, status in [
        (f"file://{outside}", 403),
        (f"file://{directory}/c/link.snapshot", 400),
        (f"file://{directory}/linked/outside.snapshot", 400),
        (f"file://{directory}/c/../../LOCK", 403),
        (f"file://{directory}/c/%2e%2e/c/{taken.name}", 403),
        (f"{own_server.url}/collections/c/snapshots/{taken.name}", 400),
        ("file:///etc/passwd", 403),
        ("file:///no/such/file", 400),
    ]:
        with pytest.raises(UnexpectedResponse) as error:
            client.recover_snapshot("c", location=location)
        assert error.value.status_code == status, location
    for path in ["/collections/c/snapshots/link.snapshot", "/collections/c/snapshots/..%2f..%2fLOCK"]:
        assert httpx.get(own_server.url + path, timeout=60).status_code == 404, path
    assert [s.name for s in client.list_snapshots("c")] == [taken.name]

    with Server(tmp_path / "other", arguments=["--snapshots-from-urls"]) as other:
        url = f"{own_server.url}/collections/c/snapshots/{taken.name}"
        there = client_of(other)
        assert there.recover_snapshot("e", location=url, checksum=taken.checksum)
        assert everything(there, "e") == everything(client, "c")


def test_killed_at_any_moment(own_server):
    """Restores and snapshots are cut off by SIGKILL: the collection is what it was, or what the snapshot holds."""
    client = client_of(own_server)
    fill(client, "c", 2000)
    before = everything(client, "c")
    taken = client.create_snapshot("c")
    client.delete("c", models.FilterSelector(filter=match(5)))
    after = everything(client, "c")
    location = f"file://{own_server.data.resolve()}/snapshots/c/{taken.name}"
    rng = random.Random(4)
    for _ in range(6):
        def work():
            try:
                client.create_snapshot("c")
                client.recover_snapshot("c", location=location)
            except Exception:
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(rng.uniform(0.0, 0.15))
        own_server.kill()
        thread.join()
        own_server.start()
        assert everything(client, "c") in (before, after)
        left = [p.name for p in own_server.data.rglob("*") if p.name.endswith(".tmp")]
        assert left == []
        assert len([p for p in own_server.data.iterdir() if p.is_dir() and p.name.startswith("c0")]) == 1
        for snapshot in client.list_snapshots("c"):
            assert snapshot.checksum is not None
