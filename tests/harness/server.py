"""`ramlet serve` as a process: started on a free port, waited for, stopped, killed, started again on the same data."""

import functools
import itertools
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from .http import Http

REPOSITORY = Path(__file__).resolve().parents[2]


def binary():
    """The binary under test: RAMLET_BIN, or the release build."""
    path = Path(os.environ.get("RAMLET_BIN") or REPOSITORY / "target/release/ramlet")
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: cargo build --release")
    return path


class Ports:
    """Ports for this process alone, below those that the kernel gives to connections: a server that is started again finds its own still free."""

    FIRST, EACH, BLOCKS = 12_000, 400, 50

    def __init__(self):
        self.mine = socket.socket(socket.AF_UNIX)
        for block in range(self.BLOCKS):
            try:
                # A name that the kernel lets one process have, for as long as it lives.
                self.mine.bind(f"\0ramlet-ports-{block}")
                break
            except OSError:
                continue
        else:
            raise RuntimeError("all blocks of ports are taken")
        first = self.FIRST + block * self.EACH
        self.turn = itertools.cycle(range(first, first + self.EACH))

    def next(self):
        for port in itertools.islice(self.turn, self.EACH):
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    sock.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue
        raise RuntimeError("no port is free")


@functools.cache
def ports():
    return Ports()


def free_port():
    return ports().next()


class Server:
    """A server on `data`. `arguments` are further flags of `ramlet serve`."""

    def __init__(self, data, memory="96MB", arguments=(), cgroup=None, key=None, environment=None):
        self.data, self.memory, self.arguments = Path(data), memory, list(arguments)
        self.cgroup, self.key, self.environment = cgroup, key, environment or {}
        self.port = free_port()
        self.grpc_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = self.data.parent / (self.data.name + ".log")
        self.process = None

    def command(self):
        command = [str(binary()), "serve", "--data", str(self.data), "--port", str(self.port), "--grpc-port", str(self.grpc_port)]
        if self.memory:
            command += ["--memory", self.memory]
        return command + self.arguments

    def start(self, timeout=60):
        """Returns when /readyz says yes."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAMLET_", "QDRANT__"))}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**environment, **self.environment},
                preexec_fn=self.cgroup.enter if self.cgroup else None,
            )
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            if self.ready():
                return self
            time.sleep(0.02)
        self.kill()
        raise TimeoutError(f"not ready after {timeout} s:\n{self.log()}")

    def ready(self):
        try:
            http = Http(self.url, self.key, timeout=5)
            status, _, _ = http.raw("GET", "/readyz")
            http.close()
            return status == 200
        except OSError:
            return False

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def http(self, timeout=120):
        return Http(self.url, self.key, timeout)

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        if not self.process:
            return None
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the server didn't stop within {timeout} s:\n{self.log()}") from None

    def kill(self):
        """SIGKILL, as a crash of the process."""
        if self.alive():
            self.process.kill()
        if self.process:
            self.process.wait()

    def restart(self, kill=False):
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def check(self):
        """`ramlet check` on the data, which no server may have open: (exit code, what it says)."""
        done = subprocess.run([str(binary()), "check", str(self.data)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def rss(self):
        """(resident bytes, most resident bytes ever)."""
        fields = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                fields[name] = int(value.split()[0]) * 1024
        return fields["VmRSS"], fields["VmHWM"]

    def log(self, lines=40):
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process:
            self.kill() if not self.alive() else self.stop()
