#!/usr/bin/env python3
"""Indexes that have all vectors in RAM, as peers: hnswlib and FAISS. Built once and saved, then a worker that answers measurements line by line.

    ram_peers.py build BASE INDEX --dim 100 [--kind hnswlib] [--metric cosine] [--threads 2] [--m 16] [--ef-construct 100]
    ram_peers.py build BASE.fbin INDEX --dim 768 --kind IVF4096,PQ384x4fs,RFlat
    ram_peers.py serve INDEX QUERY.f32 TRUTH.i32 --dim 100 --truth-width 100

BASE holds bare rows, or is a .fbin. A kind that isn't hnswlib is a string of FAISS's index_factory. `build` writes INDEX and INDEX.json (seconds, CPU seconds).
`serve` reads JSON lines {"ef": 800, "threads": 2} and answers each with recall@10 and queries/s over all queries; one query a call, on so many threads. "ef" is
what a kind has for it: ef, efSearch, or nprobe, with "refined" times ten rows compared exactly. Between lines it sleeps, so that it can take turns with
another program. Needs numpy, and hnswlib or faiss-cpu.
"""

import argparse
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

K = 10
# Rows handed over at once: bounds the copy that a library makes to normalise them.
BATCH = 50_000
# FAISS's clusters are trained with so many rows each, in so many rounds: its defaults take hours at 768 dimensions on two cores.
ROWS_PER_CLUSTER, ROUNDS = 64, 10


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_bytes_max():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_rows(path, dim, element):
    """Rows of a file of values, mapped; uint8 becomes f32 when it is handed over."""
    head = 8 if str(path).endswith(".fbin") else 0
    return np.memmap(path, dtype=np.uint8 if element == "u8" else np.float32, mode="r", offset=head).reshape(-1, dim)


class Hnswlib:
    def __init__(self, metric, dim):
        import hnswlib

        self.version = getattr(hnswlib, "__version__", "0.8.0")
        self.index = hnswlib.Index(space=metric, dim=dim)

    def build(self, base, arguments, told):
        self.index.init_index(max_elements=len(base), ef_construction=arguments.ef_construct, M=arguments.m, random_seed=100)
        self.index.set_num_threads(arguments.threads)
        for at in range(0, len(base), BATCH):
            part = np.asarray(base[at : at + BATCH], dtype=np.float32)
            self.index.add_items(part, np.arange(at, at + len(part)))
            told(at + len(part))

    def save(self, path):
        self.index.save_index(path)

    def load(self, path, rows):
        self.index.load_index(path, max_elements=rows)

    def search(self, queries, ef, threads, refined):
        """It takes its queries one by one, on threads of its own."""
        self.index.set_ef(ef)
        self.index.set_num_threads(threads)
        return self.index.knn_query(queries, k=K)[0]


class Faiss:
    def __init__(self, kind, metric, dim):
        import faiss

        self.faiss, self.version, self.metric = faiss, faiss.__version__, metric
        by = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        self.index = faiss.index_factory(dim, kind, by)

    def prepared(self, rows):
        rows = np.array(rows, dtype=np.float32)
        if self.metric == "cosine":
            self.faiss.normalize_L2(rows)
        return rows

    def build(self, base, arguments, told):
        self.faiss.omp_set_num_threads(arguments.threads)
        inner = self.inner()
        sample = min(len(base), BATCH)
        if hasattr(inner, "cp"):
            inner.cp.niter, inner.cp.max_points_per_centroid = ROUNDS, ROWS_PER_CLUSTER
            sample = min(len(base), inner.nlist * ROWS_PER_CLUSTER)
        rows = np.random.default_rng(100).permutation(len(base))[:sample]
        self.index.train(self.prepared(base[np.sort(rows)]))
        told(0)
        for at in range(0, len(base), BATCH):
            self.index.add(self.prepared(base[at : at + BATCH]))
            told(min(at + BATCH, len(base)))

    def inner(self):
        """What is searched before rows are compared exactly."""
        inner = self.faiss.downcast_index(self.index)
        return self.faiss.downcast_index(inner.base_index) if hasattr(inner, "base_index") else inner

    def save(self, path):
        self.faiss.write_index(self.index, str(path))

    def load(self, path, rows):
        self.index = self.faiss.read_index(str(path))

    def search(self, queries, ef, threads, refined):
        """On threads that each have one query at a time, as a server's would."""
        self.faiss.omp_set_num_threads(1)
        inner = self.inner()
        if hasattr(inner, "hnsw"):
            inner.hnsw.efSearch = ef
        else:
            inner.nprobe = ef
        if hasattr(self.faiss.downcast_index(self.index), "k_factor"):
            self.faiss.downcast_index(self.index).k_factor = refined
        queries = self.prepared(queries)
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(lambda at: [self.index.search(queries[i : i + 1], K)[1][0] for i in range(at, len(queries), threads)], range(threads))
        out = np.empty((len(queries), K), dtype=np.int64)
        for at, each in enumerate(found):
            out[at::threads] = each
        return out


