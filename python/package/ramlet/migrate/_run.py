"""The command line, and the copying."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import RamletError
from . import _indexes, _pgvector, _tables
from ._rows import MigrationError, Rows, Source, point_id
from ._targets import Database, Server, Target

SOURCES = {
    "chroma": (_tables.Chroma, "a directory of Chroma, or the URL of its server"),
    "lancedb": (_tables.Lance, "a directory of LanceDB, or one table of it (NAME.lance)"),
    "faiss": (_indexes.Faiss, "an index file of FAISS"),
    "hnswlib": (_indexes.Hnswlib, "an index file of hnswlib"),
    "pgvector": (_pgvector.Copied, "what COPY .. TO or pg_dump wrote, as text, also .gz; - is standard input"),
}
BATCH_BYTES = 1 << 20
"""Of vectors that are under way at once."""
BATCH_MOST = 2_048
DIM = 1_024
"""Of a source that doesn't say how wide its rows are."""


@dataclass
class Summary:
    """What a copy did: rows read, those that were there already and stayed, points before and after."""

    rows: int
    skipped: int
    before: int
    after: int

    def __str__(self) -> str:
        new = self.after - self.before
        text = f"{self.rows:,} rows: {new:,} new points"
        if self.skipped:
            text += f", {self.skipped:,} were there already"
        replaced = self.rows - self.skipped - new
        return text + (f", {replaced:,} replaced ones" if replaced > 0 else "")


class _Told:
    """A line on standard error, once a second."""

    def __init__(self, total: int | None, quiet: bool):
        self.total, self.quiet = total, quiet
        self.begun = self.last = time.monotonic()

    def at(self, done: int, last: bool = False) -> None:
        now = time.monotonic()
        if self.quiet or (now - self.last < 1 and not last):
            return
        self.last = now
        of = f" of {self.total:,}" if self.total is not None else ""
        rate = done / max(now - self.begun, 1e-3)
        print(f"{done:,}{of} rows, {rate:,.0f} a second", end="\n" if last or not sys.stderr.isatty() else "\r", file=sys.stderr, flush=True)


def copy(
    source: Source,
    target: Target,
    *,
    distance: str | None = None,
    text: list[str] | None = None,
    datatype: str | None = None,
    resume: bool = False,
    batch: int | None = None,
    quiet: bool = True,
) -> Summary:
    """Copies all rows of a source. With `resume` portions whose points are all there are left as they are."""
    told, done, skipped = _Told(source.total, quiet), 0, 0
    portions = _sized(source, batch)
    first = next(portions, None)
    if first is None:
        raise MigrationError("there are no rows")
    made = target.prepare(first, distance or source.distance or "Cosine", datatype, text or [])
    before = target.count()
    if before and not (made or resume):
        print(f"the collection has {before:,} points already: rows with the same ids replace them", file=sys.stderr)
    try:
        for rows in _with(first, portions):
            ids = [point_id(given, payload) for given, payload in zip(rows.ids, rows.payload)]
            if resume and target.has_all(ids):
                skipped += len(ids)
            else:
                target.put(ids, rows)
            done += len(ids)
            told.at(done)
        target.finish()
    except (MigrationError, RamletError, KeyboardInterrupt) as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else str(error)
        raise MigrationError(f"after {done:,} rows: {what}\nTo continue, run the same command with --resume.") from error
    told.at(done, last=True)
    return Summary(done, skipped, before, target.count())


def _sized(source: Source, batch: int | None) -> Iterator[Rows]:
    """Portions of bounded bytes, of as many rows as their width allows where the source knows it."""
    return source.rows(batch or max(1, min(BATCH_MOST, BATCH_BYTES // (4 * (source.dim or DIM)))))


def _with(first: Rows, rest: Iterator[Rows]) -> Iterator[Rows]:
    yield first
    yield from rest


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ramlet migrate",
        description="Copies vectors, ids and payload out of another library, into a data directory or a running server. `ramlet import --from URL` copies a server of the Qdrant API.",
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="SOURCE")
    for kind, (make, what) in SOURCES.items():
        one = kinds.add_parser(kind, help=what, description=f"From {what}.")
        one.add_argument("path", help=what)
        make.arguments(one)
        one.add_argument("--collection", required=True, help="the collection to fill; it is made where there is none")
        into = one.add_mutually_exclusive_group(required=True)
        into.add_argument("--into", metavar="DIR", help="data directory, which no server has open")
        into.add_argument("--url", help="running server")
        one.add_argument("--memory", help="budget with --into [default: as ramlet.open]")
        one.add_argument("--api-key", default=os.environ.get("RAMLET_API_KEY"), help="key of the server [RAMLET_API_KEY]")
        one.add_argument("--distance", choices=["Cosine", "Dot", "Euclid", "Manhattan"], help="of a new collection [default: what the source says, else Cosine]")
        one.add_argument("--datatype", choices=["float32", "float16", "uint8"], help="of a new collection [default: float32]")
        one.add_argument("--text", action="append", default=[], metavar="FIELD", help="make a text index on this payload field, ranked by BM25; may be given several times")
        one.add_argument("--batch", type=_positive, help="rows at once [default: as many as make 1 MB of vectors, 2,048 at most]")
        one.add_argument("--resume", action="store_true", help="leave portions whose points are all there as they are")
        one.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(words: list[str]) -> int:
    """The command; its exit status."""
    args = _parser().parse_args(words)
    try:
        source = SOURCES[args.kind][0](args)
        made: Any = Database(args.into, args.memory, args.collection) if args.into else Server(args.url, args.api_key, args.collection)
        with made as target:
            told = copy(
                source,
                target,
                distance=args.distance,
                text=args.text,
                datatype=args.datatype,
                resume=args.resume,
                batch=args.batch,
                quiet=args.quiet,
            )
    except (MigrationError, RamletError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; to continue, run the same command with --resume", file=sys.stderr)
        return 130
    print(f"{told} in {args.collection!r}")
    return 0
