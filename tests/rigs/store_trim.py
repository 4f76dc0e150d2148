#!/usr/bin/env python3
"""What a log in a store takes: objects and bytes after many writes, with all kept and with old slots and backups deleted; and requests, idle and under load.

    tests/rigs/store_trim.py --writes 10000

The store is the harness's own S3 server, which counts requests. A writer takes upserts of one point from several clients; a reader follows.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.s3 import S3  # noqa: E402
from harness.server import Server  # noqa: E402

DIM = 32
ROW = "{:34} {:>9} {:>9} {:>11} {:>9} {:>9}"


def cluster(node):
    http = node.http()
    try:
        return http.call("GET", "/cluster")["result"]["store"]
    finally:
        http.close()


def put_all(node, first, count, clients):
    """Upserts of one point each; seconds."""
    begun = time.monotonic()

    def put(at):
        http = node.http()
        for i in range(first + at, first + count, clients):
            points = [{"id": i % 2000, "vector": [(i * 7 + d) % 13 / 13 for d in range(DIM)], "payload": {"n": i}}]
            http.call("PUT", "/collections/docs/points?wait=true", {"points": points})
        http.close()

    threads = [threading.Thread(target=put, args=(at,)) for at in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begun


def told(name, s3):
    with s3.lock:
        objects = [(key.split("/", 1)[1], len(body)) for key, (body, _) in s3.objects.items()]
    of = {folder: [size for key, size in objects if key.startswith(folder)] for folder in ("log/", "backup/objects", "backup/manifests")}
    log, chunks, manifests = of.values()
    print(ROW.format(name, len(log), sum(log), len(chunks), f"{sum(chunks) / 1e6:.1f}", len(manifests)), flush=True)


def settled(node, every):
    """Waits until no further backup is due."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        status = cluster(node)
        if status["slot"] - status["backup_slot"] <= every:
            break
        time.sleep(1)


def requests_in(s3, seconds):
    with s3.lock:
        before = Counter(s3.requests)
    time.sleep(seconds)
    with s3.lock:
        return Counter(s3.requests) - before


def run(a, directory, keep):
    with S3() as s3:
        def node(role):
            arguments = ["--store", "s3://bucket/shard", "--role", role, "--no-probe", "--store-keep", str(keep), "--store-backup-every", str(a.every)]
            return Server(f"{directory}/{role}{keep}", "96MB", arguments, environment=s3.environment).start()

        writer = node("writer")
        http = writer.http()
        http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
        http.close()
        with s3.lock:
            before = Counter(s3.requests)
        seconds, some = 0, a.writes // a.portions
        for portion in range(a.portions):
            seconds += put_all(writer, portion * some, some, a.clients)
            settled(writer, a.every)
        time.sleep(5)
        with s3.lock:
            load = Counter(s3.requests) - before
        told(f"--store-keep {keep}, {a.writes} writes", s3)
        status = cluster(writer)
        print(f"    {a.writes / seconds:.0f} writes/s, {status['slot']} slots, deleted up to {status['deleted_slot']}")
        print(f"    all requests meanwhile: {json.dumps(load)}; PUTs per 1000 writes: {1000 * load['PUT'] / a.writes:.0f}")
        idle = requests_in(s3, a.idle)
        print(f"    a writer that is idle: {json.dumps(idle)} in {a.idle} s, {idle['PUT'] * 86400 / a.idle:.0f} PUTs a day")
        reader = node("reader")
        both = requests_in(s3, a.idle) - idle
        print(f"    a reader beside it: {json.dumps(both)} in {a.idle} s more")
        for one in (reader, writer):
            one.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--every", type=int, default=200, help="slots for a backup")
    parser.add_argument("--portions", type=int, default=10, help="the writer makes a backup after each of so many")
    parser.add_argument("--keep", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--idle", type=int, default=30, help="seconds")
    a = parser.parse_args()
    print(ROW.format("", "slots", "bytes", "chunks", "MB", "manifests"))
    with tempfile.TemporaryDirectory() as directory:
        for keep in a.keep:
            run(a, directory, keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
