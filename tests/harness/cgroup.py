"""A memory cgroup of our own, version 1 or 2: the real limit that the promise is about."""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class CannotMake(Exception):
    """No cgroup can be made here; the message says why."""


def _own_v1():
    """The v1 directory that this process may make groups in: its own memory group, or the root of the hierarchy."""
    memory = ROOT / "memory"
    if not (memory / "memory.limit_in_bytes").exists():
        return None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            own = memory / path.lstrip("/")
            if own.is_dir():
                return own
    return memory


def _own_v2():
    """A v2 directory that hands its memory controller down to children."""
    if not (ROOT / "cgroup.controllers").exists():
        return None
    own = ROOT
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            own = ROOT / path.lstrip("/")
    # Version 2 allows processes in leaves only, so a group beside our own is as good as one below it.
    for parent in (own, own.parent, ROOT):
        try:
            if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                return parent
            (parent / "cgroup.subtree_control").write_text("+memory")
            return parent
        except OSError:
            continue
    return None


class MemoryCgroup:
    """A group with a hard limit; `close` kills what is left in it and removes it."""

    def __init__(self, limit, name=None):
        parent = _own_v1()
        self.v2 = parent is None
        parent = parent or _own_v2()
        if parent is None:
            raise CannotMake("there is no memory controller to be used here")
        self.path = parent / (name or f"ramlet-{os.getpid()}-{time.monotonic_ns() % 1_000_000}")
        try:
            self.path.mkdir()
        except OSError as error:
            raise CannotMake(f"{parent}: {error.strerror}") from error
        try:
            self._write("memory.max" if self.v2 else "memory.limit_in_bytes", limit)
            for swap, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit)):
                if (self.path / swap).exists():
                    self._write(swap, value)
        except OSError as error:
            self.path.rmdir()
            raise CannotMake(f"{self.path}: {error.strerror}") from error

    def _write(self, name, value):
        (self.path / name).write_text(str(value))

    def _read(self, name):
        return (self.path / name).read_text()

    def enter(self):
        """Moves the calling process into the group: for `preexec_fn`, so that the first page is charged here already."""
        self._write("cgroup.procs", os.getpid())

    def usage(self):
        """Bytes charged now."""
        return int(self._read("memory.current" if self.v2 else "memory.usage_in_bytes"))

    def peak(self):
        """Most bytes ever charged; None where the kernel doesn't keep it (version 2 before Linux 5.19)."""
        name = "memory.peak" if self.v2 else "memory.max_usage_in_bytes"
        return int(self._read(name)) if (self.path / name).exists() else None

    def stat(self):
        """The parts of the usage, by the kernel's names."""
        pairs = (line.split() for line in self._read("memory.stat").splitlines())
        return {name: int(value) for name, value in pairs}

    def oom_kills(self):
        """Processes that the kernel killed for memory in this group."""
        text = self._read("memory.events" if self.v2 else "memory.oom_control")
        counts = dict(line.split() for line in text.splitlines())
        return int(counts.get("oom_kill", 0))

    def failcnt(self):
        """How often the limit was met (version 1): reclaim, not failure."""
        return None if self.v2 else int(self._read("memory.failcnt"))

    def close(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                for pid in self._read("cgroup.procs").split():
                    try:
                        os.kill(int(pid), 9)
                    except (ProcessLookupError, ValueError):
                        pass
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
