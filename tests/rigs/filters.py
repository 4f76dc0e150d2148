#!/usr/bin/env python3
"""Filtered searches over REST, by memory and filter, for one program or several in turns.

    python tests/rigs/filters.py [--memory 256MB,64MB,32MB] [--connections 1,4] [--programs A,B] [--keep DIR]

`--points` made-up vectors around some centres, with a keyword of ten values and the number of the point, both indexed, are loaded once in the
first of `--memory`; each run begins with a copy of that and is left alone until nothing is to do. Clients ask one after the other, requests made
beforehand. Of each: queries/s, latencies, the server's CPU and the bytes it read from disk, a query.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from socket import create_connection

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from through_api import COLLECTION, Server  # noqa: E402

from beside_writes import left_alone  # noqa: E402

DIM, CENTRES, QUERIES, BATCH = 100, 300, 2000, 500


def must(key, how, value):
    return {"must": [{"key": key, how: value}]}


# By the number of the query and of points.
FILTERS = {
    "none": lambda i, n: None,
    "a keyword, a tenth": lambda i, n: must("k", "match", {"value": f"k{i % 10}"}),
    "three keywords": lambda i, n: must("k", "match", {"any": ["k1", "k2", "k3"]}),
    "a range, half": lambda i, n: must("n", "range", {"gte": n // 2}),
    "a range, a hundredth": lambda i, n: must("n", "range", {"gte": i % 99 * n // 100, "lt": (i % 99 + 1) * n // 100}),
}


class Made:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.centres = np.random.default_rng(1).normal(size=(CENTRES, DIM)).astype("f4")

    def vectors(self, count):
        return self.centres[self.rng.integers(0, CENTRES, count)] + 0.5 * self.rng.normal(size=(count, DIM)).astype("f4")


def load(server, points):
    http, made = server.http(), Made(1)
    http.call("PUT", f"/collections/{COLLECTION}", {"vectors": {"size": DIM, "distance": "Cosine"}})
    for field, schema in {"k": "keyword", "n": "integer"}.items():
        http.call("PUT", f"/collections/{COLLECTION}/index?wait=true", {"field_name": field, "field_schema": schema})
    for first in range(0, points, BATCH):
        vectors = made.vectors(BATCH).round(5).tolist()
        batch = [{"id": n, "vector": v, "payload": {"k": f"k{n % 10}", "n": n}} for n, v in enumerate(vectors, first)]
        http.call("PUT", f"/collections/{COLLECTION}/points?wait=true", {"points": batch})
    http.close()
    left_alone(server)


def requests_of(name, points):
    out = []
    for i, vector in enumerate(Made(7).vectors(QUERIES).round(4).tolist()):
        body = {"query": vector, "limit": 10, "filter": FILTERS[name](i, points)}
        text = json.dumps({key: value for key, value in body.items() if value}).encode()
        head = f"POST /collections/{COLLECTION}/points/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        out.append(head.encode() + text)
    return out


def ask(port, requests, seconds, took):
    with create_connection(("127.0.0.1", port)) as sock:
        start = now = time.perf_counter()
        while now < start + seconds:
            sock.sendall(requests[len(took) % len(requests)])
            answer = b""
            while not answer.endswith(b"}"):
                answer += sock.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            before, now = now, time.perf_counter()
            took.append(now - before)


def spent(pid):
    """CPU in seconds, bytes read from disk."""
    ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    read = Path(f"/proc/{pid}/io").read_text().split("\nread_bytes: ")[1].split()[0]
    return ticks / os.sysconf("SC_CLK_TCK"), int(read)


def measure(server, name, connections, args):
    requests = requests_of(name, args.points)
    ask(server.port, requests, args.seconds / 3, [])
    all_took = [[] for _ in range(connections)]
    shares = [requests[at * 50 :] + requests[: at * 50] for at in range(connections)]
    threads = [threading.Thread(target=ask, args=(server.port, share, args.seconds, took)) for share, took in zip(shares, all_took)]
    before = spent(server.process.pid)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu, read = (now - then for now, then in zip(spent(server.process.pid), before))
    took = sorted(sum(all_took, []))
    return {
        "queries_per_s": len(took) / args.seconds,
        "p50_us": 1e6 * took[len(took) // 2],
        "p99_us": 1e6 * took[len(took) * 99 // 100],
        "cpu_us": 1e6 * cpu / len(took),
        "read_kb": read / 1e3 / len(took),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", default="256MB,64MB,32MB")
    parser.add_argument("--connections", default="1,4")
    parser.add_argument("--programs", help="paths of `ramlet`, in turns [default: RAMLET_BIN, or the release build]")
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--keep", type=Path, help="directory with what was loaded, made if it isn't there")
    parser.add_argument("--json", type=Path, help="a file that the figures are appended to, a line each")
    args = parser.parse_args()
    programs = args.programs.split(",") if args.programs else [None]
    memories = args.memory.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        loaded = args.keep or Path(scratch) / "loaded"
        if not loaded.exists():
            with Server(loaded, memory=memories[0]) as server:
                load(server, args.points)
        for memory in memories:
            for program in programs:
                if program:
                    os.environ["RAMLET_BIN"] = program
                copy = Path(scratch) / "copy"
                shutil.copytree(loaded, copy)
                with Server(copy, memory=memory) as server:
                    left_alone(server)
                    for connections in map(int, args.connections.split(",")):
                        for name in FILTERS:
                            of = {"memory": memory, "program": program and Path(program).name, "connections": connections, "filter": name}
                            of |= measure(server, name, connections, args)
                            told = "{queries_per_s:7,.0f} queries/s, p50 {p50_us:5,.0f} us, p99 {p99_us:6,.0f} us, {cpu_us:5,.0f} us of CPU, {read_kb:7,.1f} KB read"
                            print(f"{memory:>6} {of['program'] or '':12} {connections} connections, {name:20}: {told.format(**of)}", flush=True)
                            if args.json:
                                with args.json.open("a") as file:
                                    file.write(json.dumps(of) + "\n")
                shutil.rmtree(copy)


if __name__ == "__main__":
    main()
