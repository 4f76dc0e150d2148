"""The official clients of other languages against the server: a short program each, over the same points (books.json).

CLIENTS names those to run ("js go java rust" unless set). One whose toolchain isn't here is skipped, which is said.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.server import Server  # noqa: E402

# By language: what must be on the path; what fetches and builds; the programs.
CLIENTS = {
    "js": ("npm", ["npm ci --silent"], ["node rest.js", "node grpc.js"]),
    "go": ("go", ["go build -o target/client ."], ["target/client"]),
    "java": ("mvn", ["mvn -q -B compile"], ["mvn -q -B exec:java"]),
    "rust": ("cargo", ["cargo build --quiet --locked"], ["target/debug/clients"]),
}
# What tools say when a registry can't be reached: then there is nothing to try.
UNREACHABLE = ("ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EAI_AGAIN", "dial tcp", "Could not transfer artifact", "Could not resolve host")
ASKED = os.environ.get("CLIENTS", "").split() or list(CLIENTS)


def run(command, folder, environment=None, fetches=False):
    done = subprocess.run(command.split(), cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    if fetches and done.returncode and any(sign in done.stdout + done.stderr for sign in UNREACHABLE):
        pytest.skip(f"{command}: the registry can't be reached")
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


@pytest.fixture
def addresses(tmp_path):
    with Server(tmp_path / "data") as server:
        yield {
            "RAMLET_REST": server.url,
            "RAMLET_GRPC": f"http://127.0.0.1:{server.grpc_port}",
            "RAMLET_GRPC_PORT": str(server.grpc_port),
        }


@pytest.mark.parametrize("language", ASKED)
def test_client(language, addresses):
    tool, builds, programs = CLIENTS[language]
    if not shutil.which(tool):
        pytest.skip(f"{tool} isn't here")
    for command in builds:
        run(command, HERE / language, fetches=True)
    for command in programs:
        run(command, HERE / language, addresses)
