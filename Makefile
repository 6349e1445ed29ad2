# Everything a newcomer types: `make demo` and `make test`. Each sets .venv up when it is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.demo
comma  := ,

# One thread is faster than two for small models; nothing is fetched from a hub.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE  ?= 1
export TOKENIZERS_PARALLELISM ?= false

CORE_VENV ?= build/core-$(notdir $(PYTHON))
CORE_TESTS ?= tests/unit/robust tests/unit/faults tests/gradient $(addprefix tests/unit/test_,advantage.py config.py loss.py run.py weight.py cli.py errors.py)

NEWEST_TESTS ?= tests/unit/robust/test_operator.py tests/gradient tests/integration/trl tests/integration/train

.PHONY: help demo test check core newest house bench mutate soak docs dist clean
help:
	@echo "make demo    one bad reward in a picture, then the main job: GSPO, the paper's settings and the guarded ones on spiked rewards"
	@echo "make test    every test, the slow ones too (under 30 minutes on 2 cores)"
	@echo "make check   lint, types, unit and property tests (under 3 minutes)"
	@echo "make core    the estimators without any engine on another Python: make core PYTHON=python3.13"
	@echo "make newest  the TRL tests and the gradients' on the newest torch, transformers and TRL, in an environment of its own"
	@echo "make house   the house in figures: files, lines, helpers, packages that import each other, what runs on the way"
	@echo "make bench   the benchmark: ratios measured side by side"
	@echo "make mutate  wrong constants and signs planted in every formula: do the tests see them? (goes on where it was interrupted; ROWS=1: row by row of docs/paper-map.md)"
	@echo "make soak    rewards under load, interruptions and kills, the long forms (goes on where it was interrupted)"
	@echo "make docs    the documentation site, in site/; a broken link is an error"
	@echo "make dist    wheel and source distribution, in dist/"
	@echo "make clean   removes .venv, caches and build output"

# A demo needs TRL and a plot; tests and checks need every engine. Both live in $(VENV), the second adds to the first.
define set-up
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rovrl needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + "; try: make PYTHON=python3.11")'
@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
@echo "installing into $(VENV): $(2)"
$(BIN)/pip install --constraint constraints.txt --editable '.[$(1)]'
endef

$(DEMO): pyproject.toml constraints.txt
	$(call set-up,demo,what the demo needs$(comma) 1.5 GB$(comma) under two minutes where pip has the packages)
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(call set-up,dev,every engine and every tool$(comma) 4 GB$(comma) a few minutes the first time)
	@touch $(DEMO) $@

demo: $(DEMO)
	$(BIN)/python -m rovrl_paper.demo --png demo/one-bad-reward.png
	$(BIN)/rovrl train

check: $(STAMP)
	@echo "lint, types, unit and property tests: usually under 3 minutes on 2 cores"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow" --ignore tests/integration --ignore tests/reproduction

core:
	@test -x $(CORE_VENV)/bin/python || $(PYTHON) -m venv $(CORE_VENV)
	$(CORE_VENV)/bin/pip install --quiet --constraint constraints.txt '.[report]' pytest pytest-timeout hypothesis beartype mpmath scipy pyyaml
	$(CORE_VENV)/bin/python -m pytest -m "not slow" $(CORE_TESTS)

newest:
	place=$$(.ci/newest) && CUDA_VISIBLE_DEVICES= $$place/bin/python -m pytest $(NEWEST_TESTS)

test: $(STAMP)
	@echo "1 of 3: lint and format (seconds)"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@echo "2 of 3: types (usually half a minute)"
	$(BIN)/pyright
	@echo "3 of 3: every test, the slow ones too (usually 25 minutes on 2 cores; the slowest are named at the end)"
	$(BIN)/pytest -n 2 --dist loadfile --durations 10

house: $(STAMP)
	$(BIN)/python tests/project/house.py

bench: $(STAMP)
	$(BIN)/python benchmarks/bench.py

mutate: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m mutation $(if $(SAMPLE),--sample $(SAMPLE) --seed $(or $(SEED),0)) $(if $(ROWS),--rows)

soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m soak --write

docs: $(STAMP)
	$(BIN)/python docs/site/build.py

dist: $(STAMP)
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) build dist site demo .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
