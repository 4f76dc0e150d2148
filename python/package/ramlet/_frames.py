"""Frames: pyarrow's tables, batches and readers, pandas', polars', and whatever else speaks Arrow's C interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .errors import BadInputError

_VECTOR_NAMES = ("vector", "embedding", "embeddings", "vectors")
Part = tuple[Any, dict[str, Any], dict[str, list[Any]], int, int]
"""ids, vectors by name, payload columns, rows, number of the first row."""


def is_frame(given: Any) -> bool:
    """Whether it has named columns. Arrays and series of Arrow have an interface too, and are arrays."""
    if isinstance(given, (Mapping, np.ndarray, list, tuple)) or given is None:
        return False
    if type(given).__name__ == "LazyFrame":
        raise BadInputError("a lazy frame has no rows yet: give frame.collect()")
    if hasattr(given, "columns") or hasattr(given, "schema") and hasattr(given, "__arrow_c_stream__"):
        return True
    return hasattr(given, "__arrow_c_stream__") and not hasattr(given, "__array__")


def parts(frame: Any, ids: Any, vector_column: Any, dense: list[tuple], rows: int) -> tuple[Iterator[Part], int | None]:
    """The frame in parts of at most `rows` rows, and how many rows there are."""
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        arrow = _pyarrow()
        if arrow is not None:
            return _of_arrow(arrow, frame, ids, vector_column, dense, rows)
    names = [str(name) for name in frame.columns]
    if not hasattr(frame, "__len__") or not hasattr(frame, "__getitem__"):
        raise BadInputError(f"a frame of type {type(frame).__name__} is read through pyarrow, which isn't installed: pip install pyarrow")
    chosen = _columns(names, ids, vector_column, dense)
    return _of_columns(frame, names, *chosen, rows), len(frame)


def _pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped]
    except ImportError:
        return None
    return pyarrow


def _columns(names: list[str], ids: Any, vector_column: Any, dense: list[tuple]) -> tuple[Any, dict[str, str]]:
    """The column of ids, or the ids; and the column of each vector."""
    if ids is None and "id" in names:
        ids = "id"
    if isinstance(ids, str) and ids not in names:
        raise BadInputError(f"ids={ids!r} is not a column; the columns are {', '.join(names)}")
    if isinstance(vector_column, Mapping):
        chosen = {str(name): str(column) for name, column in vector_column.items()}
    else:
        known = [vector[0] for vector in dense]
        name = known[0] if len(known) == 1 else ""
        if vector_column is not None:
            chosen = {name: str(vector_column)}
        elif len(known) > 1:
            chosen = {each: each for each in known if each in names}
        else:
            found = [column for column in ([name] if name else []) + list(_VECTOR_NAMES) if column in names]
            chosen = {name: found[0]} if found else {}
    if not chosen and dense:
        raise BadInputError(f"name the column of vectors: vector_column=; the columns are {', '.join(names)}")
    missing = [column for column in chosen.values() if column not in names]
    if missing:
        raise BadInputError(f"vector_column: there is no column {missing[0]!r}, but {', '.join(names)}")
    return ids, chosen


def _ids_of(ids: Any, column: Any, first: int, rows: int) -> Any:
    if isinstance(ids, str):
        return column(ids)
    return None if ids is None else ids[first : first + rows]


def _of_arrow(arrow: Any, frame: Any, ids: Any, vector_column: Any, dense: list[tuple], rows: int) -> tuple[Iterator[Part], int | None]:
    total = getattr(frame, "num_rows", None)
    if total is None and hasattr(frame, "__len__"):
        total = len(frame)
    if isinstance(frame, arrow.Table):
        schema, stream = frame.schema, iter(frame.to_batches(max_chunksize=rows))
    elif isinstance(frame, arrow.RecordBatch):
        schema, stream = frame.schema, iter([frame])
    elif hasattr(frame, "__arrow_c_stream__"):
        reader = frame if isinstance(frame, arrow.RecordBatchReader) else arrow.RecordBatchReader.from_stream(frame)
        schema, stream = reader.schema, iter(reader)
    else:
        batch = arrow.record_batch(frame)
        schema, stream = batch.schema, iter([batch])
    ids, chosen = _columns(list(schema.names), ids, vector_column, dense)

    def cut() -> Iterator[Part]:
        first = 0
        for whole in stream:
            for start in range(0, whole.num_rows, rows):
                batch = whole.slice(start, rows)
                count = batch.num_rows
                vectors = {name: _arrow_vectors(arrow, column, batch.column(column), first) for name, column in chosen.items()}
                numbered = _ids_of(ids, lambda name, batch=batch: _arrow_ids(arrow, batch.column(name), name, first), first, count)
                taken = {*chosen.values(), *([ids] if isinstance(ids, str) else []), "__index_level_0__"}
                payload = {name: batch.column(name).to_pylist() for name in batch.schema.names if name not in taken}
                yield numbered, vectors, payload, count, first
                first += count

    return cut(), total


def _arrow_vectors(arrow: Any, name: str, column: Any, first: int) -> Any:
    """Lists of one length as rows of an array over the same memory; anything else as Python has it."""
    kind = column.type
    if arrow.types.is_struct(kind) or arrow.types.is_string(kind):
        return column.to_pylist()
    if not (arrow.types.is_fixed_size_list(kind) or arrow.types.is_list(kind) or arrow.types.is_large_list(kind)):
        raise BadInputError(f"column {name!r} is {kind}: vectors are lists of numbers")
    if column.null_count:
        row = next(at for at, valid in enumerate(column.is_valid().to_pylist()) if not valid)
        raise BadInputError(f"column {name!r}, row {first + row}: null instead of a vector; remove such rows")
    values = column.flatten()
    if not (arrow.types.is_floating(values.type) or arrow.types.is_integer(values.type)):
        return column.to_pylist()
    if values.null_count:
        raise BadInputError(f"column {name!r}: a vector between rows {first} and {first + len(column)} has a null in it")
    dim = len(values) // max(len(column), 1)
    if not arrow.types.is_fixed_size_list(kind):
        lengths = np.asarray(column.value_lengths())
        if len(lengths) and (lengths != lengths[0]).any():
            row = int(np.argmax(lengths != lengths[0]))
            raise BadInputError(f"column {name!r}, row {first + row}: {lengths[row]} numbers, but {lengths[0]} in row {first}")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), dim)


def _arrow_ids(arrow: Any, column: Any, name: str, first: int) -> Any:
    if column.null_count:
        row = next(at for at, valid in enumerate(column.is_valid().to_pylist()) if not valid)
        raise BadInputError(f"column {name!r}, row {first + row}: null instead of an id")
    if arrow.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()


def _of_columns(frame: Any, names: list[str], ids: Any, chosen: dict[str, str], rows: int) -> Iterator[Part]:
    """Frames that are read column by column, without Arrow."""
    taken = {*chosen.values(), *([ids] if isinstance(ids, str) else [])}
    for first in range(0, len(frame), rows):
        some = frame.iloc[first : first + rows] if hasattr(frame, "iloc") else frame[first : first + rows]
        count = len(some)
        vectors = {name: _stacked(column, some[column], first) for name, column in chosen.items()}
        numbered = _ids_of(ids, lambda name, some=some: some[name], first, count)
        payload = {name: some[name].to_list() for name in names if name not in taken}
        yield numbered, vectors, payload, count, first


def _stacked(name: str, column: Any, first: int) -> Any:
    array = column.to_numpy()
    if array.dtype != object:
        return array
    lengths = [len(each) if hasattr(each, "__len__") else None for each in array]
    wrong = next((at for at, length in enumerate(lengths) if length != lengths[0] or length is None), None)
    if wrong is not None:
        raise BadInputError(f"column {name!r}, row {first + wrong}: {array[wrong]!r} is not a vector of {lengths[0]} numbers")
    return list(array) if lengths and isinstance(array[0], Mapping) else np.stack([np.asarray(each) for each in array])
