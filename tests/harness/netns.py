"""Network namespaces of our own: a loopback and links that nobody else uses, so that the kernel's counts are of one conversation."""

import ctypes
import os
import subprocess
import threading
from pathlib import Path

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class CannotMake(Exception):
    """No namespace can be made here; the message says why."""


def _checked(result, what):
    if result != 0:
        raise CannotMake(f"{what}: {os.strerror(ctypes.get_errno())}")


class Namespace:
    """Threads enter it by `run`; what they start is in it too."""

    def __init__(self):
        self.fd = None
        self._in_thread(self._make)
        self.run(self.ip, "link", "set", "lo", "up")

    def _make(self):
        _checked(_libc.unshare(CLONE_NEWNET), "a network namespace")
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    @staticmethod
    def _in_thread(call, *arguments, **named):
        done = {}

        def work():
            try:
                done["result"] = call(*arguments, **named)
            except BaseException as error:  # noqa: BLE001  raised again by who waits
                done["error"] = error

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if "error" in done:
            raise done["error"]
        return done["result"]

    def run(self, call, *arguments, **named):
        """Calls it on a thread in the namespace, and waits."""

        def entered():
            _checked(_libc.setns(self.fd, CLONE_NEWNET), "entering a network namespace")
            return call(*arguments, **named)

        return self._in_thread(entered)

    @staticmethod
    def ip(*arguments):
        try:
            subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise CannotMake("there is no `ip` (package iproute2)") from None
        except subprocess.CalledProcessError as error:
            raise CannotMake(f"ip {' '.join(arguments)}: {error.stderr.strip()}") from error

    def link(self, other, mtu=1500):
        """A cable between the two: this end is 10.0.0.1, the other's 10.0.0.2."""
        there = f"/proc/{os.getpid()}/fd/{other.fd}"
        self.run(self.ip, "link", "add", "here", "mtu", str(mtu), "type", "veth", "peer", "name", "there", "mtu", str(mtu), "netns", there)
        for space, name, address in ((self, "here", "10.0.0.1/24"), (other, "there", "10.0.0.2/24")):
            space.run(self.ip, "address", "add", address, "dev", name)
            space.run(self.ip, "link", "set", name, "up")

    def counts(self):
        """The kernel's extended counts of TCP in this namespace, by their names."""
        return self.run(self._counts)

    @staticmethod
    def _counts():
        names, values = (line.split()[1:] for line in Path("/proc/thread-self/net/netstat").read_text().splitlines() if line.startswith("TcpExt:"))
        return dict(zip(names, map(int, values)))

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
