"""`ramlet serve --store`: one writer, readers that follow it, and writers that take over from one that is dead, stopped, or doesn't know yet."""

import json
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from harness.cgroup import CannotMake, MemoryCgroup
from harness.http import Http
from harness.s3 import S3
from harness.server import Server

DIM = 32


@pytest.fixture
def nodes(store, tmp_path):
    """Makes nodes, and ends them."""
    made = []

    def make(name, role, *more, memory="96MB", start=True, cgroup=None):
        arguments = ["--store", store[0], "--role", role, "--no-probe", *more]
        node = Server(tmp_path / name, memory=memory, arguments=arguments, environment=store[1], cgroup=cgroup)
        made.append(node)
        return node.start() if start else node

    yield make
    for node in made:
        node.kill()


def vector(seed):
    return [b / 255 for b in random.Random(seed).randbytes(DIM)]


def put(node, ids, collection="docs", timeout=60):
    """The slot that the writes are in, or before."""
    http = node.http(timeout)
    try:
        points = [{"id": i, "vector": vector(i), "payload": {"n": i}} for i in ids]
        status, headers, answer = http.raw("PUT", f"/collections/{collection}/points?wait=true", json.dumps({"points": points}).encode())
        assert status == 200 and json.loads(answer)["result"]["status"] == "completed", answer
        return int(headers["ramlet-slot"])
    finally:
        http.close()


def cluster(node):
    http = node.http(10)
    try:
        return http.call("GET", "/cluster")["result"]["store"]
    finally:
        http.close()


def slot_of(node):
    return cluster(node)["slot"]


def create(node, collection="docs"):
    http = node.http()
    http.call("PUT", f"/collections/{collection}", {"vectors": {"size": DIM, "distance": "Dot"}})
    http.close()


def asked(node, method, path, body=None, slot=None):
    """Status, and the answer."""
    http = node.http()
    http.headers |= {"ramlet-slot-min": str(slot)} if slot is not None else {}
    try:
        status, _, answer = http.raw(method, path, None if body is None else json.dumps(body).encode())
        return status, json.loads(answer)
    finally:
        http.close()


def ids_of(node, slot, collection="docs"):
    """All points as of a slot or later, by reads that wait for it."""
    ids, offset = [], None
    while True:
        body = {"limit": 1000, "with_payload": True, **({"offset": offset} if offset is not None else {})}
        status, answer = asked(node, "POST", f"/collections/{collection}/points/scroll", body, slot)
        assert status == 200, answer
        for point in answer["result"]["points"]:
            assert point["payload"]["n"] == point["id"]
            ids.append(point["id"])
        offset = answer["result"]["next_page_offset"]
        if offset is None:
            return ids


def test_readers_follow_a_writer(nodes):
    writer = nodes("w", "writer")
    create(writer)
    put(writer, range(100))
    readers = [nodes(f"r{n}", "reader") for n in range(2)]
    slot = put(writer, range(100, 200))
    for reader in readers:
        assert ids_of(reader, slot) == list(range(200))
        status = cluster(reader)
        assert status["role"] == "reader" and status["writer"] == writer.url and status["fault"] is None, status
        # What a reader answers is what the writer does.
        body = {"query": vector(7), "limit": 10, "with_vector": True}
        same = [asked(node, "POST", "/collections/docs/points/query", body, slot)[1]["result"] for node in (writer, reader)]
        assert same[0] == same[1]
    # Writes that come to a reader are done by the writer, and are here when they are answered.
    assert put(readers[0], [200]) > slot
    for reader in readers:
        assert ids_of(reader, slot + 1) == list(range(201))
    # A slot that nobody has written is waited for, and then it is said which there is.
    status, answer = asked(readers[0], "POST", "/collections/docs/points/count?timeout=1", {}, slot + 1000)
    assert status == 503 and f"slot {slot + 1000} isn't here yet" in answer["status"]["error"], answer


