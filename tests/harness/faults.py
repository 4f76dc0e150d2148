"""System calls of a server that fail: tests/harness/faults.c, compiled on first use, and what is set in it while the server runs."""

import errno
import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

CALLS = {"write": 1, "fsync": 2, "fdatasync": 4, "rename": 8, "read": 16, "fallocate": 32, "create": 64, "unlink": 128}
FAIL, PRETEND, SHORT, DELAY = 1, 2, 3, 4
FOREVER = 1 << 40
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT, "EROFS": errno.EROFS}
_HEAD, _COUNTS, _MATCH, _WHERE = 0, 16, 48, 144


class CannotMake(Exception):
    """The shim can't be compiled here; the message says why."""


class Faults:
    """Put `environment` into the server's. Nothing fails before `arm`."""

    def __init__(self, root, work):
        library, self.control = Path(work) / "faults.so", Path(work) / "faults.control"
        compiler = shutil.which("cc")
        if not compiler:
            raise CannotMake("there is no C compiler (cc)")
        source = Path(__file__).with_name("faults.c")
        done = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True, text=True)
        if done.returncode:
            raise CannotMake(f"cc: {done.stderr}")
        self.control.write_bytes(bytes(4096))
        self._file = open(self.control, "r+b")
        self._map = mmap.mmap(self._file.fileno(), 4096)
        Path(root).mkdir(parents=True, exist_ok=True)
        self.environment = {"LD_PRELOAD": str(library), "FAULTS_CONTROL": str(self.control), "FAULTS_ROOT": str(Path(root).resolve())}

    def slow(self, calls, milliseconds, match=""):
        """From now on these calls take so much longer."""
        self.arm(calls, match=match, times=FOREVER, how=DELAY, delay_ms=milliseconds)

    def arm(self, calls, error="EIO", match="", before=0, times=1, how=FAIL, delay_ms=0):
        """After `before` of these calls on paths that contain `match`, the next `times` fail."""
        self.disarm()
        mask = sum(CALLS[call] for call in calls)
        self._map[_COUNTS:_MATCH] = struct.pack("<qqqq", before, times, 0, 0)
        self._map[_MATCH:_WHERE] = match.encode().ljust(_WHERE - _MATCH, b"\0")
        self._map[_WHERE : _WHERE + 256] = bytes(256)
        self._map[_HEAD + 4 : _COUNTS] = struct.pack("<III", ERRORS[error], mask, delay_ms)
        self._map[_HEAD : _HEAD + 4] = struct.pack("<I", how)

    def disarm(self):
        self._map[_HEAD : _HEAD + 4] = bytes(4)

    @property
    def hits(self):
        """Calls that failed since `arm`."""
        return struct.unpack("<q", self._map[_COUNTS + 16 : _COUNTS + 24])[0]

    @property
    def where(self):
        """The path, below the root, of the first one."""
        return self._map[_WHERE : _WHERE + 256].split(b"\0")[0].decode()

    def wait(self, timeout):
        """Whether something was hit within that time."""
        give_up = time.monotonic() + timeout
        while not self.hits and time.monotonic() < give_up:
            time.sleep(0.005)
        return bool(self.hits)

    def close(self):
        self._map.close()
        self._file.close()
