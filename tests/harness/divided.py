"""Nodes over one store that is divided into shards, which look like one server to tests that don't stop it."""

from contextlib import contextmanager
from pathlib import Path

from .server import Server


class Divided:
    """So many nodes, started one after the other; clients speak to the last, which holds one shard of several. `bound`: the shards that they never leave."""

    def __init__(self, folder, store, shards=3, nodes=None, memory="96MB", after=3, arguments=(), environment=None, bound=()):
        self.folder, self.shards = Path(folder), shards
        arguments = ["--store", store, "--shards", str(shards), "--takeover-after", f"{after}s", "--no-probe", *arguments]
        self.nodes = [Server(self.folder / f"node{n}", memory=memory, arguments=arguments, environment=environment) for n in range(nodes or len(bound) or shards)]
        for node, shard in zip(self.nodes, bound):
            node.arguments += ["--shard", str(shard)]
        self.memory, self.data = memory, self.folder

    def __getattr__(self, name):
        return getattr(self.nodes[-1], name)

    def start(self):
        for node in self.nodes:
            node.start()
        return self

    def alive(self):
        return all(node.alive() for node in self.nodes)

    def log(self):
        return "\n".join(node.log() for node in self.nodes)

    def stop(self, timeout=30):
        return max(node.stop(timeout) for node in self.nodes)

    def kill(self):
        for node in self.nodes:
            node.kill()

    def restart(self, kill=False):
        self.kill() if kill else self.stop()
        return self.start()

    def check(self):
        found = [node.check() for node in self.nodes]
        return max(code for code, _ in found), "\n".join(said for _, said in found)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


@contextmanager
def one_and_three(folder, fill, arguments=()):
    """One server, and three nodes of three shards, both filled by `fill(http)`."""
    with Server(folder / "one", arguments=arguments) as one, Divided(folder, f"file://{folder}/store", 3, arguments=arguments) as three:
        for server in (one, three):
            http = server.http()
            fill(http)
            http.close()
        yield one, three
