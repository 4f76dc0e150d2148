#!/usr/bin/env python3
"""What is installed, tried from a clean root: the .deb, the tarballs, the image's file system, the wheel, each in a Debian made by debootstrap.

    cargo xtask rig packages [--record FILE] [--base DIR] [--machine aarch64] [deb|tarball|image|unit|wheel|pages ..]

`--machine`: packages for another processor, in roots of its Debian, emulated: qemu-user-static must be registered in /proc/sys/fs/binfmt_misc.
`pages` runs such a server with pages of 4, 16 and 64 KiB, which kernels for ARM have.
Needs root, debootstrap and the files that packaging/build.py and `make wheel` made. No service manager and no engine of containers runs here: the unit is
checked by systemd-analyze, and the image's steps are run in a chroot. Nothing outside of a temporary directory is changed.
"""

import argparse
import contextlib
import gzip
import json
import os
import platform
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import free_port  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "target/packages"
SUITE = "bookworm"
MEMORY = "135MB"
WAIT_S = 60
WHEEL_BYTES_MAX = 25_000_000
# Longer lines are cut in the transcript.
WIDTH = 160


# What the packages are for, and Debian's names.
HOST = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
machine = HOST


class Failed(Exception):
    """A step that didn't do what it must."""


class Transcript:
    """What was run and what it said, on the screen and in the record."""

    def __init__(self):
        self.lines = []
        self.replaced = {}

    def say(self, text):
        for name, instead in self.replaced.items():
            text = text.replace(name, instead)
        print(text, flush=True)
        self.lines.append(text)

    def head(self, text):
        self.say(f"\n== {text}")

    def keep(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines).lstrip("\n") + "\n")


log = Transcript()


def run(command, shown=None, check=True, lines=12, **more):
    """Runs it, says it, and returns what it wrote."""
    log.say(f"$ {shown or shlex.join(map(str, command))}")
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    said = done.stdout.strip().splitlines()
    for line in said[:lines]:
        log.say(f"  {line if len(line) <= WIDTH else line[:WIDTH] + ' ..'}")
    if len(said) > lines:
        log.say(f"  .. {len(said) - lines} lines more")
    if check and done.returncode != 0:
        raise Failed(f"exit code {done.returncode}")
    return done.stdout


class Root:
    """A directory to be the root of what runs in it, with /proc and /dev while something does."""

    def __init__(self, path):
        self.path = path

    def command(self, words, user=None, environment=None, directory="/"):
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/", **(environment or {})}
        assigned = [f"{name}={value}" for name, value in variables.items()]
        who = ["--userspec", user] if user else []
        inner = shlex.join(["chroot", *who, str(self.path), "env", "-i", *assigned, *words]) if directory == "/" else shlex.join(
            ["chroot", *who, str(self.path), "bash", "-c", f"cd {directory} && exec env -i {shlex.join(assigned)} {shlex.join(words)}"]
        )
        mounts = f"mount -t proc proc {self.path}/proc && mount --bind /dev {self.path}/dev && mount --bind /sys {self.path}/sys"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{mounts} && exec {inner}"]

    def run(self, *words, user=None, environment=None, directory="/", **more):
        who = f"({user}) " if user else ""
        shown = " ".join([f"{who}{' '.join(f'{n}={v}' for n, v in (environment or {}).items())}".strip(), shlex.join(words)]).strip()
        return run(self.command(words, user, environment, directory), shown, **more)

    @contextlib.contextmanager
    def serving(self, *words, user=None, environment=None, directory="/", asks=None):
        """A server that runs while the block does, ends by SIGTERM, and ends well."""
        who = f"({user}) " if user else ""
        log.say(f"$ {who}{' '.join(f'{n}={v}' for n, v in (environment or {}).items())} {shlex.join(words)} &".replace("  ", " "))
        output = tempfile.TemporaryFile("w+")
        server = subprocess.Popen(self.command(words, user, environment, directory), stdout=output, stderr=output)
        asks = asks or ["ramlet", "health"]
        try:
            until = time.monotonic() + WAIT_S
            while subprocess.run(self.command(asks, user, environment, directory), capture_output=True).returncode != 0:
                if server.poll() is not None or time.monotonic() > until:
                    raise Failed(f"the server isn't ready: {told(output)}")
                time.sleep(0.1)
            self.run(*asks, user=user, environment=environment, directory=directory)
            yield
            server.send_signal(signal.SIGTERM)
            if server.wait(WAIT_S) != 0:
                raise Failed(f"it ended with {server.returncode}: {told(output)}")
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
            lines = told(output).splitlines()
            for line in lines:
                if re.match(r"memory |listening|gRPC|\d+ collections", line) or "WARN" in line or "ERROR" in line:
                    log.say(f"  {line}")


