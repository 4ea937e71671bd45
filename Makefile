# make demo: own environment, install, text from the shipped model. make test: own environment, the whole test suite.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test check lint bench clean

help:
	@echo "make demo   install into $(VENV) and generate text with the shipped model"
	@echo "make test   install into $(VENV) and run all tests (no torch needed)"
	@echo "make check  format, lint, types and contract tests"
	@echo "make clean  remove $(VENV) and build/"

$(STAMP): pyproject.toml CMakeLists.txt $(shell find native hajax/abi hajax/targets -type f -not -name '*.py*' 2>/dev/null)
	@sh scripts/prerequisites $(PYTHON)
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable ".[test]"
	@touch $@

demo: $(STAMP)
	@echo "A prompt of about 500 tokens (models/demo/prompt.txt) from Jane Austen's Emma; the model goes on:"
	@tail -n 2 models/demo/prompt.txt
	@$(RUN)/hajax generate --prompt-file models/demo/prompt.txt --max-new-tokens 160 --temperature 0.7 --top-p 0.95 --seed 7

test: $(STAMP)
	$(RUN)/pytest -q -n auto --maxprocesses 4

check: $(STAMP)
	@sh scripts/lint $(RUN)
	$(RUN)/pytest -q tests/contract

lint: check

clean:
	rm -rf $(VENV) build
