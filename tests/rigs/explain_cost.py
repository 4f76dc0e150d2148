#!/usr/bin/env python3
"""What noting the steps of each request costs: processor time of the server a query, without and with it, in turns.

    tests/rigs/explain_cost.py [--before PROGRAM] --rounds 60 --queries 400 > records/.../explain-cost.txt

One collection is filled and merged into a segment; a server for each row opens a copy of it: `before` is another program, `off` keeps no steps,
`on` has `--slow-query 10s`, which notes the steps of all. Each round asks all of them, in an order by chance, over one connection. Processor time is what
the kernel counts for the threads, user and system. Told are medians of the rounds' ratios, with their quartiles, and ratios of the least.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import Server  # noqa: E402

C = "/collections/c"


def vectors(seed, count, dims):
    rng = random.Random(seed)
    centres = [[rng.gauss(0, 1) for _ in range(dims)] for _ in range(200)]
    for _ in range(count):
        yield [round(x + rng.gauss(0, 0.5), 3) for x in rng.choice(centres)]


def fill(server, args):
    http = server.http()
    settings = {"vectors": {"size": args.dims, "distance": "Cosine"}, "optimizers_config": {"indexing_threshold": 100}}
    http.result("PUT", C, settings)
    points = [{"id": n, "vector": vector} for n, vector in enumerate(vectors(1, args.points, args.dims))]
    for first in range(0, args.points, 2_000):
        http.result("PUT", f"{C}/points?wait=true", {"points": points[first : first + 2_000]})
    calm, end = 0, time.monotonic() + args.timeout
    while calm < 8 and time.monotonic() < end:
        info = http.result("GET", C)
        done = info["status"] == "green" and info["segments_count"] == 1 and info["indexed_vectors_count"] == args.points
        calm = calm + 1 if done else 0
        time.sleep(1)


def processor_ns(server):
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def ask(http, queries):
    for query in queries:
        http.call("POST", f"{C}/points/query", query)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="PROGRAM")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--dims", type=int, default=96)
    parser.add_argument("--memory", default="64MB")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--timeout", type=int, default=180)
    args = parser.parse_args()
    own = os.environ.get("RAMLET_BIN")
    kinds = {"before": (args.before, []), "off": (own, []), "on": (own, ["--slow-query", "10s"])}
    queries = [json.dumps({"query": vector, "limit": 10}) for vector in vectors(2, args.queries, args.dims)]
    with tempfile.TemporaryDirectory() as work:
        with Server(Path(work) / "first", memory=args.memory) as server:
            fill(server, args)
        servers = {}
        for name, (program, flags) in kinds.items():
            if name == "before" and not program:
                continue
            shutil.copytree(Path(work) / "first", Path(work) / name)
            if program:
                os.environ["RAMLET_BIN"] = program
            servers[name] = Server(Path(work) / name, memory=args.memory, arguments=[*flags, "--no-probe"]).start()
        asked = {name: server.http() for name, server in servers.items()}
        for http in asked.values():
            ask(http, queries * 3)
        time.sleep(5)
        took, order = {name: [] for name in servers}, list(servers)
        for _ in range(args.rounds):
            random.shuffle(order)
            for name in order:
                before = processor_ns(servers[name])
                ask(asked[name], queries)
                took[name].append((processor_ns(servers[name]) - before) / args.queries / 1_000)
        for server in servers.values():
            server.stop()
    for name, each in took.items():
        print(f"{name}: {statistics.median(each):.1f} us of processor a query (median of {args.rounds} rounds), least {min(each):.1f}")
    for one, other in [("before", "off"), ("off", "on")]:
        if one in took:
            ratios = sorted(b / a for a, b in zip(took[one], took[other]))
            quarters = statistics.quantiles(ratios, n=4)
            print(f"{other} / {one}: {quarters[1]:.3f} (quartiles {quarters[0]:.3f}, {quarters[2]:.3f}); of the least {min(took[other]) / min(took[one]):.3f}")


if __name__ == "__main__":
    main()
