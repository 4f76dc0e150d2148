#!/usr/bin/env python3
"""Searches of a million vectors while points are written, by memory limit and points a second.

    python tests/rigs/beside_writes.py --set /data/hard [--memory 135MB,64MB] [--upserts 0,200,1000] [--programs A,B]

`--set` is the prefix of a set that `ramlet-bench make` wrote. The million is loaded once in `--load-memory`. For each limit it is
opened in a memory cgroup of it and left until nothing is to do; each run begins with a copy of that. Then `--connections` clients
ask over REST for `--seconds`, requests made beforehand, while points are put anew as they are, five requests a second: so the true
neighbours stay what they are. With several programs they take turns. Of each run: what `through_api.py` tells, and by how much the
slowest write came late.
"""

import argparse
import json
import multiprocessing as mp
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from through_api import COLLECTION, Data, MemoryCgroup, Server, bytes_of, measure, upload  # noqa: E402

BATCHES = 5  # a second


def write(url, known, rate, stop, late):
    """A process: points as they are, so many a second, until `stop`."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from harness.http import Http

    base, http, rng = Data(*known).base, Http(url, None, 60), random.Random(3)
    due, worst = time.monotonic(), 0.0
    while not stop.is_set():
        ids = [rng.randrange(len(base)) for _ in range(rate // BATCHES)]
        points = [{"id": n, "vector": base[n].tolist()} for n in ids]
        http.call("PUT", f"/collections/{COLLECTION}/points?wait=true", {"points": points})
        due += 1 / BATCHES
        worst = max(worst, time.monotonic() - due)
        time.sleep(max(0.0, due - time.monotonic()))
    late.put(worst)


def left_alone(server):
    """Until the collection is green and its server takes no CPU, three seconds in a row."""
    http, quiet, before, start = server.http(), 0, 0.0, time.monotonic()
    while quiet < 3:
        if time.monotonic() - start > 600:
            sys.exit("the server finds no rest within ten minutes")
        time.sleep(1)
        status = http.result("GET", f"/collections/{COLLECTION}")["status"]
        spent = sum(map(int, Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        quiet = quiet + 1 if status == "green" and spent - before < 0.05 else 0
        before = spent
    http.close()


def run(place, memory, rate, args):
    with MemoryCgroup(bytes_of(memory)) as group, Server(place, memory, cgroup=group) as server:
        spawn = mp.get_context("spawn")
        stop, late = spawn.Event(), spawn.Queue()
        known = (args.set, args.dim, None)
        writer = spawn.Process(target=write, args=(server.url, known, rate, stop, late))
        if rate:
            writer.start()
        row = measure(server, ("REST", "raw"), args, None, args.connections)
        stop.set()
        row["write_late_s"] = round(late.get(), 2) if rate else None
        if rate:
            writer.join()
        return {"memory": memory, "upserts": rate, **row, "peak_mb": round((group.peak() or 0) / 1e6, 1), "oom_kills": group.oom_kills()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", required=True, help="prefix of the set's files")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--load-memory", default="1GB")
    parser.add_argument("--memory", default="135MB,64MB")
    parser.add_argument("--upserts", default="0,200,1000", help="points a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--programs", help="several to compare [default: RAMLET_BIN, or the release build]")
    parser.add_argument("--keep", type=Path, help="directory of the loaded server, used again when it is there")
    parser.add_argument("--json", type=Path, help="a file that the figures are appended to, a line each")
    args = parser.parse_args()
    args.points = None
    programs = args.programs.split(",") if args.programs else [None]
    with tempfile.TemporaryDirectory() as scratch:
        loaded = args.keep or Path(scratch) / "loaded"
        if not loaded.exists():
            with Server(loaded, args.load_memory) as server:
                upload(server, Data(args.set, args.dim), 1)
        for memory in args.memory.split(","):
            opened, place = Path(scratch) / "opened", Path(scratch) / "place"
            shutil.copytree(loaded, opened)
            with MemoryCgroup(bytes_of(memory)) as group, Server(opened, memory, cgroup=group) as server:
                left_alone(server)
            for rate in map(int, args.upserts.split(",")):
                for program in programs:
                    os.environ |= {"RAMLET_BIN": program} if program else {}
                    shutil.copytree(opened, place)
                    row = run(place, memory, rate, args) | ({"program": Path(program).name} if program else {})
                    shutil.rmtree(place)
                    print(
                        "{memory}, {upserts:,} upserts/s: {rps:,} searches/s at {recall:.3f}, p50 {ms_p50} ms, p99 {ms_p99} ms, server {server_us} us; "
                        "peak {peak_mb} MB, {oom_kills} killed, writes late by {write_late_s} s {who}".format(**row, who=row.get("program", "")),
                        flush=True,
                    )
                    if args.json:
                        with args.json.open("a") as out:
                            out.write(json.dumps(row) + "\n")
            shutil.rmtree(opened)


if __name__ == "__main__":
    main()
