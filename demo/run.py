#!/usr/bin/env python3
"""The demo: real images into a server of 64 MB, searched through its API and compared with exact truth. Standard library only."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import fashion_mnist  # noqa: E402
from harness.cgroup import CannotMake, MemoryCgroup  # noqa: E402
from harness.server import Server, binary  # noqa: E402

NAME, K, CLIENTS = "fashion-mnist", 10, 2
LIMIT = 64_000_000


def mb(count):
    return f"{count / 1e6:.1f} MB"


def say(label, text):
    print(f"{label:<14}{text}", flush=True)


def make_cgroup():
    """A real memory limit where the system lets us make one."""
    try:
        return MemoryCgroup(LIMIT)
    except CannotMake as reason:
        say("limit", f"no memory cgroup could be made ({reason}); the server keeps to its budget by itself")
        return None


def import_images(server, directory):
    base, payload, count = fashion_mnist.write_import_files(directory)
    command = [str(binary()), "import", str(base), "--payload", str(payload), "--collection", NAME]
    command += ["--distance", "Euclid", "--url", server.url, "--wait"]
    started = time.monotonic()
    # The bar goes to the terminal; the closing lines are told by us.
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - started
    say("import", f"{count:,} images of 28 x 28 = 784 bytes in {took:.1f} s, {count / took:,.0f}/s, indexed and searchable")
    server.http().call("PUT", f"/collections/{NAME}/index?wait=true", {"field_name": "label", "field_schema": "integer"})


def search(server, bodies):
    """Sends all bodies from a few clients; returns the ids found, the seconds of each request, and the seconds in all."""
    found, seconds = [None] * len(bodies), [0.0] * len(bodies)
    failures = []

    def client(first):
        http = server.http()
        try:
            for at in range(first, len(bodies), CLIENTS):
                started = time.perf_counter()
                hits = http.result("POST", f"/collections/{NAME}/points/query", bodies[at])["points"]
                seconds[at] = time.perf_counter() - started
                found[at] = [hit["id"] for hit in hits]
        except Exception as error:  # noqa: BLE001  raised again by the caller's thread
            failures.append(error)
        finally:
            http.close()

    started = time.perf_counter()
    threads = [threading.Thread(target=client, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return found, sorted(seconds), time.perf_counter() - started


def measure(server, label, queries, truth, more):
    bodies = [json.dumps({"query": query, "limit": K, **more}, separators=(",", ":")) for query in queries]
    search(server, bodies[:50])
    found, seconds, took = search(server, bodies)
    hits = sum(len(set(f) & set(t)) for f, t in zip(found, truth))
    recall = hits / sum(len(t) for t in truth)
    p50, p99 = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
    say(label, f"recall@{K} {recall:.4f}  {len(queries) / took:7,.0f} queries/s  p50 {p50 * 1e3:.2f} ms  p99 {p99 * 1e3:.2f} ms")
    return recall


def report_memory(server, cgroup):
    resident, most = server.rss()
    if cgroup:
        peak = cgroup.peak()
        text = f"peak {mb(peak)} of {mb(LIMIT)} by the kernel's count, " if peak else ""
        say("RAM", f"{text}now {mb(cgroup.usage())}; process {mb(resident)}, at most {mb(most)}; OOM kills: {cgroup.oom_kills()}")
    else:
        say("RAM", f"process {mb(resident)}, at most {mb(most)}")
    memory = server.http().get("/memory")["result"]
    ledger = memory.get("ledger") or {}
    held = {c["name"]: c for c in ledger.get("consumers", [])}
    # Data in RAM takes what other rows have free, and gives it back when they need it: no breach of the budget.
    print(f"\n  {'what lies in RAM':<24}{'budget':>12}{'in use':>12}{'from others':>12}{'at most':>12}")
    for row in (memory.get("budget") or {}).get("rows", []):
        consumer = held.get(row["name"])
        used = consumer["used_bytes"] if consumer else 0
        others = mb(used - row["bytes"]) if used > row["bytes"] else ""
        now, peak = (mb(used), mb(consumer["peak_bytes"])) if consumer else ("", "")
        print(f"  {row['name']:<24}{mb(row['bytes']):>12}{now:>12}{others:>12}{peak:>12}")
    print("  from others: it belongs to other rows and goes back when they need it")
    if ledger:
        limit, now, peak = (mb(ledger[key]) for key in ("limit_bytes", "used_bytes", "peak_bytes"))
        print(f"  {'all of them together':<24}{limit:>12}{now:>12}{'':>12}{peak:>12}")


def report_disk(server):
    kinds, total = {}, 0
    for path in server.data.rglob("*"):
        if path.is_file():
            size = path.stat().st_blocks * 512
            kind = path.name if "." not in path.name else "*" + path.suffix
            kinds[kind] = kinds.get(kind, 0) + size
            total += size
    largest = sorted(kinds.items(), key=lambda item: -item[1])[:6]
    print(f"\n  what lies on disk: {mb(total)}: " + ", ".join(f"{kind} {mb(size)}" for kind, size in largest) + "\n")


def demo(directory, keep):
    cgroup = make_cgroup()
    server = Server(Path(directory) / "data", memory="64MB", cgroup=cgroup)
    try:
        server.start()
        say("server", f"ramlet serve --memory 64MB on {server.url}" + (f", in a memory cgroup of {mb(LIMIT)}" if cgroup else ""))
        import_images(server, directory)
        queries, (all_images, label_3) = fashion_mnist.queries(), fashion_mnist.truth()
        recall = measure(server, "search", queries, all_images, {})
        measure(server, "exact", queries, all_images, {"params": {"exact": True}})
        only_3 = {"filter": {"must": [{"key": "label", "match": {"value": 3}}]}}
        measure(server, "label = 3", queries, label_3, only_3)
        report_memory(server, cgroup)
        report_disk(server)
        if recall < 0.9:
            raise SystemExit(f"recall@{K} is {recall:.4f}: below the 0.9 that the demo stands for")
        print("Go on: target/release/ramlet serve --memory 135MB     the Qdrant API on http://localhost:6333")
        print("       target/release/ramlet import FILE --collection NAME     .npy .fvecs .fbin .hdf5 .jsonl")
        print("The page at /dashboard shows what the RAM is used for. From Python: pip install qdrant-client, and point it at that address.")
        if keep:
            input("The server runs until Enter is pressed. ")
    finally:
        server.kill()
        if cgroup:
            cgroup.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the server running until Enter is pressed")
    arguments = parser.parse_args()
    # As Ctrl-C: through all the `finally`s.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="ramlet-demo-") as directory:
            demo(directory, arguments.keep)
    except KeyboardInterrupt:
        print("\nstopped; nothing is left behind")
        sys.exit(130)


if __name__ == "__main__":
    main()
