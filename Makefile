# One tool, few words. Every target sets up what it needs in .venv; only Python >= 3.11 with pip is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# PIP_REQUIRE_VIRTUALENV guards against a stray global install if .venv is broken.
PIP := PIP_REQUIRE_VIRTUALENV=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench results docs check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/use ## Train with 40 % wrong labels, with and without PermLL, and see
	@$(BIN)/permll demo

test: $(VENV)/dev ## Run every test
	@$(BIN)/pytest -q -n auto $(ARGS)

lint: $(VENV)/dev ## Style, formatting and the direction of imports
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/lint-imports.log || (cat $(VENV)/lint-imports.log; exit 1)

types: $(VENV)/dev ## Type check
	@$(BIN)/mypy --no-error-summary

check: lint types test ## All of the above

bench: $(VENV)/dev ## Measure speed and room as ratios, into results/, against their targets; ROOT=... (CIFAR-10), FEATURES=... for more
	@$(BIN)/python benchmarks/suite.py $(if $(ROOT),--root $(ROOT)) $(if $(FEATURES),--features $(FEATURES))

results: $(VENV)/dev ## Make the numbers and pictures of README and docs again, in some hours; ROOT=... LABELME=... TREC=... for more
	@$(BIN)/python benchmarks/demo.py
	@$(BIN)/python benchmarks/correct_after.py
	@$(BIN)/python benchmarks/noise_rates.py
	@$(BIN)/python benchmarks/mini.py
	@$(BIN)/python benchmarks/mini_details.py
	@$(BIN)/python benchmarks/mini_pictures.py
	@$(BIN)/python benchmarks/noise_rate_bias.py
	$(if $(LABELME),@$(BIN)/python benchmarks/estimate_noise.py --labelme $(LABELME))
	@$(BIN)/python benchmarks/figure3.py
	$(if $(and $(LABELME),$(TREC)),@$(BIN)/python benchmarks/table2.py --labelme $(LABELME) --trec $(TREC))
	@$(BIN)/python benchmarks/auto_apply_safety.py $(if $(LABELME),--labelme $(LABELME))
	$(if $(and $(LABELME),$(TREC)),@$(BIN)/pip install --quiet cleanlab && $(BIN)/python benchmarks/cleaning.py --labelme $(LABELME) --trec $(TREC))
	$(if $(ROOT),@$(BIN)/python benchmarks/lite.py --root $(ROOT))
	$(if $(ROOT),@$(BIN)/python benchmarks/table1_lite.py --root $(ROOT))
	@$(BIN)/permll demo --out docs/images

docs: $(VENV)/docs ## Build the documentation into site/
	@$(BIN)/zensical build --strict --clean

clean: ## Remove everything that can be made again
	rm -rf $(VENV) build dist site demo .hypothesis .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "permll needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)

# A stamp per set of extras: installed once, and again when what is asked for changes.
$(VENV)/use: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[plots]'
	@touch $@

$(VENV)/dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/use

$(VENV)/docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once) ..."
	@$(PIP) --editable '.[plots,docs]'
	@touch $@ $(VENV)/use
