"""Sizes as people write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .errors import BadInputError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def size(value: int | str) -> int:
    """Bytes of `"135MB"`, `"1.5 GiB"` or a number. Decimal units are decimal: 1 MB is 1,000,000 bytes.

    >>> size("135MB"), size("1 GiB"), size(64_000_000)
    (135000000, 1073741824, 64000000)
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise BadInputError(f"memory={value!r}: give bytes as an int, or a str such as '135MB'")
    if isinstance(value, int):
        if value <= 0:
            raise BadInputError(f"memory={value}: give bytes, for example 135_000_000, or '135MB'")
        if value < 100_000:
            raise BadInputError(f"memory={value} is {value} bytes: was '{value}MB' meant?")
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].upper() not in _UNITS:
        raise BadInputError(f"memory={value!r} is not a size: write '135MB', '1.5GB' or '512MiB'")
    if not match[2] and float(match[1]) < 100_000:
        raise BadInputError(f"memory={value!r} has no unit: was '{match[1]}MB' meant?")
    return size(int(float(match[1]) * _UNITS[match[2].upper()]))


def default_memory() -> int:
    """A quarter of what this process may use: of its cgroup's limit, or of the machine's RAM."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return min(limits) // 4
