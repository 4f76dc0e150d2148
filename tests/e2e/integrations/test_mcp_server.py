"""mcp-server-qdrant: what its tools do with memories, and the tools themselves as an agent calls them."""

import asyncio

import pytest
from fastmcp import Client
from mcp_server_qdrant.embeddings.base import EmbeddingProvider
from mcp_server_qdrant.mcp_server import QdrantMCPServer
from mcp_server_qdrant.qdrant import Entry, QdrantConnector
from mcp_server_qdrant.settings import QdrantSettings, ToolSettings
from qdrant_client import models

from conftest import SELF
from integrations.conftest import DIM, TEXTS, dense, nearest

QUERY = "cold water in the winter sea"

pytestmark = pytest.mark.skipif(SELF, reason="needs the address of a server")


class Words(EmbeddingProvider):
    async def embed_documents(self, documents):
        return [dense(text) for text in documents]

    async def embed_query(self, query):
        return dense(query)

    def get_vector_name(self):
        return "words"

    def get_vector_size(self):
        return DIM


def test_stored_and_found(server, name):
    async def run():
        connector = QdrantConnector(server.url, None, name, Words(), field_indexes={"metadata.n": models.PayloadSchemaType.INTEGER})
        assert await connector.search(QUERY) == []
        for n, text in enumerate(TEXTS):
            await connector.store(Entry(content=text, metadata={"n": n}))
        assert name in await connector.get_collection_names()
        assert [entry.content for entry in await connector.search(QUERY, limit=3)] == nearest(QUERY)[:3]
        few = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(gte=6))])
        assert {entry.content for entry in await connector.search(QUERY, query_filter=few)} == set(TEXTS[6:])

    asyncio.run(run())


def test_tools(server, name, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", server.url)
    monkeypatch.setenv("COLLECTION_NAME", name)

    async def run():
        tools = QdrantMCPServer(ToolSettings(), QdrantSettings(), embedding_provider=Words())
        async with Client(tools) as agent:
            assert {tool.name for tool in await agent.list_tools()} == {"qdrant-store", "qdrant-find"}
            for text in TEXTS:
                await agent.call_tool("qdrant-store", {"information": text})
            found = await agent.call_tool("qdrant-find", {"query": QUERY})
            assert nearest(QUERY)[0] in str(found)

    asyncio.run(run())
