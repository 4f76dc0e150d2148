# Two commands: `make demo` shows it, `make test` proves it.

PYTHON ?= python3
VENV   := .venv
STAMP  := $(VENV)/installed
OTHERS := .venv-integrations
# `make integrations MORE=1` tries five more, in an environment of their own.
MORE ?=
FURTHER := .venv-integrations-more
# Of the tests in Rust: features, names.
TEST_ARGUMENTS ?=
# What the end-to-end tests try. `make test` takes what the tests in Rust have built: its assertions and overflow checks are on, and nothing is built twice.
PROGRAM ?= $(or $(RAMLET_BIN),target/release/ramlet)
CHECKED := target/debug/ramlet
# Of the end-to-end tests so many run beside each other; 0: all one after the other.
WORKERS ?= 2

# Of the Python package: its library holds the program `ramlet` too, which reads Parquet; `WHEEL_PROGRAM=` (empty) builds a wheel without the program.
WHEEL_PROGRAM ?= ramlet
WHEEL_FEATURES ?= parquet
# `make wheel WHEEL_TARGET=aarch64-unknown-linux-gnu` (or x86_64-unknown-linux-musl): for another processor or C library. packaging/build.py says what that needs.
WHEEL_TARGET ?=
# `WHEEL_GLIBC=2.17`: for systems with a glibc as old as that, by zig, whatever this machine has. Releases do so, for both processors.
WHEEL_GLIBC ?=
# `make test-python MIGRATE=1` tries copies out of Chroma, LanceDB, FAISS and hnswlib too, whose packages take 1 GB.
MIGRATE ?=
BUILDER := python/.venv-build
TESTED  := python/.venv-test

.PHONY: demo test e2e integrations clients wheel test-python build target/release/ramlet clean help

help:
	@echo "make demo    build, import real images into a server of 64 MB, search them through the API"
	@echo "make test    all tests: Rust, then end to end against the client's local mode"
	@echo "make e2e     the second half of make test, with the release build; WORKERS=0: one test at a time"
	@echo "make wheel   the Python package with the server inside, into python/target/wheels; WHEEL_TARGET=TRIPLE: for another machine; WHEEL_GLIBC=2.17: for older systems"
	@echo "make test-python    builds it, and tests it in a clean virtual environment"
	@echo "make clients    the official clients in JavaScript, Go, Java and Rust; CLIENTS=js: one alone. Those whose tools aren't here are skipped"
	@echo "make integrations    LangChain, LlamaIndex, Haystack, mem0 against the server (an environment of 430 MB). MORE=1: agno, LangGraph, DSPy, Agent Framework, mcp-server-qdrant too (770 MB)"

demo: build
	@$(PYTHON) demo/run.py

test:
	cargo xtask test $(TEST_ARGUMENTS)
	cargo proto --check
	@$(MAKE) --no-print-directory e2e PROGRAM=$(CHECKED)

e2e integrations clients: export RAMLET_BIN := $(abspath $(PROGRAM))

e2e: $(PROGRAM) $(STAMP)
ifeq ($(WORKERS),0)
	$(VENV)/bin/python -m pytest tests/e2e
else
	@# Those that are marked "alone" come afterwards, whatever became of the others.
	together=0; $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone" tests/e2e || together=$$?; \
	$(VENV)/bin/python -m pytest -m alone tests/e2e && exit $$together
endif

# Programs of other people in an environment of their own: what they need is large, and theirs to change. With the wheel, if it was made, they run embedded too.
integrations: $(PROGRAM) $(OTHERS)/installed
	$(if $(wildcard python/target/wheels/*.whl),$(OTHERS)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps python/target/wheels/*.whl)
	$(OTHERS)/bin/python -m pytest tests/e2e/integrations
	$(if $(MORE),$(MAKE) --no-print-directory $(FURTHER)/installed && $(FURTHER)/bin/python -m pytest tests/e2e/integrations)

clients: export CLIENTS ?= js go java rust

clients: $(PROGRAM) $(STAMP)
	$(VENV)/bin/python -m pytest tests/clients

wheel: $(BUILDER)/installed
	$(PYTHON) packaging/build.py wheel $(if $(WHEEL_TARGET),--target $(WHEEL_TARGET)) $(if $(WHEEL_GLIBC),--glibc $(WHEEL_GLIBC)) --program "$(WHEEL_PROGRAM)" --features "$(WHEEL_FEATURES)" --maturin $(BUILDER)/bin/maturin

test-python: wheel
	rm -rf $(TESTED)
	$(PYTHON) -m venv $(TESTED)
	$(TESTED)/bin/pip install --quiet --disable-pip-version-check python/target/wheels/*.whl -r python/tests/requirements.txt $(if $(MIGRATE),-r python/tests/requirements-migrate.txt)
	cd python && .venv-test/bin/python -m pytest

build target/release/ramlet:
	cargo build --release --bin ramlet

$(CHECKED):
	cargo build --bin ramlet

$(STAMP): tests/e2e/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
	@touch $(STAMP)

$(OTHERS)/installed: tests/e2e/integrations/requirements.txt
	$(PYTHON) -m venv $(OTHERS)
	$(OTHERS)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/integrations/requirements.txt
	@touch $(OTHERS)/installed

$(FURTHER)/installed: tests/e2e/integrations/requirements-more.txt
	$(PYTHON) -m venv $(FURTHER)
	$(FURTHER)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/integrations/requirements-more.txt
	@touch $(FURTHER)/installed

$(BUILDER)/installed: python/requirements-build.txt
	$(PYTHON) -m venv $(BUILDER)
	$(BUILDER)/bin/pip install --quiet --disable-pip-version-check -r python/requirements-build.txt
	@touch $(BUILDER)/installed

clean:
	rm -rf target $(VENV) $(OTHERS) $(FURTHER) python/target python/data $(BUILDER) $(TESTED)
