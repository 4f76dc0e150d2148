"""The web page: what it is served with, and, where there is a Chromium, what a browser makes of it."""

import json
import re
import subprocess
import urllib.request
from urllib.parse import quote

import pytest
from qdrant_client import models

from browser import BROWSER, Page
from conftest import SELF, client_of
from harness.divided import Divided
from harness.server import Server
from test_jwt import SECRET, only, token

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here (apt-get install chromium)")
FILES = {
    "/dashboard": "text/html; charset=utf-8",
    "/dashboard/dashboard.js": "text/javascript; charset=utf-8",
    "/dashboard/base.js": "text/javascript; charset=utf-8",
    "/dashboard/manage.js": "text/javascript; charset=utf-8",
    "/dashboard/nodes.js": "text/javascript; charset=utf-8",
    "/dashboard/points.js": "text/javascript; charset=utf-8",
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


@needs_browser
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


SMALL = models.VectorParams(size=2, distance=models.Distance.DOT)
FIGURES = "[...document.querySelectorAll('#live .figure')].map(f => f.innerText.replaceAll('\\n', ' '))"


def linked(server, **fields):
    return f"{server.url}/dashboard#" + "&".join(f"{name}={quote(str(value))}" for name, value in fields.items())


def found(page):
    page.until("document.getElementById('search-said').textContent")
    return page.text("#search-said"), page.text("#hits")


@needs_browser
def test_whole_numbers_are_exact(own_server, tmp_path):
    client, big = client_of(own_server), 2**63 + 1
    client.create_collection("big", vectors_config=SMALL)
    payload = {"n": 2**53 + 1, "title": {"an": "object"}}
    client.upsert("big", [models.PointStruct(id=big, vector=[1, 0], payload=payload), models.PointStruct(id=5, vector=[0, 1])])
    with Page(linked(own_server, collection="big", by="scroll"), tmp_path / "a") as page:
        said, hits = found(page)
        assert said.startswith("2 points") and str(big) in hits and str(2**53 + 1) in hits
        assert "[object" not in hits
    with Page(linked(own_server, collection="big", by="id", what=big), tmp_path / "b") as page:
        said, hits = found(page)
        assert said.startswith("1 points") and "id 5" in hits, said
        assert str(big) in page.run("document.querySelector('#asked pre').textContent")


@needs_browser
def test_every_vector_can_be_asked(own_server, tmp_path):
    client = client_of(own_server)
    client.create_collection("named", vectors_config={"size": SMALL}, sparse_vectors_config={"words": models.SparseVectorParams()})
    vector = {"size": [1, 2], "words": models.SparseVector(indices=[7], values=[0.5])}
    client.upsert("named", [models.PointStruct(id=1, vector=vector)])
    sparse = json.dumps({"indices": [7], "values": [2]})
    for using, what in [("size", "1,1"), ("words", sparse)]:
        with Page(linked(own_server, collection="named", by="vector", using=using, what=what), tmp_path / using) as page:
            said, hits = found(page)
            assert said.startswith("1 points") and "id 1" in hits, said
            offered = page.run("[...document.forms.search.elements.using.options].map(o => o.value)")
            assert offered == ["size", "words"]


@needs_browser
def test_collections_come_and_go_in_place(own_server, tmp_path):
    client, long = client_of(own_server), "l" * 200
    names = ["a-gone", *(f"b{i:03}" for i in range(80)), long]
    for name in names:
        client.create_collection(name, vectors_config=SMALL)
    rows = "[...document.querySelectorAll('#collections tbody tr')]"
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until(f"{rows}.length == {len(names)} && {rows}.every(row => row.cells[1].textContent == 'green')")
        assert page.run(f"{rows}.at(-1).querySelector('button').title") == long
        assert page.run("document.getElementById('collections').offsetWidth <= innerWidth")

        page.run(f"{rows}[1].querySelector('button').focus()")
        page.run(f"{rows}[0].querySelector('button').click()")
        page.until("document.querySelector('#collection h3')")
        client.delete_collection("a-gone")
        page.until(f"{rows}.length == {len(names) - 1} && !document.querySelector('#collection h3')")
        assert page.run("document.activeElement.textContent") == "b000"


@needs_browser
def test_a_closed_collection_says_why(own_server, tmp_path):
    client = client_of(own_server)
    for name in ("closed", "open"):
        client.create_collection(name, vectors_config=SMALL)
    own_server.stop()
    own_server.arguments = [*own_server.arguments, "--skip-collection", "closed"]
    own_server.start()
    row = "[...document.querySelectorAll('#collections tbody tr')][0]"
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until(f"{row} && {row}.cells[1].textContent == 'red'")
        assert "it was skipped by --skip-collection" in page.run(f"{row}.cells[1].title")
        page.run(f"{row}.querySelector('button').click()")
        page.until("document.querySelector('#collection p.alarm')")
        assert "it was skipped by --skip-collection" in page.text("#collection")
        assert page.run("document.getElementById('trouble').offsetHeight") == 0


@needs_browser
def test_rates_after_a_restart_and_reads_by_id(own_server, tmp_path):
    client, http = client_of(own_server), own_server.http()
    client.create_collection("c", vectors_config=SMALL)
    client.upsert("c", [models.PointStruct(id=1, vector=[1, 0])])
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until(f"{FIGURES}.length")
        for _ in range(50):
            http.call("POST", "/collections/c/points", {"ids": [1]})
            client.query_points("c", query=[1.0, 1.0])
        page.until(f"/^searches [1-9]/.test({FIGURES}[0])")
        assert page.run(f"{FIGURES}[3]").startswith("writes 0.0"), "reads by id are no writes"
        # The page isn't told: what it draws next is of the new process.
        page.run("window.drawn = new Set(); new MutationObserver(() => window.drawn.add(document.getElementById('live').innerText))"
                 ".observe(document.getElementById('live'), { childList: true })")
        own_server.restart(kill=True)
        page.until("window.drawn.size >= 2 && document.getElementById('trouble').hidden")
        assert "-" not in page.run("[...window.drawn].join(' ')")


@needs_browser
def test_the_legend_says_which_size_is_meant(own_server, tmp_path):
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until("document.querySelectorAll('#legend li').length")
        shown = dict(
            re.match(r"(.*?) (\d.*)", line).groups() for line in page.text("#legend").splitlines() if re.match(r"(.*?) (\d.*)", line)
        )
    rows = json.load(urllib.request.urlopen(own_server.url + "/memory"))["result"]["budget"]["rows"]
    for row in rows:
        if row["bytes"] >= 1e6:
            size = row["bytes"] / 1e6
            divided = f"{size:.2f} MB" if size < 10 else f"{size:.1f} MB"
            told = [divided, rf".* of {divided} in use", rf".* in use: {divided}, and what others don't use"]
            assert any(re.fullmatch(words, shown[row["name"]]) for words in told), (row, shown)


@needs_browser
def test_a_link_is_followed_once_the_key_is_there(tmp_path):
    with Server(tmp_path / "data", key="secret", arguments=["--api-key", "secret"]) as server:
        client = client_of(server, api_key="secret")
        client.create_collection("c", vectors_config=SMALL)
        client.upsert("c", [models.PointStruct(id=3, vector=[1, 0])])
        with Page(linked(server, collection="c", by="scroll", limit=3), tmp_path / "profile") as page:
            page.until("!document.getElementById('key-form').hidden")
            page.run("document.getElementById('key').value = 'secret'; document.querySelector('#key-form button').click()")
            said, hits = found(page)
            assert said.startswith("1 points") and "id 3" in hits, said


@needs_browser
@pytest.mark.skipif(SELF, reason="needs a server")
@pytest.mark.parametrize("access", ["r", "rw"])
def test_a_token_of_one_collection_sees_it(tmp_path, access):
    """What is of the whole server says that this key can't see it; the collection is shown, and searched."""
    with Server(tmp_path / "data", key=SECRET, arguments=["--api-key", SECRET, "--jwt-rbac"]) as server:
        client = client_of(server, api_key=SECRET)
        for name in ("mine", "others"):
            client.create_collection(name, vectors_config=SMALL)
            client.upsert(name, [models.PointStruct(id=3, vector=[1, 0])])
        with Page(linked(server, collection="mine", by="scroll", limit=3), tmp_path / "profile") as page:
            page.until("!document.getElementById('key-form').hidden")
            use = "document.getElementById('key').value = %s; document.querySelector('#key-form button').click()"
            page.run(use % json.dumps(token({"access": "m", "exp": 1})))
            page.until("document.getElementById('trouble').innerText.includes('this token has expired')")
            page.run(use % json.dumps(only("mine", access)))
            said, hits = found(page)
            assert said.startswith("1 points") and "id 3" in hits, said
            page.until("document.getElementById('trouble').hidden")
            rows = "[...document.querySelectorAll('#collections tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
            page.until(f"{rows}[0]?.[1] == 'green'")
            assert [row[0::2][:2] for row in page.run(rows)] == [["mine", "1"]]
            nothing = "Only a key for all collections can see this."
            for part in ("ram-sum", "live-said", "q-refused", "q-ram", "q-slow"):
                page.until(f"document.getElementById('{part}').innerText.startsWith({json.dumps(nothing)})")
            assert "others" not in page.text("body")


# What is drawn, and not hidden, has a name that can be read out.
NAMELESS = """[...document.querySelectorAll('[role=img], input, select, textarea, button')].filter((e) => e.checkVisibility()
  && ![e.getAttribute('aria-label'), e.textContent, ...[...e.labels ?? []].map((label) => label.firstChild.textContent)].some((name) => name?.trim()))
  .map((e) => e.outerHTML)"""


@needs_browser
def test_everything_has_a_name(own_server, tmp_path):
    client_of(own_server).create_collection("c", vectors_config=SMALL)
    for by in ("id", "vector", "scroll"):
        with Page(linked(own_server, collection="c", by=by, what="[1, 1]"), tmp_path / by) as page:
            assert page.run(NAMELESS) == [], "before anything is known"
            page.until("document.getElementById('search-said').textContent")
            assert page.run(NAMELESS) == []


@needs_browser
def test_a_collection_is_made_used_and_deleted(own_server, tmp_path):
    client = client_of(own_server)
    rows = "[...document.querySelectorAll('#collections tbody tr:not(.none)')]"
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until("document.querySelector('#collections .none')")
        page.run("Object.assign(document.forms.create.elements.name, { value: 'made' }); document.forms.create.elements.size.value = 2; document.querySelector('#create button').click()")
        page.until(f"{rows}.length == 1")
        assert "ramlet import" in page.text("#create-said") or page.run("document.getElementById('create-said').textContent.includes('ramlet import')")
        page.run(f"{rows}[0].querySelector('button').click()")
        page.until("document.querySelector('#collection form')")
        page.run("(() => { const form = document.querySelectorAll('#collection form')[0]; form.elements.field.value = 'kind'; form.querySelector('button').click(); })()")
        page.until("document.getElementById('collection').innerText.includes('kind: keyword')")
        page.run("(() => { const form = document.querySelectorAll('#collection form')[1]; form.elements.alias.value = 'other'; form.querySelector('button').click(); })()")
        page.until("document.getElementById('collection').innerText.includes('other leads here')")
        assert client.get_collection("other").payload_schema["kind"].data_type == "keyword"
        drop = "(() => { const form = document.querySelectorAll('#collection form')[2]; form.elements.sure.value = %s; form.querySelector('button').click(); })()"
        page.run(drop % "'mad'")
        page.until("document.getElementById('collection').innerText.includes('nothing was deleted')")
        page.run(drop % "'made'")
        page.until("document.querySelector('#collections .none')")
    assert client.get_collections().collections == []


@needs_browser
def test_points_page_by_page_changed_and_deleted(own_server, tmp_path):
    client, big = client_of(own_server), 2**63 + 1
    client.create_collection("c", vectors_config=SMALL)
    points = [models.PointStruct(id=n, vector=[n, 1], payload={"n": n, "kind": f"k{n % 2}"}) for n in [*range(44), big]]
    client.upsert("c", points)
    said = "document.getElementById('points-said').textContent"
    form = "document.forms.points.elements"
    shown = "[...document.querySelectorAll('#points-list b')].map(b => b.textContent)"
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until(f"{form}.collection.value == 'c'")
        page.run("document.querySelector('#points > button').click()")
        page.until(f"{said}.startsWith('points 1 to 20')")
        for upto in (40, 45):
            page.run("document.getElementById('points-next').click()")
            page.until(f"{said}.endsWith('to {upto}, by id')")
        assert page.run(shown)[-1] == str(big) and page.run("document.getElementById('points-next').disabled")
        page.run("document.getElementById('points-before').click()")
        page.until(f"{said}.startsWith('points 21 to 40')")

        page.run(f"{form}.field.value = 'n'; {form}.value.value = '7'; document.getElementById('points-add').click()")
        assert json.loads(page.run(f"{form}.filter.value")) == {"must": [{"key": "n", "match": {"value": 7}}]}
        page.run("document.querySelector('#points > button').click()")
        page.until(f"{shown}.join() == '7'")
        page.run("document.querySelector('#points-list textarea').value = '{\"n\": 9007199254740993}'; document.querySelectorAll('#points-list button')[0].click()")
        page.until("document.getElementById('points-list').innerText.includes('saved')")
        assert client.retrieve("c", [7])[0].payload == {"n": 2**53 + 1}
        page.run("document.querySelectorAll('#points-list button')[1].click()")
        page.until("document.getElementById('search-said').textContent.startsWith('10 points')")
        assert "what=7" in page.run("location.hash"), "the address keeps the search"
        page.run("window.confirm = () => true; document.querySelectorAll('#points-list button')[2].click()")
        page.until(f"{shown}.length == 0")
    assert client.retrieve("c", [7]) == []


@needs_browser
@pytest.mark.parametrize("width", [360, 1920])
def test_nothing_is_wider_than_the_window(own_server, tmp_path, width):
    client = client_of(own_server)
    for name in ("a", "l" * 200):
        client.create_collection(name, vectors_config=SMALL)
    client.upsert("a", [models.PointStruct(id=1, vector=[1, 0], payload={"word": "w" * 300})])
    with Page(linked(own_server, collection="a", by="scroll"), tmp_path, size=f"{width},900") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        found(page)
        # Hits may be there before the list of collections is.
        page.until("document.forms.points.elements.collection.value == 'a'")
        page.run("document.querySelector('#points > button').click()")
        page.until("document.querySelectorAll('#points-list li').length == 1")
        assert page.run("document.documentElement.scrollWidth") <= width


@needs_browser
def test_a_picture_of_points(own_server, tmp_path):
    client = client_of(own_server)
    client.create_collection("c", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    client.upsert("c", [models.PointStruct(id=n, vector=[1, 1, n if n < 20 else 100 + n, n % 3]) for n in range(40)])
    plane = own_server.http().result("GET", "/collections/c/projection")
    assert len(plane["points"]) == 40 and plane["variance_shown"] > 0.99
    by_x = sorted(plane["points"], key=lambda p: p["x"])
    halves = [{p["id"] < 20 for p in half} for half in (by_x[:20], by_x[20:])]
    assert halves in ([{True}, {False}], [{False}, {True}]), "what lies apart is apart"
    assert len(own_server.http().result("GET", "/collections/c/projection?sample=7")["points"]) == 7
    assert own_server.http().raw("GET", "/collections/c/projection?using=none")[0] == 400
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until("document.getElementById('plane-using').options.length")
        page.run("document.getElementById('plane').open = true; document.getElementById('plane-draw').click()")
        page.until("document.querySelectorAll('#plane-picture circle').length == 40")
        page.run("document.querySelector('#plane-picture circle').dispatchEvent(new MouseEvent('click'))")
        page.until("document.getElementById('search-said').textContent.startsWith('10 points')")


NODES = "[...document.querySelectorAll('#nodes-rows tr')].map(row => [...row.cells].map(cell => cell.innerText))"


@needs_browser
def test_a_server_alone_says_how_to_share(own_server, tmp_path):
    with Page(f"{own_server.url}/dashboard", tmp_path) as page:
        page.until("document.getElementById('nodes-said').textContent")
        assert "--store s3://" in page.text("#nodes-said") and page.run("document.getElementById('nodes').hidden")


@needs_browser
@pytest.mark.skipif(SELF, reason="needs servers")
def test_nodes_of_a_store_are_shown(tmp_path):
    """Shards, roles, lag and caches, light and dark, on a narrow and a wide screen; a shard that nobody holds says what to do."""
    with Divided(tmp_path, f"file://{tmp_path}/store", shards=2, after=1, bound=(0, 0, 1)) as three:
        client = client_of(three.nodes[0])
        client.create_collection("docs", vectors_config=SMALL)
        client.upsert("docs", [models.PointStruct(id=n, vector=[1, n]) for n in range(90)], wait=True)
        client.close()
        first = three.nodes[0]
        with Page(f"{first.url}/dashboard", tmp_path / "profile") as page:
            # By what nodes say of themselves, which comes a moment later.
            settled = f"{NODES}.length == 3 && {NODES}.filter(row => row[2] == 'writes').length == 2 && {NODES}.every(row => /[1-9].* [km]?B/i.test(row[5]) && ['–', '0'].includes(row[4]))"
            page.until(settled)
            rows = page.run(NODES)
            assert [row[0] for row in rows] == ["0", "", "1"]
            assert sorted(row[1].removesuffix(" (this one)") for row in rows) == sorted(node.url for node in three.nodes)
            assert rows[0][1] == f"{first.url} (this one)" and rows[0][7] == "now"
            assert sorted(row[2] for row in rows[:2]) == ["follows", "writes"] and rows[2][2] == "writes"
            assert [row[6] for row in rows] == ["96.0 MB"] * 3
            said = page.text("#nodes-said")
            assert "2 shards, 3 nodes" in said and "start one" not in said
            told = first.http().result("GET", "/cluster")["store"]["shards"]
            assert {node["uri"]: node["role"] for shard in told for node in shard["nodes"]} == {
                row[1].removesuffix(" (this one)"): {"writes": "writer", "follows": "reader"}[row[2]] for row in rows}
            page.run("document.querySelector('#collections tbody button').click()")
            page.until("document.getElementById('collection').innerText.includes('Divided into 2 shards; this node holds shard 0 with')")

            colours = set()
            for scheme in ("light", "dark"):
                page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                for width in (360, 1920):
                    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                    assert page.run("document.documentElement.scrollWidth") <= width
                    assert page.run("document.getElementById('nodes-said').scrollWidth <= document.getElementById('nodes-said').clientWidth")
                style = "getComputedStyle(document.querySelector('#nodes a'))"
                colours.add(page.run(f"{style}.color + getComputedStyle(document.body).backgroundColor"))
            assert len(colours) == 2

            three.nodes[2].kill()
            page.until(f"{NODES}.some(row => row[1] == 'no node')", 60)
            page.until("document.getElementById('nodes-said').textContent.includes('Shard 1: no node. One of a shard')", 60)
