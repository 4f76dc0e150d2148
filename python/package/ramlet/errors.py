"""Exceptions. All derive from `RamletError`, and most also from a built-in exception."""

from __future__ import annotations

import json


class RamletError(Exception):
    """Any failure of Ramlet. The message says what happened, where, and what to do."""


class BadInputError(RamletError, ValueError):
    """The request is invalid: a wrong dimension, NaN, an unknown setting."""


class NotFoundError(RamletError, LookupError):
    """The collection, point, vector or snapshot doesn't exist."""


class AlreadyExistsError(RamletError):
    """A collection with this name exists already."""


class BudgetError(RamletError, MemoryError):
    """The memory budget is too small.

    `needed_bytes` and `available_bytes` are the two numbers, or None where they aren't known. `is_final`: asking again is in vain, only a larger
    budget or a smaller request helps.
    """

    def __init__(self, message: str, needed_bytes: int | None = None, available_bytes: int | None = None, is_final: bool = False):
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.is_final = is_final


class BusyError(RamletError):
    """A queue is full; try again."""


class LockedError(RamletError):
    """Another process, or another handle of this one, has the directory open."""


class ClosedError(RamletError):
    """The database was closed, or belongs to the parent process of a fork."""


class FullError(RamletError, OSError):
    """The disk, or the process's file descriptors, are used up."""


class StorageError(RamletError, OSError):
    """Reading or writing failed. If writes to the collection have stopped until it is opened again, the message says so."""


class CorruptError(StorageError):
    """Bytes on disk are damaged."""


class RequestTimeoutError(RamletError, TimeoutError):
    """The request timed out."""


_CLASSES: dict[str, type[RamletError]] = {
    "BadInput": BadInputError,
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Busy": BusyError,
    "Locked": LockedError,
    "Closed": ClosedError,
    "Full": FullError,
    "Storage": StorageError,
    "CollectionClosed": StorageError,
    "WritesStopped": StorageError,
    "Corrupt": CorruptError,
    "Timeout": RequestTimeoutError,
}


def make(kind: str, message: str, numbers: tuple[int, int] | None = None) -> RamletError:
    """The exception for a kind of engine error."""
    if kind in ("OverBudget", "TooLarge", "MemoryFull"):
        needed, available = numbers or (None, None)
        return BudgetError(message, needed, available, is_final=kind != "OverBudget")
    return _CLASSES[kind](message)


def of_response(status: int, body: bytes, numbers: tuple[int, int] | None) -> RamletError:
    """The exception for a refusal of the API."""
    try:
        message = json.loads(body)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace") or f"status {status}"
    return make(_kind(status, message), message, numbers)


def _kind(status: int, message: str) -> str:
    if status == 429:
        return "OverBudget" if message.startswith("Memory budget") else "Busy"
    if status == 507 and message.startswith("Memory full"):
        return "MemoryFull"
    if status == 503:
        return "Closed" if message.startswith("Shutting down") else "Storage"
    if status == 500 and "corrupt data" in message:
        return "Corrupt"
    known = {404: "NotFound", 408: "Timeout", 409: "AlreadyExists", 413: "TooLarge", 507: "Full"}
    return known.get(status, "BadInput" if 400 <= status < 500 else "Storage")
