"""Fixtures: servers, clients, and the pair of our server and the client's own local mode that most tests compare."""

import os
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from qdrant_client import QdrantClient  # noqa: E402

import compare  # noqa: E402
from harness.divided import Divided  # noqa: E402
from harness.s3 import S3  # noqa: E402
from harness.server import Server  # noqa: E402

# RAMLET_E2E_SELF=1 compares the local mode with itself: what fails then is wrong in the suite.
SELF = bool(os.environ.get("RAMLET_E2E_SELF"))

# RAMLET_E2E_SHARDS=3 puts nodes over a divided store in place of the server that most tests share.
SHARDS = int(os.environ.get("RAMLET_E2E_SHARDS", 0))

warnings.filterwarnings("ignore", message="Payload indexes have no effect")
warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")


def client_of(server, prefer_grpc=False, **more):
    return QdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=prefer_grpc, timeout=120, **more)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that all tests share which don't stop it."""
    if SELF:
        yield None
        return
    folder = tmp_path_factory.mktemp("shared")
    server = Divided(folder, f"file://{folder}/store", SHARDS, memory="512MB") if SHARDS else Server(folder / "data")
    with server:
        yield server
        assert server.alive(), f"the server died under the tests:\n{server.log()}"


# What the clients speak: every comparison is made over both.
@pytest.fixture(scope="session", params=["rest"] if SELF else ["rest", "grpc"])
def remote(server, request):
    if SELF:
        return QdrantClient(":memory:")
    return client_of(server, prefer_grpc=request.param == "grpc")


@pytest.fixture
def own_server(tmp_path):
    """A server that the test may stop, kill and start again."""
    if SELF:
        pytest.skip("needs a server; RAMLET_E2E_SELF runs without one")
    with Server(tmp_path / "data") as server:
        yield server


@pytest.fixture(params=["file", "s3"])
def store(request, tmp_path):
    """URL of an empty store, the environment of who uses it, and the server of it."""
    if request.param == "file":
        yield f"file://{tmp_path}/store", {}, None
        return
    with S3() as s3:
        yield "s3://bucket/shard", s3.environment, s3


@pytest.fixture
def http(server):
    if SELF:
        pytest.skip("needs a server; RAMLET_E2E_SELF runs without one")
    http = server.http()
    yield http
    http.close()


@pytest.fixture
def pair(remote, request):
    """Our server and the local mode, and a collection name of the test's own in both."""
    pair = compare.Pair(remote, name=f"{request.node.originalname or request.node.name}-{os.getpid()}")
    yield pair
    pair.close()


def pytest_sessionfinish(session):
    # Of several workers (pytest-xdist) each counts its own.
    if (out := getattr(session.config, "workeroutput", None)) is not None:
        out["cases"], out["notes"] = dict(compare.CASES), compare.NOTES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    out = getattr(node, "workeroutput", {})
    compare.CASES.update(out.get("cases", {}))
    compare.NOTES.extend(out.get("notes", []))


def pytest_terminal_summary(terminalreporter):
    compared = ", ".join(f"{count:,} {kind}" for kind, count in sorted(compare.CASES.items()))
    total = sum(compare.CASES.values())
    terminalreporter.write_line(f"compared with qdrant-client's local mode: {total:,} cases ({compared})")
    for line in compare.NOTES:
        terminalreporter.write_line(line)
