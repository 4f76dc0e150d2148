"""Ramlet and other libraries on the same vectors in one run: adding, recall, queries a second, peak memory. One JSON object a line.

    pip install qdrant-edge-py lancedb chromadb usearch faiss-cpu      # those that are there are measured
    python bench/peers.py --rows 50000 --memory 135MB

Each runs in a process of its own, one after the other. `anonymous_bytes_max` is what the process held at most beside files' pages, less what it held with the data loaded and
the library imported; `resident_bytes_max` counts the pages of mapped files too, the library's code among them. Ramlet maps no files of data. Indexes are each library's usual one: HNSW of M 16, ef_construction 128 and ef 128 where it takes the numbers (Chroma: its defaults); LanceDB an IVF with product codes of 5
dimensions, five times the hits rescored. `peers_plot.py` draws the lines.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from compare import anonymous, clusters

LIMIT = 10
BATCH = 1_000


class Ramlet:
    needs = "ramlet"

    def __init__(self, folder, rows, args):
        import ramlet

        self.db = ramlet.open(folder, memory=args.memory)
        self.docs = self.db.create("bench", dim=rows.shape[1], distance="euclid")

    def add(self, rows):
        self.docs.add(rows, ids=range(len(rows)))

    def build(self):
        self.docs.settle()

    def search(self, queries):
        return self.docs.search(queries, limit=LIMIT).ids


class Faiss:
    needs = "faiss"

    def __init__(self, folder, rows, args):
        import faiss

        self.index = faiss.IndexHNSWFlat(rows.shape[1], 16)
        self.index.hnsw.efConstruction, self.index.hnsw.efSearch = 128, 128

    def add(self, rows):
        self.index.add(rows)

    def build(self):
        pass

    def search(self, queries):
        return self.index.search(queries, LIMIT)[1]


class Usearch:
    needs = "usearch"

    def __init__(self, folder, rows, args):
        from usearch.index import Index

        self.index = Index(ndim=rows.shape[1], metric="l2sq", connectivity=16, expansion_add=128, expansion_search=128)

    def add(self, rows):
        self.index.add(np.arange(len(rows)), rows)

    def build(self):
        pass

    def search(self, queries):
        return self.index.search(queries, LIMIT).keys


class Lance:
    needs = "lancedb"

    def __init__(self, folder, rows, args):
        import lancedb

        self.db = lancedb.connect(folder)

    def add(self, rows):
        import pyarrow as pa

        flat = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(rows).ravel(), rows.shape[1])
        self.table = self.db.create_table("bench", pa.table({"id": np.arange(len(rows)), "vector": flat}))

    def build(self):
        # Its default of a code for 16 dimensions finds next to nothing here.
        self.table.create_index(metric="l2", num_sub_vectors=self.table.schema.field("vector").type.list_size // 5, vector_column_name="vector")

    def search(self, queries):
        found = [self.table.search(query).limit(LIMIT).refine_factor(5).select(["id", "_distance"]).to_arrow()["id"].to_numpy() for query in queries]
        return np.stack([np.resize(each, LIMIT) for each in found])


class Chroma:
    needs = "chromadb"

    def __init__(self, folder, rows, args):
        import chromadb

        client = chromadb.PersistentClient(str(folder))
        self.docs = client.create_collection("bench", metadata={"hnsw:space": "l2"})

    def add(self, rows):
        for start in range(0, len(rows), 5_000):
            some = rows[start : start + 5_000]
            self.docs.add(ids=[str(start + at) for at in range(len(some))], embeddings=some)

    def build(self):
        pass

    def search(self, queries):
        found = self.docs.query(query_embeddings=queries, n_results=LIMIT, include=[])
        return np.array(found["ids"]).astype(int)


class Edge:
    needs = "qdrant_edge"

    def __init__(self, folder, rows, args):
        import qdrant_edge as edge

        self.edge = edge
        vectors = edge.EdgeVectorParams(size=rows.shape[1], distance=edge.Distance.Euclid)
        graph = edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=10_000)
        # Of its defaults a segment for each core would stay without a graph: these rows are too few for it.
        fewer = edge.EdgeOptimizersConfig(indexing_threshold=1_000, default_segment_number=1)
        self.shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors, hnsw_config=graph, optimizers=fewer))

    def add(self, rows):
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH].tolist()
            points = [self.edge.Point(start + at, vector, {}) for at, vector in enumerate(some)]
            self.shard.update(self.edge.UpdateOperation.upsert_points(points))
        self.shard.flush()

    def build(self):
        self.shard.optimize()

    def search(self, queries):
        effort = self.edge.SearchParams(hnsw_ef=128)
        nearest = [self.edge.Query.Nearest(query) for query in queries.tolist()]
        asked = [self.edge.QueryRequest(limit=LIMIT, query=query, params=effort) for query in nearest]
        found = self.shard.query_batch(self.edge.QueryBatchRequest(asked))
        return np.array([[point.id for point in points] for points in found])


PEERS = {"ramlet": Ramlet, "qdrant-edge": Edge, "faiss": Faiss, "usearch": Usearch, "lancedb": Lance, "chroma": Chroma}


def resident():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


def measure(name, args):
    rows, queries = np.load(args.set + "/base.npy"), np.load(args.set + "/queries.npy")
    truth = np.load(args.set + "/truth.npy")
    folder, peak, peak_resident, over = Path(tempfile.mkdtemp(prefix="ramlet-peer-")), 0, 0, False

    def watch():
        nonlocal peak, peak_resident
        while not over:
            peak, peak_resident = max(peak, anonymous()), max(peak_resident, resident())
            time.sleep(0.005)

    importlib.import_module(PEERS[name].needs)
    own, own_resident = anonymous(), resident()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    peer = PEERS[name](folder, rows, args)
    steps = {}
    for step, run in (("add_s", lambda: peer.add(rows)), ("build_s", peer.build)):
        started = time.perf_counter()
        run()
        steps[step] = round(time.perf_counter() - started, 2)
    found = np.asarray(peer.search(queries))
    recall = np.mean([len(set(a) & set(b)) / LIMIT for a, b in zip(found.tolist(), truth.tolist())])
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < args.seconds:
        peer.search(queries)
        done += len(queries)
    rate = done / (time.perf_counter() - started)
    over = True
    watcher.join()
    out = {"library": name, "rows": len(rows), "dim": rows.shape[1], **steps, "recall_at_10": round(float(recall), 4), "queries_per_s": round(rate)}
    held = {"anonymous_bytes_max": peak - own, "resident_bytes_max": peak_resident - own_resident}
    print(json.dumps({**out, **held, "disk_bytes": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())}))
    shutil.rmtree(folder, ignore_errors=True)


def nearest(rows, queries):
    """Exact, by squared distances a block at a time."""
    lengths = (rows.astype(np.float64) ** 2).sum(axis=1)
    out = []
    for start in range(0, len(queries), 50):
        distances = lengths - 2 * queries[start : start + 50].astype(np.float64) @ rows.T.astype(np.float64)
        some = np.argpartition(distances, LIMIT, axis=1)[:, :LIMIT]
        out.append(some)
    return np.concatenate(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", help="names, by commas")
    parser.add_argument("--set", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.one, args)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = clusters(args.rows + BATCH, args.dim)
        np.save(f"{folder}/base.npy", made[: args.rows])
        np.save(f"{folder}/queries.npy", made[args.rows :])
        np.save(f"{folder}/truth.npy", nearest(made[: args.rows], made[args.rows :]))
        del made
        for name, peer in PEERS.items():
            if args.only and name not in args.only.split(","):
                continue
            if importlib.util.find_spec(peer.needs) is None:
                print(json.dumps({"library": name, "missing": f"pip install {peer.needs}"}))
                continue
            words = [f"--{key}={value}" for key, value in vars(args).items() if key in ("memory", "seconds")]
            subprocess.run([sys.executable, __file__, f"--one={name}", f"--set={folder}", *words], check=False)


if __name__ == "__main__":
    main()
