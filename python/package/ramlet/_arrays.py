"""Vectors of callers as float32 in C order: as they lie where that can be, else a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import BadInputError

_NUMBERS = "fiub"


def as_array(name: str, given: Any) -> np.ndarray:
    """A numeric array of whatever was given; nothing is copied where numpy needn't."""
    if hasattr(given, "detach") and hasattr(given, "numpy"):
        # A tensor of torch, which numpy refuses while it has a gradient.
        given = given.detach().cpu().numpy()
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise BadInputError(f"{name}: rows of different lengths: {error}") from None
    if array.dtype == object or array.dtype.kind not in _NUMBERS:
        if array.size == 0:
            return array.astype(np.float32)
        if array.ndim == 1 and not isinstance(given, (list, tuple)):
            rows = _stacked(array)
            if rows is not None:
                return as_array(name, rows)
        raise BadInputError(f"{name}: an array of {array.dtype}: vectors are numbers, all rows of one length")
    return array


def _stacked(column: np.ndarray) -> list[Any] | None:
    """Rows of a column whose values are vectors, as a series of pandas or polars and an array of Arrow give it; None: they aren't."""
    return list(column) if all(isinstance(each, (np.ndarray, list, tuple)) for each in column) else None


def queries_of(given: Any) -> tuple[np.ndarray, bool]:
    """Queries as rows, and whether there is just one that came without brackets."""
    array = as_array("queries", given)
    if array.ndim not in (1, 2):
        raise BadInputError(f"queries of shape {array.shape}: one vector, or an array (n, dim)")
    single = array.ndim == 1
    if single:
        array = array[None, :]
    if array.shape[1] == 0:
        raise BadInputError("queries are empty")
    return as_rows(array), single


def as_rows(array: np.ndarray) -> np.ndarray:
    """These rows as float32 in C order, in the machine's byte order."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def check_bytes(name: str, array: np.ndarray, first: int) -> None:
    """Refuses what a vector of uint8 can't hold, by its row."""
    if array.dtype == np.uint8 or array.size == 0:
        return
    whole = (array >= 0) & (array <= 255)
    if array.dtype.kind == "f":
        whole &= np.floor(array) == array
    if not whole.all():
        row, column = np.argwhere(~whole)[0]
        what = f"vectors of {name or 'the collection'} are uint8: {array[row, column]} (row {first + row}, element {column}) is no whole number from 0 to 255"
        raise BadInputError(f"{what}; scale and round them, or create the collection with datatype='float32'")
