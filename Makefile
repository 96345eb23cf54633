# Two commands from a fresh clone: `make site` and `make test`.
# Everything they need goes into .venv; nothing outside this folder is touched.

PYTHON ?= python3
VENV   := .venv
export NO_MKDOCS_2_WARNING := 1   # the theme prints an advert for its successor
BIN    := $(VENV)/bin
# The compiler's wheels, where the machine has no CUDA toolkit of its own.
CUDA   := $(if $(or $(wildcard $(CUDA_HOME)/bin/nvcc),$(shell command -v nvcc)),,[cuda])

.PHONY: site offline serve test lint evidence check bench clean help

help:
	@echo "make site      build the site into site/ from recorded evidence"
	@echo "make offline   build the site into site-offline/, to be opened from disk"
	@echo "make test      run the whole test suite, the linters and the type checker"
	@echo "make serve     build and serve the site, again after every edit"
	@echo "make check     judge whether any page or evidence is stale or false"
	@echo "make evidence  record what is stale or missing on this machine's GPU"
	@echo "make bench     measure the tool's own speed"

site: $(VENV)/.site
	$(BIN)/evidence check
	$(BIN)/mkdocs build --strict --clean --quiet
	@echo "built: site/index.html"

offline: $(VENV)/.site
	$(BIN)/evidence check
	$(BIN)/mkdocs build --strict --clean --quiet --config-file offline.yml
	@echo "built: site-offline/index.html"

serve: $(VENV)/.site
	$(BIN)/mkdocs serve

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

check: $(VENV)/.site
	$(BIN)/evidence check

evidence: $(VENV)/.site
	$(if $(CUDA),$(BIN)/pip install --quiet --editable ".$(CUDA)")
	$(BIN)/evidence record

bench: $(VENV)/.dev
	$(BIN)/python tools/bench.py

clean:
	rm -rf site site-offline .evidence $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.site: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".$(subst [cuda],[dev$(comma)cuda],$(or $(CUDA),[dev]))"
	@touch $@ $(VENV)/.site

comma := ,