def test_changes_of_collections_follow(nodes):
    writer, reader = nodes("w", "writer"), None
    for grpc in (False, True):
        client = QdrantClient(url=writer.url, grpc_port=writer.grpc_port, prefer_grpc=grpc, timeout=60)
        name = f"c{int(grpc)}"
        client.create_collection(name, {"a": models.VectorParams(size=DIM, distance=models.Distance.DOT)})
        points = [models.PointStruct(id=i, vector={"a": vector(i)}, payload={"tag": "xy"[i % 2]}) for i in range(50)]
        client.upsert(name, points, wait=True)
        reader = reader or nodes("r", "reader")
        client.create_payload_index(name, "tag", models.PayloadSchemaType.KEYWORD, wait=True)
        client.delete(name, models.Filter(must=[models.FieldCondition(key="tag", match=models.MatchValue(value="x"))]), wait=True)
        client.set_payload(name, {"more": 1}, points=[1, 3], wait=True)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=f"a-{name}"))])
        client.create_collection("gone", models.VectorParams(size=4, distance=models.Distance.DOT))
        client.upsert("gone", [models.PointStruct(id=1, vector=[1, 2, 3, 4])], wait=True)
        client.delete_collection("gone")
        slot = slot_of(writer)
        other = QdrantClient(url=reader.url, grpc_port=reader.grpc_port, prefer_grpc=grpc, timeout=60)
        assert asked(reader, "POST", f"/collections/a-{name}/points/count", {"exact": True}, slot)[1]["result"]["count"] == 25
        assert not other.collection_exists("gone")
        for of in (client, other):
            info = of.get_collection(name)
            assert info.payload_schema["tag"].points == 25 and info.points_count == 25
        both = [of.scroll(name, limit=100, with_vectors=True, with_payload=True)[0] for of in (client, other)]
        assert both[0] == both[1]
        client.close()
        other.close()


def test_a_node_begins_from_a_backup_and_goes_on_from_its_directory(nodes, tmp_path):
    writer = nodes("w", "writer", "--store-backup-every", "5")
    create(writer)
    for start in range(0, 400, 20):
        slot = put(writer, range(start, start + 20))
    until = time.monotonic() + 30
    while not cluster(writer)["backup_slot"]:
        assert time.monotonic() < until, cluster(writer)
        time.sleep(0.2)
    fresh = nodes("fresh", "reader")
    assert "of backup" in fresh.log() or "backup 1 of" in fresh.log(), fresh.log()
    assert ids_of(fresh, slot) == list(range(400))
    # Killed, it goes on where it was; so does the writer.
    fresh.kill()
    writer.restart(kill=True)
    slot = put(writer, range(400, 420))
    fresh.start()
    assert ids_of(fresh, slot) == list(range(420))
    # A directory that is gone is made again.
    fresh.kill()
    shutil.rmtree(fresh.data)
    fresh.start()
    assert ids_of(fresh, slot) == list(range(420))
    # A clean end, and what came meanwhile.
    fresh.stop()
    writer.restart()
    slot = put(writer, range(420, 440))
    fresh.start()
    assert ids_of(fresh, slot) == list(range(440))
    for node in (writer, fresh):
        node.stop()
        code, said = node.check()
        assert code == 0, said


class Clients:
    """Threads that write to a node one point after the other, and remember what was acknowledged, and when."""

    def __init__(self, node, first, count=3):
        self.node, self.acknowledged, self.refused, self.stop = node, [], [], threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(first + 1_000_000 * n,), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def write(self, point):
        while not self.stop.is_set():
            body = json.dumps({"points": [{"id": point, "vector": vector(point), "payload": {"n": point}}]}).encode()
            try:
                http = Http(self.node.url, None, timeout=30)
                status, _, answer = http.raw("PUT", "/collections/docs/points?wait=true", body)
                http.close()
            except OSError:
                time.sleep(0.05)
                continue
            if status == 200:
                self.acknowledged.append((time.monotonic(), point))
                point += 1
            else:
                self.refused.append((status, answer))
                time.sleep(0.05)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
        return {point for _, point in self.acknowledged}


def test_a_killed_writer_loses_nothing(nodes):
    first = nodes("w1", "writer")
    create(first)
    reader = nodes("r", "reader")
    clients = Clients(first, 1)
    acknowledged = set()
    for turn in range(3):
        time.sleep(1)
        first.kill()
        begun = time.monotonic()
        acknowledged |= clients.end()
        first = nodes(f"w{turn + 2}", "writer")
        slot = put(first, [900_000_000 + turn])
        assert time.monotonic() - begun < 30
        acknowledged.add(900_000_000 + turn)
        for node in (first, reader):
            assert acknowledged <= set(ids_of(node, slot)), turn
        clients = Clients(first, 10_000_000 * (turn + 1))
    acknowledged |= clients.end()
    assert len(acknowledged) > 50
    slot = slot_of(first)
    assert ids_of(first, slot) == ids_of(reader, slot)
    assert acknowledged <= set(ids_of(reader, slot))
    assert cluster(reader)["epoch"] == 4 and cluster(reader)["writer"] == first.url