def told(output):
    output.seek(0)
    return output.read()


def documents(root, count=300):
    """The first documents of a real set, as a file of theirs in the root."""
    with gzip.open(ROOT / "testdata/ir/cranfield/docs.jsonl.gz", "rt") as packed:
        lines = [line for _, line in zip(range(count), packed)]
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp/docs.jsonl").write_text("".join(lines))
    shutil.copy(ROOT / "testdata/import/rows-zstd.parquet", root / "tmp/rows.parquet")
    return len(lines)


def imports_and_searches(root, count, ramlet="ramlet", **how):
    """The first minute of a user: two files, one search."""
    url = ["--url", f"http://127.0.0.1:{how['environment']['RAMLET_PORT']}"]
    said = root.run(ramlet, "import", "/tmp/docs.jsonl", "--collection", "papers", "--text", "body", "--vector-field", "none", "--wait", *url, **how)
    if f"{count} points" not in said:
        raise Failed(f"{count} documents were to be imported")
    root.run(ramlet, "import", "/tmp/rows.parquet", "--collection", "rows", "--wait", *url, **how)
    found = root.run(ramlet, "search", "slipstream", "wing", "--collection", "papers", "--limit", "3", "--json", *url, **how)
    hits = [json.loads(line) for line in found.splitlines() if line.startswith("{")]
    if len(hits) != 3 or not all("slipstream" in json.dumps(hit) for hit in hits[:1]):
        raise Failed("the search found something else")


def debootstrap(path, *more):
    of = [] if machine == HOST else [f"--arch={DEBIAN[machine]}"]
    shown = shlex.join(["debootstrap", *of, *more, SUITE])
    run(["debootstrap", *of, "--variant=minbase", *more, SUITE, path], shown, lines=1)


def clean(base, work, name, *more):
    path = work / name
    if not (base / "etc/debian_version").exists():
        debootstrap(base, *more)
    shown = shlex.join(["debootstrap", "--variant=minbase", *more, SUITE])
    log.say(f"a clean root: {shown}, Debian {(base / 'etc/debian_version').read_text().strip()}")
    # With its devices: Python's copy would read them.
    subprocess.run(["cp", "-a", base, path], check=True)
    return Root(path)


def version():
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def the_file(pattern):
    found = sorted(OUT.glob(pattern))
    if not found:
        raise SystemExit(f"target/packages/{pattern} isn't there: packaging/build.py makes it")
    return found[-1]


