"""What `POST /plan` tells is what a server in that memory builds: the index and its disk; and status and issues tell the truth."""

import random
import time

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
BYTES = {"float32": 4, "float16": 2, "uint8": 1}


def load(http, points, dims, element):
    draw = random.Random(dims)
    centres = np.array([[draw.gauss(0, 1) for _ in range(dims)] for _ in range(20)])
    # Bodies that the smallest budget takes.
    batch = min(20, 40_000 // dims)
    # Few random numbers a row: it is the number of bytes that counts.
    for first in range(0, points, batch):
        vectors = []
        for _ in range(first, min(first + batch, points)):
            centre, shift = draw.choice(centres), draw.randrange(1, dims)
            values = centre + 0.5 * np.roll(draw.choice(centres), -shift)
            vectors.append(np.rint(128 + 30 * values).astype(int) % 256 if element == "uint8" else values.round(3))
        vectors = np.array(vectors).tolist()
        ids = list(range(first, first + len(vectors)))
        http.call("PUT", f"/collections/{C}/points?wait=true", {"batch": {"ids": ids, "vectors": vectors}})


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
        load(http, points, dims, element)
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
            for n in range(60):
                http.result("POST", f"/collections/{C}/points/query", {"query": [1.0 + n % 7] * dims, "limit": 10})
            time.sleep(3)
            expect_in_ram(http, plan["index"], wanted)
        http.close()
