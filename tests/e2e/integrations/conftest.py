"""Fixtures of the integrations: a server, clients by every transport, embeddings that need no model."""

import importlib.util
import os
import re
import uuid
import zlib

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from conftest import SELF

# `make e2e` has none of these packages; `make integrations` fails when nothing is collected, and has the second five with `MORE=1` only.
PACKAGES = {
    "test_client.py": "numpy",
    "test_langchain.py": "langchain_qdrant",
    "test_llama_index.py": "llama_index",
    "test_haystack.py": "haystack_integrations",
    "test_mem0.py": "mem0",
    "test_agent_framework.py": "agent_framework_qdrant",
    "test_agno.py": "agno",
    "test_dspy.py": "dspy_qdrant",
    "test_langgraph.py": "langgraph.store.qdrant",
    "test_mcp_server.py": "mcp_server_qdrant",
}


def is_there(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


missing = {test for test, package in PACKAGES.items() if not is_there(package)}
# In the environment of `make e2e` test_client.py isn't run either.
collect_ignore = sorted(PACKAGES if len(missing) == len(PACKAGES) - 1 else missing)

# Nobody is to be told that these tests run.
os.environ.update(MEM0_TELEMETRY="False", HAYSTACK_TELEMETRY_ENABLED="False", ANONYMIZED_TELEMETRY="False")

DIM = 64
TEXTS = [
    "the cat sat on the warm mat",
    "a dog barked at the cat",
    "ships sail over the cold sea",
    "the sea is deep and cold in winter",
    "bread is baked from flour and water",
    "winter bread with cold butter",
    "a mat woven from straw",
    "straw and flour and water",
]


def tokens(text):
    return re.findall(r"\w+", text.lower())


def dense(text):
    """A bag of words: texts with words in common are near."""
    vector = np.zeros(DIM)
    for token in tokens(text):
        vector[zlib.crc32(token.encode()) % DIM] += 1.0
    norm = np.linalg.norm(vector)
    return (vector / norm if norm else vector + DIM**-0.5).tolist()


def sparse(text):
    """(indices, values): how often each word occurs."""
    counts = {}
    for token in tokens(text):
        index = zlib.crc32(token.encode()) % (1 << 20)
        counts[index] = counts.get(index, 0.0) + 1.0
    return list(counts), list(counts.values())


def cosine(a, b):
    return float(np.dot(dense(a), dense(b)))


def nearest(query, texts=TEXTS):
    """The texts, nearest first: what an exact search by `dense` finds."""
    return sorted(texts, key=lambda text: -cosine(query, text))


def transports():
    """`in-process`: the package `ramlet`, where it is installed (`make wheel`); no server then."""
    embedded = ["in-process"] if importlib.util.find_spec("ramlet") else []
    return ["memory"] if SELF else ["rest", "grpc", *embedded]


@pytest.fixture(params=transports())
def transport(request):
    return request.param


@pytest.fixture
def connect(request, transport, tmp_path):
    """What a program is given to reach the server."""
    if SELF:
        yield {"location": ":memory:"}
    elif transport == "in-process":
        yield from embedded(tmp_path)
    else:
        yield over_sockets(request.getfixturevalue("server"), transport)


def embedded(folder):
    """What makes any `QdrantClient` one of the engine in this process; asynchronous ones too."""
    import ramlet

    with ramlet.open(folder / "data", memory="64MB") as db:
        yield db.qdrant_options()


def over_sockets(server, transport):
    if transport == "rest":
        return {"url": server.url, "prefer_grpc": False, "timeout": 60}
    return {"url": server.url, "grpc_port": server.grpc_port, "prefer_grpc": True, "timeout": 60}


@pytest.fixture
def client(connect):
    client = QdrantClient(**connect)
    yield client
    client.close()


@pytest.fixture
def name(client):
    name = f"integration-{uuid.uuid4().hex[:12]}"
    yield name
    client.delete_collection(name)


@pytest.fixture
def aclient(connect, client):
    """The asynchronous client; in memory it shares nothing with the other."""
    return AsyncQdrantClient(**connect)


@pytest.fixture
def dense_params():
    return models.VectorParams(size=DIM, distance=models.Distance.COSINE)
