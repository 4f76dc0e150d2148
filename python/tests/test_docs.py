"""The guide and the docstrings say what is so."""

import doctest
import re
from pathlib import Path

import pytest
import ramlet

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "python.md"


def test_the_guide(tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client")
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names, failures = {}, []
    blocks = list(re.finditer(r"```pycon\n(.*?)```", text, re.DOTALL))
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        test = doctest.DocTestParser().get_doctest(block[1], names, "python.md", str(GUIDE), line)
        runner.run(test, out=failures.append, clear_globs=False)
        names = test.globs
    assert len(blocks) >= 10 and runner.tries >= 40
    assert not failures, "".join(failures)


@pytest.mark.parametrize("module", ["_memory", "_filters"])
def test_docstrings(module):
    found = doctest.testmod(getattr(ramlet, module))
    assert found.attempted and not found.failed


def test_everything_public_is_described():
    for name in ramlet.__all__:
        item = getattr(ramlet, name)
        assert name == "__version__" or item.__doc__, name
        if isinstance(item, type) and not issubclass(item, Exception):
            for method, value in vars(item).items():
                if callable(value) and not method.startswith("_"):
                    assert value.__doc__ or method in ("update", "delete_index", "of"), f"{name}.{method}"
