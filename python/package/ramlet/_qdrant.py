"""`qdrant_client` over the engine in this process: its HTTP requests are answered by the server's router, without a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .errors import BadInputError

try:
    import httpx
    from qdrant_client import AsyncQdrantClient, QdrantClient
except ImportError as error:
    raise ImportError("db.qdrant() needs the package qdrant-client: pip install qdrant-client") from error

if TYPE_CHECKING:
    from ._database import Database

_OWN = {"location", "url", "host", "port", "grpc_port", "prefer_grpc", "https", "path", "transport"}


def client(database: Database, options: dict[str, Any]) -> QdrantClient:
    return QdrantClient(**_options(options, _Transport(database._core)))


def async_client(database: Database, options: dict[str, Any]) -> AsyncQdrantClient:
    return AsyncQdrantClient(**_options(options, _AsyncTransport(database._core)))


def options_of(database: Database) -> dict[str, Any]:
    """Arguments that make a `QdrantClient`, or an `AsyncQdrantClient`, one of this database: for programs that make their clients themselves."""
    return _options({}, _Both(database._core))


def _options(options: dict[str, Any], transport: Any) -> dict[str, Any]:
    foreign = _OWN & set(options)
    if foreign:
        raise BadInputError(f"qdrant(): {', '.join(sorted(foreign))} would lead to another server; this client only serves this database")
    # The version is looked up over a socket of its own.
    return {"url": "http://ramlet.in-process", "check_compatibility": False, "timeout": 600, **options, "transport": transport}


def _answer(core: Any, request: httpx.Request, body: bytes) -> httpx.Response:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw if name.lower() != b"host"]
    target = request.url.raw_path.decode("ascii")
    status, told, content, _ = core.request(request.method, target, headers, body or None)
    return httpx.Response(status, headers=told, content=content, request=request)


class _Local:
    def __init__(self, core: Any):
        self._core = core

    def __reduce__(self) -> Any:
        raise BadInputError("this client lives in the process that has the database open: upload with parallel=1")


class _Transport(_Local, httpx.BaseTransport):

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _answer(self._core, request, request.read())


class _AsyncTransport(_Local, httpx.AsyncBaseTransport):

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        return await asyncio.to_thread(_answer, self._core, request, body)


class _Both(_Transport, _AsyncTransport):
    pass
