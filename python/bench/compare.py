"""Ramlet from numpy beside the engine without Python: adding, and batches of 1,000 queries. One JSON object.

    python bench/compare.py --rows 50000 --memory 135MB
    python bench/compare.py --rows 1000000 --memory 64MB --limit-memory

Both ways search the same collection in the same process, in turns, so that what else the machine does meets both. With `--limit-memory` the process moves into a memory
cgroup of the budget and what it holds itself (needs root). `--base` and `--queries` take .npy files instead of made-up clusters.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ramlet
from ramlet import _ramlet

CLUSTERS = 2_000


def clusters(rows, dim, seed=1):
    """Vectors around centres of different width and weight, made a part at a time."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLUSTERS, dim), dtype=np.float32)
    width = rng.uniform(0.3, 1.0, CLUSTERS).astype(np.float32)
    weight = rng.pareto(1.5, CLUSTERS) + 0.1
    weight /= weight.sum()
    out = np.empty((rows, dim), dtype=np.float32)
    for start in range(0, rows, 50_000):
        some = rng.choice(CLUSTERS, min(50_000, rows - start), p=weight)
        noise = rng.standard_normal((len(some), dim), dtype=np.float32)
        out[start : start + len(some)] = centres[some] + noise * width[some, None]
    return out


def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024


def enter_cgroup(limit):
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "harness"))
    from cgroup import MemoryCgroup

    group = MemoryCgroup(limit)
    group.enter()
    return group


def measured(run):
    """Queries a second, and microseconds of CPU a query: these tell the same on a busy machine."""
    wall, cpu = time.perf_counter(), time.process_time()
    done = run()
    return done / (time.perf_counter() - wall), (time.process_time() - cpu) / done * 1e6


def in_turns(ours, theirs, rounds):
    """Figures of both, measured in turns."""
    pairs = [(measured(ours), measured(theirs)) for _ in range(rounds)]
    return zip(*pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
    parser.add_argument("--base", help=".npy of the rows")
    parser.add_argument("--queries", help=".npy of the queries")
    parser.add_argument("--directory", help="where the data goes; default: a temporary one")
    parser.add_argument("--limit-memory", action="store_true")
    args = parser.parse_args()

    if args.base:
        base = np.load(args.base, mmap_mode="r")
        queries = np.ascontiguousarray(np.load(args.queries)[: args.batch], dtype=np.float32)
    else:
        made = clusters(args.rows + args.batch, args.dim)
        base, queries = made[: args.rows], made[args.rows :].copy()
    folder = Path(args.directory or tempfile.mkdtemp(prefix="ramlet-bench-"))
    own = anonymous()
    group = enter_cgroup(own + ramlet.size(args.memory) + 8_000_000) if args.limit_memory else None

    figures = {"rows": len(base), "dim": base.shape[1], "memory": args.memory, "version": ramlet.__version__, "limited": bool(group)}
    try:
        with ramlet.open(folder / "data", memory=args.memory) as db:
            docs = db.create("bench", dim=base.shape[1])
            started = time.perf_counter()
            docs.add(base, ids=range(len(base)))
            figures["added_per_s"] = round(len(base) / (time.perf_counter() - started))
            started = time.perf_counter()
            docs.settle()
            figures["settled_s"] = round(time.perf_counter() - started, 2)

            def ours():
                done, started = 0, time.perf_counter()
                while time.perf_counter() - started < args.seconds:
                    docs.search(queries, limit=10)
                    done += len(queries)
                return done

            def theirs():
                return _ramlet.drive(db._core, "bench", queries, 10, args.seconds)[0]

            in_turns(ours, theirs, 1)
            python, engine = in_turns(ours, theirs, args.rounds)
            some = queries[:200]
            truth = docs.search(some, limit=10, exact=True).ids
            found = docs.search(some, limit=10).ids
            figures.update(
                python_queries_per_s=round(statistics.median(rate for rate, _ in python)),
                engine_queries_per_s=round(statistics.median(rate for rate, _ in engine)),
                ratio=round(statistics.median(a[0] / b[0] for a, b in zip(python, engine)), 3),
                python_cpu_us=round(statistics.median(cpu for _, cpu in python), 1),
                engine_cpu_us=round(statistics.median(cpu for _, cpu in engine), 1),
                cpu_ratio=round(statistics.median(a[1] / b[1] for a, b in zip(python, engine)), 3),
                recall_at_10=round(float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(truth.tolist(), found.tolist())])), 4),
                ledger_peak_bytes=db.memory()["ledger"]["peak_bytes"],
            )
            figures["anonymous_bytes"] = {"own": own, "with_engine": anonymous()}
        figures["anonymous_bytes"]["closed"] = anonymous()
        if group:
            figures["oom_kills"] = group.oom_kills()
    finally:
        if not args.directory:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
