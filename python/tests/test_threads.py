"""The interpreter's lock is free during long calls; signals, other threads, forks and processes."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import ramlet

N, DIM = 20_000, 64


@pytest.fixture
def filled(tmp_path):
    rows = np.random.default_rng(1).standard_normal((N, DIM), dtype=np.float32)
    with ramlet.open(tmp_path / "data", memory="64MB") as db:
        docs = db.create("docs", dim=DIM, optimizers_config={"indexing_threshold": 0})
        docs.add(rows, ids=range(N))
        yield docs, rows


def turns_during(call):
    """How often this thread had a turn of the lock while another one called."""
    done = threading.Event()

    def run():
        call()
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    turns, started = 0, time.perf_counter()
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    return turns, time.perf_counter() - started


def test_another_thread_goes_on(filled):
    docs, rows = filled
    turns, took = turns_during(lambda: docs.search(rows[:600], limit=10, exact=True))
    # A thousand a second at best; were the lock held, one or two in all.
    assert took > 0.05 and turns > took * 100, (turns, took)
    turns, took = turns_during(lambda: [docs.add(rows, ids=range(N)) for _ in range(3)])
    assert turns > took * 100, (turns, took)


@pytest.fixture
def interruptible():
    """As in a terminal: what a shell starts in the background ignores interrupts, and so would Python."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("work", ["search", "add", "settle"])
def test_an_interrupt_ends_long_calls(filled, interruptible, work):
    docs, rows = filled
    calls = {
        "search": lambda: docs.search(np.tile(rows, (50, 1)), limit=10, exact=True),
        "add": lambda: [docs.add(rows, ids=range(N)) for _ in range(1_000)],
        "settle": lambda: [docs.add(rows, ids=range(N)) is not None and docs.settle() for _ in range(1_000)],
    }
    timer = threading.Timer(0.7, _thread.interrupt_main)
    timer.start()
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        calls[work]()
    assert time.perf_counter() - started < 5
    # And nothing is broken by it.
    assert docs.count() == N and docs.search(rows[3], limit=1).ids[0] == 3


def test_closing_ends_calls_of_other_threads(filled):
    docs, rows = filled
    ended = []

    def search():
        try:
            while True:
                docs.search(np.tile(rows, (20, 1)), limit=10, exact=True)
        except ramlet.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    started = time.perf_counter()
    docs._db.close()
    assert time.perf_counter() - started < 5
    for thread in threads:
        thread.join(5)
    assert len(ended) == 3


def test_many_threads_at_once(filled):
    docs, rows = filled
    wrong = []

    def work(seed):
        for at in np.random.default_rng(seed).integers(0, N, 40):
            if docs.search(rows[at], limit=1).ids[0] != at or docs.query(rows[at], limit=1)[0].id != at:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told(filled):
    docs, _ = filled
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            docs.count()
        except ramlet.ClosedError as error:
            os.write(write, str(error).encode())
        docs._db.close()
        os._exit(0)
    os.close(write)
    assert b"forked" in os.read(read, 1_000)
    assert os.waitpid(child, 0)[1] == 0
    assert docs.count() == N


WRITER = """
import sys, numpy as np, ramlet
db = ramlet.open(sys.argv[1], memory="64MB")
docs = db.create("docs", dim=8, exist_ok=True)
first = docs.count()
rows = np.arange(8, dtype="f4") + np.arange(100, dtype="f4")[:, None]
while True:
    docs.add(rows, ids=range(first, first + 100), payload={"n": list(range(first, first + 100))})
    first += 100
    print(first, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path):
    path, acknowledged = tmp_path / "data", 0
    for lines in (3, 25, 8):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(lines):
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().split())])
        child.wait()
        with ramlet.open(path, memory="64MB") as db:
            docs = db["docs"]
            assert docs.count() >= acknowledged
            ids = [point.id for point in docs.scroll()]
            assert ids == list(range(len(ids)))
            assert docs.get(acknowledged - 1)[0].payload == {"n": acknowledged - 1}
            docs.delete(range(acknowledged, len(ids) + 1))


def test_a_process_that_forgets_to_close_ends(tmp_path):
    code = "import ramlet, sys, numpy as np; db = ramlet.open(sys.argv[1], '64MB'); db.create('a', dim=2).add(np.eye(2), ids=[1, 2]); db.qdrant().get_collections()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "data")], check=True, timeout=60)
    with ramlet.open(tmp_path / "data", memory="64MB") as db:
        assert db["a"].count() == 2


def test_an_error_that_is_kept_keeps_no_database_open(tmp_path):
    """The error of a block passes its end, where the database is closed, with all frames below it."""
    code = (
        "import ramlet, sys, numpy as np\n"
        "try:\n"
        "    with ramlet.open(sys.argv[1], '64MB') as db:\n"
        "        db.create('a', dim=2).add([[1, 2], [3, np.nan]], ids=[1, 2])\n"
        "except ramlet.BadInputError as error:\n"
        "    kept = error\n"
        "with ramlet.open(sys.argv[1], '64MB') as db:\n"
        "    print(db['a'].count(), kept)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path / "data")], check=True, timeout=60, capture_output=True, text=True)
    assert told.stdout.startswith("0 row 1: point 2"), told.stdout
