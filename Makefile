# `make install`, `make demo`, `make test`: everything lives in .venv, nothing outside the checkout is touched.
# Without a GPU, `make install PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"` keeps torch small.

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
RUN := . $(VENV)/bin/activate &&

.PHONY: install demo test test-fast docs format check clean

install: $(VENV)/.core

$(VENV)/.core: envs/core.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet $(PIP_ARGS) -r envs/core.txt
	@touch $@
	@echo "Installed. Try: make demo, or: . $(VENV)/bin/activate && snakemake results/regression.csv -n"

$(VENV)/.test: $(VENV)/.core envs/test.txt
	$(VENV)/bin/python -m pip install --quiet $(PIP_ARGS) -r envs/test.txt
	@touch $@

demo: install
	$(RUN) snakemake --profile profiles/blocks

test: $(VENV)/.test
	$(RUN) python -m pytest

test-fast: $(VENV)/.test
	$(RUN) python -m pytest -m "not slow"

docs: $(VENV)/.test
	$(RUN) python -m workflow_scripts.docs

format: $(VENV)/.test
	$(RUN) ruff format . && ruff check --fix . && snakefmt Snakefile rules

check: $(VENV)/.test
	$(RUN) ruff format --check . && ruff check . && snakefmt --check Snakefile rules

clean:
	rm -rf results .snakemake
