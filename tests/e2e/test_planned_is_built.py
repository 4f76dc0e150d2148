"""What `POST /plan` tells is what a server in that memory builds: the index and its disk; and status and issues tell the truth."""

import random
import time

import pytest

from harness.server import Server

C = "planned"
# Above the threshold of 10,000 KiB, in budgets where a build's scratch is small.
GRID = [(3000, 1024, 18), (3000, 1024, 64), (2000, 1536, 24), (6000, 512, 20), (800, 4096, 24), (2000, 384, 16)]


def load(http, points, dims):
    draw = random.Random(dims)
    centres = [[draw.gauss(0, 1) for _ in range(dims)] for _ in range(20)]
    # Few random numbers a row: it is the number of bytes that counts.
    for first in range(0, points, 20):
        vectors = []
        for _ in range(first, min(first + 20, points)):
            centre, shift = draw.choice(centres), draw.randrange(1, dims)
            other = draw.choice(centres)
            vectors.append([round(a + 0.5 * b, 3) for a, b in zip(centre, other[shift:] + other[:shift])])
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


@pytest.mark.parametrize(("points", "dims", "memory"), GRID)
def test_planned_is_built(tmp_path, points, dims, memory):
    with Server(tmp_path / "data", memory=f"{memory}MB") as server:
        http = server.http()
        plan = http.result("POST", "/plan", {"points": points, "dims": dims})["plan"]
        http.call("PUT", f"/collections/{C}", {"vectors": {"size": dims, "distance": "Cosine"}})
        load(http, points, dims)
        info = settled(http)
        assert info["status"] == "green", info
        assert http.result("GET", "/issues")["issues"] == []
        parts = http.result("GET", f"/collections/{C}/memory")["components"]
        parts = [part for part in parts if part["component"].startswith("vector")]
        kinds = {part["kind"]: part for part in parts}
        assert plan["index"] in kinds, (plan["index"], parts)
        if plan["index"] != "flat":
            # The last segment may lie below the threshold.
            assert info["indexed_vectors_count"] * dims * 4 > points * dims * 4 - 10_240_000
            assert info["indexed_vectors_count"] > points / 2
        planned = sum(part["disk_bytes"] for part in plan["components"] if part["component"] not in ("ids", "payload"))
        built = sum(part["disk_bytes"] for part in parts)
        assert 0.8 * planned < built < 1.2 * planned, (planned, built, parts, plan["components"])
        http.close()
