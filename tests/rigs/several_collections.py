#!/usr/bin/env python3
"""Several collections in one budget: what is built of each, what of it is in RAM, and how fast they are searched in turns.

    tests/rigs/several_collections.py --work DIR --collections 8 --points 5000 --dims 384 --memory 64
    tests/rigs/several_collections.py --work DIR --collections 1 --points 3000 --dims 768 --memory 64 --on-disk

The server runs in a cgroup of exactly its budget. Eight threads of Python ask one search after the other, which takes more processor than
the answers: what an index makes of it is shown by reads and bytes a search. DIR keeps the made-up sets.
"""

import argparse
import http.client
import json
import random
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from harness.cgroup import MemoryCgroup  # noqa: E402
from harness.server import Server, binary  # noqa: E402
from planned import counted, made, profile, run  # noqa: E402

THREADS = 8
QUERIES = 1_000


def queries(path, dims):
    """Rows of the set, moved by a third of their length."""
    rng, found = random.Random(5), []
    with path.open("rb") as file:
        rows = struct.unpack("<2i", file.read(8))[0]
        for _ in range(QUERIES):
            file.seek(8 + 4 * dims * rng.randrange(rows))
            row = struct.unpack(f"<{dims}f", file.read(4 * dims))
            moved = (sum(x * x for x in row) / dims) ** 0.5 / 3
            found.append(json.dumps({"query": [round(x + rng.gauss(0, moved), 4) for x in row], "limit": 10}))
    return found


def built(client, name):
    info = client.result("GET", f"/collections/{name}")
    parts = client.result("GET", f"/collections/{name}/memory")["components"]
    vectors = [part for part in parts if part["component"].startswith("vector")]
    held = ", ".join(f"{part['kind']} {part['pinned_bytes'] / 1e6:.1f}" for part in vectors)
    return info["status"], info["indexed_vectors_count"], held


def settled(client, names):
    still, before, end = 0, None, time.monotonic() + 300
    while still < 12 and time.monotonic() < end:
        now = [built(client, name) for name in names]
        still = still + 1 if now == before else 0
        before = now
        time.sleep(0.5)


def searched(server, names, bodies, seconds):
    """Searches and how long each took."""
    end, took, lock = time.monotonic() + seconds, [], threading.Lock()

    def ask(thread):
        connection, own, rng = http.client.HTTPConnection(server.url.split("//")[1]), [], random.Random(thread)
        while (begun := time.monotonic()) < end:
            connection.request("POST", f"/collections/{rng.choice(names)}/points/query", rng.choice(bodies), {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            own.append(time.monotonic() - begun)
        with lock:
            took.extend(own)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--collections", type=int, default=8)
    parser.add_argument("--points", type=int, default=5_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--memory", type=int, default=64, help="MB")
    parser.add_argument("--on-disk", action="store_true", help="`on_disk: true` for the vectors")
    parser.add_argument("--seconds", type=float, default=6.0)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    _, base = made(given.work, given.points, given.dims, "f32")
    names = [f"c{n}" for n in range(given.collections)]
    with tempfile.TemporaryDirectory(dir=given.work) as directory, MemoryCgroup(given.memory * 1_000_000) as group:
        server = Server(Path(directory) / "data", memory=f"{given.memory}MB", cgroup=group)
        server.data.mkdir()
        (server.data / "machine.json").write_bytes(profile(given.work).read_bytes())
        with server:
            client = server.http(timeout=300)
            for name in names:
                client.call("PUT", f"/collections/{name}", {"vectors": {"size": given.dims, "distance": "Cosine", "on_disk": given.on_disk}})
                run(binary(), "import", base, "--collection", name, "--url", server.url)
            settled(client, names)
            bodies = queries(base, given.dims)
            # New indexes are measured on the first queries.
            searched(server, names, bodies, given.seconds)
            settled(client, names)
            before = counted(server)
            took = searched(server, names, bodies, given.seconds)
            searches, reads, read = (now - then for now, then in zip(counted(server), before, strict=True))
            print(f"{given.collections} collections of {given.points} x {given.dims} in {given.memory} MB{', on_disk' if given.on_disk else ''}")
            print(f"{len(took) / given.seconds:.0f} searches/s, median {took[len(took) // 2] * 1e3:.2f} ms, {reads / searches:.1f} reads and {read / searches / 1e3:.0f} kB a search, {group.oom_kills()} OOM kills")
            for name in names:
                status, indexed, held = built(client, name)
                print(f"{name}: {status}, {indexed} indexed, MB in RAM: {held}")
            client.close()


if __name__ == "__main__":
    main()
