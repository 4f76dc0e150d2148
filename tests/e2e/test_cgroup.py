"""The promise under a real limit: 64 MB in a memory cgroup of 64 MB, while ingesting, merging, searching and under hostile requests."""

import json
import random
import socket
import threading
import time

import pytest

import compare
import conftest
from harness.cgroup import CannotMake, MemoryCgroup
from harness.http import Answer
from harness.server import Server

LIMIT, DIM, POINTS, BATCH = 64_000_000, 128, 120_000, 200


@pytest.fixture
def limited(tmp_path, request):
    if conftest.SELF:
        pytest.skip("needs a server")
    try:
        group = MemoryCgroup(getattr(request, "param", LIMIT))
    except CannotMake as reason:
        pytest.skip(f"no memory cgroup can be made here: {reason}")
    with group:
        # The flag isn't given: the server finds the limit of its group by itself.
        with Server(tmp_path / "data", memory=None, cgroup=group) as server:
            yield server, group


def batch(rng, start, count, payload):
    """120,000 of these are 61 MB of f32: as much as all the memory that there is."""
    points = [
        {"id": i, "vector": list(rng.randbytes(DIM)), "payload": {"n": i, "tag": rng.choice(["a", "b", "c"]), "text": payload}}
        for i in range(start, start + count)
    ]
    return {"points": points}


def ingest(server, path, first, last, failures):
    http, rng = server.http(), random.Random(first)
    try:
        for start in range(first, last, BATCH):
            http.call("PUT", f"{path}/points?wait=false", batch(rng, start, BATCH, "x" * 200))
            if rng.random() < 0.2:
                gone = [rng.randrange(first, start + BATCH) for _ in range(50)]
                http.call("POST", f"{path}/points/delete?wait=false", {"points": gone})
    except Exception as error:  # noqa: BLE001  told by the test's thread
        failures.append(f"ingest: {error!r}")
    finally:
        http.close()


def search(server, path, stop, answered, failures):
    http, rng = server.http(), random.Random(5)
    try:
        while not stop.is_set():
            body = {"query": list(rng.randbytes(DIM)), "limit": 20, "with_payload": True}
            if rng.random() < 0.3:
                body["filter"] = {"must": [{"key": "tag", "match": {"value": "a"}}]}
            hits = http.result("POST", f"{path}/points/query", body)["points"]
            assert all(a["score"] >= b["score"] for a, b in zip(hits, hits[1:])), hits
            answered[0] += 1
            time.sleep(0.01)
    except Exception as error:  # noqa: BLE001  told by the test's thread
        failures.append(f"search: {error!r}")
    finally:
        http.close()


def wait_until_green(server, path, timeout=180):
    http, started = server.http(), time.monotonic()
    while time.monotonic() - started < timeout:
        if http.get(path)["result"]["status"] == "green":
            http.close()
            return
        time.sleep(0.2)
    raise TimeoutError(f"{path} isn't green after {timeout} s")


def alive(server, group, when):
    assert server.alive(), f"the server died {when}:\n{server.log()}"
    assert group.oom_kills() == 0, f"the kernel killed something {when}"


