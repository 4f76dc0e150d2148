"""Reads the images shipped in testdata/fashion-mnist; standard library only."""

import array
import json
import lzma
import struct
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / "testdata/fashion-mnist"


def _int32(name):
    """An .ibin file as rows of ids."""
    raw = (DIRECTORY / name).read_bytes()
    rows, columns = struct.unpack_from("<II", raw)
    numbers = array.array("i", raw[8:])
    if sys.byteorder == "big":
        numbers.byteswap()
    return [list(numbers[r * columns : (r + 1) * columns]) for r in range(rows)]


def write_import_files(directory):
    """Unpacks the images as base.u8bin, for `ramlet import`, and their labels as JSON lines; returns both paths and the count."""
    base, payload = Path(directory) / "base.u8bin", Path(directory) / "labels.jsonl"
    raw = lzma.decompress((DIRECTORY / "base.u8bin.xz").read_bytes())
    base.write_bytes(raw)
    labels = lzma.decompress((DIRECTORY / "base-labels.u8.xz").read_bytes())
    payload.write_text("".join(json.dumps({"label": label}) + "\n" for label in labels))
    return base, payload, struct.unpack_from("<I", raw)[0]


def queries():
    """The query images as lists of numbers."""
    raw = lzma.decompress((DIRECTORY / "query.u8bin.xz").read_bytes())
    rows, columns = struct.unpack_from("<II", raw)
    return [list(raw[8 + r * columns : 8 + (r + 1) * columns]) for r in range(rows)]


def truth():
    """Exact ten nearest images of each query by Euclidean distance: among all, and among those of label 3."""
    return _int32("truth.ibin"), _int32("truth-label3.ibin")
