"""Snapshots whose destination is a store: taken, listed, downloaded, restored on another server, deleted; and how little a second one sends."""

import hashlib
import json
import random
import struct
import subprocess

import httpx
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from conftest import client_of
from harness.cgroup import CannotMake, MemoryCgroup
from harness.s3 import S3
from harness.server import Server, binary

DIM = 64


@pytest.fixture(params=["file", "s3"])
def store(request, tmp_path):
    """URL of an empty store, the environment of who uses it, and how many bytes of chunks it holds."""
    if request.param == "file":
        place = tmp_path / "store"

        def held():
            return {str(path): path.stat().st_size for path in (place / "backup/objects").rglob("*") if path.is_file()}

        yield f"file://{place}", {}, held
        return
    with S3() as s3:

        def held():
            with s3.lock:
                return {key: len(body) for key, (body, _) in s3.objects.items() if "/backup/objects/" in key}

        yield "s3://bucket/snaps", s3.environment, held


def server_on(store, data, *more, memory="96MB", cgroup=None):
    return Server(data, memory=memory, arguments=["--no-probe", "--snapshots-path", store[0], *more], environment=store[1], cgroup=cgroup)


def vectors(seed, ids):
    rng = random.Random(seed)
    return [[rng.uniform(-1, 1) for _ in range(DIM)] for _ in ids]


def put(client, ids, seed=1, name="docs"):
    points = [models.PointStruct(id=i, vector=v, payload={"n": i, "s": seed}) for i, v in zip(ids, vectors(seed, ids))]
    for at in range(0, len(points), 500):
        client.upsert(name, points[at : at + 500], wait=True)


def everything(client, name="docs"):
    found, offset = {}, None
    while True:
        page, offset = client.scroll(name, limit=1000, offset=offset, with_payload=True, with_vectors=True)
        found.update((p.id, (p.payload, p.vector)) for p in page)
        if offset is None:
            return found


def create(client, name="docs"):
    client.create_collection(name, models.VectorParams(size=DIM, distance=models.Distance.DOT))


def location(store, *parts):
    return "/".join([store[0], *parts])


def test_there_and_back(store, tmp_path):
    with server_on(store, tmp_path / "a") as server:
        client = client_of(server)
        create(client)
        put(client, range(3000))
        before = everything(client)
        assert client.list_snapshots("docs") == [] == client.list_full_snapshots()
        taken = client.create_snapshot("docs")
        assert client.list_snapshots("docs") == [taken] and client.list_full_snapshots() == []
        file = httpx.get(f"{server.url}/collections/docs/snapshots/{taken.name}", timeout=60).raise_for_status().content
        assert (len(file), hashlib.sha256(file).hexdigest()) == (taken.size, taken.checksum)
        # Nothing of it is on the server's own disk.
        assert not [path for path in (server.data / "snapshots").rglob("*") if path.is_file() and path.stat().st_size]
        put(client, range(100, 200), seed=2)
        client.delete("docs", models.PointIdsList(points=list(range(1000))))
        assert client.recover_snapshot("docs", location=location(store, "docs", taken.name), checksum=taken.checksum, wait=True)
        assert everything(client) == before
        # What a client sends is restored as ever.
        answer = client.http.snapshots_api.recover_from_uploaded_snapshot("sent", wait=True, snapshot=file, checksum=taken.checksum)
        assert answer.result is True and everything(client, "sent") == before
        assert not [path for path in (server.data / "snapshots").rglob("upload-*")]
        client.delete_collection("sent")
        whole = client.create_full_snapshot()
        assert [s.name for s in client.list_full_snapshots()] == [whole.name]
        server.restart(kill=True)
        assert client.list_snapshots("docs") == [taken]
        # Only its own snapshots are read.
        for place, code in [(location(store, "docs", "other.snapshot"), 400), ("s3://elsewhere/x.snapshot", 400), ("file:///etc/passwd", 403)]:
            with pytest.raises(UnexpectedResponse) as error:
                client.recover_snapshot("docs", location=place, wait=True)
            assert error.value.status_code == code, place
        client.close()
    # Another machine, with nothing but the store.
    with server_on(store, tmp_path / "b") as other:
        client = client_of(other)
        create(client)
        client.recover_snapshot("docs", location=location(store, "docs", taken.name), wait=True)
        assert everything(client) == before
        assert client.delete_snapshot("docs", taken.name) and client.list_snapshots("docs") == []
        with pytest.raises(UnexpectedResponse) as error:
            client.delete_snapshot("docs", taken.name)
        assert error.value.status_code == 404
        # What the snapshot of everything needs is there.
        file = httpx.get(f"{other.url}/snapshots/{whole.name}", timeout=60).raise_for_status().content
        assert hashlib.sha256(file).hexdigest() == whole.checksum
        client.close()
    # A snapshot of everything is a backup, too.
    pulled = subprocess.run([binary(), "store", "pull", store[0], tmp_path / "pulled"], env=store[1] | {"PATH": "/bin"}, capture_output=True, text=True)
    assert pulled.returncode == 0, pulled.stderr
    with Server(tmp_path / "pulled") as restored:
        client = client_of(restored)
        assert everything(client) == before
        client.delete_collection("docs")
        client.close()


