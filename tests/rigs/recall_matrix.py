#!/usr/bin/env python3
"""Whether the recall that is promised is found: by set, distance, codes, memory, limit, filter, and after changes.

    RAMLET_BIN=target/release/ramlet python tests/rigs/recall_matrix.py [--sets words,texts,..] [--codes default,scalar,..] [--memory 64MB]
        [--index hnsw] [--datatype float16] [--images fashion-mnist.npz] [--queries 200] [--least 0.92]

Each set is loaded, left until it is green, and asked for 1, 3, 10 and 100 rows, without a filter, with filters that have nothing to do
with the vectors (a tenth and a hundredth of the points) and with one that has (the group of the point). Then some are added, some moved
and some deleted, a tenth each, and it is asked again; at last a tenth of the groups is deleted whole, and only what lay in them is asked
for (`holes`). A line in which less than `--least` is found is marked, and the command then ends with 1: the target is .95, and of one
row 200 queries find it within .03.
"""

import argparse
import itertools
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
    def __init__(self, server, rows, codes, args):
        self.http, self.distance = server.http(), rows.distance
        self.vectors, self.groups = {}, {}
        vectors = {"size": rows.queries.shape[1], "distance": rows.distance, "datatype": args.datatype}
        # So that there is an index of so few.
        body = {"vectors": vectors, "optimizers_config": {"indexing_threshold": 100}}
        if args.index:
            body["index"] = args.index
        if codes:
            body["quantization_config"] = codes
        self.http.call("PUT", f"/collections/{C}", body)
        for field in ("tenth", "group"):
            self.http.call("PUT", f"/collections/{C}/index?wait=true", {"field_name": field, "field_schema": "integer"})
        self.put(range(len(rows.loaded[0])), *rows.loaded)

    def put(self, ids, rows, groups):
        ids = list(ids)
        at_once = max(10, 40_000 // rows.shape[1])
        for start in range(0, len(ids), at_once):
            now = range(start, min(start + at_once, len(ids)))
            points = [
                {"id": ids[i], "vector": numbers(rows[i]), "payload": {"tenth": ids[i] * 7919 % 100, "group": int(groups[i])}}
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

    def truth(self, queries):
        """How far each point is of each query: smaller is nearer."""
        self.ids = np.array(list(self.vectors))
        rows = np.array([self.vectors[id] for id in self.ids], np.float32)
        if self.distance == "Cosine":
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        keys = -(queries @ rows.T)
        if self.distance == "Euclid":
            keys = 2 * keys + (rows**2).sum(axis=1)
        return keys

    def measure(self, queries, query_groups, filters):
        """For each filter: its name, the recall of each limit, and what the collection consists of."""
        keys = self.truth(queries)
        tenth, group = self.ids * 7919 % 100, np.array([self.groups[id] for id in self.ids])
        every = np.full(len(self.ids), True)
        explained = self.ask(queries[0], 10, None, params={"explain": True})["explain"]
        segments = ",".join(f"{s['index']} {s['rows']}" for s in explained["segments"])
        for name in filters:
            results = []
            for limit in LIMITS:
                found = wanted = 0
                for at, query in enumerate(queries):
                    own = int(query_groups[at])
                    allowed, condition = {
                        "none": (every, None),
                        "tenth": (tenth < 10, {"key": "tenth", "range": {"lt": 10}}),
                        "hundredth": (tenth == 5, {"key": "tenth", "match": {"value": 5}}),
                        "group": (group == own, {"key": "group", "match": {"value": own}}),
                    }[name]
                    own_keys = np.where(allowed, keys[at], np.inf)
                    count = min(limit, int(allowed.sum()))
                    truth = set(self.ids[np.argpartition(own_keys, count - 1)[:count]].tolist()) if count else set()
                    hits = self.ask(query, limit, condition)["result"]["points"]
                    found += len(truth & {hit["id"] for hit in hits})
                    wanted += count
                results.append(found / max(wanted, 1))
            yield name, results, segments

    def ask(self, query, limit, condition, **more):
        body = {"query": numbers(query), "limit": limit, **more}
        if condition:
            body["filter"] = {"must": [condition]}
        return self.http.call("POST", f"/collections/{C}/points/query", body)


def numbers(vector):
    return [float(f"{x:.6g}") for x in vector]


class Rows:
    """What is loaded, what comes later, and what is asked."""

    def __init__(self, of, args):
        make, self.distance = of
        rows, groups = make(np.random.default_rng(args.seed), args.points + args.queries + args.points // 5)
        rows, held = rows.astype(np.float32), len(rows) * 5 // 6
        self.loaded = rows[:held], groups[:held]
        self.later = rows[held : -args.queries], groups[held : -args.queries]
        self.queries, self.query_groups = rows[-args.queries :], groups[-args.queries :]
        if self.distance == "Cosine":
            self.queries = self.queries / np.linalg.norm(self.queries, axis=1, keepdims=True)


def change(collection, rows):
    """A part of the points is added, a part moved, a tenth deleted."""
    held, (later, groups) = len(rows.loaded[0]), rows.later
    half = len(later) // 2
    collection.put(range(held, held + half), later[:half], groups[:half])
    moved = list(range(0, held, max(1, held // (len(later) - half))))[: len(later) - half]
    collection.put(moved, later[half:], groups[half:])
    collection.delete(range(1, held, 10))


def dig(collection, rows):
    """Deletes a tenth of the groups, and leaves the queries that lie in them."""
    groups = np.unique(rows.loaded[1])
    gone = set(groups[: max(1, len(groups) // 10)].tolist())
    ids = [id for id, group in collection.groups.items() if group in gone]
    for start in range(0, len(ids), 1000):
        collection.delete(ids[start : start + 1000])
    inside = np.array([group in gone for group in rows.query_groups.tolist()])
    rows.queries, rows.query_groups = rows.queries[inside], rows.query_groups[inside]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--codes", default=",".join(CODES))
    parser.add_argument("--memory", default="40MB,128MB")
    parser.add_argument("--datatype", default="float32")
    parser.add_argument("--index", choices=("ivf", "hnsw"), help="instead of what the memory suits")
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--least", type=float, default=0.92)
    parser.add_argument("--images", help="fashion-mnist.npz, taken as another set")
    parser.add_argument("--filters", default="none,tenth,hundredth,group")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sets = {name: SETS[name] for name in args.sets.split(",") if name in SETS}
    if args.images:
        images = np.load(args.images)
        sets["images"] = (lambda _, count: (images["base"][:count].astype(np.float32), images["base_labels"][:count].astype(int)), "Euclid")
    print("| set | codes | memory | when | filter | " + " | ".join(f"{k} nearest" for k in LIMITS) + " | segments | |")
    print("|---|---|---|---|---|" + "---|" * (len(LIMITS) + 2))
    low = 0
    for memory, name, codes in itertools.product(args.memory.split(","), sets, args.codes.split(",")):
        rows = Rows(sets[name], args)
        with tempfile.TemporaryDirectory(prefix="recall-matrix-") as data, Server(Path(data) / "data", memory=memory) as server:
            collection = Collection(server, rows, CODES[codes], args)
            for when in ("loaded", "changed", "holes"):
                if when != "loaded":
                    {"changed": change, "holes": dig}[when](collection, rows)
                if not len(rows.queries):
                    break
                collection.settle()
                filters = args.filters.split(",") if when != "holes" else ["none"]
                for of, results, segments in collection.measure(rows.queries, rows.query_groups, filters):
                    is_low = min(results) < args.least
                    low += is_low
                    cells = " | ".join(f"{recall:.3f}" for recall in results)
                    print(f"| {name} | {codes} | {memory} | {when} | {of} | {cells} | {segments} | {'LOW' if is_low else ''} |", flush=True)
    print(f"{low} below {args.least}", json.dumps(vars(args)))
    sys.exit(low > 0)


if __name__ == "__main__":
    main()
