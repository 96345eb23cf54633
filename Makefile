# Two commands from a fresh clone: `make site` and `make test`.
# Everything they need goes into .venv; nothing outside this folder is touched.

PYTHON ?= python3
VENV   := .venv
export NO_MKDOCS_2_WARNING := 1   # the theme prints an advert for its successor
BIN    := $(VENV)/bin
# The compiler's wheels, where the machine has no CUDA toolkit of its own.
CUDA   := $(if $(or $(wildcard $(CUDA_HOME)/bin/nvcc),$(shell command -v nvcc)),,[cuda])

.PHONY: site offline serve test lint links evidence check bench clean help
.PHONY: plan bundle proposal propose verified

help:
	@echo "make site      build the site into site/ from recorded evidence"
	@echo "make offline   build the site into site-offline/, to be opened from disk"
	@echo "make test      run the whole test suite, the linters and the type checker"
	@echo "make serve     build and serve the site, again after every edit"
	@echo "make check     judge whether any page or evidence is stale or false"
	@echo "make evidence  record what is stale or missing on this machine's GPU"
	@echo "make links     follow every link of the built site"
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

links: site $(VENV)/.dev
	$(BIN)/python tools/links.py site

# What CI runs, in this order and on these machines (docs/guide/ci.md). PROJECT is the
# tree that is judged and recorded, which may be another one than this Makefile's: a
# stranger's change is recorded by the tool that was there before it. Everything comes
# as environment variables, never as text of a recipe.
PROJECT ?= .
DEVICES ?= h200
export PROJECT DEVICES
RUN      = $(BIN)/evidence --project "$$PROJECT"

# On any machine: which shards of at most twenty minutes, as a matrix of jobs.
plan: $(VENV)/.site
	@set -f; matrix=$$($(RUN) list $${UNTRUSTED:+--untrusted} --matrix 1200 \
	  $${DEVICES:+$$(printf -- '--device %s ' $$DEVICES)} -- $$PROGRAMS) && \
	echo "matrix=$$matrix" && \
	case "$$matrix" in *shard*) echo some=true;; *) echo some=false;; esac

# On a GPU runner: one shard, as a bundle.
bundle: $(VENV)/.site
	$(if $(CUDA),$(BIN)/pip install --quiet --editable ".$(CUDA)")
	rm -rf ci/bundle && mkdir -p ci/bundle
	$(RUN) record $${SHARD:+--shard "$$SHARD"} $${UNTRUSTED:+--untrusted} \
	  --wait --bundle ci/bundle/evidence.bundle -- $$PROGRAMS

# On any machine: what the bundles in ci/bundles change, as a patch and as a text.
proposal: $(VENV)/.site
	rm -rf ci/proposal && mkdir -p ci/proposal
	status=0; $(RUN) accept $${UNTRUSTED:+--untrusted} ci/bundles/*/*.bundle 2>&1 | tee ci/proposal/accepted.txt; \
	  grep -q ' 0 refused$$' ci/proposal/accepted.txt || status=1; \
	for device in $$DEVICES; do \
	  $(RUN) diff --format markdown --device "$$device" 2>&1 || echo "No comparison on $$device."; \
	done >ci/proposal/body.md; \
	{ echo; echo '```text'; grep -v '^::' ci/proposal/accepted.txt; echo '```'; } >>ci/proposal/body.md; \
	git -C "$$PROJECT" add --all && \
	git -C "$$PROJECT" diff --cached --binary >ci/proposal/evidence.patch; exit $$status

# On any machine that may push: the proposal as a pull request.
propose:
	test -s ci/proposal/evidence.patch || { echo "nothing changed: no pull request"; exit 0; }; \
	git switch --create "$$BRANCH" && git apply --index ci/proposal/evidence.patch && \
	git commit --quiet --message "Evidence recorded by CI" && \
	git push --quiet origin "$$BRANCH" && \
	gh pr create --base "$$BASE" --head "$$BRANCH" --title "Evidence recorded by CI" \
	  --body-file ci/proposal/body.md

# On a GPU runner: whether programs still do what their records say; nothing is stored.
verified: $(VENV)/.site
	$(if $(CUDA),$(BIN)/pip install --quiet --editable ".$(CUDA)")
	mkdir -p ci && $(RUN) verify --wait --format markdown -- $$PROGRAMS >ci/verified.md

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
