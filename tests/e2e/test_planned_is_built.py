"""What `POST /plan` tells is what a server in that memory builds: the index and its disk; and status and issues tell the truth."""

import re
import time
import urllib.request

import numpy as np
import pytest

from harness.server import Server

# Beside others the one of 18 MB had a third of what was planned in RAM, a minute later too: a longer wait doesn't mend it.
pytestmark = pytest.mark.alone

C = "planned"
# Points, dimensions, element, MB: above the threshold of 10,000 KiB, in budgets where a build's scratch is small, and below it.
COSINE = [
    (3000, 1024, "float32", 18), (3000, 1024, "float32", 64), (2000, 1536, "float32", 24), (6000, 512, "float32", 20), (800, 4096, "float32", 24),
    (2000, 384, "float32", 16), (3000, 1024, "uint8", 24), (3000, 768, "float16", 20), (6000, 1024, "float16", 24), (11_000, 1024, "uint8", 24),
]  # fmt: skip
# Vectors that have no codes, and few of them in budgets where they fit with little to spare: all that fits is in RAM.
OTHERS = [(6000, 512, "float32", 20, "Manhattan"), (3000, 512, "float32", 20, "Dot"), (500, 3072, "float16", 16, "Euclid")]
GRID = [(*cell, "Cosine") for cell in COSINE] + OTHERS
# What a second, smaller segment takes beside the one that is planned.
SLACK = 500_000
QUERIES = 80
BYTES = {"float32": 4, "float16": 2, "uint8": 1}


def made(points, dims, element):
    """Clusters of many sizes, in fewer directions than there are, with much noise: neighbours are about as hard to find as of word vectors."""
    draw = np.random.default_rng(dims)
    along = np.arange(1, dims + 1) ** -0.45
    clusters = max(64, points * 15 // 1000)
    centres = draw.normal(size=(clusters, dims)) * along / np.sqrt((along**2).mean())
    sizes = 1 / (np.arange(clusters) + 21)
    of = draw.choice(clusters, points, p=sizes / sizes.sum())
    signal = np.exp(draw.normal(-0.4, 0.5, size=(points, 1)))
    noise = along**0.6
    values = centres[of] * signal + draw.normal(size=(points, dims)) * noise / np.sqrt((noise**2).mean())
    values *= np.sqrt(dims) / np.linalg.norm(values, axis=1, keepdims=True)
    return np.rint(128 + 30 * values).clip(0, 255).astype(int) if element == "uint8" else values.round(3)


def load(http, vectors):
    # Bodies that the smallest budget takes.
    batch = min(20, 40_000 // vectors.shape[1])
    for first in range(0, len(vectors), batch):
        now = vectors[first : first + batch].tolist()
        ids = list(range(first, first + len(now)))
        http.call("PUT", f"/collections/{C}/points?wait=true", {"batch": {"ids": ids, "vectors": now}})


def reads_a_search(server, http, queries):
    def counted():
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        names = ("ramlet_searches_total", "ramlet_search_reads_total")
        return [int(re.search(rf"^{name} (\d+)$", text, re.MULTILINE).group(1)) for name in names]

    before = counted()
    for query in queries.tolist():
        http.result("POST", f"/collections/{C}/points/query", {"query": query, "limit": 10})
    searches, reads = (now - then for now, then in zip(counted(), before, strict=True))
    return reads / searches


def settled(http):
    still, before = 0, None
    for _ in range(120):
        info = http.result("GET", f"/collections/{C}")
        now = (info["status"], info["segments_count"], info["indexed_vectors_count"])
        still = still + 1 if now == before and info["status"] != "yellow" else 0
        before = now
        if still == 4:
            break
        time.sleep(0.25)
    return info


def in_ram(http, index):
    """Bytes of vectors. Without an index, those that lie in the write buffer yet are searched the same way."""
    parts = http.result("GET", f"/collections/{C}/memory")["components"]
    counted = ("vector", "write buffer") if index == "flat" else "vector"
    return sum(part["heap_bytes"] + part["pinned_bytes"] for part in parts if part["component"].startswith(counted))


def expect_in_ram(http, index, wanted):
    """What is cached comes once there is room for it."""
    held = 0
    for _ in range(60):
        held = in_ram(http, index)
        if abs(held - wanted) <= 0.05 * wanted + SLACK:
            return
        time.sleep(0.25)
    raise AssertionError((held, wanted))


@pytest.mark.parametrize(("points", "dims", "element", "memory", "distance"), GRID)
def test_planned_is_built(tmp_path, points, dims, element, memory, distance):
    with Server(tmp_path / "data", memory=f"{memory}MB") as server:
        http = server.http()
        plan = http.result("POST", "/plan", {"points": points, "dims": dims, "element": element, "distance": distance})["plan"]
        http.call("PUT", f"/collections/{C}", {"vectors": {"size": dims, "distance": distance, "datatype": element}})
        vectors = made(points + QUERIES, dims, element)
        load(http, vectors[:points])
        info = settled(http)
        assert info["status"] == "green", info
        assert http.result("GET", "/issues")["issues"] == []
        parts = http.result("GET", f"/collections/{C}/memory")["components"]
        parts = [part for part in parts if part["component"].startswith("vector")]
        kinds = {part["kind"]: part for part in parts}
        assert plan["index"] in kinds, (plan["index"], parts)
        if plan["index"] != "flat":
            # The last segment may lie below the threshold.
            row_bytes = dims * BYTES[element]
            assert info["indexed_vectors_count"] * row_bytes > points * row_bytes - 10_240_000
            assert info["indexed_vectors_count"] > points / 2
        planned = [part for part in plan["components"] if part["component"] not in ("ids", "payload")]
        disk = [sum(part["disk_bytes"] for part in of) for of in (planned, parts)]
        assert 0.8 * disk[0] < disk[1] < 1.2 * disk[0], (disk, parts, planned)
        wanted = sum(part["ram_bytes"] for part in planned)
        expect_in_ram(http, plan["index"], wanted)
        if plan["index"] != "flat":
            # Searches have an index calibrated again; what that takes for itself comes back when it is done.
            reads_a_search(server, http, vectors[points:])
            time.sleep(3)
            expect_in_ram(http, plan["index"], wanted)
            # No more than planned; easier data needs fewer. Where whole clusters are read, bytes are planned.
            reads = reads_a_search(server, http, vectors[points:])
            if plan["scan_bytes_per_query"] == 0:
                assert reads <= 1.3 * plan["reads_per_query"] + 2, (reads, plan["reads_per_query"], plan["layout"])
        http.close()
