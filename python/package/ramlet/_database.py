"""An open data directory."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import _ramlet, errors
from ._collection import Collection
from ._memory import default_memory, size
from .errors import AlreadyExistsError, BadInputError, NotFoundError

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

_DISTANCES = {"cosine": "Cosine", "dot": "Dot", "euclid": "Euclid", "l2": "Euclid", "manhattan": "Manhattan", "l1": "Manhattan"}


def open(path: str | os.PathLike[str], memory: int | str | None = None, *, threads: int | None = None, backend: str = "auto") -> Database:
    """Opens a directory, and makes it where there is none.

    `memory`: all that the engine may ever use in this process, in bytes or as `"135MB"`; the interpreter, numpy and your own data come on top. Without it a
    quarter of the machine's RAM, or of the cgroup's limit. `threads` that search: four a core, fewer in a small budget. `backend`:
    how files are read, `"auto"`, `"io_uring"`, `"pread"` or `"mmap"`.

    Raises `BudgetError` where the memory is too little (with both numbers), `LockedError` where another process has the directory open.
    """
    given = default_memory() if memory is None else size(memory)
    # Threads and descriptors aren't made for what a name alone would refuse.
    folder = Path(os.fspath(path))
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is a file: the data needs a directory")
    return Database(_ramlet.Core(folder, given, threads, backend), folder)


def plan(points: int, dim: int, memory: int | str | None = None, *, threads: int | None = None, **spec: Any) -> dict[str, Any]:
    """What a collection needs and how fast it will be, before there is one; without `memory` with as much as helps.

    `spec`: further fields of a plan (docs/plan.md): `datatype`, `distance`, `recall`, `k`, `payload_bytes`, `ids`, `index`, `hardness`. Speeds are those of the
    reference machine with this one's cores.
    """
    fields = _ramlet.dumps({"points": points, "dim": dim, **spec})
    return json.loads(_ramlet.plan(fields, None if memory is None else size(memory), threads))


class Database:
    """Collections in a directory, within a budget of RAM. Safe to use from several threads; one process at a time."""

    def __init__(self, core: _ramlet.Core, path: Path):
        self._core = core
        self.path = path
        # Also where nobody closed it, and at the interpreter's end.
        self._finalizer = weakref.finalize(self, core.close)

    def close(self) -> None:
        """Ends long calls, waits for the others, gives the memory back and the lock up. Nothing is lost: what was added is in the log."""
        self._finalizer.detach()
        self._core.close()

    @property
    def closed(self) -> bool:
        return self._core.closed

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ramlet.Database {str(self.path)!r}{' (closed)' if self.closed else ''}>"

    def create(
        self,
        name: str,
        dim: int | None = None,
        *,
        distance: str = "cosine",
        datatype: str | None = None,
        vectors: Mapping[str, int | Mapping[str, Any]] | None = None,
        sparse: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
        indexes: Mapping[str, str | Mapping[str, Any]] | None = None,
        exist_ok: bool = False,
        **settings: Any,
    ) -> Collection:
        """A new collection.

        `dim`: of its one unnamed vector. `vectors`: several by name, each a dimension or the API's settings. `sparse`: names of sparse vectors, or their
        settings. None of these: points with payloads alone. `distance`: cosine, dot, euclid, manhattan. `datatype`: float32, float16, uint8.
        `indexes`: payload fields and the kind of their index (keyword, integer, float, bool, geo, datetime, uuid, text), or the API's parameters.
        `settings`: what else the API takes, such as `quantization_config`. With `exist_ok` a collection that is there is returned as it is.
        """
        if exist_ok and name in self:
            return self.collection(name)
        body: dict[str, Any] = dict(settings)
        body["vectors"] = _vectors(dim, vectors, distance, datatype)
        if sparse is not None:
            body["sparse_vectors"] = dict(sparse) if isinstance(sparse, Mapping) else {each: {} for each in sparse}
        try:
            self.request("PUT", f"/collections/{quote(name, safe='')}", body)
        except AlreadyExistsError as error:
            raise AlreadyExistsError(f"{error} Take it with db.collection({name!r}), or pass exist_ok=True") from None
        collection = Collection(self, name)
        for field, kind in (indexes or {}).items():
            collection.create_index(field, kind)
        return collection

    def collection(self, name: str) -> Collection:
        """A collection that is there, by its name or an alias."""
        self._core.vectors_of(name)
        return Collection(self, name)

    def __getitem__(self, name: str) -> Collection:
        return self.collection(name)

    def __contains__(self, name: object) -> bool:
        try:
            self._core.vectors_of(str(name))
        except NotFoundError:
            return False
        return True

    def __iter__(self) -> Iterator[Collection]:
        return iter(self.collections())

    def collections(self) -> list[Collection]:
        """All of them, by name."""
        return [Collection(self, name) for name in self._core.collection_names()]

    def delete_collection(self, name: str) -> bool:
        """Deletes a collection and its files; False where there was none."""
        return bool(self.request("DELETE", f"/collections/{quote(name, safe='')}"))

    def memory(self) -> dict[str, Any]:
        """The budget: its rows, who holds how many bytes of it now and held at most, and what the kernel says of the whole process."""
        return self._raw("GET", "/memory")["result"]

    def plan(self, points: int | None = None, dim: int | None = None, *, collection: str | None = None, **spec: Any) -> dict[str, Any]:
        """As `ramlet.plan`, within this database's memory and threads; `collection`: for one that is there, and then what differs from it."""
        fields = {"points": points, "dim": dim, "collection": collection, "in_process": True, **spec}
        if spec.get("memory") is not None:
            fields["memory_bytes"] = size(fields.pop("memory"))
        return self.request("POST", "/plan", {key: value for key, value in fields.items() if value is not None})["plan"]

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Writes all collections into a file that isn't there yet; they are used meanwhile."""
        return self._save("/snapshots", Path(path))

    def qdrant(self, **options: Any) -> QdrantClient:
        """A `qdrant_client.QdrantClient` that talks to this database, in process and without a port. Needs the package qdrant-client."""
        from ._qdrant import client

        return client(self, options)

    def async_qdrant(self, **options: Any) -> AsyncQdrantClient:
        """The same for asyncio."""
        from ._qdrant import async_client

        return async_client(self, options)

    def qdrant_options(self) -> dict[str, Any]:
        """Arguments with which a program that makes a `QdrantClient` or `AsyncQdrantClient` itself makes one of this database."""
        from ._qdrant import options_of

        return options_of(self)

    def request(self, method: str, target: str, body: Any = None) -> Any:
        """A request of the API (docs/compatibility.md), answered in process: its `result`. `body`: whatever JSON can say, arrays too."""
        return self._raw(method, target, body)["result"]

    def _raw(self, method: str, target: str, body: Any = None) -> Any:
        headers = [] if body is None else [("content-type", "application/json")]
        sent = None if body is None else _ramlet.dumps(body)
        status, _, answer, numbers = self._core.request(method, target, headers, sent)
        if status >= 400:
            raise errors.of_response(status, answer, numbers)
        return json.loads(answer)

    def _save(self, snapshots: str, path: Path) -> Path:
        """Takes a snapshot, moves it to `path`, and keeps none of its own."""
        if path.exists():
            raise BadInputError(f"{path} exists already: a snapshot doesn't replace a file")
        taken = self.request("POST", snapshots)["name"]
        target = f"{snapshots}/{quote(taken, safe='')}"
        try:
            status, _, answer, numbers = self._core.request("GET", target, [], save_to=path)
            if status >= 400:
                raise errors.of_response(status, answer, numbers)
        finally:
            self.request("DELETE", target)
        return path


def _vectors(dim: int | None, vectors: Mapping[str, int | Mapping[str, Any]] | None, distance: str, datatype: str | None) -> dict[str, Any]:
    if dim is not None and vectors is not None:
        raise BadInputError("dim is for the unnamed vector, vectors for named ones: give only one of them")
    if dim is not None:
        return _params(dim, distance, datatype)
    return {name: _params(given, distance, datatype) for name, given in (vectors or {}).items()}


def _params(given: int | Mapping[str, Any], distance: str, datatype: str | None) -> dict[str, Any]:
    params: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"size": given}
    named = params.get("distance", distance)
    params["distance"] = _DISTANCES.get(str(named).lower(), named)
    if datatype is not None:
        params.setdefault("datatype", datatype)
    return params