def deb(base, work):
    package = the_file(f"ramlet_*_{DEBIAN[machine]}.deb")
    log.head(f"the .deb in a clean {SUITE}")
    run(["dpkg-deb", "--field", package, "Package", "Version", "Architecture", "Depends", "Installed-Size"], f"dpkg-deb --field {package.name}")
    root = clean(base, work, "deb")
    shutil.copy(package, root.path / "tmp/ramlet.deb")
    root.run("dpkg", "--install", "/tmp/ramlet.deb", environment={"DEBIAN_FRONTEND": "noninteractive"})
    root.run("dpkg", "--status", "ramlet", lines=3)
    root.run("ramlet", "--version")
    root.run("stat", "-c", "%U:%G %a %n", "/etc/ramlet/ramlet.yaml", "/var/lib/ramlet", "/usr/bin/ramlet")
    root.run("sh", "-c", "dpkg --listfiles ramlet | grep -v '/doc/' | xargs ls -d --file-type | grep -v '/$'", lines=40)
    root.run("cat", "/etc/systemd/system/multi-user.target.wants/ramlet.service", lines=2)
    count = documents(root.path)
    how = {"user": "ramlet:ramlet", "environment": {"RAMLET_PORT": str(free_port()), "RAMLET_GRPC_PORT": str(free_port()), "RAMLET_MEMORY": MEMORY}}
    with root.serving("ramlet", "serve", "--config", "/etc/ramlet/ramlet.yaml", **how):
        imports_and_searches(root, count, **how)
    log.head("upgraded to itself, removed, purged: the data stays")
    root.run("sh", "-c", "echo 'log: warn' >> /etc/ramlet/ramlet.yaml")
    root.run("dpkg", "--install", "/tmp/ramlet.deb")
    if "log: warn" not in (root.path / "etc/ramlet/ramlet.yaml").read_text():
        raise Failed("the configuration was overwritten")
    with root.serving("ramlet", "serve", "--config", "/etc/ramlet/ramlet.yaml", **how):
        root.run("ramlet", "search", "boundary", "layer", "--collection", "papers", "--limit", "1",
                 "--url", f"http://127.0.0.1:{how['environment']['RAMLET_PORT']}", lines=3, **how)
    root.run("dpkg", "--purge", "ramlet")
    if (root.path / "usr/bin/ramlet").exists() or (root.path / "etc/ramlet").exists() or not any((root.path / "var/lib/ramlet").iterdir()):
        raise Failed("something was left behind, or the data went")


def tarball(base, work):
    for kind, pattern in [("glibc", f"ramlet-*-{machine}-*-linux-gnu.tar.gz"), ("musl", f"ramlet-*-{machine}-*-linux-musl.tar.gz")]:
        found = sorted(OUT.glob(pattern))
        if not found:
            log.head(f"the tarball for {kind}: there is none")
            continue
        log.head(f"the tarball for {kind}, {found[-1].name}")
        root = clean(base, work, kind)
        run(["tar", "-xzf", found[-1], "-C", root.path / "opt"], f"tar -xzf {found[-1].name} -C /opt")
        directory = next((root.path / "opt").iterdir()).name
        ramlet = f"/opt/{directory}/ramlet"
        root.run(ramlet, "--version")
        count = documents(root.path)
        how = {"environment": {"RAMLET_PORT": str(free_port()), "RAMLET_GRPC_PORT": "disabled", "RAMLET_MEMORY": MEMORY, "RAMLET_DATA": "/srv/ramlet"}}
        with root.serving(ramlet, "serve", asks=[ramlet, "health"], **how):
            imports_and_searches(root, count, ramlet, **how)


def instructions():
    """ENV, CMD and HEALTHCHECK of the image's last stage."""
    text = (ROOT / "packaging/image/Dockerfile").read_text().split("FROM scratch")[1].replace("\\\n", " ")
    environment = dict(pair.split("=", 1) for line in re.findall(r"^ENV (.+)$", text, re.M) for pair in line.split())
    command = json.loads(re.search(r"^CMD (\[.+\])$", text, re.M)[1])
    health = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", text, re.M)[1])
    return environment, command, health, re.search(r"^WORKDIR (.+)$", text, re.M)[1]


