"""Nodes over a store that nobody gives roles: one writes, and when it is killed, stopped, cut off or ended another one does, by itself."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from harness.http import Http
from harness.server import Server, binary
from harness.wire import Wire
from test_nodes import asked, cluster, create, ids_of, put, slot_of, vector

AFTER = 3


@pytest.fixture
def nodes(store, tmp_path):
    """Makes nodes, and ends them."""
    made = []

    def make(name, *more, start=True, environment=None, key=None, after=AFTER):
        arguments = ["--store", store[0], "--takeover-after", f"{after}s", "--no-probe", *more]
        node = Server(tmp_path / name, memory="96MB", arguments=arguments, environment={**store[1], **(environment or {})}, key=key)
        made.append(node)
        return node.start() if start else node

    yield make
    for node in made:
        node.kill()


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


def role(node):
    try:
        return cluster(node)["role"]
    except OSError:
        return None


def owner_of(nodes):
    return until(lambda: next((node for node in nodes if node.alive() and role(node) == "writer"), None))


class Clients:
    """Threads that write to nodes by turns, one point after the other, and remember what was acknowledged, and the longest time without an answer."""

    def __init__(self, nodes, first, count=3):
        self.nodes, self.acknowledged, self.refused, self.stop = nodes, [], [], threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(first + 1_000_000 * n,), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def write(self, point):
        while not self.stop.is_set():
            node = self.nodes[point % len(self.nodes)]
            body = json.dumps({"points": [{"id": point, "vector": vector(point), "payload": {"n": point}}]}).encode()
            # A point that wasn't acknowledged may be there all the same: another one comes.
            sent, point = point, point + 1
            try:
                http = Http(node.url, None, timeout=5)
                status, headers, answer = http.raw("PUT", "/collections/docs/points?wait=true", body)
                http.close()
            except OSError:
                time.sleep(0.05)
                continue
            if status == 200:
                self.acknowledged.append((time.monotonic(), sent))
            else:
                self.refused.append((status, headers, answer))
                time.sleep(0.05)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
        return {point for _, point in self.acknowledged}

    def longest_gap(self):
        times = sorted(at for at, _ in self.acknowledged)
        return max((later - earlier for earlier, later in zip(times, times[1:])), default=0)


def agree(nodes, acknowledged):
    """All nodes have the same points, those that were acknowledged among them."""
    slot = max(slot_of(node) for node in nodes)
    first, *others = [ids_of(node, slot) for node in nodes]
    for other in others:
        assert other == first
    assert acknowledged <= set(first), sorted(acknowledged - set(first))[:10]


def test_a_killed_owner_is_followed(nodes):
    three = [nodes(f"n{n}") for n in range(3)]
    assert [role(node) for node in three] == ["writer", "reader", "reader"]
    create(three[0])
    acknowledged = set()
    for turn in range(3):
        owner = owner_of(three)
        epoch = cluster(owner)["epoch"]
        slot = put(owner, range(turn * 100, turn * 100 + 50))
        acknowledged |= set(range(turn * 100, turn * 100 + 50))
        owner.kill()
        begun = time.monotonic()
        others = [node for node in three if node is not owner]
        new = owner_of(others)
        assert time.monotonic() - begun < 10 * AFTER
        # One of them took over, and the other one saw it.
        until(lambda: all(cluster(node)["epoch"] == epoch + 1 and cluster(node)["writer"] == new.url for node in others))
        put(new, [10_000 + turn])
        acknowledged.add(10_000 + turn)
        owner.start()
        assert role(owner) == "reader"
        agree(three, acknowledged)
    for node in three:
        assert node.stop() == 0
        code, said = node.check()
        assert code == 0, said


def test_an_owner_that_wakes_up_follows(nodes):
    first, second = nodes("n0"), nodes("n1")
    create(first)
    put(first, range(50))
    clients = Clients([first], 1_000)
    time.sleep(0.5)
    pid = first.process.pid
    os.kill(pid, signal.SIGSTOP)
    owner_of([second])
    put(second, range(50, 80))
    os.kill(pid, signal.SIGCONT)
    until(lambda: role(first) == "reader")
    time.sleep(0.5)
    acknowledged = clients.end()
    assert first.alive() and first.process.pid == pid and first.ready()
    agree([first, second], acknowledged | set(range(80)))
    # And it may own the log once more.
    second.kill()
    owner_of([first])
    put(first, [80])
    second.start()
    agree([first, second], acknowledged | set(range(81)))


def test_an_owner_without_writes_is_not_followed(nodes):
    first, second = nodes("n0"), nodes("n1")
    create(first)
    time.sleep(4 * AFTER)
    assert role(first) == "writer" and role(second) == "reader"
    assert cluster(second)["epoch"] == 1 and cluster(second)["fault"] is None


def test_who_ends_or_begins_again_is_not_waited_for(nodes):
    first, second = nodes("n0", after=60), None
    create(first)
    put(first, range(20))
    # The same directory owns the log at once, after any end.
    for kill in (True, False):
        first.restart(kill=kill)
        assert role(first) == "writer"
        put(first, [100 + kill])
    second = nodes("n1", after=60)
    assert role(second) == "reader"
    assert first.stop() == 0
    owner_of([second])
    put(second, [200])
    first.start()
    assert role(first) == "reader"
    agree([first, second], {*range(20), 100, 101, 200})


def test_who_followed_ends_and_begins_again_without_a_word(nodes):
    """The end of a node that doesn't own the log is nothing that anybody takes over, itself or another one that begins."""
    owner = nodes("owner")
    create(owner)
    follower = nodes("follower")
    put(owner, range(10))
    until(lambda: slot_of(follower) == slot_of(owner))
    epoch = cluster(owner)["epoch"]
    for turn in range(2):
        assert follower.restart() and role(follower) == "reader"
        follower.stop()
        third = nodes(f"third{turn}")
        assert role(third) == "reader"
        third.stop()
        follower.start()
    assert role(owner) == "writer" and cluster(owner)["epoch"] == epoch