def test_ingest_merge_and_search(limited):
    server, group = limited
    path, failures, answered, stop = "/collections/limited", [], [0], threading.Event()
    server.http().call("PUT", path, {"vectors": {"size": DIM, "distance": "Dot"}})
    server.http().call("PUT", f"{path}/index?wait=true", {"field_name": "tag", "field_schema": "keyword"})
    writers = [threading.Thread(target=ingest, args=(server, path, k * POINTS // 2, (k + 1) * POINTS // 2, failures)) for k in range(2)]
    readers = [threading.Thread(target=search, args=(server, path, stop, answered, failures)) for _ in range(2)]
    started = time.monotonic()
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    took = time.monotonic() - started
    wait_until_green(server, path)
    stop.set()
    for thread in readers:
        thread.join()
    alive(server, group, "while ingesting and searching")
    assert not failures, failures
    assert answered[0] > 0
    before = server.http().result("POST", f"{path}/points/count", {"exact": True})["count"]
    peak = group.peak()
    # Recovery must fit as well.
    server.restart(kill=True)
    alive(server, group, "while recovering")
    assert server.http().result("POST", f"{path}/points/count", {"exact": True})["count"] == before
    compare.NOTES.append(
        f"64 MB cgroup: {POINTS:,} x {DIM} in {took:.0f} s beside {answered[0]:,} searches, peak {(peak or 0) / 1e6:.1f} MB, 0 OOM kills"
    )


def test_hostile_requests(limited):
    """Large bodies, many at once, half-sent ones, deep scrolls: refused with a number or served, never killed."""
    server, group = limited
    path = "/collections/hostile"
    http = server.http()
    http.call("PUT", path, {"vectors": {"size": DIM, "distance": "Dot"}})
    rng = random.Random(1)
    for start in range(0, 4000, BATCH):
        http.call("PUT", f"{path}/points?wait=false", batch(rng, start, BATCH, "y" * 2000))
    refused, failures = [0], []

    def large():
        mine = server.http()
        try:
            for _ in range(3):
                mine.call("PUT", f"{path}/points?wait=false", batch(random.Random(2), 100_000, 4_000, "z" * 1500), retry=False)
        except Answer as answer:
            refused[0] += 1
            if answer.status not in (413, 429) or not any(c.isdigit() for c in answer.sentence()):
                failures.append(answer)
        except OSError:
            # Refused by its head, the connection closed while the body was still on its way.
            refused[0] += 1
        finally:
            mine.close()

    def deep():
        mine = server.http()
        try:
            for _ in range(5):
                mine.call("POST", f"{path}/points/scroll", {"limit": 4000, "with_vector": True, "with_payload": True}, retry=False)
        except Answer as answer:
            if answer.status not in (413, 429):
                failures.append(answer)
        finally:
            mine.close()

    idle = []
    for _ in range(50):
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        sock.sendall(f"PUT {path}/points HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2000000\r\n\r\n{{".encode())
        idle.append(sock)
    threads = [threading.Thread(target=large) for _ in range(6)] + [threading.Thread(target=deep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in idle:
        sock.close()
    alive(server, group, "under hostile requests")
    assert not failures, failures
    deadline = time.monotonic() + 60
    while True:
        try:
            assert server.http().result("POST", f"{path}/points/count", {"exact": True})["count"] >= 4000
            break
        except Answer as answer:
            assert answer.status == 429 and time.monotonic() < deadline, answer
            time.sleep(0.5)
    compare.NOTES.append(f"64 MB cgroup, hostile requests: {refused[0]} refused, peak {(group.peak() or 0) / 1e6:.1f} MB, 0 OOM kills")


def test_too_little_memory_is_told(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    with pytest.raises(RuntimeError) as ended:
        Server(tmp_path / "data", memory="2MB").start()
    assert "2 MB is below the" in str(ended.value) and "--memory" in str(ended.value), str(ended.value)


def by_rest(server):
    """One who keeps its connection, as all clients do, and gives up after ten seconds. A refusal with 429 is no answer."""
    http = server.http()
    http.timeout = 10

    def ask():
        status, _, body = http.raw("POST", "/collections/crowd/points/query", b'{"query": [1, 2], "limit": 3}')
        assert status in (200, 429), (status, body)
        return status == 200

    return ask


def by_grpc(server):
    import grpc
    from qdrant_client import grpc as pb

    # Without an option of its own every channel would share one connection.
    options = [("crowd.connection", str(random.getrandbits(60)))]
    query = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=options).unary_unary("/qdrant.Points/Query")
    near = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2])))
    message = pb.QueryPoints(collection_name="crowd", query=near, limit=3).SerializeToString()

    def ask():
        try:
            return bool(query(message, timeout=10))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            return False

    return ask


@pytest.mark.parametrize("limited", [32_000_000], indirect=True)
def test_what_a_search_lists_is_in_the_budget(limited):
    """Lists of candidates grow with limit, oversampling and effort, a kept query with its filter: all are reserved, refused with numbers, and given back."""
    server, group = limited
    http, rng, dim = server.http(timeout=120), random.Random(9), 100
    http.call("PUT", "/collections/c", {"vectors": {"size": dim, "distance": "Cosine"}})
    centres = [[rng.randrange(200) for _ in range(dim)] for _ in range(50)]

    def near():
        return [number + rng.randrange(56) for number in rng.choice(centres)]

    for start in range(0, 50_000, 1_000):
        points = [{"id": i, "vector": near(), "payload": {"n": i}} for i in range(start, start + 1_000)]
        http.call("PUT", "/collections/c/points?wait=false", {"points": points})
    wait_until_green(server, "/collections/c")
    words = {"must_not": [{"key": "n", "match": {"any": list(range(20_000))}}]}
    parts = {"should": [{"key": "n", "range": {"gte": i, "lt": i + 0.5}} for i in range(2_000)]}
    asked = [
        {"limit": 10_000, "params": {"quantization": {"oversampling": 100}}},
        {"limit": 10, "params": {"quantization": {"oversampling": 1e6}}},
        {"limit": 2_000, "params": {"hnsw_ef": 10_000_000}},
        {"limit": 2_000, "params": {"quantization": {"rescore": False}}},
        {"limit": 5, "filter": words},
        {"limit": 5, "filter": parts},
    ]
    statuses = set()

    def ask(body):
        mine = server.http(timeout=120)
        status, _, _ = mine.raw("POST", "/collections/c/points/query", json.dumps({**body, "query": near()}))
        statuses.add(status)
        mine.close()

    for body in asked:
        threads = [threading.Thread(target=ask, args=(body,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alive(server, group, f"after {str(body)[:100]}")
    assert 200 in statuses and statuses <= {200, 413, 429}, statuses
    assert "panicked" not in server.log(100_000)
    # Nobody searches: what they listed is gone.
    allocated = http.result("GET", "/memory")["allocator"]["allocated"]
    assert allocated < 8_000_000, allocated
    http.close()
