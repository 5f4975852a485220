# make run    install, then learn ten digits one at a time with DGDMN, in two presets, and three rivals
# make test   every test that takes at most a few seconds      make test-all  the slow ones too
# make check  style, types, layers                             make bench     speed against the machine's limit
# make paper  every table and figure of the paper (takes a day; continues after a kill)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# PyTorch's own index has builds without CUDA. It is used only if it answers quickly.
TORCH_INDEX := https://download.pytorch.org/whl/cpu

.PHONY: run test test-all check bench paper install clean

run: install
	$(BIN)/dgdmn run digits --algorithm nn:paper dgdmn slda joint:paper dgdmn:paper --fallback embedded

# Two test workers on two cores: one torch thread each.
test test-all: export OMP_NUM_THREADS = 1

test: install
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-all: install
	$(BIN)/python -m pytest -q -n 2

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

paper: install
	$(BIN)/python -m reproduction all

bench: install
	$(BIN)/python benchmarks/speed.py

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 14), "dgdmn needs Python 3.11, 3.12 or 3.13"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    $$($(BIN)/python scripts/torch_index.py $(TORCH_INDEX)) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache
