#!/usr/bin/env python3
"""Everything that might make the server take more memory than it was given, in a real memory cgroup of exactly that limit.

    tests/rigs/memory_torture.py --memory 16MB --memory 32MB          all scenarios, a fresh server for each budget
    tests/rigs/memory_torture.py --memory 64MB --only scroll --only filters --points 100000

Prints one JSON object: by budget and scenario the peak of the group, its parts at the end (rss, cache, kernel), kills, answers by
status, and what the ledger says beside what is resident. Exit code 1 when something was killed, lost, or answered without numbers.
Needs a memory controller that may be used (root, or a delegated group).
"""

import argparse
import collections
import gzip
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import MemoryCgroup  # noqa: E402
from harness.http import Http  # noqa: E402
from harness.server import Server, binary  # noqa: E402

DIM = 32
REFUSALS = (413, 429, 507)


def cold_copy(work):
    """A copy of the binary that nobody has in the page cache: its code is charged to the group, as on a machine of its own."""
    target = Path(work) / "ramlet"
    shutil.copy(binary(), target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.environ["RAMLET_BIN"] = str(target)


class Run:
    """One server in one group, and what it answered."""

    def __init__(self, memory, points, work, threads=None):
        self.memory, self.points = memory, points
        self.bytes = int(float(memory.removesuffix("MB")) * 1e6)
        self.group = MemoryCgroup(self.bytes)
        self._watch_sockets()
        self.server = Server(Path(work) / "data", memory, ["--threads", str(threads)] if threads else [], cgroup=self.group)
        self.answers, self.problems, self.lock = collections.Counter(), [], threading.Lock()
        self.acked, self.panics = 0, 0

    def _watch_sockets(self):
        """Version 1 counts socket buffers apart, and only once they have a limit."""
        limit = self.group.path / "memory.kmem.tcp.limit_in_bytes"
        if limit.exists():
            limit.write_text(str(1 << 40))

    def http(self, timeout=300):
        return Http(self.server.url, timeout=timeout)

    def ask(self, method, path, body=None, http=None, retry=False, timeout=60, anything=False):
        """The answer's status and text; refusals must state numbers. `retry`: waits on 429."""
        mine = http or self.http()
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body, separators=(",", ":"))
        give_up = time.monotonic() + timeout
        try:
            while True:
                try:
                    status, headers, text = mine.raw(method, path, body)
                except OSError as error:
                    with self.lock:
                        self.answers[type(error).__name__] += 1
                    return 0, b""
                except Exception as error:  # noqa: BLE001  an answer that was cut off: counted
                    with self.lock:
                        self.answers[type(error).__name__] += 1
                    return 0, b""
                with self.lock:
                    self.answers[status] += 1
                if status == 429 and retry and time.monotonic() < give_up:
                    time.sleep(0.2)
                    continue
                if status in REFUSALS and not any(c.isdigit() for c in text.decode(errors="replace")):
                    self.problem(f"{method} {path}: {status} without a number: {text[:200]}")
                if status >= 500 and status != 507 and not anything:
                    self.problem(f"{method} {path}: {status}: {text[:300]}")
                return status, text
        finally:
            if http is None:
                mine.close()

    def problem(self, what):
        with self.lock:
            if len(self.problems) < 50:
                self.problems.append(what)

    def all(self, jobs, threads=4):
        """Runs the jobs on some threads; what they raise is a problem."""
        jobs = iter(jobs)

        def work():
            while True:
                with self.lock:
                    job = next(jobs, None)
                if job is None:
                    return
                try:
                    job()
                except Exception as error:  # noqa: BLE001
                    self.problem(repr(error))

        pool = [threading.Thread(target=work) for _ in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()

    def create(self, name, dim, **more):
        self.ask("DELETE", f"/collections/{name}")
        status, text = self.ask("PUT", f"/collections/{name}", {"vectors": {"size": dim, "distance": "Dot"}, **more}, retry=True)
        return status == 200 or text

    def count(self, name, filter=None):
        status, text = self.ask("POST", f"/collections/{name}/points/count", {"exact": True, "filter": filter}, retry=True)
        return json.loads(text)["result"]["count"] if status == 200 else None

    def expect(self, what, found, wanted):
        if found != wanted:
            self.problem(f"{what}: {found}, expected {wanted}")

    def wait_green(self, name, timeout=600):
        give_up = time.monotonic() + timeout
        while time.monotonic() < give_up and self.server.alive():
            status, text = self.ask("GET", f"/collections/{name}", retry=True)
            state = json.loads(text)["result"] if status == 200 else {}
            if state.get("status") == "green":
                return True
            if state.get("status") == "red":
                self.problem(f"{name} is red: {state.get('optimizer_status')}")
                return False
            time.sleep(0.3)
        self.problem(f"{name} isn't green after {timeout} s")
        return False

    def figures(self):
        """The group's parts, and the ledger beside what is resident."""
        stat = self.group.stat()
        kernel = self.group.path / "memory.kmem.usage_in_bytes"
        tcp = self.group.path / "memory.kmem.tcp.max_usage_in_bytes"
        out = {
            "rss": stat.get("rss", stat.get("anon")),
            "cache": stat.get("cache", stat.get("file")),
            "kernel": int(kernel.read_text()) if kernel.exists() else stat.get("kernel"),
            "sockets_max": int(tcp.read_text()) if tcp.exists() else stat.get("sock"),
        }
        status, text = self.ask("GET", "/memory")
        if status != 200:
            return out
        memory = json.loads(text)["result"]
        rows = {row["name"]: row["bytes"] for row in memory["budget"]["rows"]}
        out["ledger"] = memory["ledger"]["used_bytes"]
        out["ledger_peak"] = memory["ledger"]["peak_bytes"]
        out["budgeted"] = out["ledger"] + rows["binary and runtime"]
        out["anon"] = memory["process"]["anon_bytes"]
        out["file"] = memory["process"]["file_bytes"]
        allocator = memory["allocator"] or {}
        out["allocated"], out["resident"] = allocator.get("allocated"), allocator.get("resident")
        out["used"] = {c["name"]: [c["used_bytes"], c["peak_bytes"], c["refused"]] for c in memory["ledger"]["consumers"]}
        return out


class Watch(threading.Thread):
    """Most of what can't be reclaimed: resident anonymous memory and kernel memory, not the page cache."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_, self.most, self.stop = run, [0, 0, 0], threading.Event()

    def run(self):
        kernel = self.run_.group.path / "memory.kmem.usage_in_bytes"
        while not self.stop.wait(0.02):
            stat = self.run_.group.stat()
            rss = stat.get("rss", stat.get("anon", 0))
            kmem = int(kernel.read_text()) if kernel.exists() else stat.get("kernel", 0)
            if rss + kmem > self.most[0]:
                self.most = [rss + kmem, rss, kmem]


def vector(rng, dim):
    """A cheap one: the sums of two uniform numbers, three digits."""
    return [round(rng.random() + rng.random() - 1, 3) for _ in range(dim)]


def rows(rng, dim, start, count, payload=None):
    return {
        "points": [
            {"id": start + i, "vector": vector(rng, dim), "payload": payload(start + i) if payload else {"n": start + i}}
            for i in range(count)
        ]
    }


def small_payload(i):
    return {"n": i, "tag": f"t{i % 50}", "city": f"c{i % 7}", "price": i % 1000 / 10}


def ingest(run, name, dim, points, batch, payload=None, threads=2, wait=False):
    """Batches until all are acknowledged or refused for good; returns acknowledged points."""
    acked = [0]

    def job(start):
        def put():
            rng = random.Random(start)
            n = min(batch, points - start)
            body = json.dumps(rows(rng, dim, start, n, payload), separators=(",", ":"))
            status, _ = run.ask("PUT", f"/collections/{name}/points?wait={str(wait).lower()}", body, retry=True)
            if status == 200:
                with run.lock:
                    acked[0] += n

        return put

    run.all((job(s) for s in range(0, points, batch)), threads)
    return acked[0]


# Scenarios: each leaves the server in a state that the others can go on from.


def s_small_vectors(run):
    """Many small vectors with payload indexes, searched meanwhile; IVF is built while they come."""
    run.create("small", DIM, optimizers_config={"indexing_threshold": 1000})
    for field, kind in (("tag", "keyword"), ("n", "integer")):
        run.ask("PUT", "/collections/small/index?wait=true", {"field_name": field, "field_schema": kind}, retry=True)
    stop = threading.Event()

    def searching():
        http, rng = run.http(), random.Random(1)
        while not stop.is_set():
            body = {"query": vector(rng, DIM), "limit": 50, "with_payload": True}
            if rng.random() < 0.5:
                body["filter"] = {"must": [{"key": "tag", "match": {"value": "t3"}}]}
            run.ask("POST", "/collections/small/points/query", body, http=http)
            time.sleep(0.02)
        http.close()

    reader = threading.Thread(target=searching)
    reader.start()
    run.acked = ingest(run, "small", DIM, run.points, 500, small_payload)
    stop.set()
    reader.join()
    run.wait_green("small")
    run.expect("points of small", run.count("small"), run.acked)


def s_large_vectors(run):
    for dim, count in ((1536, 3000), (4096, 800), (65_536, 60)):
        name = f"large{dim}"
        if run.create(name, dim) is not True:
            continue
        n = ingest(run, name, dim, count, max(1, 20_000 // dim))
        run.wait_green(name)
        run.expect(f"points of {name}", run.count(name), n)
        query = [0.5] * dim
        run.all([lambda: run.ask("POST", f"/collections/{name}/points/query", {"query": query, "limit": 100, "with_vector": True}, retry=True)] * 8)
        status, text = run.ask("POST", f"/collections/{name}/points/scroll", {"limit": 10, "with_vector": True}, retry=True)
        if n:
            run.expect(f"a page of {name}", status, 200)
        run.ask("DELETE", f"/collections/{name}")


def s_large_payloads(run):
    run.create("fat", 4)
    run.ask("PUT", "/collections/fat/index?wait=true", {"field_name": "k", "field_schema": "keyword"}, retry=True)
    n = ingest(run, "fat", 4, 60, 1, lambda i: {"k": f"k{i % 3}", "text": "x" * 1_000_000})
    run.wait_green("fat")
    run.expect("points of fat", run.count("fat"), n)
    if n:
        status, _ = run.ask("GET", "/collections/fat/points/0", retry=True)
        run.expect("a fat point", status, 200)
    run.all([lambda: run.ask("POST", "/collections/fat/points/scroll", {"limit": 100, "with_payload": True})] * 6)
    run.all([lambda: run.ask("POST", "/collections/fat/points/query", {"query": [1, 2, 3, 4], "limit": 50, "with_payload": True})] * 6)
    run.ask("POST", "/collections/fat/points/payload?wait=true", {"payload": {"more": "y" * 500_000}, "filter": {}}, retry=True)
    run.expect("points of fat", run.count("fat"), n)
    run.ask("DELETE", "/collections/fat")


def s_many_collections(run):
    made = []
    for i in range(1000):
        if run.create(f"many{i}", 8) is not True:
            break
        made.append(i)
    print(f"  {len(made)} collections", file=sys.stderr)
    run.answers["collections made"] += len(made)
    acked = {}

    def fill(i):
        acked[i] = ingest(run, f"many{i}", 8, 300, 100, small_payload, threads=1)

    run.all([lambda i=i: fill(i) for i in made], 4)
    for i in made[::10]:
        run.expect(f"points of many{i}", run.count(f"many{i}"), acked[i])
    restart(run)
    for i in made[::10]:
        run.expect(f"points of many{i} after a restart", run.count(f"many{i}"), acked[i])
    for i in made:
        run.ask("DELETE", f"/collections/many{i}")


def s_many_indexes(run):
    run.create("fields", 8)
    ingest(run, "fields", 8, 20_000, 200, lambda i: {f"f{k}": (i * k) % 977 for k in range(50)})
    run.all([lambda k=k: run.ask("PUT", f"/collections/fields/index?wait=true", {"field_name": f"f{k}", "field_schema": "integer"}, retry=True) for k in range(50)], 2)
    ingest(run, "fields", 8, 20_000, 200, lambda i: {f"f{k}": (i * k) % 977 for k in range(50)})
    run.wait_green("fields")
    run.expect("points of fields", run.count("fields"), 20_000)
    run.ask("POST", "/collections/fields/points/scroll", {"limit": 1000, "order_by": "f3"})
    run.ask("DELETE", "/collections/fields")


def s_filters(run):
    ids = {"must": [{"has_id": list(range(0, 100_000))}]}
    should = {"should": [{"key": "n", "match": {"value": i}} for i in range(4000)]}
    unindexed = {"should": [{"key": "price", "range": {"gte": i, "lt": i + 0.5}} for i in range(4000)]}
    any_of = {"must": [{"key": "n", "match": {"any": list(range(100_000))}}]}
    words = {"must": [{"key": "tag", "match": {"any": [f"word{i}" for i in range(100_000)]}}]}
    uuids = {"must_not": [{"has_id": [f"{i:08x}-0000-0000-0000-000000000000" for i in range(60_000)]}]}
    deep = {"key": "n", "match": {"value": 1}}
    for _ in range(30):
        deep = {"must": [deep], "should": [deep]} if _ < 8 else {"must": [deep]}
    jobs = []
    for filter in (ids, should, unindexed, any_of, words, uuids, {"must": [deep]}):
        body = json.dumps({"query": [0.1] * DIM, "limit": 10, "filter": filter})
        count = json.dumps({"exact": True, "filter": filter})
        jobs += [lambda b=body: run.ask("POST", "/collections/small/points/query", b)] * 3
        jobs += [lambda b=count: run.ask("POST", "/collections/small/points/count", b)] * 2
    run.all(jobs, 6)


def s_scroll(run):
    bodies = [
        {"limit": 10_000, "with_vector": True, "with_payload": True},
        {"limit": 100_000, "with_vector": False, "with_payload": False},
        {"limit": 10_000, "order_by": "n", "with_payload": True},
        {"limit": 10_000, "order_by": {"key": "n", "direction": "desc"}, "filter": {"must": [{"key": "tag", "match": {"any": ["t1", "t2"]}}]}},
        {"limit": 1_000_000},
    ]
    run.all([lambda b=b: run.ask("POST", "/collections/small/points/scroll", b) for b in bodies * 4], 8)


def s_scroll_all(run):
    """Everything with vectors and payloads: in one answer where its list fits, else by pages, beside another who does the same."""
    pages = [1_000_000, 20_000, 2_000]

    def all_of_it():
        for limit in pages:
            ids, offset = set(), None
            while True:
                body = {"limit": limit, "offset": offset, "with_vector": True, "with_payload": True}
                status, text = run.ask("POST", "/collections/small/points/scroll", body, retry=True)
                if status != 200:
                    break
                page = json.loads(text)["result"]
                ids |= {point["id"] for point in page["points"] if len(point["vector"]) == DIM and point["payload"]["n"] == point["id"]}
                offset = page["next_page_offset"]
                if offset is None:
                    run.expect(f"points of small by pages of {limit}", len(ids), run.acked)
                    return
        run.problem(f"no page of {pages} is to be had: {status} {text[:200]}")

    run.all([all_of_it] * 2, 2)


def s_large_batches(run):
    """10,000 points in one body; where that is too much, the refusal says so in numbers, and the same points come in parts."""
    run.create("batches", DIM)
    bodies = [json.dumps(rows(random.Random(5), DIM, first * 10_000, 10_000, small_payload), separators=(",", ":")) for first in range(3)]
    statuses = []

    def put(body):
        status, text = run.ask("PUT", "/collections/batches/points?wait=true", body, retry=True)
        statuses.append(status)
        if status not in (200, 413):
            run.problem(f"a batch of 10,000: {status}: {text[:300]}")

    run.all([lambda body=body: put(body) for body in bodies], 3)
    run.expect("points of batches", run.count("batches"), 10_000 * statuses.count(200))
    run.expect("points that came in parts", ingest(run, "batches", DIM, 30_000, 500, small_payload), 30_000)
    run.expect("points of batches", run.count("batches"), 30_000)
    run.ask("DELETE", "/collections/batches")


def s_search(run):
    query = {"query": [0.3] * DIM, "limit": 10_000, "with_vector": True, "with_payload": True}
    run.all([lambda: run.ask("POST", "/collections/small/points/query", query)] * 12, 6)
    run.all([lambda: run.ask("POST", "/collections/small/points/query", {**query, "limit": 1_000_000, "params": {"exact": True}})] * 4, 4)
    run.all([lambda: run.ask("POST", "/collections/small/points/query", {**query, "limit": 10, "offset": 900_000})] * 4, 4)


def s_searches_for_many(run):
    """What each thread lists grows with the limit, the oversampling and the effort."""
    for limit, params in [(1_000, {"oversampling": 100}), (10_000, {"oversampling": 1_000}), (10, {"oversampling": 100_000}), (5_000, {"rescore": False})]:
        body = {"query": [0.3] * DIM, "limit": limit, "params": {"quantization": params}}
        run.all([lambda b=body: run.ask("POST", "/collections/small/points/query", b)] * 12, 12)
    for effort in (10_000, 10_000_000):
        body = {"query": [0.3] * DIM, "limit": 2_000, "params": {"hnsw_ef": effort}}
        run.all([lambda b=body: run.ask("POST", "/collections/small/points/query", b)] * 12, 12)


def s_batch(run):
    one = {"query": [0.2] * DIM, "limit": 10, "with_payload": True}
    run.all([lambda: run.ask("POST", "/collections/small/points/query/batch", {"searches": [one] * 1000})] * 4, 4)
    run.all([lambda: run.ask("POST", "/collections/small/points/query/batch", {"searches": [{**one, "limit": 1000}] * 100})] * 4, 4)


def s_idle_connections(run):
    idle = []
    for i in range(500):
        try:
            sock = socket.create_connection(("127.0.0.1", run.server.port), timeout=0.05)
            if i % 2:
                sock.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            idle.append(sock)
        except OSError:
            run.answers["connect refused"] += 1
    run.answers["idle connections"] += len(idle)
    run.idle = run.figures_of_group()
    time.sleep(0.5)
    for sock in idle:
        sock.close()
    time.sleep(0.5)


def s_slow_clients(run):
    """Heads without bodies, half a body, and answers that nobody reads."""
    path, socks = "/collections/small/points", []
    answer = json.dumps({"limit": 10_000, "with_vector": True, "with_payload": True})
    for i in range(150):
        try:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(0.5)
            sock.connect(("127.0.0.1", run.server.port))
            if i % 3 == 0:
                sock.sendall(f"PUT {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3000000\r\n\r\n".encode())
            elif i % 3 == 1:
                sock.sendall(f"PUT {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n".encode())
                for _ in range(10):
                    sock.sendall(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
            else:
                sock.sendall(f"POST {path}/scroll HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(answer)}\r\n\r\n{answer}".encode())
            socks.append(sock)
        except OSError:
            run.answers["slow client cut"] += 1
    time.sleep(3)
    run.ask("POST", f"{path}/query", {"query": [0.2] * DIM, "limit": 10})
    for sock in socks:
        sock.close()
    time.sleep(1)


def chunked(run, path, piece, total):
    """A body without a length; what comes back, if anything."""
    try:
        sock = socket.create_connection(("127.0.0.1", run.server.port), timeout=30)
        sock.sendall(f"PUT {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(total // len(piece)):
            sock.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        sock.sendall(b"0\r\n\r\n")
        status = int(sock.recv(200).split(b" ")[1])
        with run.lock:
            run.answers[status] += 1
        sock.close()
    except (OSError, IndexError, ValueError) as error:
        with run.lock:
            run.answers[type(error).__name__] += 1


def s_chunked(run):
    path = "/collections/small/points"
    run.all([lambda: chunked(run, path, b"[" * 16_384, 4_000_000)] * 8 + [lambda: chunked(run, path, b" " * 65_536, 40_000_000)] * 4, 8)


def s_hostile_json(run):
    mega = 1_000_000
    texts = [
        b"[" * mega,
        b'{"a":' * (mega // 5),
        b'{"points":[' + b"[" * mega,
        b'{"points":[{"id":1,"vector":' + b"[" * mega,
        b'{"points":[{"id":1,"vector":[' + b"1," * (mega // 2) + b"1]}]}",
        b'{"points":[' + b'{"id":1,"vector":{"":[1]},"payload":{}},' * (mega // 40) + b'{"id":1}]}',
        b'{"points":[{"id":1,"vector":[1],"payload":{"a":"' + b"\\u0041" * (mega // 6) + b'"}}]}',
        b'{"points":[{"id":1,"vector":[1],"payload":' + b'{"a":' * (mega // 6) + b"1" + b"}" * (mega // 6) + b"}]}",
        b'{"filter":' + b'{"must":[' * (mega // 9),
        b'{"filter":{"must":[' + b"{}," * (mega // 3) + b"{}]}}",
        b'{"filter":{"must":[{"key":"a","match":{"any":[' + b"1," * (mega // 2) + b"1]}}]}}",
        b'{"filter":{"must":[{"key":"a","match":{"any":[' + b'"",' * (mega // 3) + b'""]}}]}}',
        b'{"filter":{"must":[{"has_id":[' + b"1," * (mega // 2) + b"1]}]}}",
        b'{"filter":{"must":[{"key":"a","geo_polygon":{"exterior":{"points":[' + b'{"lon":1,"lat":1},' * (mega // 18) + b'{"lon":1,"lat":1}]}}}]}}',
        b'{"query":[' + b"1," * (mega // 2) + b"1]}",
        b'{"query":"' + b"x" * mega + b'"}',
        b'{"with_payload":[' + b'"a",' * (mega // 4) + b'"a"],"query":[1]}',
        b'{"ids":[' + b"1," * (mega // 2) + b"1]}",
        b'{"points":[' + b"1," * (mega // 2) + b"1]}",
        b"9" * mega,
        b'{"limit":' + b"9" * mega + b"}",
        b'{"searches":[' + b"{}," * (mega // 3) + b"{}]}",
        b'{"operations":[' + b'{"delete":{"points":[]}},' * (mega // 25) + b'{"delete":{"points":[]}}]}',
        b'{"actions":[' + b'{"delete_alias":{"alias_name":"a"}},' * 1700 + b'{"delete_alias":{"alias_name":"a"}}]}',
        b'{"vectors":{' + b",".join(b'"v%d":{"size":4,"distance":"Dot"}' % i for i in range(1800)) + b"}}",
    ]
    routes = [
        ("PUT", "/collections/small/points"),
        ("POST", "/collections/small/points"),
        ("POST", "/collections/small/points/query"),
        ("POST", "/collections/small/points/query/batch"),
        ("POST", "/collections/small/points/scroll"),
        ("POST", "/collections/small/points/count"),
        ("POST", "/collections/small/points/delete"),
        ("POST", "/collections/small/points/payload"),
        ("POST", "/collections/small/points/batch"),
        ("PUT", "/collections/small/points/vectors"),
        ("PUT", "/collections/hostile"),
        ("POST", "/collections/aliases"),
    ]
    before = run.count("small")
    keep = (b'"ids":[', b'{"points":[' + b"1,")
    jobs = [
        lambda m=method, p=path, t=text: run.ask(m, p, t)
        for text in texts
        for method, path in routes
        if not (path.endswith("/delete") and (text.startswith(b'{"filter"') or text.startswith(keep)))
    ]
    run.all(jobs, 8)
    run.expect("points of small after hostile bodies", run.count("small"), before)


def s_all_at_once(run):
    """Ingest, delete, search, merge and index creation at the same time."""
    run.create("busy", DIM, optimizers_config={"indexing_threshold": 500})
    stop = threading.Event()

    def reader():
        rng = random.Random(7)
        http = run.http()
        while not stop.is_set():
            run.ask("POST", "/collections/busy/points/query", {"query": vector(rng, DIM), "limit": 1000, "with_payload": True, "with_vector": True}, http=http)
            run.ask("POST", "/collections/busy/points/scroll", {"limit": 500, "with_vector": True}, http=http)
        http.close()

    def indexer():
        while not stop.is_set():
            for field in ("tag", "city", "n"):
                run.ask("PUT", "/collections/busy/index?wait=true", {"field_name": field, "field_schema": "integer" if field == "n" else "keyword"})
                run.ask("DELETE", f"/collections/busy/index/{field}?wait=true")

    def deleter():
        rng = random.Random(3)
        while not stop.is_set():
            run.ask("POST", "/collections/busy/points/delete", {"filter": {"must": [{"key": "tag", "match": {"value": f"t{rng.randrange(50)}"}}]}})
            run.ask("POST", "/collections/busy/points/payload", {"payload": {"seen": True}, "filter": {"must": [{"key": "city", "match": {"value": "c1"}}]}})
            time.sleep(0.3)

    others = [threading.Thread(target=t) for t in (reader, reader, indexer, deleter)]
    for thread in others:
        thread.start()
    ingest(run, "busy", DIM, run.points // 4, 300, small_payload, threads=3)
    stop.set()
    for thread in others:
        thread.join()
    run.wait_green("busy")
    run.ask("DELETE", "/collections/busy")


def s_set_payload_by_filter(run):
    before = run.count("small")
    status, text = run.ask("POST", "/collections/small/points/payload?wait=true", {"payload": {"mark": 1}, "filter": {"must": [{"key": "n", "range": {"gte": 0}}]}}, retry=True)
    run.expect("set_payload by filter", (status, text[:200] if status != 200 else b""), (200, b""))
    run.expect("points of small", run.count("small"), before)
    run.expect("marked points", run.count("small", {"must": [{"key": "mark", "match": {"value": 1}}]}), before)


def restart(run):
    run.server.stop()
    started = time.monotonic()
    try:
        run.server.start(timeout=300)
    except (RuntimeError, TimeoutError) as error:
        run.problem(f"restart: {error}")
        return
    run.answers["restart ms"] = int((time.monotonic() - started) * 1000)


def s_restart(run):
    before = run.count("small")
    restart(run)
    run.expect("points of small after a restart", run.count("small"), before)
    run.server.kill()
    run.server.start(timeout=300)
    run.expect("points of small after a kill", run.count("small"), before)


def s_delete_all(run):
    status, text = run.ask("POST", "/collections/small/points/delete?wait=true", {"filter": {"must_not": [{"is_null": {"key": "n"}}]}}, retry=True)
    run.expect("delete by filter", (status, text[:200] if status != 200 else b""), (200, b""))
    run.expect("points left", run.count("small"), 0)
    run.wait_green("small")


def s_facets_and_groups(run):
    """Distinct values as many as points: a million where the budget has room for their index."""
    points = 1_000_000 if run.bytes >= 64_000_000 else run.points
    run.create("distinct", 2)
    run.ask("PUT", "/collections/distinct/index?wait=true", {"field_name": "u", "field_schema": "keyword"}, retry=True)
    n = ingest(run, "distinct", 2, points, 2000 if run.bytes >= 64_000_000 else 200, lambda i: {"u": f"value-{i}"})
    run.wait_green("distinct")
    run.expect("points of distinct", run.count("distinct"), n)
    facets = [{"key": "u", "limit": limit, "exact": exact} for limit in (10, 10_000, 1_000_000) for exact in (False, True)]
    groups = [{"query": [1, 0], "group_by": "u", "limit": limit, "group_size": 10, "with_payload": True} for limit in (10, 1_000, 100_000)]
    jobs = [lambda b=body: run.ask("POST", "/collections/distinct/facet", b) for body in facets * 2]
    jobs += [lambda b=body: run.ask("POST", "/collections/distinct/points/query/groups", b) for body in groups * 2]
    run.all(jobs, 6)
    run.ask("DELETE", "/collections/distinct")


def s_prefetch(run):
    """Stages within stages, each with many candidates."""
    stage = {"query": [0.1] * DIM, "limit": 10_000}
    for _ in range(5):
        stage = {"prefetch": [stage, stage], "query": [0.2] * DIM, "limit": 10_000}
    fused = {"prefetch": [{"query": [0.1] * DIM, "limit": 100_000}] * 60, "query": {"fusion": "rrf"}, "limit": 10_000}
    jobs = [lambda b=body: run.ask("POST", "/collections/small/points/query", b) for body in (stage, fused, {**fused, "limit": 10})]
    run.all(jobs * 3, 6)


def s_gzip_bombs(run):
    """A packed body of 100 KB that is 100 MB, and one that is packed twice; answers that shall be packed beside it."""
    bomb = gzip.compress(b'{"points":[' + b" " * 100_000_000)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}

    def send(body, more):
        try:
            http = HTTPConnection("127.0.0.1", run.server.port, timeout=60)
            http.request("PUT", "/collections/small/points", body, headers | more)
            status = http.getresponse().status
            http.close()
        except (OSError, HTTPException) as error:
            status = type(error).__name__
        with run.lock:
            run.answers[status] += 1
        if status == 200 or isinstance(status, int) and status >= 500:
            run.problem(f"a packed body of 100 MB: {status}")

    jobs = [lambda: send(bomb, {}), lambda: send(gzip.compress(bomb), {"content-encoding": "gzip, gzip"})] * 6
    run.all(jobs, 8)


def s_streams(run):
    """HTTP/2: 1,000 streams of one connection, all with a long answer, none of which is read at first."""
    try:
        import h2.config
        import h2.connection
        import h2.errors
    except ImportError:
        print("  skipped: there is no module h2 (run it with .venv/bin/python)", file=sys.stderr)
        return
    sock = socket.create_connection(("127.0.0.1", run.server.port), timeout=5)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.initiate_connection()
    body = json.dumps({"limit": 10_000, "with_vector": True, "with_payload": True}).encode()
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "here"), (":path", "/collections/small/points/scroll"), ("content-type", "application/json"), ("content-length", str(len(body)))]
    opened = refused = 0
    try:
        for _ in range(1000):
            stream = connection.get_next_available_stream_id()
            try:
                connection.send_headers(stream, head)
                connection.send_data(stream, body, end_stream=True)
                opened += 1
            except h2.exceptions.ProtocolError:
                # As many as the server allows are open, or its window is full.
                refused += 1
            sock.sendall(connection.data_to_send())
        time.sleep(3)
    except OSError:
        run.answers["connection cut"] += 1
    run.answers["streams opened"] += opened
    run.answers["streams held back"] += refused
    run.ask("POST", "/collections/small/points/query", {"query": [0.2] * DIM, "limit": 10}, retry=True)
    sock.close()
    time.sleep(1)


def s_snapshots(run):
    """Taken, fetched and restored, two at once, beside one who doesn't read."""
    before = run.count("small")
    status, text = run.ask("POST", "/collections/small/snapshots", retry=True, timeout=600)
    run.expect("a snapshot", status, 200)
    if status != 200:
        return
    path = f"/collections/small/snapshots/{json.loads(text)['result']['name']}"
    idle = socket.create_connection(("127.0.0.1", run.server.port), timeout=5)
    idle.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    bodies = []
    run.all([lambda: bodies.append(run.ask("GET", path, retry=True))] * 2, 2)
    idle.close()
    for number, (status, body) in enumerate(bodies):
        run.expect("a download", status, 200)
        form = b'--edge\r\ncontent-disposition: form-data; name="snapshot"; filename="s"\r\n\r\n' + body + b"\r\n--edge--\r\n"
        http = HTTPConnection("127.0.0.1", run.server.port, timeout=600)
        http.request("POST", f"/collections/again{number}/snapshots/upload?wait=true", form, {"content-type": "multipart/form-data; boundary=edge"})
        answer = http.getresponse()
        run.expect("an upload", (answer.status, b"" if answer.status == 200 else answer.read()[:200]), (200, b""))
        http.close()
        run.expect(f"points of again{number}", run.count(f"again{number}"), before)
        run.ask("DELETE", f"/collections/again{number}")
    run.ask("DELETE", path)


# What is resident once nothing is under way, beyond what the ledger and the code take.
RELEASED = 8_000_000


def s_released(run):
    """After all of it: nothing is held for answers, and what was freed is the kernel's again."""
    time.sleep(10)
    figures = run.figures()
    held = {name: used for name, (used, _peak, _refused) in figures.get("used", {}).items()}
    run.answers["beyond KB"] = beyond = (figures["anon"] - figures["ledger"]) // 1000
    if beyond * 1000 > RELEASED:
        run.problem(f"{beyond} KB of anonymous memory beyond the ledger's {figures['ledger'] // 1000} KB: {held}")


SCENARIOS = {
    name[2:]: globals()[name]
    for name in (
        "s_small_vectors s_filters s_scroll s_scroll_all s_large_batches s_search s_searches_for_many s_batch s_idle_connections s_slow_clients s_chunked s_hostile_json s_set_payload_by_filter "
        "s_facets_and_groups s_prefetch s_gzip_bombs s_streams s_snapshots s_released s_restart s_all_at_once s_large_vectors s_large_payloads "
        "s_many_indexes s_delete_all s_many_collections"
    ).split()
}


def figures_of_group(run):
    stat, kernel = run.group.stat(), run.group.path / "memory.kmem.usage_in_bytes"
    return {"rss": stat.get("rss", stat.get("anon")), "kernel": int(kernel.read_text()) if kernel.exists() else stat.get("kernel")}


Run.figures_of_group = figures_of_group


def torture(memory, arguments):
    record, bad = {}, False
    with tempfile.TemporaryDirectory(prefix="ramlet-torture-", dir=arguments.work) as work:
        original = os.environ.get("RAMLET_BIN")
        cold_copy(work)
        run = Run(memory, arguments.points, work, arguments.threads)
        try:
            run.server.start()
        except RuntimeError as error:
            run.group.close()
            os.environ.pop("RAMLET_BIN")
            if original:
                os.environ["RAMLET_BIN"] = original
            return {"refused to start": str(error)[-300:]}, False
        record["start"] = run.figures()
        for name, scenario in SCENARIOS.items():
            if arguments.only and name not in arguments.only and name != "small_vectors":
                continue
            kills = run.group.oom_kills()
            peak = run.group.path / "memory.max_usage_in_bytes"
            if peak.exists():
                peak.write_text("0")
            run.answers.clear()
            run.problems = []
            watch = Watch(run)
            watch.start()
            started = time.monotonic()
            try:
                scenario(run)
            except Exception as error:  # noqa: BLE001  told below
                run.problem(repr(error))
            watch.stop.set()
            killed = run.group.oom_kills() - kills
            if not run.server.alive():
                run.problem(f"the server died: {run.server.log(5)}")
                run.server.start(timeout=300)
            panics = [line for line in run.server.log(100_000).splitlines() if "panicked at" in line]
            for line in panics[run.panics :]:
                run.problem(line)
            run.panics = len(panics)
            here = {
                "s": round(time.monotonic() - started, 1),
                "oom_kills": killed,
                "peak": run.group.peak(),
                "unreclaimable_max": dict(zip(("sum", "rss", "kernel"), watch.most)),
                "failcnt": run.group.failcnt(),
                "answers": {str(k): v for k, v in run.answers.items()},
                "problems": run.problems,
                "end": run.figures(),
            }
            bad = bad or killed or bool(run.problems)
            record[name] = here
            print(
                f"{memory} {name}: {here['s']} s, kills {killed}, peak {here['peak'] / 1e6:.1f}, rss+kernel {watch.most[0] / 1e6:.1f}"
                f" ({watch.most[1] / 1e6:.1f} + {watch.most[2] / 1e6:.1f}), {here['answers']} {run.problems[:3]}",
                file=sys.stderr,
            )
        run.server.kill()
        if arguments.keep_log:
            Path(arguments.keep_log).write_text(run.server.log(100_000))
        run.group.close()
        os.environ.pop("RAMLET_BIN")
        if original:
            os.environ["RAMLET_BIN"] = original
    return record, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="append", help="a budget in MB, e.g. 16MB; may be said again")
    parser.add_argument("--points", type=int, default=200_000, help="points of the collection that most scenarios ask")
    parser.add_argument("--threads", type=int, help="search threads [default: as the server chooses]")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="this scenario (and the data that it needs)")
    parser.add_argument("--work", help="directory for the server's data [default: a temporary one]")
    parser.add_argument("--keep-log", help="file for the server's log")
    arguments = parser.parse_args()
    record, bad = {"rig": "memory_torture", "points": arguments.points}, False
    for memory in arguments.memory or ["16MB", "32MB", "64MB", "135MB", "256MB"]:
        record[memory], failed = torture(memory, arguments)
        bad = bad or failed
    print(json.dumps(record, indent=1))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
