# Two commands: `make demo` shows it, `make test` proves it.

PYTHON ?= python3
VENV   := .venv
STAMP  := $(VENV)/installed

.PHONY: demo test e2e build clean help

help:
	@echo "make demo    build, import real images into a server of 64 MB, search them through the API"
	@echo "make test    all tests: Rust, then end to end against the client's local mode"
	@echo "make e2e     the second half of make test"

demo: build
	@$(PYTHON) demo/run.py

test:
	cargo test --workspace
	cargo proto --check
	@$(MAKE) --no-print-directory e2e

e2e: build $(STAMP)
	$(VENV)/bin/python -m pytest tests/e2e

build:
	cargo build --release --bin ramlet

$(STAMP): tests/e2e/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
	@touch $(STAMP)

clean:
	rm -rf target $(VENV)
