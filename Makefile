# On a fresh Debian 12 or Ubuntu 24.04, `make demo` and `make test` do all the set-up. Called again, they install and
# build nothing.
#
#   make build     the program, build/lacuna, and the libraries beside it
#   make demo-recordings  a synthetic recording: its rungs, a small core that finds the fields, a report
#   make demo      synthetic screens, the ladder on a slice, a model that finds what was planted, a report
#   make test      everything a change must pass (.ci/run calls it)
#   make test-all  make test, then the two below, and a wheel in a new environment: over an hour; before a release, and
#                  after a change to what is on disk
#   make sweep     kills every command that writes, damages every kind of file, and counts silent changes and crashes;
#                  SEED=n repeats one, QUICK=1 takes a few minutes
#   make fuzz      every reader against mutated inputs (libFuzzer), each for SECONDS=60
#   make bench     the benchmark programs; WORDS="csr order" for those with such names
#   make wheel     a wheel of the Python package for the torch of PYTHON, in dist/
#   make install   the programs, libraries, headers, CMake package, configs and Python package, under PREFIX=/usr/local
#   make python    the line that puts `import lacuna` on Python's path, and which Python to call
#   make format    formats the C++ and CUDA files
#   make clean     removes what was built; `make distclean` also what was installed into the checkout
#
#   PYTHON=...     a Python environment of yours instead of the checkout's .venv; nothing is installed into it
#   TORCH=OFF      build without torch, and without Python
#   LACUNA_CUDA_ARCHITECTURES=...   GPUs to compile for, as "8.6;9.0", or all; else the GPU at hand, and without one 9.0
#   JOBS=n         compilers and tests at a time
SHELL := /bin/bash
PYTHON ?=
TORCH ?= ON
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
SECONDS ?= 60
export PYTHON TORCH JOBS LACUNA_CUDA_ARCHITECTURES

python = $(or $(PYTHON),.venv/bin/python)
in_env = . scripts/env &&

.PHONY: help build install test test-all sweep fuzz demo demo-recordings bench python wheel format clean distclean setup setup-test
help:
	@sed -n 's/^# \?//p; /^SHELL/q' Makefile

setup:
ifeq ($(TORCH),OFF)
	@scripts/setup-system
else ifeq ($(PYTHON),)
	@scripts/setup-system python
	@scripts/setup-python
else
	@scripts/setup-system
	@scripts/setup-python $(PYTHON) torch
endif

setup-test:
ifeq ($(PYTHON),)
	@scripts/setup-system python format browser
	@scripts/setup-python
else
	@scripts/setup-system format browser
	@scripts/setup-python $(PYTHON) torch torch_geometric numpy lmdb h5py zarr pytest tensorboard
endif

build: setup
	@scripts/build release product

install: build
	@$(in_env) cmake --install build --prefix "$(abspath $(PREFIX))" > build/install.log || { cat build/install.log; exit 1; }
	@echo 'lacuna is in $(abspath $(PREFIX))/bin, its configs in $(abspath $(PREFIX))/share/lacuna/configs'
	@[ ! -e build/python_folder ] || echo "Python: PYTHONPATH=$(abspath $(PREFIX))/$$(cat build/python_folder) $(abspath $(python))"

test: setup-test
	scripts/check-format
	scripts/build release
	$(in_env) ctest --test-dir build --output-on-failure --parallel $(JOBS)
	scripts/build asan tests
	$(in_env) ctest --test-dir build-asan --output-on-failure --parallel $(JOBS)
	$(in_env) $(python) -m pytest -q tests $(if $(filter OFF,$(TORCH)),,python/tests)

test-all: export LACUNA_TEST_SEED ?= fresh
test-all: export LACUNA_TEST_ALL := 1
test-all: test
ifneq ($(TORCH),OFF)
	@$(MAKE) --no-print-directory sweep
	@scripts/wheel
	@scripts/try-wheel
endif
	@$(MAKE) --no-print-directory fuzz

sweep: build
	scripts/sweep $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

fuzz:
	@scripts/setup-system fuzz
	scripts/build fuzz fuzz_targets
	scripts/fuzz run $(SECONDS)

demo: build
	@scripts/demo
demo-recordings: build
	@scripts/demo-recordings

bench: setup
	@scripts/build release
	@scripts/bench $(WORDS)

# What is built on the way goes to stderr: eval "$(make -s python)" reads the line alone.
python:
	@$(MAKE) --no-print-directory build >&2
	@echo 'export PYTHONPATH=$(CURDIR)/python$${PYTHONPATH:+:$$PYTHONPATH}  # then call $(abspath $(python))'

wheel: setup
	@scripts/wheel

format:
	scripts/check-format --fix

clean:
	rm -rf build build-* out

distclean: clean
	rm -rf .venv .deps
