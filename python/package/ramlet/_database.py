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
    """Opens a data directory, and creates it if it is missing.

    `memory`: the most that the engine may use in this process, in bytes or as `"135MB"`; the interpreter, numpy and your own data are not included. Default: a
    quarter of the cgroup's limit, or of the machine's RAM. `threads`: number of search threads; default four per core, fewer in a small budget. `backend`:
    how files are read, `"auto"`, `"io_uring"`, `"pread"` or `"mmap"`.

    Raises `BudgetError` if the memory is too small (with both numbers), and `LockedError` if another process has the directory open.
    """
    given = default_memory() if memory is None else size(memory)
    # Threads and descriptors aren't made for what a name alone would refuse.
    folder = Path(os.fspath(path))
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is a file: the data needs a directory")
    return Database(_ramlet.Core(folder, given, threads, backend), folder)


def plan(points: int, dim: int, memory: int | str | None = None, *, threads: int | None = None, **spec: Any) -> dict[str, Any]:
    """Predicts the memory and speed of a collection before an upload. Without `memory`, all useful memory is planned.

    `spec`: further fields of a plan (docs/plan.md): `datatype`, `distance`, `recall`, `k`, `payload_bytes`, `ids`, `index`, `hardness`. Speeds are for the
    reference machine with this one's cores.
    """
    fields = _ramlet.dumps({"points": points, "dim": dim, **spec})
    return json.loads(_ramlet.plan(fields, None if memory is None else size(memory), threads))


class Database:
    """Collections in a directory, within a RAM budget. Thread-safe; only one process can open it at a time."""

    def __init__(self, core: _ramlet.Core, path: Path):
        self._core = core
        self.path = path
        # Also if nobody closed it, and at the interpreter's exit.
        self._finalizer = weakref.finalize(self, core.close)

    def close(self) -> None:
        """Interrupts long calls, waits for the others, frees the memory and releases the lock. No data is lost, because added points are in the log."""
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
        """Creates a collection.

        `dim`: the dimension of its unnamed vector. `vectors`: named vectors, each a dimension or the API's settings. `sparse`: names of sparse vectors, or their
        settings. Without these, points have only payloads. `distance`: cosine, dot, euclid, manhattan. `datatype`: float32, float16, uint8.
        `indexes`: payload fields and the kind of their index (keyword, integer, float, bool, geo, datetime, uuid, text), or the API's parameters.
        `settings`: other settings of the API, such as `quantization_config`. With `exist_ok` an existing collection is returned unchanged.
        """
        if not name:
            raise BadInputError("the collection's name is empty")
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
        """An existing collection, by its name or an alias."""
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
        """All collections, ordered by name."""
        return [Collection(self, name) for name in self._core.collection_names()]

    def delete_collection(self, name: str) -> bool:
        """Deletes a collection and its files; returns False if there was none."""
        return bool(self.request("DELETE", f"/collections/{quote(name, safe='')}"))

    def memory(self) -> dict[str, Any]:
        """The budget: its rows, the current and peak bytes of each consumer, and the kernel's figures for the whole process."""
        return self._raw("GET", "/memory")["result"]

    def plan(self, points: int | None = None, dim: int | None = None, *, collection: str | None = None, **spec: Any) -> dict[str, Any]:
        """Like `ramlet.plan`, with this database's memory and threads. `collection` takes the fields of an existing one; other arguments override them."""
        fields = {"points": points, "dim": dim, "collection": collection, "in_process": True, **spec}
        if spec.get("memory") is not None:
            fields["memory_bytes"] = size(fields.pop("memory"))
        return self.request("POST", "/plan", {key: value for key, value in fields.items() if value is not None})["plan"]

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Writes a snapshot of all collections into a new file, while they are in use."""
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
        """Arguments for a program that creates a `QdrantClient` or `AsyncQdrantClient` itself, so that the client uses this database."""
        from ._qdrant import options_of

        return options_of(self)

    def request(self, method: str, target: str, body: Any = None) -> Any:
        """Sends a request of the API (docs/compatibility.md) in process and returns its `result`. `body`: anything that JSON can hold, and arrays."""
        return self._raw(method, target, body)["result"]

    def _raw(self, method: str, target: str, body: Any = None) -> Any:
        headers = [] if body is None else [("content-type", "application/json")]
        sent = None if body is None else _ramlet.dumps(body)
        status, _, answer, numbers = self._core.request(method, target, headers, sent)
        if status >= 400:
            raise errors.of_response(status, answer, numbers)
        return json.loads(answer)

    def _save(self, snapshots: str, path: Path) -> Path:
        """Takes a snapshot and moves it to `path`."""
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
