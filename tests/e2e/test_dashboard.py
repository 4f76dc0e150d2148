"""The web page: what it is served with, and, where there is a Chromium, what a browser makes of it."""

import json
import re
import shutil
import subprocess
import urllib.request
from urllib.parse import quote

import pytest
from qdrant_client import models

from conftest import client_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FILES = {
    "/dashboard": "text/html; charset=utf-8",
    "/dashboard/dashboard.js": "text/javascript; charset=utf-8",
    "/dashboard/dashboard.css": "text/css; charset=utf-8",
}


def rendered(url, tmp_path):
    """The page's elements after its program has run for some seconds of the browser's own time."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    ran = subprocess.run(
        [*command, "--virtual-time-budget=6000", "--dump-dom", url], capture_output=True, text=True, timeout=120, check=True
    )
    return ran.stdout


def text_of(dom, element):
    inner = re.search(rf'id="{element}"[^>]*>(.*?)</(?:p|ol|table|section|header)>', dom, re.S)
    return re.sub(r"<[^>]*>", " ", inner.group(1))


@pytest.mark.parametrize("path, media", FILES.items())
def test_files_are_served_to_be_run_from_here_only(server, path, media):
    with urllib.request.urlopen(server.url + path) as answer:
        assert answer.headers["content-type"] == media
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert len(answer.read()) > 1000


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here (apt-get install chromium)")
def test_a_browser_shows_ram_collections_and_a_search(own_server, tmp_path):
    client, server = client_of(own_server), own_server
    client.create_collection("books", vectors_config=models.VectorParams(size=2, distance=models.Distance.EUCLID))
    points = [
        models.PointStruct(id=7, vector=[0.0, 0.0], payload={"title": "Seven"}),
        models.PointStruct(id=8, vector=[0.0, 1.0], payload={"title": "<b id='put-in'>bold</b>"}),
        models.PointStruct(id=9, vector=[9.0, 9.0], payload={"title": "Far"}),
    ]
    client.upsert("books", points)

    dom = rendered(f"{server.url}/dashboard#collection=books&by=vector&limit=2&what={quote(json.dumps([0, 0.9]))}", tmp_path)

    budget = json.load(urllib.request.urlopen(server.url + "/memory"))["result"]["budget"]["memory_bytes"]
    assert f"{budget / 1e6:.1f} MB were given" in text_of(dom, "ram-sum")
    assert re.search(r"books\s+green\s+3\s", text_of(dom, "collections"))
    hits = text_of(dom, "hits")
    assert hits.index("id 8") < hits.index("id 7") and "Far" not in hits
    assert "<b id=" not in dom, "markup of a payload became part of the page"
