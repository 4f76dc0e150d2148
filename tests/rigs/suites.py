#!/usr/bin/env python3
"""The suites of the API's own projects against `ramlet serve`: one command, where their sources are at hand. A line for each with its score.

    python tests/rigs/suites.py --server-sources DIR --client-sources DIR [--python PYTHON] [--only openapi,smoke,access,congruence,congruence-grpc] [--logs DIR]

DIR are checkouts of qdrant/qdrant and qdrant/qdrant-client; nothing is written there. PYTHON has what the suites need: qdrant-client (the oracle, 1.20), pytest, pytest-timeout, pytest-xdist,
pytest-cases, pytest-subtests, schemathesis 3, jsonschema, requests, grpc-requests, pyjwt. The smoke scripts over gRPC need `grpcurl`, those over REST `curl` and `jq`. Ports
6333 and 6334 must be free: the suites ask there. What differs from the suites as they are:

| suite | what stands in for what |
|---|---|
| smoke | `docker run fullstorydev/grpcurl` is `grpcurl` of this machine |
| access | one process stands in the place of a cluster, so waiting for a leader is waiting for `/readyz` |
| congruence | types of the older client that 1.20 has no more are empty classes; `congruence-grpc` has every remote client speak gRPC |
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER_PARTS = ["tests", "docs/redoc/master", "lib/api/src/grpc/proto"]
CLIENT_PARTS = ["tests"]

ONE_NODE = '''
import time
import requests
from consensus_tests import utils

def ready(uri, **_):
    for _ in range(300):
        try:
            if requests.get(f"{uri}/readyz", timeout=1).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{uri} isn't ready")

utils.wait_peer_added = lambda uri, *_, **__: ready(uri)
utils.wait_for_uniform_cluster_status = lambda uris, *_, **__: [ready(uri) for uri in uris]
'''

OLDER_TYPES = '''
from qdrant_client.conversions import common_types
from qdrant_client.http import models

def missing(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})

models.__getattr__ = common_types.__getattr__ = missing
'''

OVER_GRPC = '''
from qdrant_client import QdrantClient

made = QdrantClient.__init__

def over_grpc(self, *args, **more):
    made(self, *args, **(more | ({"prefer_grpc": True} if more.get("host") else {})))

QdrantClient.__init__ = over_grpc
'''

GRPCURL = """#!/bin/sh
# docker run .. -v PATH:/proto fullstorydev/grpcurl ARGUMENTS
while [ "$1" != fullstorydev/grpcurl ]; do
    case "$2" in *:/proto) proto="${2%:/proto}" ;; esac
    shift
done
shift
for argument; do
    shift
    [ "$argument" = /proto ] && argument="$proto"
    set -- "$@" "$argument"
done
exec grpcurl "$@"
"""


def copied(sources, parts, to):
    for part in parts:
        shutil.copytree(sources / part, to / part, dirs_exist_ok=True)
    return to


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Served:
    """A server on the ports that the suites ask."""

    def __init__(self, program, data, *flags):
        command = [program, "serve", "--data", data, "--memory", "512MB", "--no-probe", "--port", "6333", "--grpc-port", "6334", *flags]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(300):
            try:
                urllib.request.urlopen("http://127.0.0.1:6333/readyz", timeout=1)
                return self
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server isn't ready: are the ports 6333 and 6334 free?")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Suites:
    def __init__(self, args, scratch):
        self.args, self.scratch, self.logs = args, scratch, args.logs
        self.program = os.environ.get("RAMLET_BIN") or str(ROOT / "target/debug/ramlet")

    def run(self, name, command, cwd, **env):
        """What it printed, which is also kept."""
        done = subprocess.run(command, cwd=cwd, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        (self.logs / f"{name}.txt").write_text(done.stdout)
        return done

    def pytest(self, name, where, cwd, plugins=(), **env):
        command = [self.args.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(word for plugin in plugins for word in ("-p", plugin)), where]
        said = self.run(name, command, cwd, PYTHONPATH=f"{self.scratch}:{cwd}", **env).stdout
        lines = [line for line in said.splitlines() if line.strip()]
        last = [line for line in lines if re.search(r"\d+ (passed|failed|error)", line)]
        return (last or lines or ["nothing was said"])[-1].strip("= ")

    def server_sources(self):
        if self.args.server_sources is None:
            return None
        return copied(self.args.server_sources, SERVER_PARTS, self.scratch / "server")

    def openapi(self):
        sources = self.server_sources()
        if sources is None:
            return None
        with Served(self.program, self.scratch / "openapi", "--snapshots-from-urls"):
            return self.pytest("openapi", "tests/openapi", sources)

    def smoke(self):
        sources = self.server_sources()
        if sources is None:
            return None
        script(self.scratch / "bin/docker", GRPCURL)
        passed, failed = 0, []
        for one in sorted((sources / "tests").glob("basic_*_test.sh")):
            # Inference over gRPC needs a service of its own.
            if "inference" in one.name:
                continue
            with Served(self.program, self.scratch / one.stem):
                done = self.run(one.stem, ["bash", one], sources, PATH=f"{self.scratch / 'bin'}:{os.environ['PATH']}")
            passed += done.returncode == 0
            failed += [one.name] if done.returncode else []
        return f"{passed} passed" + (f", failed: {', '.join(failed)}" if failed else "")

    def access(self):
        sources = self.server_sources()
        if sources is None:
            return None
        serve = f'QDRANT__STORAGE__STORAGE_PATH=./storage exec {self.program} serve --memory 256MB --no-probe --snapshots-path "$PWD/snapshots"'
        script(sources / "target/debug/qdrant", f"#!/bin/sh\n{serve}\n")
        (self.scratch / "one_node.py").write_text(ONE_NODE)
        return self.pytest("access", "consensus_tests/auth_tests", sources / "tests", ["one_node"])

    def congruence(self, name="congruence", more=""):
        if self.args.client_sources is None:
            return None
        sources = copied(self.args.client_sources, CLIENT_PARTS, self.scratch / "client")
        (self.scratch / "older_types.py").write_text(OLDER_TYPES + more)
        with Served(self.program, self.scratch / name):
            return self.pytest(name, "tests/congruence_tests", sources, ["older_types"])

    def congruence_grpc(self):
        return self.congruence("congruence-grpc", OVER_GRPC)


def version_of(sources):
    if sources is None:
        return "not at hand"
    for name in ("pyproject.toml", "Cargo.toml"):
        text = (sources / name).read_text() if (sources / name).exists() else ""
        if found := re.search(r'^version = "(.*)"', text, re.MULTILINE):
            return found[1]
    return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server-sources", type=Path)
    parser.add_argument("--client-sources", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="openapi,smoke,access,congruence,congruence-grpc")
    parser.add_argument("--logs", type=Path, default=Path("suites"))
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    oracle = subprocess.run([args.python, "-c", "import importlib.metadata as m; print(m.version('qdrant-client'))"], capture_output=True, text=True)
    print(f"server's suites {version_of(args.server_sources)}, client's {version_of(args.client_sources)}, oracle qdrant-client {oracle.stdout.strip()}")
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="ramlet-suites-") as scratch:
            score = getattr(Suites(args, Path(scratch)), name.replace("-", "_"))()
        print(f"{name}: {score or 'its sources are not at hand'}", flush=True)


if __name__ == "__main__":
    main()