def test_a_writer_that_wakes_up_late_follows(nodes):
    first = nodes("w1", "writer")
    create(first)
    clients = Clients(first, 1)
    time.sleep(1)
    os.kill(first.process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    second = nodes("w2", "writer")
    sealed = time.monotonic()
    slot = put(second, [900_000_000])
    os.kill(first.process.pid, signal.SIGCONT)
    until = time.monotonic() + 20
    while cluster(first)["role"] != "reader":
        assert time.monotonic() < until, cluster(first)
        time.sleep(0.1)
    time.sleep(1)
    acknowledged = clients.end()
    assert any(at > sealed for at, _ in clients.acknowledged), "it sends writes to the new one"
    slot = max(slot, slot_of(second), slot_of(first))
    there = set(ids_of(second, slot))
    assert acknowledged <= there and 900_000_000 in there
    assert set(ids_of(first, slot)) == there
    status = cluster(first)
    assert status["writer"] == second.url and status["fault"] is None and http_status(first, "/readyz") == 200, status
    create(first, "new")
    assert ids_of(second, slot_of(first), "new") == []


def test_a_writer_without_writes_learns_that_it_is_none(nodes):
    first = nodes("w1", "writer")
    create(first)
    second = nodes("w2", "writer")
    until = time.monotonic() + 20
    while cluster(first)["role"] != "reader":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert cluster(first)["writer"] == second.url
    assert cluster(second)["role"] == "writer" and cluster(second)["fault"] is None


def http_status(node, path):
    http = node.http()
    try:
        return http.raw("GET", path)[0]
    finally:
        http.close()


def test_from_one_machine_to_two(nodes, store, tmp_path):
    """A directory of a server without a store becomes the writer's."""
    with Server(tmp_path / "w") as alone:
        create(alone)
        put_alone(alone, range(500))
    reader = nodes("r", "reader", start=False)
    with pytest.raises(RuntimeError, match="is empty|no directory|no writer has begun"):
        reader.start()
    writer = nodes("w", "writer")
    slot = put(writer, range(500, 510))
    reader.start()
    assert ids_of(reader, slot) == list(range(510))
    # Others' directories aren't touched.
    with Server(tmp_path / "other") as other:
        create(other)
    for role, name in [("writer", "other"), ("reader", "other")]:
        with pytest.raises(RuntimeError, match="holds data that isn't of"):
            nodes(name, role)


def put_alone(server, ids):
    http = server.http()
    points = [{"id": i, "vector": vector(i), "payload": {"n": i}} for i in ids]
    http.call("PUT", "/collections/docs/points?wait=true", {"points": points})
    http.close()


def slots_of(store, s3):
    """Numbers of the slots that are in the store, and the kind of each: 1 a seal, 2 a group, 3 a request."""
    if s3:
        with s3.lock:
            found = {key.rsplit("/", 1)[1]: body for key, (body, _) in s3.objects.items() if "/log/" in key}
    else:
        found = {path.name: path.read_bytes() for path in (Path(store.removeprefix("file://")) / "log").iterdir()}
    return {int(name): body[10] for name, body in found.items()}


def trimmed_at_least(writer, slot):
    until = time.monotonic() + 60
    while cluster(writer)["deleted_slot"] < slot:
        assert time.monotonic() < until, cluster(writer)
        time.sleep(0.2)


def test_the_log_is_trimmed_and_who_is_behind_begins_anew(nodes, store):
    """Readers that sleep through backups: one that runs on, one that is started again, and a writer's old directory."""
    trims = ["--store-backup-every", "10", "--store-keep", "1"]
    first = nodes("w1", "writer", *trims)
    create(first)
    put(first, range(20))
    runs, stopped = nodes("runs", "reader"), nodes("stopped", "reader")
    stopped.stop()
    first.kill()
    writer = nodes("w2", "writer", *trims)
    slot = put(writer, range(20, 30))
    assert ids_of(runs, slot) == list(range(30))
    os.kill(runs.process.pid, signal.SIGSTOP)
    behind = slot_of(writer)
    for turn in range(4):
        for n in range(15):
            slot = put(writer, [1000 + turn * 100 + n])
        until = time.monotonic() + 60
        while cluster(writer)["backup_slot"] < slot - 10:
            assert time.monotonic() < until, cluster(writer)
            time.sleep(0.2)
    trimmed_at_least(writer, behind + 15)
    deleted = cluster(writer)["deleted_slot"]
    until = time.monotonic() + 20
    while any(number <= deleted and kind != 1 for number, kind in slots_of(*store[::2]).items()):
        assert time.monotonic() < until, (deleted, slots_of(*store[::2]))
        time.sleep(0.2)
    left = slots_of(*store[::2])
    # Both seals, and what is behind the backups that stay.
    assert sorted(number for number, kind in left.items() if kind == 1)[0] == 1 and list(left.values()).count(1) == 2, left
    assert set(range(deleted + 1, slot + 1)) <= set(left), (deleted, left)
    expected = ids_of(writer, slot)
    pid = runs.process.pid
    os.kill(pid, signal.SIGCONT)
    for node in (runs, stopped):
        if node is stopped:
            node.start()
        until = time.monotonic() + 60
        while not (node.ready() and slot_of(node) >= slot):
            assert time.monotonic() < until and node.alive(), node.log()
            time.sleep(0.1)
        assert ids_of(node, slot) == expected
    assert runs.process.pid == pid and "begins anew" in runs.log(), runs.log()
    assert "it is filled anew" in stopped.log(), stopped.log()
    # The old writer's directory is behind too.
    first.start()
    assert "it is filled anew" in first.log(), first.log()
    slot = put(first, [7_000_000])
    expected = sorted([*expected, 7_000_000])
    for node in (first, runs, stopped):
        assert ids_of(node, slot) == expected
    for node in (first, runs, stopped):
        assert node.stop() == 0
        code, said = node.check()
        assert code == 0, said


def test_all_is_kept_where_that_is_asked_for(nodes, store):
    writer = nodes("w", "writer", "--store-backup-every", "5", "--store-keep", "0")
    create(writer)
    for n in range(20):
        slot = put(writer, [n])
    until = time.monotonic() + 60
    while not cluster(writer)["backup_slot"]:
        assert time.monotonic() < until, cluster(writer)
        time.sleep(0.2)
    writer.stop()
    assert sorted(slots_of(*store[::2])) == list(range(1, slot + 1))

def test_what_a_node_cannot_do_is_said(nodes):
    writer = nodes("w", "writer")
    create(writer)
    status, answer = asked(writer, "PUT", "/collections/docs/snapshots/recover", {"location": "file:///x"})
    assert status == 400 and "on a node over a store" in answer["status"]["error"], (status, answer)


def test_nodes_of_64_mb(nodes, store):
    """Writer, reader and a fresh reader, each in a memory cgroup of 64 MB, with a backup on the way."""
    try:
        groups = [MemoryCgroup(64_000_000) for _ in range(3)]
    except CannotMake as reason:
        pytest.skip(f"no memory cgroup can be made here: {reason}")
    with groups[0], groups[1], groups[2]:
        writer = nodes("w", "writer", "--store-backup-every", "20", memory=None, cgroup=groups[0])
        create(writer)
        reader = nodes("r", "reader", memory=None, cgroup=groups[1])
        for start in range(0, 12_000, 200):
            slot = put(writer, range(start, start + 200))
        until = time.monotonic() + 60
        while not cluster(writer)["backup_slot"]:
            assert time.monotonic() < until, cluster(writer)
            time.sleep(0.2)
        fresh = nodes("f", "reader", memory=None, cgroup=groups[2])
        for node in (reader, fresh):
            assert asked(node, "POST", "/collections/docs/points/count", {"exact": True}, slot)[1]["result"]["count"] == 12_000
            assert node.alive()
        for node in (writer, reader, fresh):
            assert node.stop() == 0, node.log()


def test_a_store_that_lies_is_refused(tmp_path):
    with S3(lies=True) as s3:
        node = Server(tmp_path / "w", arguments=["--store", "s3://bucket/shard", "--role", "writer"], environment=s3.environment)
        with pytest.raises(RuntimeError, match="can't be trusted with data: create if absent"):
            node.start()
        assert not [key for key in s3.objects if "log/" in key]
