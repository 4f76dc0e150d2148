"""The same for asyncio: each call runs on a thread of the database's own pool, with the interpreter's lock released.

    async with await ramlet.aio.open("data", memory="135MB") as db:
        docs = await db.create("docs", dim=384)
        await docs.add(vectors)
        hits = await docs.search(query)

A cancelled call raises at once; what runs on its thread already goes on to its end.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from . import _database
from ._collection import _PAGE, Collection
from ._database import Database
from ._results import Point

__all__ = ["AsyncCollection", "AsyncDatabase", "open"]

_T = TypeVar("_T")
_THREADS = 8


async def open(path: str | os.PathLike[str], memory: int | str | None = None, *, threads: int | None = None, backend: str = "auto") -> AsyncDatabase:
    """As `ramlet.open`."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ramlet-aio")
    try:
        opened = await _on(pool, _database.open, path, memory, threads=threads, backend=backend)
    except BaseException:
        pool.shutdown(wait=False)
        raise
    return AsyncDatabase(opened, pool)


async def _on(pool: ThreadPoolExecutor, call: Callable[..., _T], *args: Any, **options: Any) -> _T:
    return await asyncio.get_running_loop().run_in_executor(pool, functools.partial(call, *args, **options))


def _awaited(method: Callable[..., _T]) -> Callable[..., Awaitable[_T]]:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> _T:
        return await _on(self._pool, method, self.sync, *args, **options)

    return call


def _awaited_collection(method: Callable[..., Collection]) -> Callable[..., Awaitable[AsyncCollection]]:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> AsyncCollection:
        return AsyncCollection(await _on(self._pool, method, self.sync, *args, **options), self._pool)

    return call


class AsyncCollection:
    """A collection whose methods are awaited; `sync` is the one behind it."""

    def __init__(self, sync: Collection, pool: ThreadPoolExecutor):
        self.sync = sync
        self._pool = pool

    @property
    def name(self) -> str:
        return self.sync.name

    def __repr__(self) -> str:
        return f"<ramlet.aio.AsyncCollection {self.name!r}>"

    add = _awaited(Collection.add)
    upsert = add
    set_payload = _awaited(Collection.set_payload)
    delete = _awaited(Collection.delete)
    search = _awaited(Collection.search)
    query = _awaited(Collection.query)
    query_groups = _awaited(Collection.query_groups)
    explain = _awaited(Collection.explain)
    get = _awaited(Collection.get)
    count = _awaited(Collection.count)
    facet = _awaited(Collection.facet)
    info = _awaited(Collection.info)
    memory = _awaited(Collection.memory)
    create_index = _awaited(Collection.create_index)
    delete_index = _awaited(Collection.delete_index)
    update = _awaited(Collection.update)
    settle = _awaited(Collection.settle)
    snapshot = _awaited(Collection.snapshot)
    restore = _awaited(Collection.restore)

    async def scroll(self, *, batch: int = _PAGE, **options: Any) -> AsyncIterator[Point]:
        """As `Collection.scroll`; the loop is free while a page is read."""
        points = self.sync.scroll(batch=batch, **options)
        while page := await _on(self._pool, lambda: list(itertools.islice(points, batch))):
            for point in page:
                yield point


class AsyncDatabase:
    """A database whose methods are awaited; `sync` is the one behind it."""

    def __init__(self, sync: Database, pool: ThreadPoolExecutor):
        self.sync = sync
        self._pool = pool

    create = _awaited_collection(Database.create)
    collection = _awaited_collection(Database.collection)
    delete_collection = _awaited(Database.delete_collection)
    memory = _awaited(Database.memory)
    plan = _awaited(Database.plan)
    snapshot = _awaited(Database.snapshot)
    request = _awaited(Database.request)

    async def collections(self) -> list[AsyncCollection]:
        found = await _on(self._pool, self.sync.collections)
        return [AsyncCollection(each, self._pool) for each in found]

    def qdrant(self, **options: Any) -> Any:
        """An `AsyncQdrantClient` over this database."""
        return self.sync.async_qdrant(**options)

    def qdrant_options(self) -> dict[str, Any]:
        """As `Database.qdrant_options`."""
        return self.sync.qdrant_options()

    @property
    def closed(self) -> bool:
        return self.sync.closed

    async def close(self) -> None:
        # On a thread of its own: those of the pool may all be at work on what this ends.
        await asyncio.to_thread(self.sync.close)
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<ramlet.aio.AsyncDatabase {str(self.sync.path)!r}{' (closed)' if self.closed else ''}>"
