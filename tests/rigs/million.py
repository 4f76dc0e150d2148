#!/usr/bin/env python3
"""A million vectors inside a budget, side by side with hnswlib that has all of it in RAM: the acceptance table of the index.

    tests/rigs/million.py --work DIR                          hard set, 1M x 100, 300/135/64/32/16 MB; DIR keeps sets and indexes
    tests/rigs/million.py --work DIR --set easy
    tests/rigs/million.py --work DIR --parts filtered,updates
    tests/rigs/million.py --work DIR --rows 1000000 --dims 768 --memory 512MB --parts curve --no-peer
    tests/rigs/million.py --work DIR --rows 10000000 --dims 96 --element u8 --memory 1GB --queries 1000 --parts curve --no-peer

Needs a Rust toolchain, and rights to make a memory cgroup. Each of our runs is a process of its own in a cgroup of exactly the budget, its page
cache dropped before. The peer (a venv with hnswlib, made on demand) is built once and saved; it sleeps while we run and takes its turn after. Writes
a JSON record and the table to records/, and prints the table. How to read it: docs/measuring.md.
"""

import argparse
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import MemoryCgroup  # noqa: E402
from rigs.curves import RATIOS, READS, REACHABLE, SPEEDS, Table, at_recall  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("ram_peers.py")
PARTS = ["aa", "curve", "single", "filtered", "updates", "soak"]
RECALLS = (0.90, 0.95, 0.98, 0.99)
SHARES = (0.5, 0.1, 0.01, 0.001)


# The bench has the C library's allocator, as a program that embeds the engine may. Unless it is told to, that one keeps what was freed (docs/memory.md,
# "The allocator").
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}


def say(*words):
    print(f"[{time.strftime('%H:%M:%S')}]", *words, file=sys.stderr, flush=True)


def size(text):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("GB", 10**9), ("MB", 10**6)):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * scale)
    return int(text)


class Budget:
    """Memory, search threads (0: as the engine chooses), and the index when it isn't the engine's choice: `135MB`, `135MB:4`, `16MB::hnsw`."""

    def __init__(self, text, threads):
        self.memory, own, index = (text.split(":") + ["", ""])[:3]
        self.threads, self.index = int(own or threads), index
        self.bytes = size(self.memory)
        self.label = f"{self.memory} {index}".strip()
        # The index is a setting of the vector.
        self.options = ["--config", json.dumps({"index": index})] if index else []


class Programs:
    """Our binaries, built and copied: a copy is charged to the group that runs it, as on a machine of its own."""

    def __init__(self, work, prebuilt):
        self.tool = ROOT / "target" / "release" / "ramlet-bench"
        if not prebuilt:
            self._cargo("build", "--release", "-p", "ramlet-bench")
        million = prebuilt or self._million()
        # Of this run alone: another may begin in the same directory.
        self.million = work / f"million-{os.getpid()}"
        shutil.copy2(million, self.million)
        atexit.register(self.million.unlink, missing_ok=True)

    def _cargo(self, *arguments):
        return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _million(self):
        out = self._cargo("bench", "-p", "ramlet", "--bench", "million", "--no-run", "--message-format=json")
        for line in out.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == "million":
                return message["executable"]
        raise SystemExit("cargo built no bench `million`")

    def ask(self, *arguments, given=None):
        """Runs `ramlet-bench`; returns what it prints."""
        done = subprocess.run([self.tool, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True, input=given)
        return done.stdout


def without_directories(arguments):
    """What was asked, for a record: where this machine keeps things is nobody's business."""
    return {name: Path(value).name if isinstance(value, str) and "/" in value else value for name, value in vars(arguments).items()}


def drop_caches(wanted):
    """Whether the page cache was dropped: needs root."""
    if not wanted:
        return False
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        return False


class Ours:
    """Our engine in a cgroup: a process a run."""

    def __init__(self, programs, set_prefix, dims, drop, extra):
        self.programs, self.set, self.dims, self.drop, self.extra = programs, set_prefix, dims, drop, extra

    def run(self, step, directory, budget, *options):
        """Lines that the bench printed, as dicts, and what the kernel said of its memory."""
        command = [str(self.programs.million), step, str(self.set), str(directory)]
        command += ["--memory", budget.memory, "--threads", str(budget.threads), "--dims", str(self.dims), *self.extra]
        command += map(str, options)
        dropped = drop_caches(self.drop)
        with MemoryCgroup(budget.bytes) as group:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=group.enter, env={**MALLOC, **os.environ})
            kernel = {
                "cgroup_bytes_max": group.peak(), "oom_kills": group.oom_kills(), "limit_met": group.failcnt(),
                "cgroup": "v2" if group.v2 else "v1", "caches_dropped": dropped,
            }  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0:
            kernel["failed"] = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            say(f"{step} in {budget.label} failed: {kernel['failed']}")
        return lines, kernel

    def curve(self, directory, budget, *options):
        lines, kernel = self.run("search", directory, budget, *options)
        points = [line for line in lines if line["step"] == "search"]
        opened = next((line for line in lines if line["step"] == "open"), None)
        return {"opened": opened, "points": points, "kernel": kernel}