def image(base, work):
    log.head("the image's file system, by the steps of the Dockerfile, in a chroot")
    root = Root(work / "image")
    binary = next(OUT.glob(f"work-{machine}-unknown-linux-gnu/ramlet"), None)
    if not binary:
        raise SystemExit("target/packages/work-*/ramlet isn't there: packaging/build.py makes it")
    run([sys.executable, ROOT / "packaging/image/rootfs.py", binary, root.path], "packaging/image/rootfs.py /ramlet /rootfs")
    whole = subprocess.run(["tar", "-czf", "-", "-C", root.path, "."], capture_output=True, check=True).stdout
    size = sum(f.stat().st_size for f in root.path.rglob("*") if f.is_file() and not f.is_symlink())
    log.say(f"  {size / 1e6:.1f} MB, {len(whole) / 1e6:.1f} MB as a gzipped layer")
    if len(whole) > 40e6:
        raise Failed("more than 40 MB to download")
    environment, command, health, directory = instructions()
    log.say(f"  ENV {environment} WORKDIR {directory} CMD {command} HEALTHCHECK {health}")
    more = {"RAMLET_PORT": str(free_port()), "RAMLET_GRPC_PORT": "disabled", "RAMLET_MEMORY": MEMORY}
    count = documents(root.path)
    how = {"environment": {**environment, **more}, "directory": directory}
    # There is no `env` in the image: the variables are given before the chroot.
    for user in (None, "1000:1000"):
        with in_image(root, command, health, user, **how):
            imports_and_searches(Image(root, user), count, environment=how["environment"])
        shutil.rmtree(root.path / "qdrant/storage")
        (root.path / "qdrant/storage").mkdir(mode=0o777)
        (root.path / "qdrant/storage").chmod(0o1777)
    log.head("as a compose file of Qdrant's starts and checks it")
    (root.path / "qdrant/config/production.yaml").write_text("log_level: INFO\nservice: {api_key: a-key-of-a-file}\n")
    port = more["RAMLET_PORT"]
    check = ["bash", "-c", f":> /dev/tcp/127.0.0.1/{port}"]
    with in_image(root, ["./entrypoint.sh"], check, None, **how):
        Image(root, None).run("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /collections HTTP/1.1\\r\\nHost: q\\r\\nConnection: close\\r\\n\\r\\n' >&3; read -r line <&3; echo $line",
                              environment=how["environment"])


class Image(Root):
    """As a root, for one without a program that sets variables and changes directories."""

    def __init__(self, root, user):
        super().__init__(root.path)
        self.user = user

    def command(self, words, user=None, environment=None, directory="/qdrant"):
        script = f"cd {directory} && exec {shlex.join(words)}"
        who = ["--userspec", self.user] if self.user else []
        assigned = [f"{name}={value}" for name, value in (environment or {}).items()]
        inner = shlex.join(["env", "-i", *assigned, shutil.which("chroot"), *who, str(self.path), "/bin/bash", "-c", script])
        mounts = f"mount -t proc proc {self.path}/proc && mount --bind /dev {self.path}/dev && mount --bind /sys {self.path}/sys"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{mounts} && exec {inner}"]


def in_image(root, command, health, user, environment, directory):
    shown = Image(root, user)
    return shown.serving(*command, user=user, environment=environment, directory=directory, asks=health)


def unit(base, work):
    log.head("the unit, by systemd-analyze")
    if not shutil.which("systemd-analyze"):
        log.say("systemd-analyze isn't there: apt-get install systemd")
        return
    root = clean(base, work, "unit")
    shutil.copy(the_file(f"ramlet_*_{DEBIAN[machine]}.deb"), root.path / "tmp/ramlet.deb")
    run(["dpkg-deb", "--extract", root.path / "tmp/ramlet.deb", root.path], "dpkg-deb --extract ramlet.deb /")
    file = root.path / "lib/systemd/system/ramlet.service"
    # The program's path is looked up on this machine: it is made to be that of the root.
    copy = work / "ramlet.service"
    copy.write_text(file.read_text().replace("/usr/bin/ramlet", str(root.path / "usr/bin/ramlet")))
    run(["systemd-analyze", "verify", "--man=no", copy], "systemd-analyze verify ramlet.service")
    said = run(["systemd-analyze", "security", "--no-pager", "--offline=true", copy], "systemd-analyze security --offline=true ramlet.service", lines=100)
    exposure = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)[1])
    if exposure > 2.5:
        raise Failed(f"the exposure of {exposure} is more than 2.5")


