"""Collections that are divided among nodes: the same answers as one server gives, kills of owners while clients write, shards that nobody holds, and nodes that move."""

import os
import signal
import subprocess
import time
import urllib.request

import pytest

import compare
import conftest
from differential import WEIGHTS, History
from harness.divided import Divided
from harness.http import Answer
from harness.server import Server, binary
from test_nodes import DIM, vector
from test_owners import Clients, until

STEPS = 200
KINDS = {kind: weight for kind, weight in WEIGHTS.items() if kind not in ("restart", "kill", "rest", "snapshot")}


@pytest.fixture
def divided(tmp_path):
    """Makes nodes over a divided store, and ends them."""
    if conftest.SELF:
        pytest.skip("needs servers")
    made = []

    def make(shards=3, nodes=None, **more):
        made.append(Divided(tmp_path, f"file://{tmp_path}/store", shards, nodes, **more))
        return made[-1].start()

    yield make
    for one in made:
        one.kill()


def cluster(node):
    http = node.http()
    found = http.result("GET", "/cluster")
    http.close()
    return found


def shard_of(node):
    return cluster(node)["store"]["shard"]


def asked(node, method, path, body=None):
    """(status, what is wrong)."""
    http = node.http()
    try:
        http.call(method, path, body, retry=False)
        return 200, ""
    except Answer as answer:
        return answer.status, answer.sentence()
    finally:
        http.close()


def result(node, method, path, body=None):
    http = node.http()
    found = http.result(method, path, body)
    http.close()
    return found


