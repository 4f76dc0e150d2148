#!/usr/bin/env python3
"""What `POST /plan` tells against what a server builds in that memory: the index, its codes, disk, RAM, reads and speed, cell by cell.

    tests/rigs/planned.py --work DIR                                  a sample of the grid, about half an hour
    tests/rigs/planned.py --work DIR --points 3000,20000 --dims 768,1536 --memory 16,24,32,64 --elements f32,f16,u8
    tests/rigs/planned.py --work DIR --all --bytes-max 20000000000    the whole grid: days
    tests/rigs/planned.py --work DIR --minutes 20 --seed 3            as many cells, drawn at random, as fit into 20 minutes

Each cell is a server in a cgroup of exactly its budget, an empty data directory, `ramlet import` and searches over 16 connections.
DIR keeps the made-up sets. A line tells what differs: the kind of index, codes, disk (20 %), RAM (5 % and 1 MB), reads a query (10 % and one
read), recall (.02 below the target), status. Where rows are read in sequence their bytes count, not the reads. Speed is told beside what is
planned over HTTP; other work on the machine weighs on it, so it is judged with --speed alone. Lines in which more memory is slower than less
are marked too. Ends with 1 where a line differs.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import CannotMake, MemoryCgroup  # noqa: E402
from harness.server import Server, binary  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
C = "planned"
POINTS = [3_000, 20_000, 60_000, 200_000, 1_000_000]
DIMS = [32, 100, 384, 768, 1_024, 1_536, 4_096]
MEMORY = [16, 18, 20, 24, 28, 32, 40, 48, 64, 96, 135, 192, 256, 384, 512]
ELEMENTS = {"f32": ("float32", 4), "f16": ("float16", 2), "u8": ("uint8", 1)}
SLOWER = 0.85
# Exact answers have at least so much of an index's speed.
EXACT = 0.5
CONNECTIONS = 16
# What lies in the write buffer yet.
LAST_SEGMENT = 1_000_000


def tool():
    return ROOT / "target" / "release" / "ramlet-bench"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def made(work, points, dims, element):
    """Prefix of a hard set of so many rows, made once; half floats are loaded from floats."""
    stored = "u8" if element == "u8" else "f32"
    prefix = work / f"hard-{points}x{dims}-{stored}"
    if not Path(f"{prefix}.json").exists():
        shape = ["--rows", points, "--dims", dims, "--queries", 300, "--truth", 10, "--clusters", max(64, points * 15 // 1000)]
        run(tool(), "make", prefix, *shape, "--element", stored, "--bin")
    return prefix, Path(f"{prefix}.{'u8bin' if stored == 'u8' else 'fbin'}")


def profile(work):
    """The machine's figures, measured once: a server that finds none measures ten seconds after its start, in the midst of the searches."""
    path = work / "machine.json"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=work) as directory, Server(Path(directory) / "data", memory="135MB") as server:
            measured = server.data / "machine.json"
            while not measured.exists():
                time.sleep(0.5)
            time.sleep(0.5)
            path.write_bytes(measured.read_bytes())
    return path


def settled(http, seconds=900):
    still, before, end = 0, None, time.monotonic() + seconds
    while time.monotonic() < end:
        info = http.result("GET", f"/collections/{C}")
        # What is cached comes by and by.
        held = sum(part["pinned_bytes"] for part in built_parts(http))
        now = (info["status"], info["segments_count"], info["indexed_vectors_count"], held)
        still = still + 1 if now == before and info["status"] != "yellow" else 0
        before = now
        if still == 8:
            return info
        time.sleep(0.5)
    raise RuntimeError(f"not settled after {seconds} s: {before}")


