# The README's two commands (`make bench`, `make test`) and what keeps the house in order.
#
# PY=python3 uses an environment you already have and installs nothing into it. Without it,
# .venv is made once from requirements.lock. The project itself is not installed: pytest finds
# it by `pythonpath` and `python -m` by the folder it runs in, so no build backend is needed.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install borrowed bench gpu check test test-all interpreted numbers another-triton cpu-rivals fleet lock clean

BUDGET ?= quick
PYTHON := $(or $(PY),.venv/bin/python)
READY := $(if $(PY),borrowed,install)
STAMP := .venv/.installed-$(firstword $(shell cksum requirements.lock 2>/dev/null))

# torch and triton are named exactly: the committed results were made with these two.
PINNED := torch==2.13.0 triton==3.7.1

# What `make bench` imports, asked of an environment that is not ours.
NEEDED := jinja2 matplotlib numpy pandas psutil pytest pytest_benchmark rich scipy torch
HAS_ALL := import importlib.util as u, sys; \
  missing = [name for name in sys.argv[1:] if not u.find_spec(name)]; \
  sys.exit("attnbench: missing packages: " + ", ".join(missing) if missing else 0)

# A candidate is tried by running it: a name on PATH may be a shim without a Python behind it,
# and Debian's python3.11 may lack venv.
CANDIDATES ?= python3.11 python3.12 python3
IS_RIGHT := import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))
define make_venv
for python in $(CANDIDATES); do \
  if $$python -c '$(IS_RIGHT)' >/dev/null 2>&1; then \
    echo "attnbench: making $(1) with $$($$python -V)"; \
    $$python -m venv --clear $(1); exit; \
  fi; \
done; \
echo "attnbench: no Python 3.11 or 3.12 with venv found (tried $(CANDIDATES))." >&2; \
echo "attnbench: on Debian or Ubuntu type: sudo apt install python3.11-venv" >&2; \
exit 1
endef

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## make .venv from requirements.lock (once)

$(STAMP):
	@.venv/bin/python -c 'import pip; $(IS_RIGHT)' >/dev/null 2>&1 || ( $(call make_venv,.venv) )
	@echo "attnbench: installing $$(grep -c == requirements.lock) packages from" \
	  "requirements.lock (minutes, this once; log: .venv/install.log)"
	@set -o pipefail; PYTHONUNBUFFERED=1 .venv/bin/python -m pip install \
	  --disable-pip-version-check -r requirements.lock 2>&1 | tee .venv/install.log \
	  | { grep --line-buffered -oE '^ *Downloading [^ ]+ \([0-9.]+ [MG]B\)|^Installing collected packages' || true; } \
	  || { tail -n 30 .venv/install.log; echo "attnbench: pip failed, see above" >&2; exit 1; }
	@rm -f .venv/.installed-* && touch $@
	@echo "attnbench: .venv is ready"

borrowed:
	@command -v $(PY) >/dev/null || { echo "attnbench: PY=$(PY) is no command here" >&2; exit 1; }
	@$(PY) -c '$(HAS_ALL)' $(NEEDED) || { echo "attnbench: install them where $(PY) finds them," \
	  "or leave out PY=$(PY) to have .venv made" >&2; exit 1; }

bench: $(READY) ## measure and report (BUDGET=quick|default|full|smoke, PY=python3, ARGS=…)
	@echo "attnbench: measuring with BUDGET=$(BUDGET)"
	@# 1 is a wrong or failed cell: its report is wanted most. Above 1 there is no finished run.
	@status=0; $(PYTHON) -m pytest suites --budget $(BUDGET) $(ARGS) || status=$$?; \
	[ $$status -le 1 ] || exit $$status; \
	$(PYTHON) -m reports && exit $$status

# Seven phases in eight minutes, each on disk before the next; DRY=1 on a CPU, under four.
gpu: $(READY) ## everything a GPU can tell in 8 minutes (DRY=1 on a CPU, MINUTES=N, ARGS=…)
	$(PYTHON) -m suites gpu $(if $(DRY),--dry) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

# The lock chooses pyright's version; without this every check asks the index for a newer one.
check: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
check: $(READY) ## ruff, ruff format, pyright
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m pyright

# A file's tests stay together: they share what it costs to set them up. Their order is that of
# tests/conftest.py, where what takes longest comes first.
BESIDE := -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: check ## check, then the tests that are not slow
	$(PYTHON) -m pytest $(BESIDE) -m "not slow"

test-all: check ## check, then every test
	$(PYTHON) -m pytest $(BESIDE)

# Cases know nothing of one another: one by one on whichever core is free.
interpreted: $(READY) ## every case of the Triton kernels in its interpreter, in one pytest
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n logical --maxprocesses 4 \
	  --noconftest -p no:cacheprovider tests/interpreted_*.py $(ARGS)

numbers: $(READY) ## the tables of docs/gate.md, anew from tests/data and ten launches
	$(PYTHON) -m tests.gate_numbers
	$(PYTHON) -m tests.allocator_launches

# The oldest Triton of pyproject.toml's range, and the numpy that its interpreter needs.
TRITON ?= 3.6.0
NUMPY ?= <2.4

# In two steps: torch asks for one exact Triton, which pip notes and installs the other.
another-triton: ## the Triton kernels' tests with another Triton (TRITON=3.6.0 NUMPY='<2.4')
	@( $(call make_venv,build/triton) )
	build/triton/bin/python -m pip install --disable-pip-version-check -q -r requirements.lock
	build/triton/bin/python -m pip install --disable-pip-version-check -q "triton==$(TRITON)" "numpy$(NUMPY)"
	build/triton/bin/python -m pytest $(BESIDE) tests/test_triton_*.py $(ARGS)

RIVALS := build/cpu-rivals/bin/python

cpu-rivals: ## ONNX Runtime and OpenVINO, installed apart, against float64 (minutes)
	@( $(call make_venv,build/cpu-rivals) )
	$(RIVALS) -m pip install --disable-pip-version-check -q -r requirements.lock '.[cpu-rivals]'
	$(RIVALS) -m pytest $(BESIDE) tests/cpu_rivals.py $(ARGS)

FLEET := build/fleet/bin/python

# An environment that sees the other one's packages, and has Ray besides.
fleet: $(READY) ## a sweep on Ray, installed apart, that loses a worker (minutes)
	$(PYTHON) -m venv --clear build/fleet
	$(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(FLEET) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/locked.pth"
	$(FLEET) -m pip install --disable-pip-version-check -q '.[fleet]'
	$(FLEET) -m pytest $(BESIDE) tests/fleet_on_ray.py $(ARGS)

lock: ## make requirements.lock anew from pyproject.toml's ranges
	@( $(call make_venv,build/lock) )
	build/lock/bin/python -m pip install --disable-pip-version-check -q $(PINNED) '.[gpu,xformers,parquet,dev]'
	@# A local version (+cpu) and CUDA's own wheels depend on the machine that makes the lock.
	{ echo "# Made by 'make lock' from pyproject.toml; do not edit."; \
	  build/lock/bin/python -m pip freeze --all --exclude pip --exclude attnbench \
	  | sed -E 's/\+[a-z0-9.]+$$//' | awk '/^nvidia-ml-py==/ || !/^(nvidia|cuda)-/'; } \
	  > build/requirements.lock
	mv build/requirements.lock requirements.lock && rm -rf build/lock

clean: ## remove .venv, caches and build/ (never results)
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
