"""A collection: points in, points out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from . import _ramlet, errors
from ._arrays import queries_of
from ._filters import encoded, joined
from ._results import Group, Hits, Point
from ._sources import Progress, batches
from .errors import BadInputError, BudgetError

if TYPE_CHECKING:
    from ._database import Database

_PAGE = 256
"""Points that a scroll reads at once."""


class Collection:
    """A handle of a collection by its name. It holds no resources, and also works for a later collection with that name."""

    def __init__(self, database: Database, name: str):
        self._db = database
        self.name = name
        self._path = f"/collections/{quote(name, safe='')}"
        # The vector that is meant where none is named: asking for it takes a lock that a writer may hold.
        self._main: str | None = None

    def __repr__(self) -> str:
        return f"<ramlet.Collection {self.name!r}>"

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    # Points in.

    def add(
        self,
        vectors: Any = None,
        *,
        ids: Any = None,
        payload: Any = None,
        mode: str = "upsert",
        vector_column: str | Mapping[str, str] | None = None,
        shard_key: str | int | None = None,
        progress: Any = None,
    ) -> np.ndarray | list[Any]:
        """Writes points; returns their ids when all are durable and searchable.

        `vectors`: an array (n, dim), a list of lists, a dict of these by vector name, or a frame: a pyarrow table, record batch or reader, a pandas or polars
        frame, or anything with `__arrow_c_stream__`. Float32 in C order is read without a copy; everything else is converted batch by batch.
        Sparse vectors are dicts `{"indices", "values"}`, multivectors lists of lists, texts `{"text", "model"}`.

        `ids`: integers from 0 to 2**64 - 1, UUIDs, or a frame's column (default: `id`, if it exists). Without ids, new UUIDs are generated.
        `payload`: a list of dicts, or a dict of columns, where None and NaN mean that a point lacks the field. A frame's other columns are its payload.
        `vector_column`: a frame's column of vectors, or {vector name: column}.
        `mode`: "upsert" replaces points with the same id, "insert" skips them, "update" writes only them.
        `progress`: called with (done, total) after each batch; or a tqdm bar.

        If an upload fails or is interrupted, the batches before it stay.
        """
        if mode not in ("upsert", "insert", "update"):
            raise BadInputError(f"mode={mode!r}: upsert, insert or update")
        dense, sparse = self._db._core.vectors_of(self.name)
        source = batches(vectors, ids, payload, vector_column, dense, sparse)
        told = Progress(progress, source.total)
        written: list[Any] = []
        writer = None
        try:
            for batch in source:
                if batch.plain and mode == "upsert":
                    writer = writer or _ramlet.Writer(self._db._core, self.name, shard_key)
                    try:
                        writer.put(batch.ids, list(batch.vectors.items()), batch.payload)
                    except BadInputError as error:
                        raise BadInputError(f"{batch.place()}: {error}") from None
                else:
                    self._put_json(batch.points(), mode, shard_key)
                written.append(batch.ids)
                told.advance(len(batch.ids))
            if writer is not None:
                writer.finish()
        finally:
            # Whoever keeps the error keeps this frame, and closing waits for writers: `with ramlet.open(..)` would never end.
            writer = None
        return _joined_ids(written)

    upsert = add

    def _put_json(self, points: list[dict[str, Any]], mode: str, shard_key: str | int | None) -> None:
        """Writes by the API, for vectors that don't fit arrays. If the memory doesn't suffice for all at once, it sends halves."""
        body: dict[str, Any] = {"points": points}
        if mode != "upsert":
            body["update_mode"] = f"{mode}_only"
        if shard_key is not None:
            body["shard_key"] = shard_key
        try:
            self._db.request("PUT", f"{self._path}/points?wait=true", body)
        except BudgetError:
            if len(points) == 1:
                raise
            half = len(points) // 2
            self._put_json(points[:half], mode, shard_key)
            self._put_json(points[half:], mode, shard_key)

    def set_payload(self, payload: Mapping[str, Any], ids: Any = None, *, filter: Any = None, where: Mapping[str, Any] | None = None) -> None:
        """Merges `payload` into the payload of the points with these ids, or of the matching points."""
        body = {"payload": payload, **_selected(ids, filter, where)}
        self._db.request("POST", f"{self._path}/points/payload?wait=true", body)

    def delete(
        self,
        ids: Any = None,
        *,
        filter: Any = None,
        where: Mapping[str, Any] | None = None,
        batch: int = 1_000,
        progress: Any = None,
    ) -> int:
        """Deletes points by ids from any iterable, in batches, or all matching points. Returns how many existed.

        `where={}` and `filter={}` mean all points; a call without arguments is refused.
        """
        if ids is None:
            selected = _selected(None, filter, where)
            there = self.count(filter=selected["filter"])
            self._db.request("POST", f"{self._path}/points/delete?wait=true", selected)
            return there
        if filter is not None or where is not None:
            raise BadInputError("give ids or a filter, not both")
        before, told = self.count(), Progress(progress, len(ids) if hasattr(ids, "__len__") else None)
        for some in _portions([ids] if _is_one(ids) else ids, batch):
            self._db.request("POST", f"{self._path}/points/delete?wait=true", {"points": some})
            told.advance(len(some))
        return max(before - self.count(), 0)

    # Points out.

    def search(
        self,
        queries: Any,
        limit: int = 10,
        *,
        using: str | None = None,
        filter: Any = None,
        where: Mapping[str, Any] | None = None,
        with_payload: bool | Sequence[str] | Mapping[str, Sequence[str]] = False,
        with_vectors: bool | Sequence[str] = False,
        exact: bool = False,
        recall: float | None = None,
        ef: int | None = None,
        score_threshold: float | None = None,
        offset: int = 0,
        rescore: bool | None = None,
        oversampling: float | None = None,
        indexed_only: bool = False,
        shard_key: str | int | None = None,
        progress: Any = None,
    ) -> Hits:
        """The nearest points of one vector, or of each row of an array.

        `using`: the vector's name, if there are several. `where`: conditions on fields (see `ramlet.where`). `filter`: the API's form. Both may be given.
        `with_payload`: True, names of fields, or {"exclude": names}. `recall`: the recall to reach, as measured at the index build;
        `exact`: compare all vectors; `ef`: the search effort as a number. All search threads share the rows.

        For texts, sparse vectors, fusion and everything else use `query`.
        """
        if using is None:
            using = self._main = self._main if self._main is not None else self._the_vector()
        array, single = queries_of(queries)
        if not isinstance(limit, (int, np.integer)) or limit < 1:
            raise BadInputError(f"limit={limit!r}: at least 1")
        asked = {
            "using": using,
            "limit": int(limit),
            "offset": offset,
            "filter": encoded(filter, where),
            "score_threshold": score_threshold,
            "exact": exact,
            "ef": ef,
            "recall": recall,
            "indexed_only": indexed_only,
            "rescore": rescore,
            "oversampling": oversampling,
            "payload": _selector("with_payload", with_payload),
            "vectors": _selector("with_vectors", with_vectors),
        }
        told = None if progress is None else Progress(progress, len(array)).set
        try:
            found = _ramlet.search(self._db._core, self.name, array, asked, shard_key, told)
        except BadInputError:
            # Another collection may have the name by now, with other vectors.
            if using != self._main or (main := self._the_vector()) == using:
                raise
            asked["using"] = self._main = main
            found = _ramlet.search(self._db._core, self.name, array, asked, shard_key, told)
        return Hits(found, len(array), int(limit), single)

    def _the_vector(self) -> str:
        names = [vector[0] for vector in self._db._core.vectors_of(self.name)[0]]
        if len(names) == 1 or "" in names:
            return names[0] if len(names) == 1 else ""
        if not names:
            raise BadInputError(f"{self.name} has no dense vector: search texts and sparse vectors with query(...)")
        raise BadInputError(f"{self.name} has the vectors {', '.join(names)}: choose one with using={names[0]!r}")

    def query(self, query: Any = None, *, where: Mapping[str, Any] | None = None, filter: Any = None, **request: Any) -> list[Point]:
        """Runs a query of the API: texts, sparse vectors, hybrid queries with `prefetch`, fusion, formulas, recommendations, orders.

        `query`: any query of the API, also with arrays; a str ranks texts by BM25 in the field `using`. `request`: the API's other fields (`prefetch`, `using`, `limit`,
        `params`, `score_threshold`, `with_payload`, ...). A dict with the whole request works too: `query(**request)`.
        """
        body = _request(query, where, filter, request)
        told = self._db.request("POST", f"{self._path}/points/query", body)
        return [Point.of(point) for point in told["points"]]

    def query_groups(self, query: Any = None, *, group_by: str, where: Mapping[str, Any] | None = None, filter: Any = None, **request: Any) -> list[Group]:
        """The same, grouped by the values of a payload field: `limit` groups of `group_size` points."""
        body = {**_request(query, where, filter, request), "group_by": group_by}
        told = self._db.request("POST", f"{self._path}/points/query/groups", body)
        return [
            Group(group["id"], [Point.of(point) for point in group["hits"]], Point.of(group["lookup"]) if group.get("lookup") else None)
            for group in told["groups"]
        ]

    def explain(self, query: Any = None, *, where: Mapping[str, Any] | None = None, filter: Any = None, **request: Any) -> dict[str, Any]:
        """Explains how a query is executed: for each segment its index, strategy, candidates, codes and rows compared, reads."""
        body = _request(query, where, filter, request)
        body["params"] = {**(body.get("params") or {}), "explain": True}
        return self._db._raw("POST", f"{self._path}/points/query", body).get("explain", {})

    def get(self, ids: Any, *, with_payload: Any = True, with_vectors: Any = False) -> list[Point]:
        """Points by id, in the order of the ids; those that aren't there are left out."""
        asked = {"ids": _id_list(ids), "with_payload": with_payload, "with_vector": with_vectors}
        return [Point.of(point) for point in self._db.request("POST", f"{self._path}/points", asked)]

    def scroll(
        self,
        *,
        filter: Any = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        order_by: Any = None,
        batch: int = _PAGE,
    ) -> Iterator[Point]:
        """All points, or those that match, in the order of their ids; `batch` of them are in memory at once.

        `order_by`: a field with an index; then at most `limit` points (default: one batch).
        """
        body = {"filter": joined(filter, where), "with_payload": with_payload, "with_vector": with_vectors, "order_by": order_by}
        body = {key: value for key, value in body.items() if value is not None}
        left = limit if limit is not None else batch if order_by is not None else None
        while left is None or left > 0:
            page = batch if left is None else left if order_by is not None else min(batch, left)
            told = self._db.request("POST", f"{self._path}/points/scroll", {**body, "limit": page})
            for point in told["points"]:
                yield Point.of(point)
            if left is not None:
                left -= len(told["points"])
            if told["next_page_offset"] is None:
                return
            body["offset"] = told["next_page_offset"]

    def count(self, *, filter: Any = None, where: Mapping[str, Any] | None = None, exact: bool = True) -> int:
        """How many points there are, or match."""
        body = {"exact": exact}
        both = joined(filter, where)
        if both is not None:
            body["filter"] = both
        return self._db.request("POST", f"{self._path}/points/count", body)["count"]

    def facet(self, key: str, *, limit: int = 10, filter: Any = None, where: Mapping[str, Any] | None = None) -> dict[Any, int]:
        """The most frequent values of a field, with their counts. The field needs an index."""
        body = {"key": key, "limit": limit, "exact": True, "filter": joined(filter, where)}
        told = self._db.request("POST", f"{self._path}/facet", {k: v for k, v in body.items() if v is not None})
        return {hit["value"]: hit["count"] for hit in told["hits"]}

    # The collection itself.

    def info(self) -> dict[str, Any]:
        """Status, counts, settings, payload indexes."""
        return self._db.request("GET", self._path)

    def memory(self) -> dict[str, Any]:
        """The bytes of each part, in RAM and on disk, and how its vectors are indexed."""
        return self._db.request("GET", f"{self._path}/memory")

    def create_index(self, field: str, kind: str | Mapping[str, Any] = "keyword") -> None:
        """Creates an index of a payload field, so that filters read little. `{"type": "text", "scoring": True}` makes texts that `query` can rank."""
        schema = dict(kind) if isinstance(kind, Mapping) else kind
        self._db.request("PUT", f"{self._path}/index?wait=true", {"field_name": field, "field_schema": schema})

    def delete_index(self, field: str) -> None:
        self._db.request("DELETE", f"{self._path}/index/{quote(field, safe='')}?wait=true")

    def update(self, **settings: Any) -> None:
        """Changes settings, as the API's `PATCH /collections/{name}`."""
        self._db.request("PATCH", self._path, settings)

    def settle(self) -> None:
        """Waits until new points are in segments and all indexes are built. Searches needn't wait for it."""
        self._db._core.settle(self.name)

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Writes a snapshot of the collection into a new file, while it is in use."""
        return self._db._save(f"{self._path}/snapshots", Path(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replaces the collection by a snapshot."""
        status, _, answer, numbers = self._db._core.request(
            "POST", f"{self._path}/snapshots/upload?wait=true&priority=snapshot", [], Path(path)
        )
        if status >= 400:
            raise errors.of_response(status, answer, numbers)