def test_an_owner_that_is_cut_off_from_the_store_follows(store, nodes):
    if not store[2]:
        pytest.skip("a directory can't be cut off")
    wire = Wire(int(store[1]["AWS_ENDPOINT"].rsplit(":", 1)[1]))
    first = nodes("n0", environment={"AWS_ENDPOINT": f"http://127.0.0.1:{wire.here}"})
    second = nodes("n1")
    create(first)
    put(first, range(20))
    clients = Clients([first], 1_000)
    time.sleep(0.5)
    wire.cut()
    owner_of([second])
    put(second, [20])
    time.sleep(1)
    wire.mend()
    until(lambda: role(first) == "reader" and cluster(first)["fault"] is None, 60)
    acknowledged = clients.end()
    agree([first, second], acknowledged | set(range(21)))
    # A node that was cut off hears no silence: it doesn't take over when it is back.
    wire = Wire(int(store[1]["AWS_ENDPOINT"].rsplit(":", 1)[1]))
    third = nodes("n2", environment={"AWS_ENDPOINT": f"http://127.0.0.1:{wire.here}"})
    epoch = cluster(second)["epoch"]
    wire.cut()
    until(lambda: cluster(third)["fault"])
    time.sleep(2 * AFTER)
    wire.mend()
    until(lambda: cluster(third)["fault"] is None, 60)
    time.sleep(AFTER / 2)
    assert role(third) == "reader" and cluster(third)["epoch"] == epoch


