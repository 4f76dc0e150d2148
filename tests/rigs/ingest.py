#!/usr/bin/env python3
"""A million vectors through the API into a server inside a memory cgroup: ingest rate, peak memory, restart time, search speed, recall.

    tests/rigs/ingest.py --data DIR                     1M x 100 in 135 MB; DIR keeps the vectors between runs
    tests/rigs/ingest.py --data DIR --points 100000 --memory 64MB
    tests/rigs/ingest.py --data DIR --texts             each point has a short document too, ranked by its words, beside and with the vector

Prints one JSON object, for records/. Needs numpy, and about 1 GB for the truth of a million points. The vectors are clustered like word
embeddings: a Zipf mixture with heavy-tailed noise, normalised, from a fixed seed. Documents are made by `ramlet-bench texts`, which `cargo build --release` builds.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import CannotMake, MemoryCgroup  # noqa: E402
from harness.server import Server, binary  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
NAME, K, FIELD = "points", 10, "body"


def vectors(points, queries, dim, seed, clusters=15_000):
    """Base and queries, unit length, in random order."""
    rng, count = np.random.default_rng(seed), points + queries
    decay = np.arange(1, dim + 1) ** -0.45
    scale = (decay / np.sqrt((decay**2).mean())).astype(np.float32)
    centres = rng.standard_normal((clusters, dim), dtype=np.float32) * scale
    weight = 1.0 / (np.arange(clusters) + 21.0)
    label = rng.choice(clusters, size=count, p=weight / weight.sum())
    signal = np.exp(rng.normal(-0.4, 0.5, size=count)).astype(np.float32)
    out = np.empty((count, dim), np.float32)
    for start in range(0, count, 100_000):
        part = slice(start, min(count, start + 100_000))
        noise = rng.standard_normal((part.stop - part.start, dim), dtype=np.float32) * scale**0.6
        out[part] = centres[label[part]] * signal[part, None] + noise
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    return out[:points], out[points:]


def truth(base, queries):
    """Ids of the exact K nearest by cosine."""
    found = np.empty((len(queries), K), np.int64)
    for start in range(0, len(queries), 100):
        score = queries[start : start + 100] @ base.T
        best = np.argpartition(-score, K - 1, axis=1)[:, :K]
        found[start : start + 100] = best
    return found


def prepare(arguments):
    """Vectors as .npy for the import, queries and truth; made once for each shape."""
    directory = Path(arguments.data)
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"{arguments.points}x{arguments.dim}-{arguments.seed}"
    base_path, rest_path = directory / f"{stem}.npy", directory / f"{stem}-queries.npz"
    if not rest_path.exists():
        base, queries = vectors(arguments.points, arguments.queries, arguments.dim, arguments.seed)
        np.save(base_path, base)
        np.savez(rest_path, queries=queries, truth=truth(base, queries))
    rest = np.load(rest_path)
    return base_path, rest["queries"], rest["truth"]


def prepare_texts(arguments):
    """Documents as JSON lines, and one of each kind of queries in turn; made once."""
    prefix = Path(arguments.data) / f"texts-{arguments.points}"
    documents, queries = Path(f"{prefix}.docs.jsonl"), Path(f"{prefix}.queries.jsonl")
    if not queries.exists():
        tool = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "ramlet-bench"
        subprocess.run([tool, "texts", prefix, "--documents", str(arguments.points)], check=True, stdout=subprocess.DEVNULL)
    by_kind = {}
    for query in map(json.loads, queries.read_text().splitlines()):
        by_kind.setdefault(query["kind"], []).append(query["text"])
    return documents, by_kind


class Sampler(threading.Thread):
    """Resident memory of the server and usage of its cgroup, a few times a second."""

    def __init__(self, server, group):
        super().__init__(daemon=True)
        self.server, self.group, self.stop = server, group, threading.Event()
        self.rss_max, self.usage_max = 0, 0

    def run(self):
        while not self.stop.wait(0.2):
            try:
                self.rss_max = max(self.rss_max, self.server.rss()[0])
                if self.group:
                    self.usage_max = max(self.usage_max, self.group.usage())
            except OSError:
                return


def wait_green(server):
    http = server.http()
    while http.get(f"/collections/{NAME}")["result"]["status"] != "green":
        time.sleep(0.2)
    http.close()


def search(server, queries, wanted, clients, params):
    """Queries/s, latencies and recall@K of one pass over all queries."""
    found, record = ask(server, [{"query": q.tolist(), "limit": K, "params": params} for q in queries], clients)
    hits = sum(len(set(f) & set(t.tolist())) for f, t in zip(found, wanted))
    return {**record, "recall_at_10": round(hits / (K * len(found)), 4)}


def ask(server, requests, clients):
    """The ids that each query finds; queries/s and latencies of one pass over all."""
    bodies = [json.dumps(request) for request in requests]
    found, seconds, failures = [()] * len(bodies), [0.0] * len(bodies), []

    def client(first):
        http = server.http()
        try:
            for at in range(first, len(bodies), clients):
                started = time.perf_counter()
                hits = http.result("POST", f"/collections/{NAME}/points/query", bodies[at])["points"]
                seconds[at] = time.perf_counter() - started
                found[at] = [hit["id"] for hit in hits]
        except Exception as error:  # noqa: BLE001  raised again below
            failures.append(error)
        finally:
            http.close()

    started = time.perf_counter()
    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    if failures:
        raise failures[0]
    seconds.sort()
    return found, {
        "queries": len(bodies),
        "clients": clients,
        "queries_per_s": round(len(bodies) / took, 1),
        "latency_ms_p50": round(seconds[len(seconds) // 2] * 1e3, 3),
        "latency_ms_p99": round(seconds[len(seconds) * 99 // 100] * 1e3, 3),
    }


def search_texts(server, arguments, by_kind, queries):
    """Documents by their words, kind by kind, and by words and vector together (RRF of the best 20 of each)."""
    record = {}

    def told(name, requests):
        found, line = ask(server, requests, arguments.clients)
        record[name] = {**line, "hits_per_query": round(sum(map(len, found)) / len(found), 2)}

    for kind, texts in by_kind.items():
        requests = [{"query": {"text": text}, "using": FIELD, "limit": 20, "with_payload": True} for text in texts[: arguments.queries]]
        if match := {"all": "text", "phrase": "phrase"}.get(kind):
            for request in requests:
                request["filter"] = {"must": [{"key": FIELD, "match": {match: request["query"]["text"]}}]}
        told(kind, requests)
    both = zip(by_kind["any"], queries)
    stages = [[{"query": {"text": text}, "using": FIELD, "limit": 20}, {"query": q.tolist(), "limit": 20}] for text, q in both]
    told("hybrid", [{"prefetch": each, "query": {"fusion": "rrf"}, "limit": K} for each in stages])
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory for the vectors; kept")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--exact-queries", type=int, default=100, help="queries of the pass that scans everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--datatype", default="float32")
    parser.add_argument("--texts", action="store_true", help="points have documents, indexed and ranked by their words")
    parser.add_argument("--work", help="directory for the server's data [default: a temporary one]")
    arguments = parser.parse_args()
    base_path, queries, wanted = prepare(arguments)
    documents, by_kind = prepare_texts(arguments) if arguments.texts else (None, {})
    limit = int(float(arguments.memory.removesuffix("MB")) * 1e6)
    try:
        group, why_not = MemoryCgroup(limit), None
    except CannotMake as reason:
        group, why_not = None, str(reason)
    with tempfile.TemporaryDirectory(prefix="ramlet-rig-", dir=arguments.work) as directory:
        server = Server(Path(directory) / "data", arguments.memory, ["--backend", arguments.backend], cgroup=group)
        try:
            record = measure(server, group, arguments, (base_path, documents), queries, wanted, by_kind)
        finally:
            server.kill()
            if group:
                group.close()
    record["cgroup"] = "v2" if group and group.v2 else "v1" if group else f"none: {why_not}"
    print(json.dumps(record, indent=2))


def measure(server, group, arguments, files, queries, wanted, by_kind):
    base_path, documents = files
    server.start()
    sampler = Sampler(server, group)
    sampler.start()
    command = [str(binary()), "import", str(base_path), "--collection", NAME, "--distance", "Cosine", "--url", server.url]
    command += ["--datatype", arguments.datatype]
    command += ["--payload", str(documents), "--text", FIELD] if documents else []
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=sys.stderr)
    acknowledged = time.monotonic() - started
    wait_green(server)
    green = time.monotonic() - started
    exact = arguments.exact_queries
    record = {
        "rig": "ingest",
        "machine": f"{platform.machine()} {platform.release()}",
        "points": arguments.points,
        "dim": arguments.dim,
        "datatype": arguments.datatype,
        "memory": arguments.memory,
        "backend": arguments.backend,
        "ingest_s": round(acknowledged, 2),
        "ingest_points_per_s": round(arguments.points / acknowledged),
        "green_s": round(green, 2),
        "count": server.http().result("POST", f"/collections/{NAME}/points/count", {"exact": True})["count"],
        "ingest_rss_bytes_max": sampler.rss_max,
        "ingest_cgroup_bytes_max": group.peak() if group else None,
        "first_search": search(server, queries, wanted, arguments.clients, {}),
        "search": search(server, queries, wanted, arguments.clients, {}),
        "search_one_client": search(server, queries, wanted, 1, {}),
        "search_exact": search(server, queries[:exact], wanted[:exact], arguments.clients, {"exact": True}),
    }
    if by_kind:
        # The first pass isn't counted: it reads what is still on disk.
        search_texts(server, arguments, by_kind, queries)
        record["texts"] = search_texts(server, arguments, by_kind, queries)
    sampler.stop.set()
    server.stop()
    started = time.monotonic()
    server.start(timeout=600)
    record["restart_s"] = round(time.monotonic() - started, 3)
    server.kill()
    started = time.monotonic()
    server.start(timeout=600)
    record["restart_after_kill_s"] = round(time.monotonic() - started, 3)
    record["search_after_restart"] = search(server, queries, wanted, arguments.clients, {})
    if by_kind:
        record["texts_after_restart"] = search_texts(server, arguments, by_kind, queries)
    record["disk_bytes"] = sum(f.stat().st_blocks * 512 for f in server.data.rglob("*") if f.is_file())
    record["cgroup_bytes_max"] = group.peak() if group else None
    record["oom_kills"] = group.oom_kills() if group else None
    record["rss_bytes_max"] = max(sampler.rss_max, server.rss()[1])
    return record


if __name__ == "__main__":
    main()
