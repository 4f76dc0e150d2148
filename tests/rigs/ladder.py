#!/usr/bin/env python3
"""Queries a second over MB of RAM: one collection, opened in one budget after another, at the recall that it aims at.

    tests/rigs/ladder.py --set /data/hard --dims 768 --memory 64,24,32,48,96,135,256 --keep /data/ladder-768 > records/ladder-768.txt

`--set` is the prefix of a set that `ramlet-bench make --bin` wrote. The first budget is the one in which it is imported, unless `--keep` has it
already; the others open what was built there. A larger budget may write the index anew; that is waited for. Each is a server in a cgroup of its budget. Its first
queries tell it what is asked (it may change its effort then), and are not counted. A line for each, which tests/rigs/ram_plot.py draws.

`--peers` names indexes in RAM that tests/rigs/ram_peers.py built (`--peers hnsw-768:400,800,1600 ivf-768:16,32,64`, each with its efforts): they take their turn after each budget, at as
good a recall as was found, without a server in front.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import planned  # noqa: E402
from curves import at_recall  # noqa: E402
from planned import MemoryCgroup, Server, binary, numbers, run, searched, settled  # noqa: E402

LEARNT = "ramlet_recall_queries_total"
# Single queries are measured all the time; a sample of the first ones is of more.
LEARNT_FROM = 50


def learn(server, http, args):
    """Asks, and waits until the server has measured what the first queries find."""
    end = time.monotonic() + args.learning_timeout
    # A query that is asked again says nothing new: a set of a few hundred is asked often enough that no other is expected.
    searched(server, args.set, args.dims, args.learning, args.connections)
    while time.monotonic() < end:
        text = http.raw("GET", "/metrics")[2].decode()
        if any(line.startswith(LEARNT) and float(line.split()[-1]) >= LEARNT_FROM for line in text.splitlines()):
            return
        time.sleep(1)
    print(f"# not measured on its queries within {args.learning_timeout} s: it was before, or they aren't unlike what it was measured on", flush=True)


def rung(memory, data, args, first):
    """What was found."""
    with MemoryCgroup(memory * 1_000_000) as group:
        server = Server(data, memory=f"{memory}MB", cgroup=group).start()
        try:
            http = server.http()
            if first and not any(each["name"] == planned.C for each in http.result("GET", "/collections")["collections"]):
                load(server, http, args)
            began = time.monotonic()
            settled(http, seconds=args.timeout)
            waited = time.monotonic() - began
            if not args.no_learning:
                learn(server, http, args)
            settled(http, seconds=args.timeout)
            found = searched(server, args.set, args.dims, args.seconds, args.connections)
            plan = http.result("POST", "/plan", {"collection": planned.C})["plan"]
            disk = sum(part["disk_bytes"] for part in planned.built_parts(http))
            clusters = [vector["clusters"] for segment in http.result("GET", f"/collections/{planned.C}/memory")["segments"] for vector in segment["vectors"]]
            line(memory, found, plan, disk, max(clusters, default=0), group, waited, args)
            return found
        finally:
            server.stop(timeout=120)


class Peer:
    def __init__(self, text, args):
        index, efforts = text.rsplit(":", 1)
        self.efforts = [int(effort) for effort in efforts.split(",")]
        program = Path(__file__).with_name("ram_peers.py")
        files = [f"{args.set}.query.f32", f"{args.set}.gt.i32", "--truth-width", str(args.truth_width)]
        command = [args.peer_python, program, "serve", index, *files, "--dim", str(args.dims)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.built = json.loads(self.process.stdout.readline())

    def measured(self, effort, seconds):
        self.process.stdin.write(json.dumps({"ef": effort, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def turn(self, ours, args):
        points = [self.measured(effort, args.seconds / len(self.efforts)) for effort in self.efforts]
        speed = at_recall(points, ours["recall"])
        name = f"{self.built['kind']} {self.built['version']}, built in {self.built['build_s']:.0f} s"
        if speed is None:
            print(f"    {name}: recall {points[-1]['recall_at_10']:.3f} at most, {points[-1]['queries_per_s']:,.0f} queries/s", flush=True)
        else:
            print(f"    {name}: {speed:,.0f} queries/s at that recall; ours {ours['queries_per_s'] / speed:.2f} times; {points[-1]['rss_bytes_max']:,} bytes of RAM", flush=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def load(server, http, args):
    began = time.monotonic()
    http.call("PUT", f"/collections/{planned.C}", {"vectors": {"size": args.dims, "distance": args.distance}})
    run(binary(), "import", f"{args.set}.fbin", "--collection", planned.C, "--url", server.url, "--wait")
    print(f"# imported and green after {time.monotonic() - began:.0f} s", flush=True)


def line(memory, found, plan, disk, clusters, group, waited, args):
    vectors = found_rows(args) * args.dims * 4
    print(
        f"{args.dims} dimensions, {memory}MB recall {args.target:.2f}: queries/s {found['queries_per_s']:,.0f} (found {found['recall']:.3f}; planned {plan['qps']:,.0f};"
        f" {clusters} clusters; settled after {waited:.0f} s; disk {disk / vectors:.2f} times the vectors; peak {group.peak():,} bytes; {group.oom_kills()} OOM kills)",
        flush=True,
    )


def found_rows(args):
    return Path(f"{args.set}.fbin").stat().st_size // (4 * args.dims)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True)
    parser.add_argument("--dims", type=int, required=True)
    parser.add_argument("--memory", type=numbers, required=True)
    parser.add_argument("--keep", type=Path, help="directory of the collection, used again [default: one that goes]")
    parser.add_argument("--collection", default=planned.C)
    parser.add_argument("--distance", default="Cosine")
    parser.add_argument("--target", type=float, default=0.95, help="what the collection aims at")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--learning", type=float, default=15, help="seconds of first queries")
    parser.add_argument("--learning-timeout", type=int, default=60, help="seconds for what the first queries tell")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--timeout", type=int, default=1_800, help="seconds for an index")
    parser.add_argument("--peers", nargs="*", default=[], help="INDEX:EFFORTS of indexes in RAM")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has numpy, and hnswlib or faiss-cpu")
    parser.add_argument("--truth-width", type=int, default=10)
    parser.add_argument("--no-learning", action="store_true", help="count from the first query on")
    args = parser.parse_args()
    planned.C = args.collection
    peers = [Peer(text, args) for text in args.peers]
    with tempfile.TemporaryDirectory() as folder:
        data = args.keep or Path(folder) / "data"
        for at, memory in enumerate(args.memory):
            ours = rung(memory, data, args, at == 0)
            for peer in peers:
                peer.turn(ours, args)
    for peer in peers:
        peer.close()


if __name__ == "__main__":
    main()
