"""The promise under a real limit: 64 MB in a memory cgroup of 64 MB, while ingesting, merging, searching and under hostile requests."""

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


@pytest.mark.parametrize("limited", [16_000_000, 32_000_000], indirect=True)
def test_more_clients_than_places_take_turns(limited):
    server, group = limited
    http = server.http()
    http.call("PUT", "/collections/crowd", {"vectors": {"size": 2, "distance": "Dot"}})
    http.call("PUT", "/collections/crowd/points?wait=true", {"points": [{"id": i, "vector": [i, 1]} for i in range(9)]})
    http.close()
    stop, failures, counts = threading.Event(), [], {}

    def client(name, ask):
        try:
            while not (stop.is_set() and counts[name]):
                counts[name] += ask()
                time.sleep(0.01)
        except Exception as error:  # noqa: BLE001  told by the test's thread
            failures.append(f"{name}: {error!r}")

    asks = {f"rest {n}": by_rest(server) for n in range(50)} | {f"grpc {n}": by_grpc(server) for n in range(16)}
    counts.update(dict.fromkeys(asks, 0))
    threads = [threading.Thread(target=client, args=each, daemon=True) for each in asks.items()]
    for thread in threads:
        thread.start()
    time.sleep(3)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    assert all(counts.values()), f"never answered: {[name for name, count in counts.items() if not count]}"
    assert server.alive() and group.oom_kills() == 0


@pytest.mark.parametrize("limited", [135_000_000], indirect=True)
def test_many_collections(limited):
    server, group = limited
    http, each = server.http(), 20
    for n in range(200):
        http.call("PUT", f"/collections/m{n}", {"vectors": {"size": 64, "distance": "Dot"}})
        points = [{"id": i, "vector": [n, i] + [0] * 62, "payload": {"n": n}} for i in range(each)]
        http.call("PUT", f"/collections/m{n}/points?wait=true", {"points": points})
    for restarted in (False, True):
        if restarted:
            server.stop()
            server.start()
            http = server.http()
        for n in range(200):
            hits = http.result("POST", f"/collections/m{n}/points/query", {"query": [0, 1] + [0] * 62, "limit": 3, "with_payload": True})
            assert [(hit["id"], hit["payload"]["n"]) for hit in hits["points"]] == [(i, n) for i in (19, 18, 17)], n
    assert group.oom_kills() == 0


@pytest.mark.parametrize(("limited", "tokenizer", "words", "letters"), [(LIMIT, "prefix", 45_000, 30), (32_000_000, "prefix", 54_000, 12), (32_000_000, "word", 54_000, 12)], indirect=["limited"])
def test_a_text_of_many_words_is_flushed_in_the_memory_there_is(limited, tokenizer, words, letters):
    """One text with more distinct words than there is memory for: by piece, and found as it was before the flush."""
    server, group = limited
    rng = random.Random(1)
    http = server.http(timeout=120)
    http.call("PUT", "/collections/t", {"vectors": {}})
    schema = {"type": "text", "tokenizer": tokenizer, "scoring": True}
    http.call("PUT", "/collections/t/index?wait=true", {"field_name": "t", "field_schema": schema})
    all_words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=letters)) for _ in range(words)]
    http.call("PUT", "/collections/t/points?wait=true", {"points": [{"id": 1, "vector": {}, "payload": {"t": " ".join(all_words)}}]})
    asked = [all_words[0], all_words[-1] + " " + all_words[7], all_words[9][:3], "nothing"]

    def found():
        results = [http.result("POST", "/collections/t/points/query", {"query": {"text": text}, "using": "t", "limit": 3}) for text in asked]
        return [[(hit["id"], hit["score"]) for hit in result["points"]] for result in results]

    before = found()
    assert before[0] and before[1] and not before[3]
    for start in range(100, 6_100, 100):
        points = [{"id": start + n, "vector": {}, "payload": {"x": "y" * 4_000}} for n in range(100)]
        http.call("PUT", "/collections/t/points?wait=true", {"points": points})
    wait_until_green(server, "/collections/t")
    explained = http.call("POST", "/collections/t/points/query", {"query": {"text": asked[0]}, "using": "t", "params": {"explain": True}})
    assert "'index': 'text'" in str(explained), "it is in a segment, and has lists"
    assert found() == before
    assert group.oom_kills() == 0 and server.alive()
    http.close()