def test_clients_talk_to_any_node(nodes):
    """The API's own client at a node that doesn't write: it reads what it wrote."""
    owner, other = nodes("n0"), nodes("n1")
    assert role(other) == "reader"
    for grpc in (False, True):
        client = QdrantClient(url=other.url, grpc_port=other.grpc_port, prefer_grpc=grpc, timeout=60)
        name = f"c{int(grpc)}"
        client.create_collection(
            name,
            {"a": models.VectorParams(size=8, distance=models.Distance.COSINE), "m": models.VectorParams(size=2, distance=models.Distance.DOT, multivector_config=models.MultiVectorConfig(comparator="max_sim"))},
            sparse_vectors_config={"s": models.SparseVectorParams()},
        )
        assert client.collection_exists(name)
        ids = [1, 2**63, "0b3a6f5e-52b2-4b9f-9d7a-0d1d6bb1a111"]
        points = [
            models.PointStruct(
                id=point,
                vector={"a": [0.1 * (n + 1), 1e-7, -2.5, 3, 1 / 3, 0, 7e5, n], "m": [[n, 1], [2, -0.125]], "s": models.SparseVector(indices=[3, 70_000], values=[0.1, n + 0.7])},
                payload={"n": n, "text": "sch\u00f6n \U0001f600 \"quoted\"", "nested": {"list": [1, 2.5, None, True], "big": 2**60}},
            )
            for n, point in enumerate(ids)
        ]
        assert client.upsert(name, points, wait=True).status == models.UpdateStatus.COMPLETED
        mine, _ = client.scroll(name, with_vectors=True)
        there = QdrantClient(url=owner.url, grpc_port=owner.grpc_port, prefer_grpc=grpc, timeout=60)
        assert mine == there.scroll(name, with_vectors=True)[0] and len(mine) == 3
        assert [point.payload for point in sorted(mine, key=lambda point: point.payload["n"])] == [point.payload for point in points]
        # The same points by the node that writes are the same bytes.
        there.upsert(name, points, wait=True)
        assert there.scroll(name, with_vectors=True)[0] == mine
        client.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER, wait=True)
        assert client.get_collection(name).payload_schema["n"].points == 3
        at_two = models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=2))])
        client.set_payload(name, {"more": "x"}, points=at_two, wait=True)
        client.delete(name, [1], wait=True)
        client.delete_vectors(name, ["s"], [2**63], wait=True)
        client.batch_update_points(name, [models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["text"], points=[2**63]))], wait=True)
        mine, _ = client.scroll(name, with_vectors=True)
        assert mine == there.scroll(name, with_vectors=True)[0] and len(mine) == 2
        assert {point.id: sorted(point.payload) for point in mine} == {2**63: ["n", "nested"], ids[2]: ["more", "n", "nested", "text"]}
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=f"a-{name}"))])
        assert client.count(f"a-{name}").count == 2
        # What is wrong is told as the node that writes tells it.
        for wrong in (lambda: client.upsert(name, [models.PointStruct(id=1, vector={"a": [1.0]})]), lambda: client.delete_payload("nothing", ["a"], [1])):
            with pytest.raises(Exception) as here:
                wrong()
            client, there = there, client
            with pytest.raises(Exception) as elsewhere:
                wrong()
            client, there = there, client
            assert without_time(here.value) == without_time(elsewhere.value)
        client.delete_collection(name)
        assert not client.collection_exists(name)
        for one in (client, there):
            one.close()
    http = other.http()
    _, _, metrics = http.raw("GET", "/metrics")
    http.close()
    forwarded = [line for line in metrics.decode().splitlines() if line.startswith("ramlet_store_forwarded_total")]
    assert int(forwarded[0].split()[-1]) > 20, forwarded


def without_time(error):
    text = str(getattr(error, "content", None) or getattr(error, "details", lambda: error)())
    return text.split('"time"')[0]


def test_reads_that_ask_for_all_see_all(nodes):
    owner, other = nodes("n0"), nodes("n1")
    create(owner)
    put(owner, [0])
    for n in range(1, 40):
        slot = put(owner if n % 2 else other, [n])
        for node in (other, owner):
            status, answer = asked(node, "POST", "/collections/docs/points/count?consistency=all", {"exact": True})
            assert (status, answer["result"]["count"]) == (200, n + 1), answer
        assert slot_of(other) >= slot
    client = QdrantClient(url=other.url, grpc_port=other.grpc_port, prefer_grpc=True, timeout=60)
    for n in range(40, 60):
        put(owner, [n])
        found = client.retrieve("docs", [n], consistency=models.ReadConsistencyType.MAJORITY)
        assert [point.id for point in found] == [n]
    client.close()


def test_keys_go_along(nodes):
    keys = ["--api-key", "secret", "--read-only-api-key", "reader"]
    _, other = nodes("n0", *keys, key="secret"), nodes("n1", *keys, key="secret")
    body = {"vectors": {"size": 4, "distance": "Dot"}}
    statuses = {}
    for key in ("secret", "reader", "wrong", None):
        http = Http(other.url, key, timeout=30)
        statuses[key] = http.raw("PUT", f"/collections/of-{key}", json.dumps(body).encode())[0]
        http.close()
    assert statuses == {"secret": 200, "reader": 403, "wrong": 401, None: 401} or statuses == {"secret": 200, "reader": 403, "wrong": 403, None: 401}, statuses


