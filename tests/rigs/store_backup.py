#!/usr/bin/env python3
"""Backups in an object store: what a push sends, first and after one point of a hundred changed, how long it takes, and how much RAM.

    tests/rigs/store_backup.py --points 200000 --dim 128
    tests/rigs/store_backup.py --npz fashion-mnist.npz --url s3://bucket/prefix

Two ways: the directory of a server that is stopped, and a server that runs. Each backup is pulled into another directory, which `ramlet check` verifies and
a server serves: its answers must be those of before. Vectors are random unless an .npz with an array `base` is given.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.server import Server, binary  # noqa: E402

ROW = "{:44} {:>10} {:>10} {:>8} {:>8} {:>8} {:>9}"


def megabytes(count):
    return f"{count / 1e6:.1f}"


def run(*words):
    """What it said in JSON, seconds, the most RAM that was resident in MB."""
    start, resident = time.monotonic(), 0
    process = subprocess.Popen([str(binary()), "store", *map(str, words), "--json"], stdout=subprocess.PIPE, text=True)
    while process.poll() is None:
        # The kernel's own maximum: what is missed is what came in the last milliseconds.
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        most = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
        resident = max([resident, *most])
        time.sleep(0.01)
    if process.returncode:
        sys.exit(f"ramlet store {' '.join(map(str, words))} failed")
    return json.loads(process.stdout.read().splitlines()[-1]), time.monotonic() - start, resident * 1024 / 1e6


def told(name, outcome):
    said, seconds, resident = outcome
    moved = said.get("sent_bytes", said.get("fetched_bytes"))
    objects = said.get("sent_chunks", "")
    print(ROW.format(name, megabytes(said["bytes"]), megabytes(moved), f"{100 * moved / said['bytes']:.2f}", objects, f"{seconds:.1f}", f"{resident:.0f}"), flush=True)
    return said


def put(http, vectors, ids):
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        points = [{"id": int(i), "vector": v, "payload": {"n": int(i), "t": f"point {i}"}} for i, v in zip(some, vectors[some].tolist())]
        http.call("PUT", "/collections/docs/points?wait=true", {"points": points})


def quiet(http):
    """Waits until nothing is under way."""
    while True:
        state = http.call("GET", "/collections/docs")["result"]
        if state["status"] == "green":
            return
        time.sleep(0.5)


def answers(server, queries):
    http = server.http()
    got = [http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]]
    for query in queries.tolist():
        got.append(http.call("POST", "/collections/docs/points/query", {"query": query, "limit": 10, "with_payload": True, "params": {"exact": True}})["result"])
    http.close()
    return got


def check_pulled(data, a, queries, expected):
    done = subprocess.run([str(binary()), "check", str(data)], stdout=subprocess.PIPE, text=True)
    if done.returncode or "0 problems" not in done.stdout:
        sys.exit(f"ramlet check: {done.stdout}")
    server = Server(data, memory=a.memory).start()
    same = answers(server, queries) == expected
    server.stop()
    if not same:
        sys.exit(f"{data}: other answers than before")
    print(f"  {done.stdout.strip()}; answers as before", flush=True)


def snapshots(a, place, vectors, changed):
    """The same of snapshots that a server takes into a store, and of a collection that is made of one."""
    count, dim = vectors.shape
    store = place / "snapshots"
    server = Server(place / "taken", memory=a.memory, arguments=["--snapshots-path", f"file://{store}"]).start()
    http = server.http()
    http.call("PUT", "/collections/docs", {"vectors": {"size": dim, "distance": "Euclid"}})
    put(http, vectors, np.arange(count))
    quiet(http)
    held = 0

    def take(name):
        nonlocal held
        begun = time.monotonic()
        made = http.call("POST", "/collections/docs/snapshots")["result"]
        seconds = time.monotonic() - begun
        there = [path.stat().st_size for path in (store / "backup/objects").rglob("*") if path.is_file()]
        moved, held = sum(there) - held, sum(there)
        print(ROW.format(name, megabytes(made["size"]), megabytes(moved), f"{100 * moved / made['size']:.2f}", "", f"{seconds:.1f}", ""), flush=True)
        return made["name"], 100 * moved / made["size"]

    take("a server's snapshot into a store")
    moved = []
    for seed in range(a.changes):
        put(http, changed, np.array(random.Random(seed).sample(range(count), count // 100)))
        quiet(http)
        name, share = take("another, one point of 100 changed")
        moved.append(share)
    print(f"  {sum(moved) / len(moved):.2f} % on average", flush=True)
    take("another, nothing changed")
    begun = time.monotonic()
    http.call("PUT", "/collections/docs/snapshots/recover?wait=true", {"location": f"file://{store}/docs/{name}"})
    counted = http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"]
    print(f"  recovered from the store in {time.monotonic() - begun:.1f} s, {counted} points", flush=True)
    http.close()
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--npz", help="a file with an array `base`")
    parser.add_argument("--changes", type=int, default=4, help="how often one point of a hundred changes")
    parser.add_argument("--url", help="the store [default: a directory]")
    parser.add_argument("--memory", default="256MB", help="of the server")
    parser.add_argument("--snapshots", action="store_true", help="only those that a server takes into a store")
    parser.add_argument("--push-memory", default="64MB")
    a = parser.parse_args()
    rng = np.random.default_rng(1)
    vectors = np.load(a.npz)["base"] if a.npz else rng.standard_normal((a.points, a.dim), dtype=np.float32).round(3)
    count, dim = vectors.shape
    changed = vectors + rng.integers(1, 3, vectors.shape).astype(vectors.dtype)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        place = Path(directory)
        if a.snapshots:
            print(f"{count} x {dim}, a directory as store, a server of {a.memory}")
            print(ROW.format("", "MB", "MB moved", "%", "", "s", ""))
            return snapshots(a, place, vectors, changed)
        url, memory = a.url or f"file://{place}/store", ("--memory", a.push_memory)
        server = Server(place / "data", memory=a.memory).start()
        http = server.http()
        http.call("PUT", "/collections/docs", {"vectors": {"size": dim, "distance": "Euclid"}})
        put(http, vectors, np.arange(count))
        quiet(http)
        http.close()
        queries = vectors[rng.integers(0, count, 20)]
        print(f"{count} x {dim}, {url.split(':')[0]} store, --memory {a.push_memory}")
        print(ROW.format("", "MB", "MB moved", "%", "objects", "s", "MB RAM"))

        def change(share):
            http = server.http()
            ids = np.array(random.Random(share).sample(range(count), count // 100))
            put(http, changed, ids)
            quiet(http)
            http.close()

        server.stop()
        told("push of a directory", run("push", server.data, url, *memory))
        moved = []
        for seed in range(a.changes):
            server.start()
            change(seed)
            expected = answers(server, queries)
            server.stop()
            said = told("push, one point of 100 changed", run("push", server.data, url, *memory))
            moved.append(100 * said["sent_bytes"] / said["bytes"])
        print(f"  {sum(moved) / len(moved):.2f} % on average: what was in the log at one push may be in a segment at the next", flush=True)
        told("push, nothing changed", run("push", server.data, url, *memory))
        told("pull", run("pull", url, place / "pulled", *memory))
        check_pulled(place / "pulled", a, queries, expected)
        server.start()
        told("push of a running server", run("push", server.url, url, *memory))
        change(a.changes)
        told("push of it, one point of 100 changed", run("push", server.url, url, *memory))
        expected = answers(server, queries)
        server.stop()
        told("pull of its snapshot, restored", run("pull", url, place / "restored", *memory))
        check_pulled(place / "restored", a, queries, expected)


if __name__ == "__main__":
    main()