def _selector(name: str, given: Any) -> Any:
    if given is None or isinstance(given, bool):
        return bool(given)
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        if set(given) == {"include"}:
            return list(given["include"])
        if set(given) == {"exclude"}:
            return (list(given["exclude"]),)
    elif isinstance(given, Iterable):
        return list(given)
    raise BadInputError(f"{name}={given!r}: True, False, a list of names, or {{'exclude': names}}")


def _request(query: Any, where: Mapping[str, Any] | None, filter: Any, request: dict[str, Any]) -> dict[str, Any]:
    body = dict(request)
    if query is not None:
        body["query"] = {"text": query} if isinstance(query, str) else query
    both = joined(filter, where)
    if both is not None:
        body["filter"] = both
    return body


def _is_one(ids: Any) -> bool:
    return isinstance(ids, (int, str, np.integer)) or hasattr(ids, "hex") and not isinstance(ids, (list, tuple, np.ndarray))


def _id_list(ids: Any) -> list[Any]:
    if _is_one(ids):
        ids = [ids]
    return ids.tolist() if isinstance(ids, np.ndarray) else [str(i) if hasattr(i, "hex") and not isinstance(i, (int, float)) else i for i in ids]


def _selected(ids: Any, filter: Any, where: Mapping[str, Any] | None) -> dict[str, Any]:
    if ids is not None:
        if filter is not None or where is not None:
            raise BadInputError("give ids or a filter, not both")
        return {"points": _id_list(ids)}
    if filter is None and where is None:
        raise BadInputError("choose points with ids=, where= or filter=; where={} is all of them")
    return {"filter": joined(filter, where) or {}}


def _portions(ids: Iterable[Any], batch: int) -> Iterator[list[Any]]:
    some: list[Any] = []
    for id in ids:
        some.append(id)
        if len(some) >= batch:
            yield _id_list(some)
            some = []
    if some:
        yield _id_list(some)


def _joined_ids(written: list[Any]) -> np.ndarray | list[Any]:
    if written and all(isinstance(ids, np.ndarray) for ids in written):
        return written[0] if len(written) == 1 else np.concatenate(written)
    return [id for ids in written for id in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]
