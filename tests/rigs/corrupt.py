#!/usr/bin/env python3
"""One damaged file at a time: what the server says of it, and whether `ramlet check` finds it.

    tests/rigs/corrupt.py --minutes 5            as many cases as that allows, all combinations of file kind and damage first
    tests/rigs/corrupt.py --only log,CATALOG     of these kinds of files alone
    tests/rigs/corrupt.py --cases log:delete     of that damage alone; several, with commas between

A small data directory is made that has every kind of file, and kept as it is, and as it was at an earlier stage. Of a copy one file is damaged:
flipped bits, cut off, a page of zeros, two pages in each other's place, an older version, another file of the same kind, the file of the
same name of another collection, none at all.
Then `ramlet check` looks at it, a server is started on it, and questions are asked whose answers are known.

Fine: the start is refused with a sentence; a collection is closed; a question is refused with a sentence or its answer is cut off; all
answers are as they were. A violation: a panic, a signal, a hang, a wrong answer, and a collection that is gone. Prints a line for
each violation, then the counts; exit code 1 when there was one.
"""

import argparse
import collections
import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import kinds  # noqa: E402
from harness.http import Answer  # noqa: E402
from harness.server import Server, binary  # noqa: E402

PAGE, TIMEOUT_S = 4096, 20
DAMAGES = (
    "flip first page",
    "flip a page",
    "flip last page",
    "cut to nothing",
    "cut to a byte",
    "cut to a page",
    "cut half",
    "cut a page",
    "cut a byte",
    "zero first page",
    "zero a page",
    "zero all",
    "swap pages",
    "older version",
    "another file",
    "another collection's",
    "delete",
)
FINE = ("unaffected", "refused start", "closed collection", "refused question", "answer cut off")


def used(path, raw):
    """Bytes that mean something: a log has its length before it has records."""
    return max(len(raw.rstrip(b"\0")), 1) if kinds.kind_of(path) == "log" else len(raw)