class Peer:
    """hnswlib in a process of its own that answers line by line."""

    def __init__(self, work, set_prefix, info, threads):
        self.python = work / "venv" / "bin" / "python"
        if not self.python.exists():
            say("making a venv with hnswlib and numpy")
            subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
            subprocess.run([self.python, "-m", "pip", "install", "-q", "hnswlib", "numpy"], check=True)
        self.index = Path(f"{set_prefix}.hnsw")
        element, self.threads = info["element"], threads
        shape = ["--dim", str(info["dims"]), "--element", element]
        if not Path(f"{self.index}.json").exists():
            say("building hnswlib's index: minutes")
            metric = {"cosine": "cosine", "euclid": "l2"}[info["metric"]]
            base = f"{set_prefix}.base.{element}"
            command = [self.python, PEER, "build", base, self.index, "--metric", metric, "--threads", str(threads), *shape]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files = [f"{set_prefix}.query.{element}", f"{set_prefix}.gt.i32", "--truth-width", str(info["truth_width"])]
        command = [self.python, PEER, "serve", self.index, *files, *shape]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.built = json.loads(self.process.stdout.readline())

    def curve(self, efs, seconds, threads=None):
        points = []
        for ef in efs:
            asked = {"ef": ef, "threads": threads or self.threads, "seconds": seconds}
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            points.append(json.loads(self.process.stdout.readline()))
        return points

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Rig:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = Path(arguments.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.programs = Programs(self.work, arguments.million)
        self.set, self.info = self.prepare_set()
        extra = ["--queries", str(arguments.queries)] + (["--datatype", arguments.datatype] if arguments.datatype else [])
        self.ours = Ours(self.programs, self.set, self.info["dims"], not arguments.keep_caches, extra)
        self.budgets = [Budget(part, arguments.threads) for part in arguments.memory.split(",")]
        # What has one budget in the issue.
        self.main = next((b for b in self.budgets if b.memory == "135MB"), self.budgets[0])
        self.efs = arguments.ef.split(",")
        self.table = Table()
        self.results = {"arguments": without_directories(arguments), "set": self.info, "loads": {}}
        self.peer = None

    def prepare_set(self):
        """The set's prefix and what it is; made when it isn't there."""
        a = self.arguments
        prefix = a.data or str(self.work / f"{a.set}-{a.rows}x{a.dims}{'' if a.element == 'f32' else a.element}-{a.seed}")
        info_path = Path(prefix + ".json")
        if not info_path.exists() and not Path(f"{prefix}.base.{a.element}").exists():
            say(f"making {prefix}")
            shape = ["--rows", a.rows, "--dims", a.dims, "--queries", a.queries, "--seed", a.seed, "--set", a.set, "--element", a.element]
            self.programs.ask("make", prefix, *shape)
        if info_path.exists():
            return prefix, json.loads(info_path.read_text())
        # Someone else's: unit rows of f32, as `Set::open` takes them.
        row = a.dims * 4
        files = [Path(f"{prefix}.{part}.f32").stat().st_size // row for part in ("base", "query")]
        return prefix, {"rows": files[0], "queries": files[1], "dims": a.dims, "element": "f32", "metric": "cosine", "truth_width": 100}

    def directory(self, name):
        """Of a collection; named after the set, so that two sets don't meet."""
        parent = Path(self.arguments.data_dir or tempfile.gettempdir())
        return parent / f"ramlet-million-{Path(self.set).name}-{name}"

    def load(self, budget, name, *options):
        """A collection loaded inside the budget, once a run of the rig."""
        directory = self.directory(name)
        if name not in self.results["loads"]:
            if self.arguments.reuse and directory.exists():
                say(f"{directory} is taken as it is")
                self.results["loads"][name] = None
                return directory
            shutil.rmtree(directory, ignore_errors=True)
            say(f"loading {self.info['rows']} rows inside {budget.label}")
            lines, kernel = self.ours.run("load", directory, budget, *budget.options, *options)
            load = {"memory": budget.memory, "kernel": kernel, **(lines[-1] if lines else {})}
            self.results["loads"][name] = load
            say("loaded:", *(f"{step} {load[step]['seconds']} s ({load[step]['cpu_s']} s of CPU)" for step in ("ingest", "build") if load.get(step)))
        return directory

    def loaded(self, budget):
        return self.load(budget, budget.label.replace(" ", "-"), "--stored")

    def with_peer(self):
        if self.peer is None and not self.arguments.no_peer:
            self.peer = Peer(self.work, self.set, self.info, self.arguments.peer_threads)
            self.results["peer"] = self.peer.built
        return self.peer

    def search_options(self):
        return ["--ef", ",".join(self.efs), "--seconds", self.arguments.seconds]

    # --- parts ---------------------------------------------------------------------------------------------------------

    def aa(self):
        """The same thing on both sides: how far apart two runs lie by themselves."""
        directory, memory = self.loaded(self.main), self.main.label
        sides = {"a": [], "b": []}
        for turn in range(self.arguments.repeats):
            for side in sides.values():
                say(f"A/A, turn {turn + 1}")
                side.append(self.ours.curve(directory, self.main, *self.search_options())["points"])
        self.results["aa"] = sides
        pairs = {}
        for at, ef in enumerate(self.efs):
            figures = {side: [turn[at]["queries_per_s"] for turn in turns if at < len(turn)] for side, turns in sides.items()}
            if figures["a"] and len(figures["a"]) == len(figures["b"]):
                pairs[ef] = figures
        compared = self.compare(pairs)
        self.results["aa_compared"] = compared
        for ef, of in compared.items():
            self.table.add(f"A/A {memory} ef {ef}: ratio of two equal runs, median", of["ratio"]["ratio"])
        noise = [abs(of["ratio"][end] - 1) for of in compared.values() for end in ("ratio_least", "ratio_most")]
        self.table.add("A/A: farthest from 1 in any turn", max(noise, default=None))

    def compare(self, pairs):
        return json.loads(self.programs.ask("compare", given=json.dumps(pairs))) if pairs else {}

    def curve(self):
        """Recall against speed in every budget; ours and the peer's in turns."""
        a, rounds = self.arguments, []
        directories = [self.loaded(budget) for budget in self.budgets]
        peer = self.with_peer()
        for turn in range(a.repeats):
            for directory, budget in zip(directories, self.budgets):
                say(f"turn {turn + 1} of {a.repeats}: {budget.label}")
                ours = self.ours.curve(directory, budget, *self.search_options())
                theirs = peer.curve([int(ef) for ef in a.peer_ef.split(",")], a.seconds) if peer else []
                rounds.append({"turn": turn, "budget": budget.label, "ours": ours, "peer": theirs})
        self.results["curve"] = rounds
        self.judge_builds()
        for budget in self.budgets:
            self.judge(budget, [r for r in rounds if r["budget"] == budget.label])

    def judge_builds(self):
        peer_cpu = self.results.get("peer", {}).get("build_cpu_s")
        standard = (self.info["rows"], self.info["dims"])
        for name, load in self.results["loads"].items():
            if load and "total" not in load:
                self.table.add(f"{name}: loaded inside {load['memory']}", 0, 1)
            if not load or not load.get("build"):
                continue
            wanted = {(1_000_000, 100): 60, (1_000_000, 768): 480}.get(standard) if load["memory"] in ("135MB", "512MB") else None
            self.table.add(f"{name}: build from stored vectors", load["build"]["seconds"], wanted, least=False, unit="s")
            self.table.add(f"{name}: ingest until durable", load["ingest"]["seconds"], unit="s")
            self.table.add(f"{name}: load, most in the cgroup", load["kernel"]["cgroup_bytes_max"] / 1e6, unit="MB")
            if peer_cpu and load["build"]["cpu_s"] > 0:
                wanted = 10 if load["memory"] == "135MB" and standard == (1_000_000, 100) else None
                self.table.add(f"{name}: hnswlib's CPU to build / ours", peer_cpu / load["build"]["cpu_s"], wanted, unit="x")

    def judge(self, budget, rounds):
        memory, mb, kind = budget.label, budget.bytes // 10**6, self.arguments.set
        curves = [r["ours"]["points"] for r in rounds]
        best = max((p["recall_at_10"] for points in curves for p in points), default=None)
        self.table.add(f"{memory}: most recall reached", best, 0.99 if mb in REACHABLE[0.99] else None)
        pairs = {}
        for recall in RECALLS:
            ours = [at_recall(points, recall) for points in curves]
            theirs = [at_recall(r["peer"], recall) for r in rounds]
            reads = [at_recall(points, recall, "reads_per_query") for points in curves]
            if None in ours:
                self.table.add(f"{memory} recall {recall:.2f}: queries/s", None, SPEEDS.get(kind, {}).get((mb, recall)))
                if wanted := RATIOS.get(kind, {}).get((mb, recall)):
                    self.table.add(f"{memory} recall {recall:.2f}: of hnswlib in RAM", None, wanted, unit="x")
                continue
            middle = sorted(ours)[len(ours) // 2]
            self.table.add(f"{memory} recall {recall:.2f}: queries/s", middle, SPEEDS.get(kind, {}).get((mb, recall)))
            self.table.add(f"{memory} recall {recall:.2f}: reads a query", reads[0], READS.get((mb, recall)), least=False)
            if theirs and None not in theirs:
                pairs[f"{recall:.2f}"] = {"a": theirs, "b": ours}
        for recall, of in self.compare(pairs).items():
            wanted = RATIOS.get(kind, {}).get((mb, float(recall)))
            self.table.add(f"{memory} recall {recall}: of hnswlib in RAM", of["ratio"]["ratio"], wanted, unit="x")
            self.results.setdefault("compared", {})[f"{memory} {recall}"] = of
        kernels = [r["ours"]["kernel"] for r in rounds]
        self.table.add(f"{memory}: most in the cgroup", max(k["cgroup_bytes_max"] or 0 for k in kernels) / 1e6, mb, least=False, unit="MB")
        self.table.add(f"{memory}: OOM kills", sum(k["oom_kills"] for k in kernels), 0, least=False)

    def single(self):
        """One query in flight: latency."""
        directory, memory = self.loaded(self.main), self.main.label
        curve = self.ours.curve(directory, self.main, *self.search_options(), "--in-flight", 1)
        self.results["single"] = curve
        for quantile, wanted in (("p50", 0.4), ("p99", 0.7)):
            figure = at_recall(curve["points"], 0.94, f"latency_us_{quantile}")
            self.table.add(f"{memory} one in flight, recall 0.94: {quantile}", figure and figure / 1e3, wanted, least=False, unit="ms")

    def filtered(self):
        """Recall and speed under filters, beside comparing every row that matches."""
        count = min(self.arguments.filter_queries, self.info["queries"])
        shares = ",".join(map(str, SHARES))
        say("filtered truth")
        made = self.programs.ask("filters", self.set, "--dims", self.info["dims"], "--queries", count, "--shares", shares)
        self.results["filters"] = [json.loads(line) for line in made.splitlines()]
        directory = self.load(self.main, f"payload-{self.main.memory}", "--payload")
        self.results["filtered"] = []
        for selection in ("random", "near", "far"):
            for share in SHARES:
                say(f"filter {selection} {share:.1%}")
                options = ["--filter", f"{selection}:{share}", "--queries", count, "--ef", "128", "--exact", "--seconds", 1]
                curve = self.ours.curve(directory, self.main, *options)
                self.results["filtered"].append({"selection": selection, "share": share, **curve})
                if len(curve["points"]) != 2:
                    self.table.add(f"filter {selection} {share:.1%}: recall", None, 0.95)
                    continue
                found, exact = curve["points"]
                self.table.add(f"filter {selection} {share:.1%}: recall", found["recall_at_10"], 0.95)
                self.table.add(f"filter {selection} {share:.1%}: recall of exact", exact["recall_at_10"], 0.999)
                ratio = found["queries_per_s"] / exact["queries_per_s"]
                self.table.add(f"filter {selection} {share:.1%}: speed / exact over the matching rows", ratio, 1, unit="x")

    def updates(self):
        """Half of the points replaced while it is searched, against a fresh build of the same."""
        fresh = self.ours.curve(self.loaded(self.main), self.main, *self.search_options())
        self.results["updates"] = {"fresh": fresh}
        for stale in ("mirrored", "swapped"):
            directory = self.directory(f"updated-{self.main.memory}")
            shutil.rmtree(directory, ignore_errors=True)
            say(f"replacing half of the points ({stale})")
            options = ["--replace", 0.5, "--stale", stale, "--searchers", 1, *self.main.options, *self.search_options()]
            lines, kernel = self.ours.run("update", directory, self.main, *options)
            shutil.rmtree(directory, ignore_errors=True)
            points = [line for line in lines if line["step"] == "search"]
            self.results["updates"][stale] = {"lines": lines, "kernel": kernel}
            same = [(f, p) for f in fresh["points"] for p in points if f.get("ef") == p.get("ef")]
            lost = max((f["recall_at_10"] - p["recall_at_10"] for f, p in same), default=None)
            self.table.add(f"50 % replaced ({stale}): recall lost against a fresh build", lost, 0.01, least=False)
            for what in ("codes", "reads"):
                dearer = [p[f"{what}_per_query"] / max(f[f"{what}_per_query"], 1) for f, p in same]
                self.table.add(f"50 % replaced ({stale}): {what} / those of a fresh build", max(dearer, default=None), 1.15, least=False, unit="x")
            meanwhile = next((line["searched_meanwhile"] for line in lines if line["step"] == "update"), None)
            self.table.add(f"50 % replaced ({stale}): queries/s meanwhile", meanwhile and meanwhile["queries_per_s"])
            self.table.add(f"50 % replaced ({stale}): p99 meanwhile", meanwhile and meanwhile["latency_us_p99"] / 1e3, unit="ms")
            self.table.add(f"50 % replaced ({stale}): most in the cgroup", kernel["cgroup_bytes_max"] / 1e6, self.main.bytes / 1e6, least=False, unit="MB")
            self.table.add(f"50 % replaced ({stale}): OOM kills", kernel["oom_kills"], 0, least=False)

    def soak(self):
        """Minutes of load in the smallest budget."""
        budget = min(self.budgets, key=lambda b: b.bytes)
        directory, memory = self.loaded(budget), budget.label
        curve = self.ours.curve(directory, budget, "--ef", self.efs[len(self.efs) // 2], "--seconds", self.arguments.soak_seconds)
        self.results["soak"] = curve
        seconds = sum(p["seconds"] for p in curve["points"])
        self.table.add(f"{memory}: seconds under load", seconds, self.arguments.soak_seconds, unit="s")
        self.table.add(f"{memory}: OOM kills under load", curve["kernel"]["oom_kills"], 0, least=False)

    # --- the whole -----------------------------------------------------------------------------------------------------

    def run(self):
        try:
            for part in self.arguments.parts.split(","):
                getattr(self, part)()
        except BaseException:
            # What was measured until then.
            print(self.table.text())
            raise
        finally:
            if self.peer:
                self.peer.close()
            if not self.arguments.reuse:
                for name in self.results["loads"]:
                    shutil.rmtree(self.directory(name), ignore_errors=True)
        self.results["table"] = self.table.rows
        text = self.table.text()
        print(text)
        if not self.arguments.no_record:
            name = self.arguments.name or f"million-{self.arguments.set}"
            record = ["record", name, "--root", self.arguments.records, "--disk", self.work]
            path = Path(self.programs.ask(*record, given=json.dumps(self.results)).strip())
            path.with_suffix(".txt").write_text(text + "\n")
            say(f"written to {path}")
        return self.table.missed()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="directory for sets, the peer's venv and its index; kept")
    parser.add_argument("--data-dir", help="where the collections are made: on the disk to be measured [default: the temporary directory]")
    parser.add_argument("--data", help="prefix of a set that is there, instead of one made")
    parser.add_argument("--set", default="hard", choices=["hard", "easy"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dims", type=int, default=100)
    parser.add_argument("--element", default="f32", choices=["f32", "u8"])
    parser.add_argument("--datatype", help="how we store it: float32, float16, uint8 [default: as it comes]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--memory", default="300MB,135MB,64MB,32MB,16MB", help="budgets; 64MB:6 gives one its own number of threads, 16MB::hnsw an index")
    parser.add_argument("--threads", type=int, default=0, help="our search threads; 0: as the engine chooses for the budget")
    parser.add_argument("--ef", default="16,32,64,128,256,512,1024", help="our efforts: 128 is calibrated")
    parser.add_argument("--peer-ef", default="100,200,400,800,1200,2000,4000")
    parser.add_argument("--peer-threads", type=int, default=2)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--parts", default="aa,curve,single", help=f"of {','.join(PARTS)}; or all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each setting, and at least one pass over the queries")
    parser.add_argument("--filter-queries", type=int, default=200, help="of each filter: an exact search of a tenth of the rows takes half a second")
    parser.add_argument("--soak-seconds", type=float, default=600)
    parser.add_argument("--reuse", action="store_true", help="keep collections, and take those that are there")
    parser.add_argument("--keep-caches", action="store_true", help="don't drop the machine's page cache before each run: for trials beside other work")
    parser.add_argument("--million", help="the bench's executable, instead of building it")
    parser.add_argument("--records", default=str(ROOT / "records"))
    parser.add_argument("--name", help="of the record [default: million-SET]")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    if arguments.parts == "all":
        arguments.parts = ",".join(PARTS)
    unknown = set(arguments.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    # So that a cgroup isn't left behind, nor what runs in it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    missed = Rig(arguments).run()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
