#!/usr/bin/env python3
"""Searching texts: the engine in process against bare tantivy, over the same documents and queries, in turns.

    python3 tests/rigs/texts.py --work /var/tmp/texts                                   # 500,000 made-up documents
    python3 tests/rigs/texts.py --work /var/tmp/texts --docs passages.jsonl.gz          # a file's; see `ramlet bench text --help`

Then ours from SSD (--share): opened with a fifth of the bytes of the collection's files as its whole memory, the engine's own included, asked by more clients than cores,
so that one computes while another waits. It is compared with itself in --memory, warm: each pass that counts comes after one that doesn't.

Kinds: one word, any word, all words, phrases; the best 20 with their documents, and with --ids-only without. Both indexes lie under --work; the peer's is
mapped and in the page cache, ours is opened with --memory. A ratio is of medians over the turns. The peer, tests/rigs/tantivy-peer, is built there on first use.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
WANTED = 0.9
WANTED_FROM_DISK = 0.85


def say(*words):
    print("--", *words, file=sys.stderr, flush=True)


def lines(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{command[0]} failed")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def built(arguments, directory, **environment):
    """The executable that a cargo command makes."""
    command = ["cargo", *arguments, "--message-format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=directory, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed")
    messages = map(json.loads, done.stdout.splitlines())
    return [message["executable"] for message in messages if message.get("executable")][-1]


def index_bytes(directory):
    """Files of segments, documents included; what the log has beside them is left out."""
    return sum(path.stat().st_size for path in Path(directory).rglob("[0-9]*.*") if path.is_file())


def from_disk(a, asked, results, ours, directory):
    """Lines of a table, and how many ratios are too small."""
    memory = max(int(index_bytes(directory) * a.share), a.share_least * 10**6)
    results["share"] = {"memory": memory, "index_bytes": index_bytes(directory), "runs": []}
    asked = [*asked, "--clients", f"{a.share_clients},{max(map(int, a.threads.split(',')))}"]
    for turn in range(a.repeats):
        for side, given in {"disk": memory, "ram": a.memory}.items():
            say(f"turn {turn + 1} of {a.repeats}: {side}, {given}")
            command = [ours, "ask", *asked, "--memory", given, "--threads", a.share_clients]
            results["share"]["runs"] += [{"turn": turn, "from": side, **line} for line in lines(command)]
    text, missed = [f"from disk, {memory / 1e6:.0f} MB of memory for {index_bytes(directory) / 1e6:.0f} MB of index:"], 0
    for kind in a.kinds.split(","):
        runs = [run for run in results["share"]["runs"] if run.get("kind") == kind]
        best = {}
        for side in ("disk", "ram"):
            by_clients = {run["threads"]: [r["queries_per_s"] for r in runs if (r["from"], r["threads"]) == (side, run["threads"])] for run in runs}
            best[side] = max(median(speeds) for speeds in by_clients.values())
        ratio, reads = best["disk"] / best["ram"], median(run["reads_per_query"] for run in runs if run["from"] == "disk")
        missed += ratio < WANTED_FROM_DISK
        text.append(
            f"{kind:>7}  from disk {best['disk']:9.0f}/s  in RAM {best['ram']:9.0f}/s  ratio {ratio:5.2f}"
            f"{'' if ratio >= WANTED_FROM_DISK else f'  below {WANTED_FROM_DISK}'}   {reads:.1f} reads a query"
        )
    return text, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="directory for documents and indexes; kept")
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--docs", help="documents of a file instead of made-up ones")
    parser.add_argument("--field", default="body")
    parser.add_argument("--memory", default="2GB", help="our budget")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--kinds", default="term,any,all,phrase")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each kind, after a pass that isn't counted")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--ids-only", action="store_true", help="without the documents")
    parser.add_argument("--share", type=float, default=0.2, help="of the index that is the memory of the runs from disk; 0: none of them")
    parser.add_argument("--share-least", type=int, default=24, help="MB of memory at least: a small index is smaller than an engine")
    parser.add_argument("--share-clients", type=int, default=8, help="queries under way there, beside as many as --threads has")
    parser.add_argument("--no-peer", action="store_true", help="only the runs from disk")
    parser.add_argument("--records", default=str(ROOT / "records"))
    parser.add_argument("--name", default="texts", help="of the record")
    parser.add_argument("--no-record", action="store_true")
    a = parser.parse_args()

    work = Path(a.work)
    work.mkdir(parents=True, exist_ok=True)
    tool = built(["build", "--release", "-p", "ramlet-bench", "--bin", "ramlet-bench"], ROOT)
    ours = built(["bench", "--no-run", "-p", "ramlet", "--bench", "text"], ROOT)
    peer = None if a.no_peer else built(["build", "--release"], ROOT / "tests/rigs/tantivy-peer", CARGO_TARGET_DIR=str(work / "peer-build"))

    prefix = work / f"{Path(a.docs).name.split('.')[0] if a.docs else 'made'}-{a.documents}"
    if not Path(f"{prefix}.queries.jsonl").exists():
        say("writing documents and queries")
        source = ["--docs", a.docs] if a.docs else []
        subprocess.run([tool, "texts", prefix, "--documents", str(a.documents), "--field", a.field, *source], check=True, stdout=subprocess.DEVNULL)
    sides = {
        "tantivy": (peer, Path(f"{prefix}.tantivy"), []),
        "ramlet": (ours, Path(f"{prefix}.ramlet"), ["--memory", a.memory]),
    }
    if a.no_peer:
        del sides["tantivy"]
    results = {"documents": a.documents, "memory": a.memory, "limit": a.limit, "ids_only": a.ids_only, "index": [], "runs": []}
    for side, (program, directory, more) in sides.items():
        if not directory.exists():
            say(side, "indexes")
            results["index"] += lines([program, "index", prefix, directory, "--field", a.field, *more])
    kept = ["--kinds", a.kinds, "--seconds", a.seconds, "--limit", a.limit, "--field", a.field]
    kept += ["--ids-only"] if a.ids_only else []
    asked = [*kept, "--clients", a.threads]
    for turn in range(0 if a.no_peer else a.repeats):
        for side, (program, directory, more) in sides.items():
            say(f"turn {turn + 1} of {a.repeats}: {side}")
            results["runs"] += [{"turn": turn, **line} for line in lines([program, "ask", prefix, directory, *asked, *more])]

    missed, text = 0, []
    for threads in [] if a.no_peer else map(int, a.threads.split(",")):
        for kind in a.kinds.split(","):
            of = {
                side: [run for run in results["runs"] if (run.get("side"), run.get("kind"), run.get("threads")) == (side, kind, threads)]
                for side in sides
            }
            speed = {side: median(run["queries_per_s"] for run in runs) for side, runs in of.items()}
            hits = {side: median(run["hits_per_query"] for run in runs) for side, runs in of.items()}
            ratio = speed["ramlet"] / speed["tantivy"]
            missed += ratio < WANTED
            text.append(
                f"{kind:>7}  {threads} threads  ours {speed['ramlet']:9.0f}/s  tantivy {speed['tantivy']:9.0f}/s  ratio {ratio:5.2f}"
                f"{'' if ratio >= WANTED else f'  below {WANTED}'}   hits {hits['ramlet']:.2f} / {hits['tantivy']:.2f}"
            )
    if a.share:
        directory = sides["ramlet"][1]
        of_share, short = from_disk(a, [prefix, directory, *kept], results, ours, directory)
        text, missed = text + of_share, missed + short
    print("\n".join(text))
    if not a.no_record:
        record = [tool, "record", a.name, "--root", a.records, "--disk", str(work)]
        done = subprocess.run(record, input=json.dumps(results), stdout=subprocess.PIPE, text=True, check=True)
        path = Path(done.stdout.strip())
        path.with_suffix(".txt").write_text("\n".join(text) + "\n")
        say(f"written to {path}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