def test_without_an_owner_writes_are_asked_to_come_again(nodes):
    owner, other = nodes("n0", after=8), nodes("n1", after=8)
    create(other)
    owner.kill()
    http = other.http()
    body = json.dumps({"points": [{"id": 1, "vector": vector(1)}]}).encode()
    status, headers, answer = http.raw("PUT", "/collections/docs/points?wait=true", body)
    assert status == 503 and int(headers["retry-after"]) >= 1, (status, headers)
    assert "No node takes writes now" in json.loads(answer)["status"]["error"], answer
    # Reads go on.
    assert asked(other, "POST", "/collections/docs/points/count", {})[0] == 200
    until(lambda: http.raw("PUT", "/collections/docs/points?wait=true", body)[0] == 200)
    # What was sent on once is sent no further.
    owner.start()
    wrong = owner.http()
    wrong.headers |= {"ramlet-forwarded": "somebody"}
    status, headers, answer = wrong.raw("PUT", "/collections/docs/points?wait=true", body)
    assert status == 503 and "doesn't write any more" in json.loads(answer)["status"]["error"], answer
    for one in (http, wrong):
        one.close()


def test_clients_write_on_while_owners_are_killed(nodes):
    three = [nodes(f"n{n}") for n in range(3)]
    create(three[1])
    clients = Clients(three, 1_000)
    for _ in range(3):
        time.sleep(2)
        owner = owner_of(three)
        owner.kill()
        owner_of([node for node in three if node is not owner])
        owner.start()
    time.sleep(2)
    acknowledged = clients.end()
    assert len(acknowledged) > 50 and clients.longest_gap() < 10 * AFTER, clients.longest_gap()
    assert {status for status, _, _ in clients.refused} <= {503}, clients.refused[:3]
    agree(three, acknowledged)


def test_the_cluster_is_told_in_the_apis_shape(nodes):
    three = [nodes("n0"), nodes("n1"), nodes("n2", "--role", "reader")]
    create(three[0])
    put(three[0], range(10))
    urls = {node.url for node in three}
    seen = {}
    for node in three:
        client = QdrantClient(url=node.url, timeout=30)

        def all_peers():
            told = client.http.distributed_api.cluster_status().result
            return told if {peer.uri for peer in told.peers.values()} == urls else None

        told = until(all_peers)
        assert told.peers[str(told.peer_id)].uri == node.url
        assert told.raft_info.term == 1 and told.raft_info.is_voter == (node is not three[2])
        assert told.raft_info.role.value == ("Leader" if node is three[0] else "Follower")
        seen[node.url] = (told.peer_id, told.raft_info.leader)
        shards = client.http.distributed_api.collection_cluster_info("docs").result
        assert shards.peer_id == told.peer_id and [shard.points_count for shard in shards.local_shards] == [10]
        assert {shard.peer_id for shard in shards.remote_shards} == {int(peer) for peer in told.peers} - {told.peer_id}
        client.close()
    assert {leader for _, leader in seen.values()} == {seen[three[0].url][0]}
    # One that has ended is none of them any more.
    three[1].stop()
    client = QdrantClient(url=three[0].url, timeout=30)
    until(lambda: len(client.http.distributed_api.cluster_status().result.peers) == 2)
    client.close()


