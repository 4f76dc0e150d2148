"""Where points come from: arrays, lists, frames. All become batches of a bounded size."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _frames, _ramlet
from ._arrays import as_array, as_rows, check_bytes
from .errors import BadInputError

_BATCH_BYTES = 1 << 20
"""Of vectors in a batch: about one group of the log."""
_BATCH_ROWS = 8_192
_BATCH_JSON = 256
"""Points of a batch that goes through JSON."""


class Progress:
    """What a caller is told how far it is: a function of (done, total), or a bar with `update`."""

    def __init__(self, told: Any, total: int | None):
        self._tell: Callable[[int, int | None], Any] | None = None
        self._bar = None
        if hasattr(told, "update"):
            self._bar = told
        elif callable(told):
            self._tell = told
        elif told is not None:
            raise BadInputError(f"progress={told!r}: expected a function of (done, total), or a tqdm bar")
        self.done, self.total = 0, total

    def advance(self, more: int) -> None:
        self.done += more
        if self._bar is not None:
            self._bar.update(more)
        elif self._tell is not None:
            self._tell(self.done, self.total)

    def set(self, done: int, _total: int) -> None:
        self.advance(done - self.done)


class Batch:
    """Some points: `vectors` by name. `plain`: dense float32 arrays all, which go to the engine as they are."""

    __slots__ = ("ids", "vectors", "payload", "plain", "first")

    def __init__(self, ids: Any, vectors: dict[str, Any], payload: Any, plain: bool, first: int):
        self.ids, self.vectors, self.payload, self.plain, self.first = ids, vectors, payload, plain, first

    def place(self) -> str:
        """Where the batch is among all rows; where it has a number that isn't finite, that row."""
        for rows in self.vectors.values():
            wrong = ~np.isfinite(rows).all(axis=1)
            if wrong.any():
                return f"row {self.first + int(wrong.argmax())}"
        return f"rows {self.first} to {self.first + len(self.ids) - 1}"

    def points(self) -> list[dict[str, Any]]:
        """One by one, in the API's form."""
        ids = self.ids.tolist() if isinstance(self.ids, np.ndarray) else [i if isinstance(i, int) else str(i) for i in self.ids]
        points: list[dict[str, Any]] = []
        for at, id in enumerate(ids):
            vectors = {name: column[at] for name, column in self.vectors.items() if column[at] is not None}
            point = {"id": id, "vector": vectors[""] if set(vectors) == {""} else vectors}
            payload = self._payload(at)
            if payload:
                point["payload"] = payload
            points.append(point)
        return points

    def _payload(self, at: int) -> Any:
        if isinstance(self.payload, Mapping):
            row = {name: column[at] for name, column in self.payload.items()}
            return {name: value for name, value in row.items() if value is not None and value == value}
        return None if self.payload is None else self.payload[at]


class Batches:
    """Batches, and how many points there will be, where that is known."""

    def __init__(self, make: Iterator[Batch], total: int | None):
        self._make, self.total = make, total

    def __iter__(self) -> Iterator[Batch]:
        return self._make


def batches(vectors: Any, ids: Any, payload: Any, column: Any, dense: list[tuple], sparse: list[str]) -> Batches:
    """Points as batches; `dense`: (name, dimensions, datatype, distance, several parts) of the collection's vectors."""
    if _frames.is_frame(vectors):
        if payload is not None:
            raise BadInputError("a frame's columns other than ids and vectors are its payload: payload= is only for arrays")
        parts, total = _frames.parts(vectors, ids, column, dense, _rows_of(dense))
        return Batches((batch for part in parts for batch in _of_columns(*part, dense, sparse)), total)
    if column is not None:
        raise BadInputError("vector_column= is for frames")
    named = _named(vectors, dense, sparse)
    if hasattr(ids, "__next__"):
        # How many there are is asked before any is used.
        ids = list(ids)
    count = _count(named, ids, payload)
    return Batches(_of_columns(ids, named, payload, count, 0, dense, sparse), count)


def _rows_of(dense: list[tuple]) -> int:
    floats = sum(vector[1] for vector in dense) or 256
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // (4 * floats)))


def _named(vectors: Any, dense: list[tuple], sparse: list[str]) -> dict[str, Any]:
    if vectors is None:
        return {}
    if isinstance(vectors, Mapping):
        return dict(vectors)
    names = [vector[0] for vector in dense]
    if len(names) == 1:
        return {names[0]: vectors}
    if "" in names:
        return {"": vectors}
    every = names + list(sparse)
    if len(every) == 1:
        return {every[0]: vectors}
    if not every:
        raise BadInputError("the collection has no vectors: give only ids= and payload=")
    raise BadInputError(f"the collection has the vectors {', '.join(every)}: give a dict, {{{every[0]!r}: array, ...}}")


def _count(named: dict[str, Any], ids: Any, payload: Any) -> int:
    lengths = {f"vectors {name!r}" if name else "vectors": _rows(name, column) for name, column in named.items()}
    if ids is not None:
        lengths["ids"] = len(ids) if hasattr(ids, "__len__") and not isinstance(ids, (str, bytes)) else 1
    if isinstance(payload, Mapping):
        text = next((name for name, column in payload.items() if isinstance(column, (str, bytes))), None)
        if text is not None:
            raise BadInputError(f"payload column {text!r} is one text: a column is a list, with a value for each point")
        lengths.update({f"payload column {name!r}": len(column) for name, column in payload.items()})
    elif payload is not None:
        lengths["payload"] = len(payload)
    if not lengths:
        raise BadInputError("nothing to add: give vectors, a frame, or ids and payload")
    if len(set(lengths.values())) > 1:
        raise BadInputError("as many of each: " + ", ".join(f"{n} {what}" for what, n in lengths.items()))
    return next(iter(lengths.values()))


