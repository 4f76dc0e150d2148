"""A disk of our own: an ext4 file system in a file, mounted through a loop device, that loses power or room when it is told to."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

# FS_IOC_SHUTDOWN of ext4, f2fs and xfs; 2 (NOLOGFLUSH): neither data nor the journal is written any more, as without power.
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


class CannotMake(Exception):
    """No such disk can be made here; the message says why."""


def _run(*command):
    try:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise CannotMake(f"there is no `{command[0]}`") from None
    except subprocess.CalledProcessError as error:
        raise CannotMake(f"{' '.join(map(str, command))}: {error.stderr.strip()}") from error


class LoopDisk:
    """An ext4 of `megabytes` under `work`, mounted at `path`."""

    def __init__(self, work, megabytes):
        if os.geteuid() != 0:
            raise CannotMake("mounting a file system needs root")
        self.image, self.path = Path(work) / "disk.img", Path(work) / "disk"
        self.path.mkdir(parents=True)
        with open(self.image, "wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
        self.mount()

    def mount(self):
        """Replays the journal, as after a power loss."""
        _run("mount", "-o", "loop", self.image, self.path)
        probe = self.path / "probe"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            # A mount namespace that somebody made meanwhile has a copy of the mount: the disk without power was never gone.
            raise CannotMake(f"{self.path} is mounted elsewhere too ({error}); run it behind `unshare -m --propagation private`") from error

    def unmount(self, timeout=20):
        give_up = time.monotonic() + timeout
        while True:
            try:
                return _run("umount", self.path)
            except CannotMake:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def cut(self):
        """The power fails: what isn't on the disk by now is lost, and every call fails."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        except OSError as error:
            raise CannotMake(f"FS_IOC_SHUTDOWN: {error}") from error
        finally:
            os.close(handle)

    def free(self):
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave=0, name="eaten"):
        """Somebody else takes the room, but for `leave` bytes."""
        with open(self.path / name, "ab") as file:
            while (wanted := self.free() - leave) > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), wanted if wanted < 1 << 20 else wanted // 2)
                except OSError:
                    if wanted < 64 << 10:
                        return

    def give_back(self, name="eaten"):
        (self.path / name).unlink(missing_ok=True)

    def check(self):
        """The file system itself, unmounted: an ext4 that is damaged would say nothing about us."""
        done = subprocess.run(["e2fsck", "-fn", str(self.image)], capture_output=True, text=True)
        return done.returncode == 0, done.stdout

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], capture_output=True)
        self.image.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
