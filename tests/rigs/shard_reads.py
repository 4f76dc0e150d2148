#!/usr/bin/env python3
"""Searches a second over a store of one, two and three shards, each with one node, all on this machine.

    tests/rigs/shard_reads.py --points 30000 --seconds 10

The data are the same, and so is what clients ask, at any node. More shards on one machine are more work for the same processors: the figures say what dividing costs.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.divided import Divided  # noqa: E402
from harness.http import Http  # noqa: E402

DIM, CLIENTS, BATCH = 64, 4, 500


def vector(rng):
    return [round(rng.uniform(-1, 1), 3) for _ in range(DIM)]


def fill(node, points):
    http = node.http()
    http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Cosine"}})
    rng = random.Random(1)
    for first in range(0, points, BATCH):
        batch = [{"id": n, "vector": vector(rng)} for n in range(first, min(first + BATCH, points))]
        http.call("PUT", "/collections/docs/points?wait=true", {"points": batch})
    http.close()


def ask(node, seconds, seed, taken):
    http, rng = Http(node.url), random.Random(seed)
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        body = json.dumps({"query": vector(rng), "limit": 10})
        status, _, answer = http.raw("POST", "/collections/docs/points/query", body)
        assert status == 200, answer
        taken.append(time.monotonic() - begun)
    http.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--memory", default="96MB")
    args = parser.parse_args()
    print(f"{args.points} x {DIM}, {CLIENTS} clients for {args.seconds:.0f} s, nodes of {args.memory} on one machine, a directory as store")
    print("shards  searches/s  median ms  p99 ms  points by shard")
    for shards in (1, 2, 3):
        with tempfile.TemporaryDirectory(prefix="ramlet-shards-") as folder, Divided(folder, f"file://{folder}/store", shards, memory=args.memory) as nodes:
            fill(nodes, args.points)
            taken = []
            threads = [threading.Thread(target=ask, args=(nodes.nodes[n % shards], args.seconds, n, taken)) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken.sort()
            parts = []
            for node in nodes.nodes:
                http = node.http()
                parts.append(http.result("GET", "/collections/docs/cluster")["local_shards"][0]["points_count"])
                http.close()
            rate, middle, last = len(taken) / args.seconds, taken[len(taken) // 2] * 1e3, taken[len(taken) * 99 // 100] * 1e3
            print(f"{shards:>6}  {rate:>10.0f}  {middle:>9.2f}  {last:>6.1f}  {parts}", flush=True)


if __name__ == "__main__":
    main()
