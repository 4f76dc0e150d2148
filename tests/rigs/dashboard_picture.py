#!/usr/bin/env python3
"""The picture of the page in README: a server of 64 MB with the demo's images, under load, as a browser shows it.

    tests/rigs/dashboard_picture.py [docs/images/dashboard.png]

Needs Chromium and the release binary (`make build`).
"""

import base64
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e"), str(ROOT / "demo")]

import fashion_mnist  # noqa: E402
from browser import Page  # noqa: E402
from harness.server import Server, binary  # noqa: E402

SECONDS = 12


def ask(server, queries, stop):
    """Searches one after another until it is told to stop."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    while not stop.is_set():
        for query in queries:
            body = json.dumps({"query": query, "limit": 10})
            connection.request("POST", "/collections/images/points/query", body, {"content-type": "application/json"})
            connection.getresponse().read()
            if stop.is_set():
                return


def main():
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "dashboard.png"
    with tempfile.TemporaryDirectory() as work, Server(Path(work) / "data", memory="64MB") as server:
        base, payload, _ = fashion_mnist.write_import_files(Path(work))
        command = [binary(), "import", base, "--payload", payload, "--collection", "images", "--url", server.url, "--distance", "Euclid", "--wait"]
        subprocess.run([str(part) for part in command], check=True)
        stop = threading.Event()
        queries = [[float(value) for value in query] for query in fashion_mnist.queries()[:200]]
        load = threading.Thread(target=ask, args=(server, queries, stop))
        load.start()
        try:
            with Page(f"{server.url}/dashboard", Path(work) / "profile", size="1280,860") as page:
                time.sleep(SECONDS)
                to.write_bytes(base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"]))
        finally:
            stop.set()
            load.join()
    print(to)


if __name__ == "__main__":
    main()