def test_from_one_machine_to_three(nodes, store, tmp_path):
    """The steps of docs/scale-out.md, while clients write."""
    alone = Server(tmp_path / "a", environment=store[1]).start()
    create(alone)
    clients = Clients([alone], 1_000)
    until(lambda: len(clients.acknowledged) > 50)
    # 1. The same directory, port and clients, with the store.
    alone.stop()
    alone.arguments += ["--store", store[0], "--takeover-after", f"{AFTER}s", "--advertise", alone.url]
    alone.start()
    three = [alone]
    try:
        # 2. and 3.
        for name in "bc":
            before = len(clients.acknowledged)
            three.append(nodes(name))
            clients.nodes = list(three)
            until(lambda: len(clients.acknowledged) > before + 20)
        assert [role(node) for node in three] == ["writer", "reader", "reader"]
        # 4. Reads go on, writes a little later.
        alone.kill()
        killed = time.monotonic()
        clients.nodes = three[1:]
        for node in three[1:]:
            assert asked(node, "POST", "/collections/docs/points/count", {})[0] == 200
        until(lambda: any(at > killed + 1 for at, _ in clients.acknowledged))
        owner_of(three[1:])
        # 5.
        alone.start()
        clients.nodes = list(three)
        assert role(alone) == "reader"
        before = len(clients.acknowledged)
        until(lambda: len(clients.acknowledged) > before + 20)
        acknowledged = clients.end()
        assert {status for status, _, _ in clients.refused} <= {503}, clients.refused[:3]
        agree(three, acknowledged)
    finally:
        alone.kill()


def demo_of(store, tmp_path):
    """The process, and the file of what it says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAMLET_", "QDRANT__"))}
    log = tmp_path / "demo.log"
    with open(log, "wb") as out:
        command = [str(binary()), "cluster", "demo", "--nodes", "3", "--takeover-after", "2s", "--data", str(tmp_path / "demo"), store[0]]
        return subprocess.Popen(command, stdout=out, stderr=out, env={**environment, **store[1]}), log


def test_a_demo_that_ends_while_a_node_starts_leaves_none(store, tmp_path):
    demo, log = demo_of(store, tmp_path)
    children, pids = Path(f"/proc/{demo.pid}/task/{demo.pid}/children"), []
    try:
        pids = until(lambda: children.read_text().split())
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(60) == 0, log.read_text()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    finally:
        demo.kill()
        for pid in pids:
            subprocess.run(["kill", "-9", pid], stderr=subprocess.DEVNULL)


def test_the_demo(store, tmp_path):
    """Nodes of `ramlet cluster demo`: one that is killed is followed, and comes back; SIGTERM ends all."""
    demo, log = demo_of(store, tmp_path)
    try:
        until(lambda: "node 1 writes" in log.read_text(), 90)
        lines = [line.split() for line in log.read_text().splitlines() if line.startswith("node") and "process" in line]
        urls, pids = [line[2] for line in lines], [int(line[4]) for line in lines]
        assert len(set(urls)) == 3, log.read_text()

        def ask(url, method, path, body=None):
            http = Http(url, None, timeout=10)
            try:
                return http.raw(method, path, None if body is None else json.dumps(body).encode())[0]
            finally:
                http.close()

        # What it says to try.
        assert ask(urls[0], "PUT", "/collections/demo", {"vectors": {"size": 4, "distance": "Dot"}}) == 200
        assert ask(urls[2], "PUT", "/collections/demo/points?wait=true", {"points": [{"id": 1, "vector": [1, 2, 3, 4]}]}) == 200
        assert ask(urls[0], "GET", "/collections/demo/points/1") == 200
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: "node 2 writes" in log.read_text() or "node 3 writes" in log.read_text(), 60)
        until(lambda: "node 1 is there again" in log.read_text(), 90)
        assert ask(urls[0], "PUT", "/collections/demo/points?wait=true", {"points": [{"id": 2, "vector": [1, 2, 3, 4]}]}) == 200
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(60) == 0, log.read_text()
        for url in urls:
            with pytest.raises(OSError):
                ask(url, "GET", "/")
    finally:
        demo.terminate()
        demo.wait(60)


def test_nobody_waits_behind_an_owner_that_was_stopped(nodes):
    """Writes that were sent to it hang. They are answered when another node takes over, and those that come then go there."""
    three = [nodes(f"n{n}") for n in range(3)]
    create(three[0])
    pid = three[0].process.pid
    os.kill(pid, signal.SIGSTOP)
    clients = Clients(three[1:], 1_000, count=24)
    others = three[1:]
    owner_of(others)
    seen = len(clients.acknowledged)
    until(lambda: len(clients.acknowledged) > seen + 100, 10)
    acknowledged = clients.end()
    assert {status for status, _, _ in clients.refused} <= {429, 503}, clients.refused[:3]
    agree(others, acknowledged)
    os.kill(pid, signal.SIGCONT)
    until(lambda: role(three[0]) == "reader")
    agree(three, acknowledged)
