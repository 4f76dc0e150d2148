#!/usr/bin/env python3
"""Scores and order of hits, by the codes that a collection asks for: how far from the vectors' own.

    RAMLET_BIN=target/release/ramlet python tests/rigs/scores.py [--points 4000] [--dim 128] [--memory 64MB] [--clustered]

Gaussian vectors (which have nothing in common: the hardest there are) or clustered ones, dot product, 200 queries, the best ten.
Of each `quantization_config` and `rescore`, with a filter that one point in eight passes and without: recall@10, how often the first
hit is the nearest, the share of scores that are off by more than 2 %, and of hits beyond a `score_threshold` those that don't belong.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.http import Http  # noqa: E402
from harness.server import Server  # noqa: E402

COLLECTION = "/collections/scores"
QUERIES = 200
K = 10
# The best so many lie beyond the threshold that is asked for.
BEYOND = 20
# One point in so many passes the filter.
PASSES = 8
CODES = {
    "none asked for": {},
    "binary": {"binary": {}},
    "turbo bits2": {"turbo": {"bits": "bits2"}},
    "turbo": {"turbo": {}},
    "scalar": {"scalar": {"type": "int8"}},
    "product x16": {"product": {"compression": "x16"}},
}


def vectors(points, dim, clustered, random):
    if not clustered:
        return random.normal(size=(points, dim)), random.normal(size=(QUERIES, dim))
    centres = random.normal(size=(max(8, points // 100), dim))
    around = lambda count: centres[random.integers(len(centres), size=count)] + 0.6 * random.normal(size=(count, dim))  # noqa: E731
    return around(points), around(QUERIES)


def load(http, base, codes):
    config = {"quantization_config": codes} if codes else {}
    settings = {"vectors": {"size": base.shape[1], "distance": "Dot", **config}, "optimizers_config": {"indexing_threshold": 10}}
    http.result("PUT", COLLECTION, settings)
    for first in range(0, len(base), 500):
        rows = enumerate(base[first : first + 500].tolist(), first)
        points = [{"id": i, "vector": row, "payload": {"part": i % PASSES}} for i, row in rows]
        http.result("PUT", f"{COLLECTION}/points?wait=true", {"points": points})
    http.result("PUT", f"{COLLECTION}/index?wait=true", {"field_name": "part", "field_schema": "integer"})
    while True:
        info = http.result("GET", COLLECTION)
        if info["status"] == "green" and info["indexed_vectors_count"]:
            return
        time.sleep(0.3)


def ask(http, base, queries, scores, rescore, filtered):
    found = first = off = hits = wrong = beyond = 0
    for at, (query, own) in enumerate(zip(queries, scores)):
        request = {"query": query.tolist(), "limit": K}
        if rescore is not None:
            request["params"] = {"quantization": {"rescore": rescore}}
        allowed = np.arange(len(base))
        if filtered:
            request["filter"] = {"must": [{"key": "part", "match": {"value": at % PASSES}}]}
            allowed = allowed[allowed % PASSES == at % PASSES]
        best = allowed[np.argsort(-own[allowed])]
        told = http.result("POST", f"{COLLECTION}/points/query", request)["points"]
        found += len({hit["id"] for hit in told} & set(best[:K].tolist()))
        first += told[0]["id"] == best[0]
        hits += len(told)
        off += sum(abs(hit["score"] - own[hit["id"]]) > 0.02 * abs(own[hit["id"]]) for hit in told)
        threshold = float(own[best[BEYOND]])
        told = http.result("POST", f"{COLLECTION}/points/query", {**request, "limit": 5 * BEYOND, "score_threshold": threshold})["points"]
        beyond += len(told)
        wrong += sum(own[hit["id"]] < threshold - 1e-3 * abs(threshold) for hit in told)
    return found / (K * QUERIES), first / QUERIES, off / hits, wrong / max(beyond, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=4_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--memory", default="64MB")
    parser.add_argument("--clustered", action="store_true")
    args = parser.parse_args()
    base, queries = vectors(args.points, args.dim, args.clustered, np.random.default_rng(3))
    base, queries = base.astype(np.float32), queries.astype(np.float32)
    scores = queries @ base.T
    kind = "clustered" if args.clustered else "Gaussian"
    print(f"{args.points} {kind} vectors of {args.dim} dimensions in {args.memory}, {QUERIES} queries, the best {K}")
    print(f"{'codes':16}{'rescore':9}{'filter':8}{'recall':>8}{'first':>8}{'off 2 %':>9}{'wrongly beyond':>16}")
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory) / "data", args.memory, ["--no-probe"]).start()
        try:
            http = Http(server.url)
            for name, codes in CODES.items():
                load(http, base, codes)
                for rescore, filtered in [(None, False), (None, True), (True, False), (False, False)]:
                    recall, first, off, wrong = ask(http, base, queries, scores, rescore, filtered)
                    how = {None: "unset", True: "true", False: "false"}[rescore]
                    part = f"1 in {PASSES}" if filtered else "none"
                    print(f"{name:16}{how:9}{part:8}{recall:8.3f}{first:8.2f}{off:9.3f}{wrong:16.3f}", flush=True)
                http.result("DELETE", COLLECTION)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
