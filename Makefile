# Two commands: `make demo` shows it, `make test` proves it.

PYTHON ?= python3
VENV   := .venv
STAMP  := $(VENV)/installed
OTHERS := .venv-integrations
# `make e2e WORKERS=2` is quicker, but not for a verdict: beside each other tests of tight budgets and of benches may lack memory or time.
WORKERS ?= 0

.PHONY: demo test e2e integrations build clean help

help:
	@echo "make demo    build, import real images into a server of 64 MB, search them through the API"
	@echo "make test    all tests: Rust, then end to end against the client's local mode"
	@echo "make e2e     the second half of make test"
	@echo "make integrations    LangChain, LlamaIndex, Haystack, mem0 against the server (an environment of 430 MB)"

demo: build
	@$(PYTHON) demo/run.py

test:
	cargo xtask test
	cargo proto --check
	@$(MAKE) --no-print-directory e2e

e2e: build $(STAMP)
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile tests/e2e

# Programs of other people in an environment of their own: what they need is large, and theirs to change.
integrations: build $(OTHERS)/installed
	$(OTHERS)/bin/python -m pytest tests/e2e/integrations

build:
	cargo build --release --bin ramlet

$(STAMP): tests/e2e/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
	@touch $(STAMP)

$(OTHERS)/installed: tests/e2e/integrations/requirements.txt
	$(PYTHON) -m venv $(OTHERS)
	$(OTHERS)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/integrations/requirements.txt
	@touch $(OTHERS)/installed

clean:
	rm -rf target $(VENV) $(OTHERS)
