"""The examples run, and find what they should."""

import importlib.util
import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "python"


def run(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main()


def test_rag():
    recall = run("rag")
    assert recall["by_words"] > 0.38 and recall["by_meaning"] > 0.4
    assert recall["by_both"] > recall["by_words"]


def test_dedup():
    texts, copies, dropped, kept = run("dedup")
    assert dropped + kept == texts
    # Some abstracts are there twice; hardly a copy is missed.
    assert copies * 0.97 <= dropped <= copies * 1.05


def test_recommend():
    gain, spread, by_example, payloads = run("recommend")
    assert gain > spread / 2 and by_example > 0
    assert len(payloads) == 5 and all(each["genre"] == "western" and each["year"] >= 2000 for each in payloads)


def test_the_notebook_runs(monkeypatch, capsys):
    monkeypatch.chdir(FOLDER)
    cells = json.loads((FOLDER / "first-steps.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["recall"] > 0.94 and names["db"].closed
    said = capsys.readouterr().out
    assert "queries/s" in said and "cached data" in said and "images read" in said


def test_all_examples_are_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == {"rag", "dedup", "recommend"}
