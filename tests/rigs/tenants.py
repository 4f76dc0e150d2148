#!/usr/bin/env python3
"""Many tenants in one collection: recall, speed and reads of searches in one tenant, by its size, in a cgroup of exactly the budget.

    python tests/rigs/tenants.py [--points 1000000] [--tenants 100000] [--memory 64MB] [--keep DIR]

Points arrive in random order, as those of tenants do. Sizes of tenants are skewed: the largest has thousands of points, most have a few. Every tenant writes
about three things of three hundred. The tenant is a keyword with an index of `is_tenant: true`; each search has a filter of one tenant. Prints a line of JSON
for each class of sizes: searches a second, milliseconds, recall@10 against comparing everything, bytes and reads from disk of a search; scrolls likewise. The
last line before the memory is of searches among all tenants.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from beside_writes import left_alone  # noqa: E402
from filters import spent  # noqa: E402
from through_api import COLLECTION, MemoryCgroup, Server, bytes_of  # noqa: E402

CENTRES, OWN, BATCH, LIMIT = 300, 3, 500, 10
CLASSES = [(1, 3), (3, 10), (10, 100), (100, 1000), (1000, 1 << 30)]
EXPLAINED = ["segments_count", "rows_scored", "codes_scanned", "reads", "disk_reads", "disk_bytes"]


class Made:
    """Who owns which point, and its vector: the same for the same arguments."""

    def __init__(self, args):
        rng = np.random.default_rng(args.seed)
        weights = 1.0 / (np.arange(args.tenants) + 20.0) ** 0.85
        owners = np.concatenate([np.arange(args.tenants), rng.choice(args.tenants, args.points - args.tenants, p=weights / weights.sum())])
        self.owners = rng.permutation(owners).astype(np.int32)
        centres = rng.normal(size=(CENTRES, args.dim)).astype("f4")
        self.own = rng.integers(0, CENTRES, (args.tenants, OWN))
        topics = self.own[self.owners, rng.integers(0, OWN, args.points)]
        noise = rng.normal(size=(args.points, args.dim)).astype("f4")
        self.vectors = unit(centres[topics] + 0.6 * noise)
        self.centres, self.rng, self.sizes = centres, rng, np.bincount(self.owners, minlength=args.tenants)
        self.rows = np.argsort(self.owners, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def rows_of(self, tenant):
        return self.rows[self.starts[tenant] : self.starts[tenant + 1]]

    def query(self, tenant):
        """One near to what the tenant writes about."""
        centre = self.centres[self.own[tenant, self.rng.integers(0, OWN)]]
        return unit(centre[None] + 0.6 * self.rng.normal(size=(1, len(centre))).astype("f4"))[0]

    def truth(self, tenant, query):
        rows = self.rows_of(tenant)
        return rows[np.argsort(-(self.vectors[rows] @ query), kind="stable")[:LIMIT]].tolist()


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def name_of(tenant):
    return f"tenant-{tenant:06}"


def load(server, made, args):
    http = server.http()
    http.call("PUT", f"/collections/{COLLECTION}", {"vectors": {"size": args.dim, "distance": "Cosine"}})
    schema = {"type": "keyword", "is_tenant": not args.plain}
    http.call("PUT", f"/collections/{COLLECTION}/index?wait=true", {"field_name": "tenant", "field_schema": schema})
    for first in range(0, args.points, BATCH):
        rows = range(first, min(first + BATCH, args.points))
        vectors = made.vectors[rows.start : rows.stop].round(5).tolist()
        payload = [{"tenant": name_of(made.owners[n]), "text": f"what {n} says " * 8} for n in rows]
        points = [{"id": n, "vector": v, "payload": p} for n, v, p in zip(rows, vectors, payload)]
        http.call("PUT", f"/collections/{COLLECTION}/points?wait=true", {"points": points})
    http.close()


def only(tenant):
    return {"must": [{"key": "tenant", "match": {"value": name_of(tenant)}}]}


def timed(server, tenants, ask):
    """Of each tenant one request: what they took together and each."""
    took, before = [], spent(server.process.pid)
    for tenant in tenants:
        start = time.perf_counter()
        ask(tenant)
        took.append(time.perf_counter() - start)
    cpu, read = (now - then for now, then in zip(spent(server.process.pid), before))
    took.sort()
    return {
        "per_second": round(len(took) / sum(took)),
        "p50_ms": round(1e3 * took[len(took) // 2], 2),
        "p99_ms": round(1e3 * took[len(took) * 99 // 100], 2),
        "cpu_us": round(1e6 * cpu / len(took)),
        "read_kb": round(read / 1e3 / len(took), 1),
    }


def measure(server, made, args):
    http, path = server.http(), f"/collections/{COLLECTION}/points"
    for low, high in CLASSES:
        known = np.flatnonzero((made.sizes >= low) & (made.sizes < high))
        if not len(known):
            continue
        tenants = made.rng.choice(known, args.queries)
        queries = {int(tenant): made.query(tenant) for tenant in tenants}
        found, explains = {}, []

        def search(tenant):
            body = {"query": queries[tenant].tolist(), "limit": LIMIT, "filter": only(tenant), "with_payload": args.payload}
            found[tenant] = [hit["id"] for hit in http.result("POST", f"{path}/query", body)["points"]]

        def scroll(tenant):
            points = http.result("POST", f"{path}/scroll", {"filter": only(tenant), "limit": LIMIT})["points"]
            assert len(points) == min(LIMIT, made.sizes[tenant])

        row = {"tenants of": f"{low} to {high - 1}" if high < 1 << 30 else f"{low} and more", "searches": timed(server, map(int, tenants), search)}
        truths = {tenant: made.truth(tenant, query) for tenant, query in queries.items()}
        row["recall"] = round(float(np.mean([len(set(truths[t]) & set(found[t])) / len(truths[t]) for t in truths])), 4)
        row["scrolls"] = timed(server, map(int, tenants), scroll)
        for tenant in list(queries)[:100]:
            body = {"query": queries[tenant].tolist(), "limit": LIMIT, "filter": only(tenant), "params": {"explain": True}}
            explains.append(http.call("POST", f"{path}/query", body)["explain"])
        row["explained"] = {what: round(float(np.mean([one[what] for one in explains])), 1) for what in EXPLAINED}
        yield row, explains[: args.explained]
    http.close()


def among_all(server, made, args):
    """The same without a filter."""
    http, path = server.http(), f"/collections/{COLLECTION}/points"
    tenants = made.rng.integers(0, args.tenants, args.queries)
    queries = np.array([made.query(tenant) for tenant in tenants])
    found, explains = {}, []

    def search(at):
        body = {"query": queries[at].tolist(), "limit": LIMIT, "with_payload": args.payload}
        found[at] = [hit["id"] for hit in http.result("POST", f"{path}/query", body)["points"]]

    row = {"tenants of": "any size, unfiltered", "searches": timed(server, range(len(queries)), search)}
    scores = queries @ made.vectors.T
    truths = np.argpartition(-scores, LIMIT, axis=1)[:, :LIMIT]
    row["recall"] = round(float(np.mean([len(set(truths[at].tolist()) & set(found[at])) / LIMIT for at in found])), 4)
    for query in queries[:100]:
        explains.append(http.call("POST", f"{path}/query", {"query": query.tolist(), "limit": LIMIT, "params": {"explain": True}})["explain"])
    row["explained"] = {what: round(float(np.mean([one[what] for one in explains])), 1) for what in EXPLAINED}
    http.close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--memory", default="64MB")
    parser.add_argument("--queries", type=int, default=500, help="of each class of sizes")
    parser.add_argument("--payload", action="store_true", help="ask for payloads too")
    parser.add_argument("--plain", action="store_true", help="without `is_tenant`, for comparison")
    parser.add_argument("--explained", type=int, default=0, help="searches of each class whose explanation is printed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="directory with what was loaded, made if it isn't there")
    args = parser.parse_args()
    made = Made(args)
    with tempfile.TemporaryDirectory() as scratch:
        data = args.keep or Path(scratch) / "data"
        loaded = data.exists()
        with MemoryCgroup(bytes_of(args.memory)) as group, Server(data, args.memory, cgroup=group) as server:
            start = time.monotonic()
            if not loaded:
                load(server, made, args)
            left_alone(server)
            told = {"points": args.points, "tenants": args.tenants, "memory": args.memory, "load_s": round(time.monotonic() - start)}
            print(json.dumps(told | {"largest": int(made.sizes.max()), "median": int(np.median(made.sizes))}), flush=True)
            for row, explained in measure(server, made, args):
                print(json.dumps(row), flush=True)
                for one in explained:
                    print(json.dumps(one), flush=True)
            print(json.dumps(among_all(server, made, args)), flush=True)
            print(json.dumps({"peak_mb": round((group.peak() or 0) / 1e6, 1), "oom_kills": group.oom_kills()}))


if __name__ == "__main__":
    main()
