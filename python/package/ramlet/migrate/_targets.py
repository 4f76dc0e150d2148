"""Where points go: a data directory that this process opens, or a running server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np

from .. import _database
from .._collection import Collection
from .._sources import Batch
from ._rows import MigrationError, Rows, plain


class Target(Protocol):
    def prepare(self, first: Rows, distance: str, datatype: str | None, text: Sequence[str]) -> bool:
        """Makes the collection for rows like these where there is none, and says whether it did; else looks whether they fit."""
        ...

    def count(self) -> int: ...

    def has_all(self, ids: list[int | str]) -> bool: ...

    def put(self, ids: list[int | str], rows: Rows) -> None: ...

    def finish(self) -> None: ...


class _Api:
    """What both share: requests of the API about one collection."""

    def __init__(self, name: str):
        self.name = name
        self.path = f"/collections/{quote(name, safe='')}"

    def request(self, method: str, target: str, body: Any = None) -> Any:
        raise NotImplementedError

    def prepare(self, first: Rows, distance: str, datatype: str | None, text: Sequence[str]) -> bool:
        wanted: dict[str, Any] = {}
        for name, column in first.vectors.items():
            params = {"size": _width(name, column), "distance": distance, "on_disk": True}
            wanted[name] = {**params, "datatype": datatype} if datatype else params
        is_new = not self.request("GET", f"{self.path}/exists")["exists"]
        if is_new:
            body: dict[str, Any] = {"vectors": wanted[""] if set(wanted) == {""} else wanted}
            if first.sparse:
                body["sparse_vectors"] = {name: {} for name in first.sparse}
            self.request("PUT", self.path, body)
        else:
            self._compare(wanted)
        for field in text:
            schema = {"type": "text", "scoring": True, "phrase_matching": True}
            self.request("PUT", f"{self.path}/index?wait=true", {"field_name": field, "field_schema": schema})
        return is_new

    def _compare(self, wanted: dict[str, Any]) -> None:
        there = self.request("GET", self.path)["config"]["params"].get("vectors") or {}
        named = {"": there} if "size" in there else there
        for name, params in wanted.items():
            if name not in named:
                known = ", ".join(repr(each) for each in named) or "none"
                raise MigrationError(f"the collection {self.name!r} has no vector {name!r}; it has {known}")
            if named[name]["size"] != params["size"]:
                raise MigrationError(
                    f"the rows have {params['size']} dimensions, the collection {self.name!r} has {named[name]['size']}: name another collection"
                )

    def count(self) -> int:
        return self.request("POST", f"{self.path}/points/count", {"exact": True})["count"]

    def has_all(self, ids: list[int | str]) -> bool:
        asked = {"ids": ids, "with_payload": False, "with_vector": False}
        return len(self.request("POST", f"{self.path}/points", asked)) == len(set(ids))

    def finish(self) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Database(_Api):
    """A data directory, opened within its budget."""

    def __init__(self, path: str, memory: str | None, name: str):
        super().__init__(name)
        self._db = _database.open(path, memory)

    def request(self, method: str, target: str, body: Any = None) -> Any:
        return self._db.request(method, target, body)

    def put(self, ids: list[int | str], rows: Rows) -> None:
        vectors: dict[str, Any] = {**rows.vectors, **rows.sparse}
        Collection(self._db, self.name).add(vectors, ids=ids, payload=[plain(row) for row in rows.payload])

    def __exit__(self, *_: object) -> None:
        self._db.close()


class Server(_Api):
    """A server, by its REST API."""

    def __init__(self, url: str, key: str | None, name: str):
        super().__init__(name)
        self._url = url.rstrip("/")
        self._headers = {"content-type": "application/json", **({"api-key": key} if key else {})}

    def request(self, method: str, target: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(self._url + target, data=data, headers=self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as error:
            raise MigrationError(_said(error)) from None
        except urllib.error.URLError as error:
            raise MigrationError(f"{self._url} doesn't answer: {error.reason}") from None

    def put(self, ids: list[int | str], rows: Rows) -> None:
        columns: dict[str, Any] = {**rows.vectors, **rows.sparse}
        batch = Batch(ids, columns, [plain(row) for row in rows.payload], False, 0)
        points = batch.points()
        for point in points:
            given = point["vector"]
            point["vector"] = _listed(given)
        try:
            self.request("PUT", f"{self.path}/points?wait=true", {"points": points})
        except ValueError:
            raise MigrationError("a vector or a number of the payload isn't finite (NaN or infinite)") from None


def _listed(vector: Any) -> Any:
    if isinstance(vector, dict):
        return {name: _listed(each) for name, each in vector.items()}
    return vector.tolist() if isinstance(vector, np.ndarray) else vector


def _said(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["status"]["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code}: {text or error.reason}"


def _width(name: str, column: Any) -> int:
    row = next((row for row in column if row is not None), None)
    if row is None:
        raise MigrationError(f"none of the first rows has the vector {name or 'wanted'!r}: its dimension is unknown; create the collection first")
    return len(row)
