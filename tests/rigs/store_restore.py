#!/usr/bin/env python3
"""How soon a server answers whose data is in a store: `ramlet serve --restore` beside `ramlet store pull`, then `serve`.

    tests/rigs/store_restore.py --points 1000000 --dim 100 --memory 135MB

A collection of random vectors is imported, pushed into a store (a directory, which is out of the page cache before each turn; or the harness's S3 server), and
restored into empty directories. Approximate answers depend on what is in RAM: one counts if eight of its ten are those of the server
before. Exact ones, when all is there, must be the same. Seconds are from the start of the process to the answer.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.s3 import S3  # noqa: E402
from harness.server import Server, binary  # noqa: E402

ROW = "{:28} {:>13} {:>13} {:>13}"


def make(path, points, dim):
    """Clusters of vectors, as .fbin."""
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((2000, dim), dtype=np.float32)
    with open(path, "wb") as file:
        np.array([points, dim], dtype=np.uint32).tofile(file)
        for start in range(0, points, 50_000):
            count = min(50_000, points - start)
            rows = centres[rng.integers(0, 2000, count)] + 0.4 * rng.standard_normal((count, dim), dtype=np.float32)
            rows.astype(np.float32).tofile(file)
    return rng.standard_normal((20, dim), dtype=np.float32) + centres[:20]


def asked(server, query, exact=False):
    http = server.http()
    try:
        return http.call("POST", "/collections/docs/points/query", {"query": query.tolist(), "limit": 10, "params": {"exact": exact}})["result"]
    finally:
        http.close()


def ids(answer):
    return [point["id"] for point in answer["points"]]


def imported(path, server):
    """Returns when nothing is merged any more."""
    done = subprocess.run([str(binary()), "import", str(path), "--collection", "docs", "--distance", "cosine", "--url", server.url])
    if done.returncode:
        sys.exit("the import failed")
    path.unlink()
    http = server.http()
    while http.call("GET", "/collections/docs")["result"]["status"] != "green":
        time.sleep(0.5)
    http.close()
    server.restart()


def out_of_cache(directory):
    for path in Path(directory).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def answers_from(server, begun, queries, expected):
    """Seconds to the first answer, and to that of all queries, each once."""
    server.start(timeout=600)
    first = None
    for query, right in zip(queries, expected):
        got = asked(server, query)
        if len(set(ids(got)) & set(ids(right))) < 8:
            sys.exit(f"another answer than before: {got} instead of {right}")
        first = first or time.monotonic() - begun
    return first, time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--data", type=Path, help="a directory with a collection `docs`, instead of an import")
    parser.add_argument("--store", choices=["file", "s3"], default="file")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory, S3() as s3:
        place = Path(directory)
        url = f"file://{place}/store" if a.store == "file" else "s3://bucket/backups"
        environment = s3.environment
        if a.data:
            queries = np.random.default_rng(1).standard_normal((20, a.dim), dtype=np.float32)
        else:
            queries = make(place / "docs.fbin", a.points, a.dim)
        server = Server(a.data or place / "data", memory=a.memory, arguments=["--no-probe"]).start()
        if not a.data:
            imported(place / "docs.fbin", server)
        expected = [asked(server, query) for query in queries]
        exact = [asked(server, query, True) for query in queries]
        server.stop()
        subprocess.run([str(binary()), "store", "push", str(server.data), url, "--memory", "256MB"], env=environment, check=True, stdout=subprocess.DEVNULL)
        size = sum(path.stat().st_size for path in server.data.rglob("*") if path.is_file())
        print(f"{a.points} x {a.dim}, {size / 1e6:.0f} MB in the directory, {a.memory}, {a.store} store; seconds")
        print(ROW.format("", "first answer", "20 answers", "whole"), flush=True)
        for turn in range(a.turns):
            out_of_cache(place / "store") if a.store == "file" else None
            target = place / f"restored{turn}"
            restored = Server(target, memory=a.memory, arguments=["--no-probe", "--restore", url], environment=environment)
            begun = time.monotonic()
            first, all_of_them = answers_from(restored, begun, queries, expected)
            while (target / "restore.json").exists():
                time.sleep(0.02)
            print(ROW.format("serve --restore", f"{first:.2f}", f"{all_of_them:.2f}", f"{time.monotonic() - begun:.2f}"), flush=True)
            if [asked(restored, query, True) for query in queries] != exact:
                sys.exit("other exact answers than before")
            restored.stop()
            shutil.rmtree(target)
            out_of_cache(place / "store") if a.store == "file" else None
            begun = time.monotonic()
            subprocess.run([str(binary()), "store", "pull", url, str(target), "--memory", a.memory], env=environment, check=True, stdout=subprocess.DEVNULL)
            pulled = time.monotonic() - begun
            restored = Server(target, memory=a.memory, arguments=["--no-probe"])
            first, all_of_them = answers_from(restored, begun, queries, expected)
            print(ROW.format("store pull, then serve", f"{first:.2f}", f"{all_of_them:.2f}", f"{pulled:.2f}"), flush=True)
            restored.stop()
            shutil.rmtree(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