# What somebody does first: texts and vectors out of a Parquet file of their own, and a hybrid search.
FIRST_MINUTE = """
import json, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import ramlet
texts = [json.loads(line)["body"] for line in open("/tmp/docs.jsonl")]
directions = {}
def vector(text):
    rows = [directions.setdefault(word, np.random.default_rng(len(directions)).normal(size=64)) for word in text.split()]
    return np.mean(rows or [np.zeros(64)], axis=0).astype("float32")
vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate([vector(text) for text in texts])), 64)
pq.write_table(pa.table({"id": range(len(texts)), "embedding": vectors, "body": texts}), "/tmp/own.parquet")
with ramlet.open(sys.argv[1], memory="64MB") as db:
    docs = db.create("docs", dim=64, indexes={"body": {"type": "text", "scoring": True}})
    docs.add(pq.read_table("/tmp/own.parquet"), vector_column="embedding")
    asked = "slipstream wing"
    prefetch = [{"query": {"text": asked}, "using": "body"}, {"query": vector(asked)}]
    for point in docs.query({"fusion": "rrf"}, prefetch=prefetch, limit=3, with_payload=True):
        print(point.id, round(point.score, 3), point.payload["body"][:90])
    print(docs.count(), "points")
"""


def wheel(base, work):
    found = sorted((ROOT / "python/target/wheels").glob(f"*manylinux*{machine}.whl"))
    if not found:
        raise SystemExit(f"python/target/wheels has none for {machine}: make wheel builds it")
    log.head(f"the wheel in a clean {SUITE} with Python, {found[-1].name}, {found[-1].stat().st_size / 1e6:.1f} MB")
    if found[-1].stat().st_size > WHEEL_BYTES_MAX:
        raise Failed("it is too large")
    # Kept beside the other: one with Python.
    root = clean(base.with_name(f"{base.name}-python"), work, "wheel", "--include=python3-venv")
    wheels = root.path / "tmp/wheels"
    # What pip would fetch is fetched before the clock runs: the root has no network of its own.
    packages = ["numpy", "pyarrow", found[-1]]
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    target = [*platforms, "--python-version", "3.11", "--only-binary=:all:"]
    run([sys.executable, "-m", "pip", "download", "--quiet", *target, "--dest", wheels, *packages], "pip download numpy pyarrow ramlet", lines=0)
    count = documents(root.path)
    (root.path / "tmp/first.py").write_text(FIRST_MINUTE)
    start = time.monotonic()
    root.run("python3", "-m", "venv", "/opt/mine")
    root.run("/opt/mine/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/tmp/wheels", "ramlet", "pyarrow")
    said = root.run("/opt/mine/bin/python", "/tmp/first.py", "/srv/data")
    root.run("/opt/mine/bin/python", "-m", "ramlet", "--version")
    seconds = time.monotonic() - start
    log.say(f"  {seconds:.0f} s from the wheel to the hybrid search" + (", emulated" if machine != HOST else ""))
    if f"{count} points" not in said or "slipstream" not in said:
        raise Failed("not all was found")
    if seconds > 60 and machine == HOST:
        raise Failed("it took more than a minute")
    how = {"environment": {"RAMLET_PORT": str(free_port()), "RAMLET_GRPC_PORT": "disabled", "RAMLET_MEMORY": MEMORY, "RAMLET_DATA": "/srv/served"}}
    with root.serving("/opt/mine/bin/python", "-m", "ramlet", "serve", asks=["/opt/mine/bin/python", "-m", "ramlet", "health"], **how):
        imports_and_searches(root, count, "/opt/mine/bin/ramlet", **how)
    # An emulator has the pages of other kernels too.
    for page in (16384, 65536) if machine != HOST else ():
        again = root.run("/opt/mine/bin/python", "/tmp/first.py", f"/srv/pages-{page}", environment={"QEMU_PAGESIZE": str(page)})
        if again != said:
            raise Failed(f"with pages of {page} bytes it finds something else")


def ask(port, path, body, method="POST"):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.load(answer)["result"]
    except urllib.error.HTTPError as refused:
        raise Failed(f"{path}: {refused.code} {refused.read().decode()}") from None