def counted(server):
    """Searches, their reads and the bytes of these since the start."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    names = ("ramlet_searches_total", "ramlet_search_reads_total", "ramlet_search_read_bytes_total")
    return [int(re.search(rf"^{name} (\d+)$", text, re.MULTILINE).group(1)) for name in names]


def searched(server, prefix, dims, seconds):
    """Figures of searches with the default effort, after as many that fill the caches. One connection a thread would measure how long threads
    sleep: more are open at once."""
    out = server.data.parent / "search.json"
    command = [binary(), "bench", "search", "--url", server.url, "--collection", C, "--data", prefix, "--dims", dims, "--ef", "default", "--queries", 300]
    command += ["--seconds", seconds, "--connections", CONNECTIONS, "--pid", server.process.pid, "--json", out]
    run(*command)
    before = counted(server)
    run(*command)
    searches, reads, read = (now - then for now, then in zip(counted(server), before, strict=True))
    figures = {"reads_per_query": reads / searches, "read_bytes_per_query": read / searches}
    return json.loads(out.read_text())["results"]["runs"][0] | figures


def built_parts(http):
    parts = http.result("GET", f"/collections/{C}/memory")["components"]
    return [part for part in parts if part["component"].startswith("vector")]


def near(found, wanted, share, slack=0.0):
    return abs(found - wanted) <= share * wanted + slack


class Cell:
    def __init__(self, points, dims, element, memory):
        self.points, self.dims, self.element, self.memory = points, dims, element, memory
        self.bytes = points * dims * ELEMENTS[element][1]
        self.differs, self.figures = [], {}

    def __str__(self):
        return f"{self.points}x{self.dims} {self.element} {self.memory}MB"

    def judge(self, what, is_so):
        if not is_so:
            self.differs.append(what)

    def run(self, work, seconds, with_speed):
        prefix, base = made(work, self.points, self.dims, self.element)
        metric = "Euclid" if self.element == "u8" else "Cosine"
        datatype = ELEMENTS[self.element][0]
        with tempfile.TemporaryDirectory(dir=work) as directory, MemoryCgroup(self.memory * 1_000_000) as group:
            server = Server(Path(directory) / "data", memory=f"{self.memory}MB", cgroup=group)
            server.data.mkdir()
            (server.data / "machine.json").write_bytes(profile(work).read_bytes())
            with server:
                http = server.http(timeout=300)
                asked = {"points": self.points, "dims": self.dims, "element": datatype, "metric": metric}
                answer = http.result("POST", "/plan", asked)
                vectors = {"size": self.dims, "distance": metric, "datatype": datatype}
                http.call("PUT", f"/collections/{C}", {"vectors": vectors})
                started = time.monotonic()
                run(binary(), "import", base, "--collection", C, "--url", server.url)
                info = settled(http)
                self.figures["load_s"] = round(time.monotonic() - started, 1)
                run_figures = searched(server, prefix, self.dims, seconds)
                self.compare(answer["plan"], info, built_parts(http), run_figures, http.result("GET", "/issues")["issues"], with_speed)
                self.judge("OOM kill", group.oom_kills() == 0)
                http.close()

    def compare(self, plan, info, parts, run, issues, with_speed):
        codes = [issue["code"] for issue in issues]
        self.judge(f"status {info['status']} {codes}", info["status"] == "green" and codes == [])
        kinds = {part["kind"] for part in parts}
        # Few points may still lie in the write buffer, which is searched as rows without an index are.
        in_buffer = plan["index"] == "flat" and not kinds
        self.judge(f"index {plan['index']} planned, {sorted(kinds)} built", in_buffer or plan["index"] in kinds)
        if plan["index"] != "flat":
            indexed = info["indexed_vectors_count"]
            self.judge(f"{indexed} indexed", indexed * self.dims * 4 > self.points * self.dims * 4 - 10_300_000)
        others = ("ids", "payload")
        planned = [part for part in plan["components"] if part["component"] not in others]
        disk = [sum(part["disk_bytes"] for part in of) for of in (planned, parts)]
        ram = [sum(part["ram_bytes"] for part in planned), sum(part["heap_bytes"] + part["pinned_bytes"] for part in parts)]
        self.judge(f"disk {disk[0] / 1e6:.1f} planned, {disk[1] / 1e6:.1f} MB", in_buffer or near(disk[1], disk[0], 0.2, LAST_SEGMENT))
        self.judge(f"RAM {ram[0] / 1e6:.2f} planned, {ram[1] / 1e6:.2f} MB", in_buffer or near(ram[1], ram[0], 0.05, LAST_SEGMENT))
        self.judge(f"recall {run['recall']:.3f}", run["recall"] >= 0.93)
        reads, scanned = run["reads_per_query"], plan["scan_bytes_per_query"]
        if scanned:
            # Reads of a scan are as long as its buffers: their bytes are planned.
            read = run["read_bytes_per_query"] - 4096 * plan["reads_per_query"]
            self.judge(f"{scanned / 1e6:.1f} MB scanned planned, {read / 1e6:.1f}", near(read, scanned, 0.1, LAST_SEGMENT))
        else:
            self.judge(f"reads {plan['reads_per_query']:.1f} planned, {reads:.1f}", near(reads, plan["reads_per_query"], 0.1, 1.0))
        if with_speed:
            self.judge(f"{plan['qps']:.0f} planned, {run['queries_per_s']:.0f} queries/s", near(run["queries_per_s"], plan["qps"], 0.3))
        self.figures |= {
            "index": plan["index"], "layout": plan["layout"], "kinds": sorted(kinds), "indexed": info["indexed_vectors_count"],
            "disk_mb": [round(b / 1e6, 2) for b in disk], "ram_mb": [round(b / 1e6, 2) for b in ram], "recall": round(run["recall"], 4),
            "reads": [round(plan["reads_per_query"], 2), round(reads, 2)],
            "qps": [round(plan["qps"]), round(run["queries_per_s"])], "segments": info["segments_count"],
            "issues": issues, "cpu_us": run.get("server_cpu_us_per_query"), "parts": parts, "planned": plan["components"],
        }  # fmt: skip


def slower_with_more(cells):
    """Pairs of neighbouring budgets where the larger one searches more slowly, and doesn't compare all vectors where the other has an index."""
    found, last = [], {}
    for cell in sorted(cells, key=lambda c: (c.points, c.dims, c.element, c.memory)):
        if "qps" not in cell.figures:
            continue
        key = (cell.points, cell.dims, cell.element)
        before = last.get(key)
        becomes_exact = before and before.figures["index"] != "flat" and cell.figures["index"] == "flat"
        least = EXACT if becomes_exact else SLOWER
        if before and cell.figures["qps"][1] < least * before.figures["qps"][1]:
            found.append(f"{cell}: {cell.figures['qps'][1]} queries/s, {before.figures['qps'][1]} with {before.memory} MB")
        last[key] = cell
    return found


