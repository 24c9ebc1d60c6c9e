# Everything runs in .venv, which is made on first use: make and Python 3.11 or newer are all that is needed.
# What is installed is remembered by stamps in .venv and installed again only when pyproject.toml changes.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python)
WORKERS ?= 2
COMPILED := $(wildcard src/dualgap/kernels/*.py src/dualgap/solvers/*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo     fit small models and print how good each is proved to be"
	@echo "make test     run the tests; ARGS=\"-k smo\" chooses among them, WORKERS=4 uses more processes"
	@echo "make lint     ruff check, ruff format --check, mypy"
	@echo "make bench    compare with other libraries; ARGS=\"--quick -p cpusmall\" chooses, DUALGAP_DATA names the data"
	@echo "make clean    remove .venv, caches and build outputs"
	@echo
	@echo "Each makes .venv and installs what it needs by itself. PYTHON=/path/to/python chooses the interpreter."

demo: $(VENV)/.core
	@$(BIN)/dualgap demo

test: $(VENV)/.test $(VENV)/.warm
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.lint
	@failed=0; \
	for check in "ruff check" "ruff format --check" mypy; do $(BIN)/$$check || failed=1; done; \
	exit $$failed

bench: $(VENV)/.bench
	@$(BIN)/dualgap bench kernel $(ARGS)

clean:
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment that works is kept; one that does not (too old, half made, moved) is made anew.
$(VENV)/.made:
	@if $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    touch $@; exit 0; \
	fi; \
	for candidate in $(PYTHONS); do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "dualgap needs Python 3.11 or newer; none of these is: $(PYTHONS)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)."; \
	$$found -m venv --clear $(VENV) && touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "Installing dualgap and its dependencies into $(VENV) (once; takes a minute or so)."
	@$(PIP) --editable .
	@touch $@

# The extras of each target; the package itself is installed with them.
$(VENV)/.test: EXTRAS := test,report
$(VENV)/.lint: EXTRAS := lint
$(VENV)/.bench: EXTRAS := bench,report
$(VENV)/.test $(VENV)/.lint $(VENV)/.bench: $(VENV)/.made pyproject.toml
	@echo "Installing dualgap[$(EXTRAS)] into $(VENV) (once; takes a minute or so)."
	@$(PIP) --editable '.[$(EXTRAS)]'
	@touch $(VENV)/.core $@

# Compiled once before the workers start, so that they do not compile the same functions side by side. What was compiled
# before is thrown away: Numba looks at a function's own file alone, not at those it calls functions of.
$(VENV)/.warm: $(VENV)/.test $(COMPILED) tests/warm_up.py
	@echo "Compiling (once, and again when a kernel or a solver changes)."
	@find src -name '*.nb[ci]' -delete
	@$(BIN)/python tests/warm_up.py
	@touch $@
