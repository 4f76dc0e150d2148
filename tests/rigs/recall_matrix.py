#!/usr/bin/env python3
"""Whether the recall that is promised is found: by set, distance, codes, memory, limit, filter, and after changes.

    RAMLET_BIN=target/release/ramlet python tests/rigs/recall_matrix.py [--sets words,texts,..] [--codes default,scalar,..] [--memory 64MB]
        [--images fashion-mnist.npz] [--queries 200] [--least 0.92]

Each set is loaded, left until it is green, and asked for 1, 3, 10 and 100 rows, without a filter, with filters that have nothing to do
with the vectors (a tenth and a hundredth of the points) and with one that has (the group of the point). Then a tenth of the points is
added, moved and deleted each, and once more. A line each that finds less than `--least` of the target of .95 is marked, and the command
then ends with 1.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import Server  # noqa: E402

C = "matrix"
LIMITS = (1, 3, 10, 100)
CODES = {
    "default": None,
    "scalar": {"scalar": {"type": "int8"}},
    "binary": {"binary": {}},
    "two-bits": {"binary": {"encoding": "two_bits"}},
    "turbo4": {"turbo": {"bits": "bits4"}},
    "x16": {"product": {"compression": "x16"}},
    "x64": {"product": {"compression": "x64"}},
}


def grouped(random, count, dims, groups, spread, low=None):
    """Rows around centres, `low` dimensions of which vary; and which group each is of."""
    centres = random.normal(size=(groups, dims))
    of = random.integers(0, groups, count)
    if low is None:
        return centres[of] + spread * random.normal(size=(count, dims)), of
    mix = random.normal(size=(low, dims)) / np.sqrt(low)
    return centres[of] * 0.5 + spread * np.tanh(random.normal(size=(count, low)) @ mix * 1.5), of


def words(random, count):
    """100 dimensions, many small groups: word vectors."""
    return grouped(random, count, 100, count // 60, 0.85)


def texts(random, count):
    """384 dimensions that vary in 40: embeddings of texts."""
    return grouped(random, count, 384, 300, 1.0, low=40)


def long_texts(random, count):
    """768 dimensions that vary in 60, off the middle by far."""
    rows, of = grouped(random, count // 2, 768, 100, 1.0, low=60)
    return rows + 2.0, of


def plain(random, count):
    """24 dimensions without any order."""
    rows = random.normal(size=(count, 24))
    return rows, (rows[:, 0] > 1).astype(int)


def lengths(random, count):
    """Rows of very different lengths, as of recommenders."""
    rows, of = grouped(random, count, 64, 500, 0.6)
    return rows * random.lognormal(0, 0.7, size=(count, 1)), of


def coarse(random, count):
    """Few wide groups."""
    return grouped(random, count, 64, 60, 0.6)


SETS = {
    "words": (words, "Cosine"),
    "texts": (texts, "Cosine"),
    "texts-dot": (texts, "Dot"),
    "long": (long_texts, "Cosine"),
    "plain": (plain, "Euclid"),
    "lengths": (lengths, "Dot"),
    "coarse": (coarse, "Euclid"),
}


class Collection:
    def __init__(self, server, rows, groups, distance, codes, datatype):
        self.http, self.distance = server.http(), distance
        self.vectors, self.groups = {}, {}
        body = {"vectors": {"size": rows.shape[1], "distance": distance, "datatype": datatype}, "optimizers_config": {"indexing_threshold": 100}}
        if codes:
            body["quantization_config"] = codes
        self.http.call("PUT", f"/collections/{C}", body)
        for field in ("tenth", "group"):
            self.http.call("PUT", f"/collections/{C}/index?wait=true", {"field_name": field, "field_schema": "integer"})
        self.put(range(len(rows)), rows, groups)

    def put(self, ids, rows, groups):
        ids = list(ids)
        for start in range(0, len(ids), 500):
            now = range(start, min(start + 500, len(ids)))
            points = [
                {"id": ids[i], "vector": [float(f"{x:.6g}") for x in rows[i]], "payload": {"tenth": ids[i] * 7919 % 100, "group": int(groups[i])}}
                for i in now
            ]
            self.http.call("PUT", f"/collections/{C}/points?wait=true", {"points": points})
        for i, id in enumerate(ids):
            self.vectors[id], self.groups[id] = rows[i], int(groups[i])

    def delete(self, ids):
        self.http.call("POST", f"/collections/{C}/points/delete?wait=true", {"points": list(ids)})
        for id in ids:
            del self.vectors[id], self.groups[id]

    def settle(self):
        green = 0
        while green < 6:
            time.sleep(0.5)
            green = green + 1 if self.http.call("GET", f"/collections/{C}")["result"]["status"] == "green" else 0

    def truth(self, queries, most):
        """Ids by nearness of each query, as many as are near enough for any filter; and their scores."""
        self.ids = np.array(list(self.vectors))
        rows = np.array([self.vectors[id] for id in self.ids], np.float32)
        if self.distance == "Cosine":
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        keys = -(queries @ rows.T)
        if self.distance == "Euclid":
            keys = 2 * keys + (rows**2).sum(axis=1)
        return keys

    def measure(self, queries, query_groups, filters):
        keys = self.truth(queries, 100)
        tenth, group = self.ids * 7919 % 100, np.array([self.groups[id] for id in self.ids])
        for name in filters:
            results = []
            for limit in LIMITS:
                found = wanted = 0
                for at, query in enumerate(queries):
                    allowed, condition = {
                        "none": (None, None),
                        "tenth": (tenth < 10, {"key": "tenth", "range": {"lt": 10}}),
                        "hundredth": (tenth == 5, {"key": "tenth", "match": {"value": 5}}),
                        "group": (group == query_groups[at], {"key": "group", "match": {"value": int(query_groups[at])}}),
                    }[name]
                    own = keys[at] if allowed is None else np.where(allowed, keys[at], np.inf)
                    count = min(limit, int(np.isfinite(own).sum()))
                    truth = set(self.ids[np.argpartition(own, count - 1)[:count]].tolist()) if count else set()
                    body = {"query": [float(f"{x:.6g}") for x in query], "limit": limit}
                    if condition:
                        body["filter"] = {"must": [condition]}
                    hits = self.http.call("POST", f"/collections/{C}/points/query", body)["result"]["points"]
                    found += len(truth & {hit["id"] for hit in hits})
                    wanted += count
                results.append(found / max(wanted, 1))
            explained = self.http.call("POST", f"/collections/{C}/points/query", {"query": queries[0].tolist(), "limit": 10, "params": {"explain": True}})["explain"]
            segments = ",".join(f"{s['index']} {s['rows']}" for s in explained["segments"])
            yield name, results, segments


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--codes", default=",".join(CODES))
    parser.add_argument("--memory", default="40MB,128MB")
    parser.add_argument("--datatype", default="float32")
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--least", type=float, default=0.92)
    parser.add_argument("--images", help="fashion-mnist.npz, taken as another set")
    parser.add_argument("--filters", default="none,tenth,hundredth,group")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    low = 0
    sets = dict(SETS)
    if args.images:
        images = np.load(args.images)
        sets["images"] = (lambda _, count: (images["base"][:count].astype(np.float32), images["base_labels"][:count].astype(int)), "Euclid")
    print("| set | codes | memory | when | filter | " + " | ".join(f"{k} nearest" for k in LIMITS) + " | segments | |")
    print("|---|---|---|---|---|" + "---|" * (len(LIMITS) + 2))
    for memory in args.memory.split(","):
        for name in [name for name in sets if name in args.sets.split(",") or name == "images"]:
            for codes in args.codes.split(","):
                random = np.random.default_rng(args.seed)
                make, distance = sets[name]
                rows, groups = make(random, args.points + args.queries + args.points // 5)
                rows = rows.astype(np.float32)
                held, new = len(rows) * 5 // 6, None
                queries, query_groups = rows[-args.queries :], groups[-args.queries :]
                if distance == "Cosine":
                    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
                new = rows[held : -args.queries], groups[held : -args.queries]
                with tempfile.TemporaryDirectory(prefix="recall-matrix-") as data, Server(Path(data) / "data", memory=memory) as server:
                    c = Collection(server, rows[:held], groups[:held], distance, CODES[codes], args.datatype)
                    for when in ("loaded", "changed"):
                        if when == "changed":
                            half = len(new[0]) // 2
                            c.put(range(held, held + half), new[0][:half], new[1][:half])
                            c.put(range(0, held, max(1, held // half))[:half], new[0][half:], new[1][half:])
                            c.delete(range(1, held, 10))
                        c.settle()
                        for of, results, segments in c.measure(queries, query_groups, args.filters.split(",")):
                            few = min(results) < args.least
                            low += few
                            cells = " | ".join(f"{recall:.3f}" for recall in results)
                            print(f"| {name} | {codes} | {memory} | {when} | {of} | {cells} | {segments} | {'LOW' if few else ''} |", flush=True)
    print(f"{low} below {args.least}", json.dumps(vars(args)))
    sys.exit(low > 0)


if __name__ == "__main__":
    main()