def _rows(name: str, column: Any) -> int:
    if not hasattr(column, "__len__"):
        what = f"vectors {name!r}" if name else "vectors"
        raise BadInputError(f"{what}: {type(column).__name__} is neither an array nor a list: give list(..) or np.stack(..)")
    if getattr(column, "ndim", None) == 1 and column.dtype.kind in "fiub" or isinstance(column, Sequence) and column and np.isscalar(column[0]):
        raise BadInputError(f"vectors of shape ({len(column)},): an array (n, dim); for one point write [vector]")
    return len(column)


def _of_columns(
    ids: Any, named: dict[str, Any], payload: Any, count: int, first: int, dense: list[tuple], sparse: list[str]
) -> Iterator[Batch]:
    """Cuts columns of `count` points; `first`: the number of the first of them, for messages."""
    kinds = {vector[0]: vector for vector in dense}
    columns, plain = {}, bool(named)
    for name, column in named.items():
        vector = kinds.get(name)
        if vector is None or vector[4]:
            if vector is None and name not in sparse:
                known = ", ".join(repr(each) for each in [*kinds, *sparse])
                raise BadInputError(f"the collection has no vector {name!r}; it has {known or 'none'}")
            plain, columns[name] = False, column
            continue
        if _holds_objects(column):
            plain, columns[name] = False, column
            continue
        array = as_array(f"vectors {name!r}" if name else "vectors", column)
        if array.ndim != 2:
            raise BadInputError(f"vectors of shape {array.shape}: an array (n, dim)")
        if array.shape[1] != vector[1] and count:
            raise BadInputError(f"vectors have {array.shape[1]} dimensions, the collection's {name!r} has {vector[1]}" if name else
                                f"vectors have {array.shape[1]} dimensions, the collection has {vector[1]}")
        columns[name] = array
    numbered = _ids(ids, count)
    payload = _payload_of(payload)
    step = _rows_of(dense) if plain else _BATCH_JSON
    for start in range(0, count, step):
        span = slice(start, min(start + step, count))
        cut = {}
        for name, column in columns.items():
            if not isinstance(column, np.ndarray):
                cut[name] = column[span]
                continue
            rows = column[span]
            if kinds[name][2] == "uint8":
                check_bytes(name, rows, first + start)
            cut[name] = as_rows(rows)
        some = _ramlet.new_ids(span.stop - start) if numbered is None else numbered[span]
        yield Batch(some, cut, _payload_cut(payload, span), plain, first + start)


def _holds_objects(column: Any) -> bool:
    """Whether points have texts, or nothing, for a vector: what no array of numbers says."""
    if isinstance(column, np.ndarray):
        return False
    return isinstance(column, Sequence) and any(each is None or isinstance(each, Mapping) for each in column)


def _ids(ids: Any, count: int) -> Any:
    """Ids as an array of uint64 where they are numbers, else a list; None: new ones."""
    if ids is None:
        return None
    if isinstance(ids, (int, str, uuid.UUID, np.integer)):
        ids = [ids]
    if isinstance(ids, range):
        if count and (min(ids[0], ids[-1]) < 0 or max(ids[0], ids[-1]) >= 2**64):
            raise BadInputError(f"ids={ids}: an id is an integer from 0 to 2**64 - 1")
        return np.arange(ids.start, ids.stop, ids.step, dtype=np.uint64) if ids.step > 0 else np.array(list(ids), dtype=np.uint64)
    if not isinstance(ids, np.ndarray) and hasattr(ids, "to_numpy"):
        # A series of pandas or polars.
        ids = ids.to_numpy()
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise BadInputError(f"ids of shape {ids.shape}: one row of them")
        if ids.dtype.kind == "u":
            return np.ascontiguousarray(ids, dtype=np.uint64)
        if ids.dtype.kind == "i":
            if ids.size and ids.min() < 0:
                raise BadInputError(f"ids[{int(ids.argmin())}] is {ids.min()}: an id is an integer from 0 to 2**64 - 1, or a UUID")
            return np.ascontiguousarray(ids, dtype=np.uint64)
        if ids.dtype.kind not in "OU":
            raise BadInputError(f"ids of {ids.dtype}: an id is an integer from 0 to 2**64 - 1, or a UUID")
        ids = ids.tolist()
    if not isinstance(ids, list):
        ids = list(ids)
    if all(type(id) is int for id in ids):
        wrong = next((at for at, id in enumerate(ids) if not 0 <= id < 2**64), None)
        if wrong is not None:
            raise BadInputError(f"ids[{wrong}] is {ids[wrong]}: an id is an integer from 0 to 2**64 - 1, or a UUID")
        return np.array(ids, dtype=np.uint64)
    return ids


def _payload_of(payload: Any) -> Any:
    if payload is None or isinstance(payload, Mapping):
        return payload
    if hasattr(payload, "to_dict") and hasattr(payload, "columns"):
        # A frame of pandas beside an array of vectors.
        return {str(name): payload[name] for name in payload.columns}
    return list(payload) if not isinstance(payload, list) else payload


def _payload_cut(payload: Any, span: slice) -> Any:
    if payload is None:
        return None
    if isinstance(payload, Mapping):
        return {str(name): _plain(column[span]) for name, column in payload.items()}
    return payload[span]


def _plain(column: Any) -> list[Any]:
    """Values of numpy, pandas or pyarrow as Python's own."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)