def numbers(text):
    return [int(part) for part in text.split(",")]


def cells_of(arguments):
    cells = [
        Cell(points, dims, element, memory)
        for points in arguments.points for dims in arguments.dims for element in arguments.elements.split(",") for memory in arguments.memory
    ]  # fmt: skip
    cells = [cell for cell in cells if cell.bytes <= arguments.bytes_max]
    if arguments.all or arguments.given:
        return cells
    random.Random(arguments.seed).shuffle(cells)
    return cells


def line_of(cell):
    f = cell.figures
    told = "  ".join(cell.differs) or "ok"
    if "index" not in f:
        return f"{cell!s:28} {told}"
    (qps_planned, qps), (reads_planned, reads) = f["qps"], f["reads"]
    built = f"{f['index']:5}{f['layout']:18} qps {qps_planned:6}{qps:6}  reads {reads_planned:7}{reads:8}  recall {f['recall']:.3f}  {f['load_s']:5} s"
    return f"{cell!s:28} {built}  {told}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--points", type=numbers)
    parser.add_argument("--dims", type=numbers)
    parser.add_argument("--memory", type=numbers, help="MB")
    parser.add_argument("--elements", default="f32,f16,u8")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--bytes-max", type=int, default=700_000_000, help="sets of more bytes are left out, and that is said")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=2.0, help="of searches, a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", action="store_true", help="on an idle machine: speed counts too")
    parser.add_argument("--out", type=Path, help="JSON of all cells")
    arguments = parser.parse_args()
    arguments.given = any((arguments.points, arguments.dims, arguments.memory))
    arguments.points, arguments.dims, arguments.memory = arguments.points or POINTS, arguments.dims or DIMS, arguments.memory or MEMORY
    arguments.work.mkdir(parents=True, exist_ok=True)
    cells = cells_of(arguments)
    end = None if arguments.all or arguments.given else time.monotonic() + arguments.minutes * 60
    done = []
    for cell in cells:
        if end and time.monotonic() > end:
            break
        try:
            cell.run(arguments.work, arguments.seconds, arguments.speed)
        except CannotMake as why:
            raise SystemExit(f"no memory cgroup can be made here: {why}") from None
        except (RuntimeError, OSError, AssertionError) as why:
            cell.differs.append(f"failed: {why}")
        done.append(cell)
        print(line_of(cell), flush=True)
    slower = slower_with_more(done)
    for line in slower:
        print("slower with more memory:", line)
    wrong = [cell for cell in done if cell.differs]
    print(f"{len(done)} cells of {len(cells)} within {arguments.bytes_max / 1e6:.0f} MB, {len(wrong)} differ, {len(slower)} slower with more memory")
    if arguments.out:
        lines = [{"cell": str(cell), "differs": cell.differs, **cell.figures} for cell in done]
        arguments.out.write_text(json.dumps(lines, indent=1) + "\n")
    raise SystemExit(1 if wrong or slower else 0)


if __name__ == "__main__":
    main()