def pages(base, work):
    """Not in a root: with pages of 64 KiB the loader of some Debians ends in the emulator, which maps less of a page than a kernel does."""
    if machine == HOST:
        log.say("pages of other sizes need an emulator: --machine aarch64")
        return
    binary = the_file(f"work-{machine}-unknown-linux-gnu/ramlet")
    values = random.Random(1)
    rows = [[values.gauss(0, 1) for _ in range(32)] for _ in range(5_000)]
    count = documents(work)
    (work / "tmp/rows.jsonl").write_text("".join(json.dumps({"id": at, "vector": row}) + "\n" for at, row in enumerate(rows)))
    for page in (4096, 16384, 65536):
        log.head(f"pages of {page} bytes, emulated")
        ramlet = [f"qemu-{machine}", "-p", page, "-L", f"/usr/{machine}-linux-gnu", binary]
        port = free_port()
        words = ["serve", "--memory", MEMORY, "--data", work / f"pages-{page}", "--port", port, "--grpc-port", "disabled"]
        log.say(f"$ ramlet {shlex.join(map(str, words))} &")
        # A backtrace reads the program's own symbols, which ends an emulator that has pages of another size.
        environment = {**os.environ, "RUST_BACKTRACE": "0", "RAMLET_URL": f"http://127.0.0.1:{port}"}
        said = tempfile.TemporaryFile("w+")
        for turn in ("new", "opened again"):
            server = subprocess.Popen([*map(str, ramlet), *map(str, words)], stdout=subprocess.PIPE, stderr=said, text=True, env=environment)
            try:
                next(line for line in server.stdout if line.startswith("listening"))
                if turn == "new":
                    url = ["--url", environment["RAMLET_URL"], "--wait"]
                    for what in (["docs.jsonl", "--collection", "papers", "--text", "body", "--vector-field", "none"], ["rows.jsonl", "--collection", "rows"]):
                        run([*ramlet, "import", work / "tmp" / what[0], *what[1:], *url], f"ramlet import {shlex.join([*what, *url[2:]])}")
                found = [ask(port, "/collections/rows/points/query", {"query": rows[at], "limit": 1})["points"][0]["id"] for at in range(20)]
                texts = ask(port, "/collections/papers/points/query", {"query": {"text": "slipstream wing"}, "using": "body", "limit": 3})["points"]
                counted = ask(port, "/collections/papers/points/count", {})["count"]
            finally:
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=WAIT_S)
                if turn == "new":
                    for line in told(said).splitlines():
                        if "WARN" in line or "ERROR" in line:
                            log.say(f"  {line[line.index(' '):].strip()}")
            log.say(f"  {turn}: nearest of twenty rows {found == list(range(20))}, texts {[point['id'] for point in texts]} of {counted}, exit code {server.returncode}")
            if found != list(range(20)) or counted != count or len(texts) != 3 or server.returncode != 0:
                raise Failed("not all was found")


PARTS = {"deb": deb, "tarball": tarball, "image": image, "unit": unit, "wheel": wheel, "pages": pages}


def main():
    global machine
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [default: all]")
    parser.add_argument("--base", type=Path, help="a root that debootstrap made, kept; made when it isn't there")
    parser.add_argument("--machine", choices=DEBIAN, default=HOST, help="the processor that the packages are for [default: this one]")
    parser.add_argument("--record", type=Path, help="write what was run and said to this file")
    arguments = parser.parse_args()
    machine = arguments.machine
    if os.geteuid() != 0:
        parser.error("debootstrap, chroot and mount need root")
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="ramlet-packages-") as work:
        work = Path(work)
        log.replaced = {str(work): "", str(ROOT): "."}
        base = arguments.base or work / "base"
        try:
            for part in arguments.parts or PARTS:
                PARTS[part](base, work)
            log.say("\nall of it works")
            outcome = 0
        except Failed as why:
            log.say(f"\nFAILED: {why}")
            outcome = 1
    if arguments.record:
        log.keep(arguments.record)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