def create(node, **more):
    result(node, "PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}, **more})


def put(node, ids):
    points = [{"id": i, "vector": vector(i), "payload": {"n": i}} for i in ids]
    result(node, "PUT", "/collections/docs/points?wait=true", {"points": points})


def ids_of(node):
    page = result(node, "POST", "/collections/docs/points/scroll?consistency=majority", {"limit": 100_000, "with_payload": False})
    return [point["id"] for point in page["points"]]


@pytest.mark.parametrize("grpc", [False, True])
def test_random_histories(divided, grpc):
    """The random operations of the differential tests, through all nodes by turns, against the local mode."""
    three = divided()
    pair = compare.Pair(conftest.client_of(three, prefer_grpc=grpc), name="differential")
    history = History(pair, f"divided {grpc}")
    clients = [conftest.client_of(node, prefer_grpc=grpc) for node in three.nodes]
    kinds = [kind for kind, weight in KINDS.items() for _ in range(weight)]
    for step in range(STEPS):
        pair.remote = clients[step % 3]
        getattr(history, history.rng.choice(kinds).replace(" ", "_"))()
        if step % 20 == 19:
            pair.same_state()
    for client in clients:
        client.close()
    pair.oracle.close()
    assert three.stop() == 0
    code, said = three.check()
    assert code == 0, said


def test_points_are_where_their_ids_say(divided):
    three = divided()
    assert sorted(shard_of(node) for node in three.nodes) == [0, 1, 2]
    create(three.nodes[0])
    put(three.nodes[1], range(300))
    parts = []
    for node in three.nodes:
        told = result(node, "GET", "/collections/docs/cluster")
        assert told["shard_count"] == 3 and len(told["remote_shards"]) == 2
        [local] = told["local_shards"]
        assert local["shard_id"] == shard_of(node)
        parts.append(local["points_count"])
        assert result(node, "GET", "/collections/docs")["points_count"] == 300
        assert result(node, "GET", "/collections/docs")["config"]["params"]["shard_number"] == 3
        assert result(node, "POST", "/collections/docs/points/count", {})["count"] == 300
        assert ids_of(node) == list(range(300))
        peers = cluster(node)
        assert sorted(peer["uri"] for peer in peers["peers"].values()) == sorted(node.url for node in three.nodes)
        assert [shard["state"] for shard in peers["store"]["shards"]] == ["Active"] * 3
    assert sum(parts) == 300 and min(parts) > 60, parts


def test_a_delete_that_got_not_far_leaves_nothing_to_the_next(divided):
    three = divided()
    create(three.nodes[0])
    put(three.nodes[0], range(60))
    first = next(node for node in three.nodes if shard_of(node) == 0)
    alone = urllib.request.Request(f"{first.url}/collections/docs", method="DELETE", headers={"ramlet-shard": "0"})
    with urllib.request.urlopen(alone, timeout=60) as answer:
        assert answer.status == 200
    assert asked(three.nodes[1], "GET", "/collections/docs/exists")[0] == 200
    create(three.nodes[1])
    for node in three.nodes:
        assert result(node, "POST", "/collections/docs/points/count", {})["count"] == 0
    put(three.nodes[2], range(100, 130))
    assert ids_of(three.nodes[0]) == list(range(100, 130))
    # One that is there is refused, and stays as it is.
    status, why = asked(three.nodes[1], "PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
    assert status == 409, (status, why)
    assert ids_of(three.nodes[0]) == list(range(100, 130))


def test_what_is_refused_is_named(divided, tmp_path):
    three = divided()
    node = three.nodes[0]
    status, answer = asked(node, "PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}, "shard_number": 5})
    assert status == 400 and "shard_number is 5" in str(answer) and "3 shards" in str(answer)
    create(node, shard_number=3)
    put(node, range(10))
    mmr = {"query": {"nearest": vector(1), "mmr": {"candidates_limit": 1_000}}}
    for method, path, body, named in [
        ("POST", "/collections/docs/points/query", mmr, "mmr"),
        ("POST", "/collections/docs/snapshots", None, "snapshots"),
        ("POST", "/snapshots", None, "snapshots"),
    ]:
        status, answer = asked(node, method, path, body)
        assert status == 400 and named in str(answer) and "divided into shards" in str(answer), (method, path, status, answer)
    # What a collection without shard keys says to those who name one.
    for method, path, body in [
        ("PUT", "/collections/docs/points", {"points": [{"id": 1, "vector": vector(1)}], "shard_key": "a"}),
        ("POST", "/collections/docs/points/count", {"shard_key": "a"}),
        ("PUT", "/collections/docs/shards", {"shard_key": "a"}),
    ]:
        status, answer = asked(node, method, path, body)
        assert status == 400 and "divided into shards" not in answer, (method, path, status, answer)
    # A store stays divided as it is.
    for more, words in [(["--shards", "4"], ["--shards 4", "has 3"]), (["--shard", "3"], ["--shard 3", "has 3"])]:
        command = [str(binary()), "serve", "--data", str(tmp_path / "other"), "--store", f"file://{tmp_path}/store", "--no-probe", "--port", "0", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and all(word in done.stderr for word in words), done.stderr


def test_a_directory_with_data_is_refused(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data") as alone:
        create(alone)
        put(alone, range(3))
    command = [str(binary()), "serve", "--data", str(tmp_path / "data"), "--store", f"file://{tmp_path}/store", "--shards", "2", "--no-probe", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "a divided store begins empty" in done.stderr, done.stderr


def test_an_owner_is_killed_while_clients_write(divided):
    """Each shard has two nodes: what was acknowledged is there, whoever is asked."""
    six = divided(nodes=6)
    held = [shard_of(node) for node in six.nodes]
    assert sorted(held) == [0, 0, 1, 1, 2, 2]
    create(six.nodes[0])
    acknowledged = set()
    for turn in range(2):
        owners = [node for node in six.nodes if cluster(node)["store"]["role"] == "writer"]
        victim = owners[turn]
        others = [node for node in six.nodes if node is not victim]
        clients = Clients(others, 1_000 + 10_000_000 * turn)
        time.sleep(1)
        victim.kill()
        killed = time.monotonic()
        until(lambda: any(at > killed + 1 for at, _ in clients.acknowledged), 60)
        time.sleep(6)
        acknowledged |= clients.end()
        # Nobody was answered wrongly meanwhile: what failed says why.
        assert all(status in (503, 429) for status, _, _ in clients.refused), clients.refused[:3]
        victim.start()
        assert shard_of(victim) == held[six.nodes.index(victim)]
    found = [ids_of(node) for node in six.nodes]
    assert all(ids == found[0] for ids in found)
    assert acknowledged and acknowledged <= set(found[0]), sorted(acknowledged - set(found[0]))[:10]
    assert result(six.nodes[0], "POST", "/collections/docs/points/count?consistency=majority", {})["count"] == len(found[0])


def test_a_shard_without_nodes_is_named(divided):
    three = divided()
    first, gone = three.nodes[0], three.nodes[2]
    create(first)
    put(first, range(100))
    shard = shard_of(gone)
    gone.kill()
    for method, path, body in [
        ("POST", "/collections/docs/points/scroll", {"limit": 10}),
        ("POST", "/collections/docs/points/count", {}),
        ("POST", "/collections/docs/points/query", {"query": vector(1)}),
        ("PUT", "/collections/docs/points?wait=true", {"points": [{"id": i, "vector": vector(i)} for i in range(100)]}),
        ("PUT", "/collections/more", {"vectors": {"size": DIM, "distance": "Dot"}}),
    ]:
        status, answer = asked(first, method, path, body)
        assert status == 503 and f"Shard {shard} doesn't answer" in str(answer), (path, status, answer)
    # Its card stays for a while; then everybody tells that nobody holds it.
    dead = lambda: next(one for one in cluster(first)["store"]["shards"] if one["shard_id"] == shard)["state"] == "Dead"  # noqa: E731
    until(dead, 60)
    issues = result(first, "GET", "/issues")["issues"]
    assert any(issue["code"] == "SHARD_WITHOUT_NODE" and f"shard {shard}" in issue["description"] for issue in issues), issues
    gone.start()
    until(lambda: asked(first, "POST", "/collections/docs/points/count", {})[0] == 200)
    assert ids_of(first) == list(range(100))
    # What failed halfway may be done again.
    create_more = ("PUT", "/collections/more", {"vectors": {"size": DIM, "distance": "Dot"}})
    assert asked(first, *create_more)[0] == 200
    assert asked(first, *create_more)[0] == 409
    for node in three.nodes:
        assert result(node, "GET", "/collections/more/exists")["exists"]


def test_all_nodes_are_killed_and_started_again(divided):
    three = divided()
    create(three.nodes[0])
    put(three.nodes[0], range(200))
    held = [shard_of(node) for node in three.nodes]
    three.restart(kill=True)
    assert [shard_of(node) for node in three.nodes] == held
    for node in three.nodes:
        assert ids_of(node) == list(range(200))


def test_a_node_that_was_stopped_is_passed_by(divided):
    """A replica answers reads while the owner of its shard is stopped."""
    four = divided(shards=2, nodes=4)
    create(four.nodes[0])
    put(four.nodes[0], range(50))
    own = shard_of(four.nodes[0])
    others = [node for node in four.nodes if shard_of(node) != own]
    owner = next(node for node in others if cluster(node)["store"]["role"] == "writer")
    os.kill(owner.process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    assert result(four.nodes[0], "POST", "/collections/docs/points/count", {})["count"] == 50
    assert time.monotonic() - begun < 30
    until(lambda: asked(four.nodes[0], "PUT", "/collections/docs/points?wait=true", {"points": [{"id": i, "vector": vector(i)} for i in range(60)]})[0] == 200, 90)
    os.kill(owner.process.pid, signal.SIGCONT)
    assert ids_of(four.nodes[0]) == list(range(60))


def shards_held(nodes):
    """The shards of those that answer, from 0."""
    held = []
    for node in nodes:
        try:
            held.append(shard_of(node))
        except (OSError, Answer):
            pass
    return sorted(held)


def lone_of(nodes):
    """A node that nobody shares its shard with, and the two that share one."""
    held = [shard_of(node) for node in nodes]
    alone = [node for node, shard in zip(nodes, held) if held.count(shard) == 1]
    return alone[-1], [node for node, shard in zip(nodes, held) if held.count(shard) == 2]


def test_a_killed_node_has_no_place(divided, tmp_path):
    """A new node goes where nobody lives, at once: cards of nodes that were killed don't count."""
    three = divided(shards=2, bound=(0, 0, 1))
    create(three.nodes[2])
    put(three.nodes[2], range(100))
    for node in three.nodes[:2]:
        node.kill()
    with Server(tmp_path / "new", arguments=three.nodes[2].arguments[:-2]) as new:
        assert shard_of(new) == 0
        # The other one hears of it a moment later.
        for node in (new, three.nodes[2]):
            until(lambda node=node: asked(node, "POST", "/collections/docs/points/count", {})[0] == 200)
            assert ids_of(node) == list(range(100))


@pytest.mark.parametrize("ended", [False, True])
def test_a_spare_node_goes_where_nobody_is(divided, ended):
    """Three shards, four nodes, and the only node of a shard is killed, or ended: the spare one takes its place, with all that was acknowledged."""
    four = divided(nodes=4, after=2)
    assert shards_held(four.nodes) in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2])
    create(four.nodes[0])
    put(four.nodes[0], range(100))
    victim, pair = lone_of(four.nodes)
    left = [node for node in four.nodes if node is not victim]
    spare = next(node for node in pair if cluster(node)["store"]["role"] == "reader")
    process, shard = spare.process.pid, shard_of(victim)
    clients = Clients(left, 1_000)
    time.sleep(1)
    victim.stop() if ended else victim.kill()
    until(lambda: shards_held(left) == [0, 1, 2], 60)
    assert shard_of(spare) == shard, "the one that wrote for its shard stays"
    until(lambda: all(asked(node, "POST", "/collections/docs/points/count", {})[0] == 200 for node in left), 30)
    filled = time.monotonic()
    until(lambda: len([1 for at, _ in clients.acknowledged if at > filled]) > 30, 60)
    acknowledged = clients.end() | set(range(100))
    # What went to the shard that had nobody says so.
    assert all(status in (503, 429) for status, _, _ in clients.refused), clients.refused[:3]
    ids = ids_of(left[0])
    assert acknowledged <= set(ids), sorted(acknowledged - set(ids))[:10]
    assert spare.alive() and spare.process.pid == process
    # Who comes back finds its shard held, and stays: nobody goes for one node more.
    victim.start()
    assert shard_of(victim) == shard
    time.sleep(5)
    assert shards_held(four.nodes) == sorted([0, 1, 2, shard])
    put(victim, range(100_000_000, 100_000_050))
    assert all(ids_of(node) == sorted({*ids, *range(100_000_000, 100_000_050)}) for node in four.nodes)
    assert four.stop() == 0
    code, said = four.check()
    assert code == 0, said


def test_a_node_that_is_bound_stays(divided):
    four = divided(after=1, bound=(0, 1, 2, 2))
    create(four.nodes[0])
    four.nodes[1].kill()
    time.sleep(12)
    assert shards_held(four.nodes) == [0, 2, 2]
    assert asked(four.nodes[0], "POST", "/collections/docs/points/count", {})[0] == 503
    # One that isn't bound any more goes.
    four.nodes[3].stop()
    four.nodes[3].arguments = four.nodes[3].arguments[:-2]
    four.nodes[3].start()
    until(lambda: shards_held(four.nodes) == [0, 1, 2], 60)
    assert asked(four.nodes[0], "POST", "/collections/docs/points/count", {})[0] == 200


def test_shards_become_even(divided):
    """Three nodes and one: after a while there are two and two, and then nobody goes any more."""
    four = divided(shards=2, after=1, bound=(1, 0, 0, 0))
    create(four.nodes[0])
    put(four.nodes[0], range(200))
    four.stop()
    for node in four.nodes:
        node.arguments = node.arguments[:-2]
    four.start()
    clients = Clients(four.nodes, 1_000)
    until(lambda: shards_held(four.nodes) == [0, 0, 1, 1], 90)
    held = [shard_of(node) for node in four.nodes]
    time.sleep(10)
    assert [shard_of(node) for node in four.nodes] == held
    acknowledged = clients.end() | set(range(200))
    for node in four.nodes:
        ids = ids_of(node)
        assert acknowledged <= set(ids) and ids == ids_of(four.nodes[0])
