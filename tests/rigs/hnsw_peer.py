#!/usr/bin/env python3
"""hnswlib from PyPI as the peer in RAM: built once and saved, then a worker that answers measurements line by line.

    hnsw_peer.py build BASE.f32 INDEX --dim 100 [--metric cosine] [--m 16] [--ef-construct 100] [--threads 2]
    hnsw_peer.py serve INDEX QUERY.f32 TRUTH.i32 --dim 100 --truth-width 100

`build` writes INDEX and INDEX.json (seconds, CPU seconds). `serve` reads JSON lines {"ef": 800, "threads": 2} and answers each
with recall@10 and queries/s over all queries; between lines it sleeps, so that it can take turns with another program. Needs hnswlib and numpy.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import hnswlib
import numpy as np

K = 10
# Rows handed over at once: bounds the copy that hnswlib makes to normalise them.
BATCH = 50_000


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_bytes_max():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_rows(path, dim, element):
    """Rows of a file of bare values, mapped; uint8 becomes f32 when it is handed over."""
    return np.memmap(path, dtype=np.uint8 if element == "u8" else np.float32, mode="r").reshape(-1, dim)


def build(arguments):
    base = read_rows(arguments.base, arguments.dim, arguments.element)
    index = hnswlib.Index(space=arguments.metric, dim=arguments.dim)
    index.init_index(max_elements=len(base), ef_construction=arguments.ef_construct, M=arguments.m, random_seed=100)
    index.set_num_threads(arguments.threads)
    started, cpu = time.monotonic(), cpu_s()
    for at in range(0, len(base), BATCH):
        part = np.asarray(base[at : at + BATCH], dtype=np.float32)
        index.add_items(part, np.arange(at, at + len(part)))
        print(f"\rhnswlib: {at + len(part)} of {len(base)} rows, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    figures = {
        "rows": len(base), "dim": arguments.dim, "metric": arguments.metric,
        "m": arguments.m, "ef_construct": arguments.ef_construct, "threads": arguments.threads,
        "build_s": round(time.monotonic() - started, 2), "build_cpu_s": round(cpu_s() - cpu, 2),
        "build_rss_bytes_max": rss_bytes_max(), "hnswlib": getattr(hnswlib, "__version__", "0.8.0"),
    }  # fmt: skip
    index.save_index(arguments.index)
    figures["index_bytes"] = Path(arguments.index).stat().st_size
    Path(arguments.index + ".json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


def serve(arguments):
    figures = json.loads(Path(arguments.index + ".json").read_text())
    index = hnswlib.Index(space=figures["metric"], dim=figures["dim"])
    index.load_index(arguments.index, max_elements=figures["rows"])
    queries = np.ascontiguousarray(read_rows(arguments.queries, arguments.dim, arguments.element), dtype=np.float32)
    truth = np.fromfile(arguments.truth, dtype=np.int32).reshape(-1, arguments.truth_width)[:, :K]
    print(json.dumps(figures | {"loaded": True, "rss_bytes_max": rss_bytes_max()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(index, queries, truth, **json.loads(line))), flush=True)


def measure(index, queries, truth, ef, threads=2, seconds=2.0):
    """One setting: whole passes over the queries until `seconds` are over."""
    index.set_ef(ef)
    index.set_num_threads(threads)
    index.knn_query(queries[:200], k=K)
    passes, started, cpu = 0, time.monotonic(), cpu_s()
    while passes == 0 or time.monotonic() - started < seconds:
        labels, _ = index.knn_query(queries, k=K)
        passes += 1
    took, used = time.monotonic() - started, cpu_s() - cpu
    hits = sum(len(set(a) & set(b)) for a, b in zip(labels.tolist(), truth.tolist()))
    done = passes * len(queries)
    return {
        "ef": ef, "threads": threads, "queries": done, "recall_at_10": round(hits / truth.size, 5),
        "queries_per_s": round(done / took, 1), "cpu_us_per_query": round(used / done * 1e6, 1),
        "rss_bytes_max": rss_bytes_max(),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build")
    builder.add_argument("base")
    builder.add_argument("index")
    builder.add_argument("--metric", default="cosine", choices=["cosine", "l2", "ip"])
    builder.add_argument("--m", type=int, default=16)
    builder.add_argument("--ef-construct", type=int, default=100)
    builder.add_argument("--threads", type=int, default=2)
    server = commands.add_parser("serve")
    server.add_argument("index")
    server.add_argument("queries")
    server.add_argument("truth")
    server.add_argument("--truth-width", type=int, default=100)
    for command in (builder, server):
        command.add_argument("--dim", type=int, required=True)
        command.add_argument("--element", default="f32", choices=["f32", "u8"])
    arguments = parser.parse_args()
    build(arguments) if arguments.command == "build" else serve(arguments)


if __name__ == "__main__":
    main()