def peer(kind, metric, dim):
    return Hnswlib(metric, dim) if kind == "hnswlib" else Faiss(kind, metric, dim)


def build(arguments):
    base = read_rows(arguments.base, arguments.dim, arguments.element)
    built = peer(arguments.kind, arguments.metric, arguments.dim)
    started, cpu = time.monotonic(), cpu_s()

    def told(rows):
        print(f"\r{arguments.kind}: {rows} of {len(base)} rows, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)

    built.build(base, arguments, told)
    print(file=sys.stderr)
    figures = {
        "kind": arguments.kind, "rows": len(base), "dim": arguments.dim, "metric": arguments.metric, "threads": arguments.threads,
        "build_s": round(time.monotonic() - started, 2), "build_cpu_s": round(cpu_s() - cpu, 2),
        "build_rss_bytes_max": rss_bytes_max(), "version": built.version,
    }  # fmt: skip
    if arguments.kind == "hnswlib":
        figures |= {"m": arguments.m, "ef_construct": arguments.ef_construct}
    built.save(arguments.index)
    figures["index_bytes"] = Path(arguments.index).stat().st_size
    Path(arguments.index + ".json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


def serve(arguments):
    # Before there were other kinds an index said neither.
    figures = {"kind": "hnswlib", "version": "0.8.0"} | json.loads(Path(arguments.index + ".json").read_text())
    index = peer(figures["kind"], figures["metric"], figures["dim"])
    index.load(arguments.index, figures["rows"])
    queries = np.ascontiguousarray(read_rows(arguments.queries, arguments.dim, arguments.element), dtype=np.float32)
    truth = np.fromfile(arguments.truth, dtype=np.int32).reshape(-1, arguments.truth_width)[:, :K]
    print(json.dumps(figures | {"loaded": True, "rss_bytes_max": rss_bytes_max()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(index, queries, truth, **json.loads(line))), flush=True)


def measure(index, queries, truth, ef, threads=2, seconds=2.0, refined=8):
    """One setting: whole passes over the queries until `seconds` are over."""
    index.search(queries[:200], ef, threads, refined)
    passes, started, cpu = 0, time.monotonic(), cpu_s()
    while passes == 0 or time.monotonic() - started < seconds:
        labels = index.search(queries, ef, threads, refined)
        passes += 1
    took, used = time.monotonic() - started, cpu_s() - cpu
    hits = sum(len(set(a) & set(b)) for a, b in zip(labels.tolist(), truth.tolist()))
    done = passes * len(queries)
    return {
        "ef": ef, "threads": threads, "refined": refined, "queries": done, "recall_at_10": round(hits / truth.size, 5),
        "queries_per_s": round(done / took, 1), "cpu_us_per_query": round(used / done * 1e6, 1),
        "rss_bytes_max": rss_bytes_max(),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build")
    builder.add_argument("base")
    builder.add_argument("index")
    builder.add_argument("--kind", default="hnswlib", help="hnswlib, or a string of FAISS's index_factory")
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