def test_a_second_one_sends_what_changed(store, tmp_path):
    with server_on(store, tmp_path / "a") as server:
        client = client_of(server)
        create(client)
        put(client, range(60_000))
        client.create_snapshot("docs")
        first = store[2]()
        client.create_snapshot("docs")
        again = sum(store[2]().values()) - sum(first.values())
        # A chunk or two: what is in memtables, or a file that a job wrote in between.
        assert again < 0.3 * sum(first.values()), (again, sum(first.values()))
        # One point of a hundred. What was in memtables at the first, a share of the RAM, may be in a segment now: most of what is sent here, where all is small.
        # tests/rigs/store_backup.py has the figures of more data.
        put(client, random.Random(3).sample(range(60_000), 600), seed=4)
        taken = client.create_snapshot("docs")
        before = store[2]()
        sent = sum(before.values()) - sum(first.values()) - again
        assert sent <= 0.6 * sum(first.values()), (sent, sum(first.values()))
        # Deleting the last frees what only it needed.
        client.delete_snapshot("docs", taken.name)
        assert 0 < sum(before.values()) - sum(store[2]().values()) <= sent
        for one in client.list_snapshots("docs"):
            client.delete_snapshot("docs", one.name)
        assert store[2]() == {}
        client.close()


def test_in_64_mb(store, tmp_path):
    try:
        group = MemoryCgroup(64_000_000)
    except CannotMake as reason:
        pytest.skip(f"no memory cgroup can be made here: {reason}")
    with group, server_on(store, tmp_path / "a", memory=None, cgroup=group) as server:
        client = client_of(server)
        create(client)
        put(client, range(30_000))
        before = client.count("docs").count
        for _ in range(2):
            taken = client.create_snapshot("docs")
        client.delete("docs", models.PointIdsList(points=list(range(100))))
        client.recover_snapshot("docs", location=location(store, "docs", taken.name), wait=True)
        assert client.count("docs").count == before == 30_000
        file = httpx.get(f"{server.url}/collections/docs/snapshots/{taken.name}", timeout=60).raise_for_status().content
        assert hashlib.sha256(file).hexdigest() == taken.checksum
        assert server.alive()
        client.close()


def test_keys_of_the_apis_configuration(tmp_path):
    with S3() as s3:
        config = {
            "storage": {
                "snapshots_config": {
                    "snapshots_storage": "s3",
                    "s3_config": {
                        "bucket": "bucket",
                        "region": "eu-west-1",
                        "access_key": "key",
                        "secret_key": "secret",
                        "endpoint_url": s3.environment["AWS_ENDPOINT"],
                    },
                }
            }
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        with Server(tmp_path / "a", arguments=["--no-probe", "--config", f"{tmp_path}/config.json"]) as server:
            client = client_of(server)
            create(client)
            put(client, range(50))
            taken = client.create_snapshot("docs")
            assert [one.name for one in client.list_snapshots("docs")] == [taken.name]
            assert any(key.startswith("ramlet-snapshots/backup/") for key in s3.objects), list(s3.objects)[:5]
            assert "without effect" not in server.log(), server.log()
            client.close()
        with pytest.raises(RuntimeError, match="no bucket is named"):
            Server(tmp_path / "b", arguments=["--snapshots-storage", "s3"]).start()


@pytest.mark.parametrize("kind", ["lies", "foreign", "damaged"])
def test_bad_stores(kind, tmp_path):
    with S3(lies=kind == "lies") as s3:
        if kind == "foreign":
            s3.put("snaps/report.pdf", b"x", {})
        store = ("s3://bucket/snaps", s3.environment)
        server = server_on(store, tmp_path / "a")
        if kind != "damaged":
            with pytest.raises(RuntimeError, match="can't be trusted with data" if kind == "lies" else "holds something else"):
                server.start()
            assert not [key for key in s3.objects if "/backup/" in key]
            return
        with server:
            client = client_of(server)
            create(client)
            put(client, range(3000))
            taken = client.create_snapshot("docs")
            for key, (body, tag) in list(s3.objects.items()):
                if "/backup/objects/" in key and len(body) > 100_000:
                    s3.objects[key] = (body[:-1] + struct.pack("B", body[-1] ^ 1), tag)
            before = everything(client)
            with pytest.raises(UnexpectedResponse) as error:
                client.recover_snapshot("docs", location=location(store, "docs", taken.name), wait=True)
            assert b"its bytes are others than were written" in error.value.content, error.value.content
            assert everything(client) == before
            client.close()