def damaged(damage, path, raw, older, others, namesakes, rng):
    """`older`, `others` and `namesakes` read files, which only some damages need. The file's bytes afterwards; b"" is an empty file, None no file, and the bytes as they were: there is no such damage here."""
    pages = -(-used(path, raw) // PAGE)
    at = rng.randrange(pages) * PAGE

    def flipped(start):
        end = min(start + PAGE, used(path, raw))
        place = rng.randrange(start, max(end, start + 1))
        return raw[:place] + bytes([raw[place] ^ (1 << rng.randrange(8))]) + raw[place + 1 :] if place < len(raw) else raw

    def zeroed(start):
        return raw[:start] + bytes(min(PAGE, len(raw) - start)) + raw[start + PAGE :]

    if damage == "swap pages":
        other = rng.randrange(pages) * PAGE
        first, second = sorted((at, other))
        if first == second or second + PAGE > len(raw):
            return raw
        return raw[:first] + raw[second : second + PAGE] + raw[first + PAGE : second] + raw[first : first + PAGE] + raw[second + PAGE :]
    if damage in ("another file", "another collection's"):
        choices = [o for o in (others if damage == "another file" else namesakes)() if o != raw]
        # Of the same length, if there is one: others are told by that alone.
        choices = [o for o in choices if len(o) == len(raw)] or choices
        return rng.choice(choices) if choices else raw
    return {
        "flip first page": lambda: flipped(0),
        "flip a page": lambda: flipped(at),
        "flip last page": lambda: flipped((pages - 1) * PAGE),
        "cut to nothing": lambda: b"",
        "cut to a byte": lambda: raw[:1],
        "cut to a page": lambda: raw[:PAGE],
        "cut half": lambda: raw[: len(raw) // 2],
        "cut a page": lambda: raw[: max(len(raw) - PAGE, 0)],
        "cut a byte": lambda: raw[:-1],
        "zero first page": lambda: zeroed(0),
        "zero a page": lambda: zeroed(at),
        "zero all": lambda: bytes(len(raw)),
        "older version": lambda: raw if (before := older()) is None else before,
        "delete": lambda: None,
    }[damage]()


class Bench:
    """The sound directory, copies of it, and what a server makes of them."""

    def __init__(self, work, memory="64MB"):
        self.work, self.memory = Path(work), memory
        self.built = kinds.build(Server(self.work / "built", memory, ["--no-probe"]), self.work)
        self.questions = kinds.questions(self.built)
        self.sound, self.older = self.work / "sound", self.work / "older"
        self.files = sorted(p.relative_to(self.sound) for p in self.sound.rglob("*") if p.is_file() and p.name != "LOCK")
        self.sum = self.checksum()
        self.by_kind = collections.defaultdict(list)
        for file in self.files:
            self.by_kind[kinds.kind_of(file)].append(file)
        self.answers = [None] * len(self.questions)
        # What was read of files that every copy has, but for the zeros at their ends.
        self.begins = {}
        verdict, said = self.ask(self.copy(), learn=True)
        if verdict != "unaffected":
            raise RuntimeError(f"the sound directory isn't: {verdict}: {said}")

    def checksum(self):
        whole = hashlib.sha256()
        for file in self.files:
            whole.update((self.sound / file).read_bytes())
        return whole.hexdigest()

    def copy(self):
        """Files of segments are never changed in place: links do for them."""
        target = self.work / "copy"
        shutil.rmtree(target, ignore_errors=True)
        for file in self.files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            if file.name[0].isdigit() or file.name.startswith(("MANIFEST", "CATALOG")):
                os.link(self.sound / file, target / file)
            else:
                self.sparse(file, target / file)
        return target

    def sparse(self, file, target):
        """Logs are mostly zeros, which are read once."""
        if file not in self.begins:
            self.begins[file] = (self.sound / file).read_bytes().rstrip(b"\0")
        with open(target, "wb") as out:
            out.write(self.begins[file])
            out.truncate((self.sound / file).stat().st_size)

    def previous(self, file):
        """An older version of the file: of the earlier stage, or, of a numbered one, the number before."""
        earlier = self.older / file
        if earlier.exists() and earlier.read_bytes() != (self.sound / file).read_bytes():
            return earlier.read_bytes()
        if kinds.kind_of(file) in ("MANIFEST", "CATALOG", "del"):
            siblings = [p for p in (self.older / file).parent.glob(file.name.rsplit("-", 1)[0] + "-*") if p.name < file.name]
            return max(siblings).read_bytes() if siblings else None
        return None

    def damage(self, file, damage, rng):
        """A copy with that damage, or None where there is none of the kind."""
        raw = (self.sound / file).read_bytes()
        others = [o for o in self.by_kind[kinds.kind_of(file)] if o != file]

        def of_kind():
            return [(self.sound / o).read_bytes() for o in others]

        def namesakes():
            return [(self.sound / o).read_bytes() for o in others if o.name == file.name]

        after = damaged(damage, file, raw, lambda: self.previous(file), of_kind, namesakes, rng)
        if after == raw:
            return None
        target = self.copy()
        (target / file).unlink()
        if after is not None:
            (target / file).write_bytes(after)
        return target

    def checked(self, directory):
        """Whether `ramlet check` finds something: "found", "missed", or how it failed itself."""
        try:
            done = subprocess.run([str(binary()), "check", str(directory)], capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode < 0 or "panicked" in done.stderr:
            return "panics"
        return "found" if done.returncode else "missed"

    def ask(self, directory, learn=False):
        """(verdict, what was said) of a server on that directory."""
        server = Server(directory, self.memory, ["--no-probe"])
        server.log_path.unlink(missing_ok=True)
        try:
            server.start(timeout=TIMEOUT_S)
        except TimeoutError:
            return "hang", "not ready"
        except RuntimeError:
            said = server.log(3)
            if server.process.returncode < 0:
                return "signal", f"{server.process.returncode}: {said}"
            return ("panic" if self.panicked(server) else "refused start"), said
        try:
            verdict, said = self.questioned(server, learn)
        finally:
            code = self.stopped(server)
        if self.panicked(server):
            return "panic", next(line for line in server.log(10_000).splitlines() if "panicked" in line)
        if code != 0 and verdict in FINE:
            return "signal" if code and code < 0 else "hang", f"exit code {code} at the stop"
        return verdict, said

    @staticmethod
    def panicked(server):
        return "panicked at" in server.log(10_000)

    @staticmethod
    def stopped(server):
        try:
            return server.stop(timeout=TIMEOUT_S)
        except RuntimeError:
            return None

    def questioned(self, server, learn):
        verdicts = {"unaffected": ""}
        client = server.http(timeout=TIMEOUT_S)
        for at, question in enumerate(self.questions):
            try:
                got = kinds.plain(question, client.result(*question[2:5], retry=False))
            except Answer as answer:
                client.close()
                said = f"{question[0]} {question[1]}: {answer}"
                if answer.status not in (500, 503):
                    verdicts["wrong answer"] = said
                else:
                    verdicts["closed collection" if "could not be opened" in answer.sentence() else "refused question"] = said
                continue
            except TimeoutError:
                verdicts["hang"] = f"{question[0]} {question[1]}: no answer within {TIMEOUT_S} s"
                break
            except (http.client.HTTPException, OSError) as error:
                client.close()
                if not server.alive():
                    verdicts["signal"] = f"the server ended with {server.process.returncode} at {question[0]} {question[1]}"
                    break
                verdicts["answer cut off"] = f"{question[0]} {question[1]}: {error!r}"
                continue
            except (KeyError, TypeError, ValueError) as error:
                # The settings of a closed collection are told without what can't be read.
                if question[1] == "settings" and "closed collection" in self.state(client, question):
                    verdicts["closed collection"] = ""
                else:
                    verdicts["wrong answer"] = f"{question[0]} {question[1]}: {error!r}"
                continue
            if learn:
                self.answers[at] = got
            if (said := kinds.wrong(question, got, self.answers[at])) and not (question[1] == "settings" and self.state(client, question)):
                verdicts["wrong answer"] = f"{question[0]} {said}"
        self.restored(client, verdicts)
        client.close()
        order = ("signal", "hang", "wrong answer", "closed collection", "answer cut off", "refused question", "unaffected")
        worst = next(v for v in order if v in verdicts)
        return worst, verdicts[worst]

    @staticmethod
    def state(client, question):
        about = client.result("GET", question[3])
        return "closed collection" if about["status"] == "red" else ""

    def restored(self, client, verdicts):
        """The snapshots that are listed, restored beside with the checksums that are listed."""
        try:
            listed = client.result("GET", "/collections/multi/snapshots")
        except Answer as answer:
            verdicts["refused question"] = f"list of snapshots: {answer}"
            return
        names = {s["name"] for s in listed}
        if lacking := [f.name for f in self.by_kind["snapshot"] if f.name not in names and (self.work / "copy" / f).exists()]:
            verdicts["wrong answer"] = f"snapshots aren't listed: {lacking}"
        for snapshot in listed:
            body = {"location": f"file://{self.work}/copy/snapshots/multi/{snapshot['name']}", "priority": "snapshot"}
            if snapshot["checksum"]:
                body["checksum"] = snapshot["checksum"]
            try:
                client.result("PUT", "/collections/beside/snapshots/recover?wait=true", body, retry=False)
            except Answer as answer:
                if answer.status >= 500 and answer.status != 503 or not answer.sentence():
                    verdicts["wrong answer"] = f"restoring: {answer}"
                verdicts["refused question"] = f"restoring: {answer}"
                continue
            except (UnicodeDecodeError, http.client.HTTPException, OSError) as error:
                verdicts["signal" if not isinstance(error, TimeoutError) else "hang"] = f"restoring: {error!r}"
                return
            count = client.result("POST", "/collections/beside/points/count", {"exact": True})["count"]
            wanted = self.built.snapshots[snapshot["name"]]
            if count != wanted:
                verdicts["wrong answer"] = f"restored from {snapshot['name']}: {count} points, not {wanted}"
            client.call("DELETE", "/collections/beside")


def cases(bench, rng, only, wanted):
    """(file, damage) without end: each kind of file with each damage once, then again with other files and places."""
    kinds_ = [k for k in sorted(bench.by_kind) if not only or k in only]
    pairs = [(k, d) for k in kinds_ for d in DAMAGES if not wanted or f"{k}:{d}" in wanted]
    while pairs:
        rng.shuffle(pairs)
        for kind, damage in pairs:
            yield kind, rng.choice(bench.by_kind[kind]), damage


def run(work, seconds=300, most=None, seed=1, only=(), wanted=(), without=(), say=print):
    bench, rng = Bench(work), random.Random(seed)
    missing = sorted(set(kinds.SUFFIXES) - set(bench.by_kind))
    if missing:
        raise RuntimeError(f"the directory has no file of these kinds: {missing}")
    counts, checks, missed, violations, done, started = *(collections.Counter() for _ in range(3)), [], 0, time.monotonic()
    vain = 0
    for kind, file, damage in cases(bench, rng, only, wanted):
        if time.monotonic() - started > seconds or (most is not None and done >= most) or vain > 1000:
            break
        if (kind, damage) in without or (copy := bench.damage(file, damage, rng)) is None:
            vain += 1
            continue
        vain = 0
        done += 1
        found = bench.checked(copy)
        verdict, said = bench.ask(copy)
        counts[kind, damage, verdict] += 1
        checks[verdict, found] += 1
        missed[kind, verdict] += found == "missed"
        if verdict not in FINE or found in ("hangs", "panics"):
            violations.append((kind, damage, verdict, str(file), found, said))
            say(f"{verdict}: {file}, {damage}: {said.strip()[:300]} (check: {found})")
    if bench.checksum() != bench.sum:
        raise RuntimeError("the sound directory was changed: what was found means nothing")
    shutil.rmtree(bench.work / "copy", ignore_errors=True)
    return {"files": len(bench.files), "kinds": len(bench.by_kind), "cases": done, "counts": counts, "checks": checks, "missed": missed, "violations": violations}


def table(figures, say=print):
    by_damage = collections.defaultdict(collections.Counter)
    for (_, damage, verdict), times in figures["counts"].items():
        by_damage[damage][verdict] += times
    verdicts = sorted({v for c in by_damage.values() for v in c}, key=lambda v: (v not in FINE, v))
    say(f"| damage | cases | {' | '.join(verdicts)} |")
    say("|---" * (len(verdicts) + 2) + "|")
    for damage in DAMAGES:
        if (of := by_damage.get(damage)) is not None:
            say(f"| {damage} | {sum(of.values())} | {' | '.join(str(of[v]) for v in verdicts)} |")
    say("")
    say("| verdict | check found | check missed | check failed |")
    say("|---|---|---|---|")
    for verdict in verdicts:
        of = {found: times for (v, found), times in figures["checks"].items() if v == verdict}
        say(f"| {verdict} | {of.get('found', 0)} | {of.get('missed', 0)} | {of.get('hangs', 0) + of.get('panics', 0)} |")
    say("")
    for (kind, verdict), times in sorted(figures["missed"].items()):
        if times and verdict != "unaffected":
            say(f"check missed: {kind}, {verdict}: {times}")
    silent = collections.Counter((kind, damage, verdict) for kind, damage, verdict, *_ in figures["violations"])
    for (kind, damage, verdict), times in sorted(silent.items()):
        of = sum(n for (k, d, _), n in figures["counts"].items() if (k, d) == (kind, damage))
        say(f"violation: {kind}, {damage}: {verdict} in {times} of {of}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--most", type=int, help="cases at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"kinds of files: {', '.join(kinds.SUFFIXES)}")
    parser.add_argument("--cases", default="", help=f"kind:damage; damages: {', '.join(DAMAGES)}")
    a = parser.parse_args()
    only, wanted = ({word for word in text.split(",") if word} for text in (a.only, a.cases))
    work = tempfile.mkdtemp(prefix="ramlet-corrupt-")
    try:
        figures = run(work, a.minutes * 60, a.most, a.seed, only, wanted)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    table(figures)
    print(json.dumps({"files": figures["files"], "kinds": figures["kinds"], "cases": figures["cases"], "violations": len(figures["violations"])}))
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
