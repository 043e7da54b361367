# make demo      run the example programs with and without npaccel, print a table
# make test      run the tests on the installed package: compiled, and the dispatch tests also with
#                NumPy's loops, under check mode, without the guard, and with little address space
# make ci        check, docs and test, in a bare clone, with both processors busy; what .ci/run calls
# make stage-... one of its stages (stage-rest ...); PYTEST_ADDOPTS=--durations=40 has it say which tests take long
# make test-all  the same, and all tests without the guard, with little address space, and the slow
# make differential  the tests that compare with NumPy, on the backend BACKEND=opencl: an hour
# make test-opencl  the tests of OpenCL with Intel's driver for processors, from PyPI (270 MB): where
#                the PoCL of the other tests does not know the processor they skip what needs a device
# make check     lint, formatting, types
# make bench     run the benchmarks; results in .bench/
# make micro     time what npaccel itself costs, beside saved baselines; SAVE=name saves one
# make coverage  write docs/coverage.md anew, after a change of what npaccel does with a call
# make ops       write docs/ops.md anew, after a change of the operation table
# make sanitize  run the C tests under the address, undefined and thread sanitizers
# make portable  the build for any system, in build/portable; make test-portable: chosen tests there
# make portable-check  compile the core for macOS, Windows, and Linux on aarch64
# make wheel     Linux wheels for an old C library, and an sdist, in dist/ (MACHINE=aarch64: cross-compiled)
# make matrix    chosen tests of these wheels on each Python and NumPy; writes docs/matrix.md
# make wheel-check  install these where there is no compiler; demo and chosen tests (ROOT_SUITES="": no root)
# make docs      the site of docs/ and README.md, links checked, in build/site
#
# Each target works in a bare clone: it makes .venv, builds and installs npaccel there, and does
# so again only when a source has changed. PYTHON=... picks the interpreter.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.npaccel-installed
DEPENDENCIES := $(VENV)/.npaccel-dependencies
WHEEL := build/wheel
EXTRAS := test,dev,demo,pocl
PIP := $(BIN)/python -m pip --disable-pip-version-check

SOURCES := $(shell find npaccel -name '*.py' -o -name '*.pyi' -o -name 'py.typed' \
	-o -name '*.c' -o -name '*.h') $(wildcard examples/*.py) pyproject.toml meson.build npaccel/meson.build

# The tests must see what was installed, not the source tree in the working directory.
SAFE := PYTHONSAFEPATH=1
# Tests start a thousand processes: each would compile anew what it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-opencl test-cuda differential check bench micro conformance coverage ops ecosystem sanitize portable test-portable portable-check wheel wheel-check matrix docs clean FORCE

demo: $(INSTALLED)
	@$(SAFE) $(BIN)/npaccel demo $(ARGS)

# Under this limit (KiB), which is near what the tests need, the guard has an eighth of what is left.
ADDRESS_SPACE := 4000000
LIMITED := ulimit -v $(ADDRESS_SPACE);
# What says most about results where nothing can stay pending.
UNGUARDED := tests/dispatch tests/runtime tests/safety/test_life_cycle.py \
  tests/safety/test_limits.py tests/safety/test_out_of_memory.py \
  tests/safety/test_threads_and_processes.py

# All but the tests of dispatch and of the runtime.
ASIDE := tests/conformance tests/ecosystem tests/safety tests/ir tests/caches tests/observe tests/cluster tests/backends \
  tests/dispatch/small $(wildcard tests/test_*.py)
# What compares values of each call, for minutes under check mode; with NumPy's loops, and where nothing waits, it says
# nothing more. And what asks how calls are seen and when arrays are written, which under check mode is the same. Each
# in the other modes in test-all.
VALUED := $(patsubst %,tests/dispatch/test_%.py,ufunc ufunc_arguments method layouts conversions composed converting function \
  gather scatter reduceat scans last_bits nan_signs at_once search special boxes shifts \
  einsum order blas solves folds_of_lists masks masked_maps)
TWICE := $(VALUED) $(patsubst %,tests/dispatch/test_%.py,indexing write_detection outside_writes redirect known_calls \
  subclasses)
# What NumPy, or a loop of our own, does at once is the same in every mode.
AT_ONCE := tests/dispatch/small $(patsubst %,tests/dispatch/test_%.py,rows fft sort draws bincount histogram \
  nonzero correlate scatter reduceat search)
# Values, for which the guard and the room that there is make no difference.
VALUES := $(patsubst %,tests/runtime/engine/test_%.py,rounds chains across block_tier complex_functions accuracy \
  complex_powers low_powers fold_order) \
  $(patsubst %,tests/runtime/checking/test_%.py,mutants check splitting) tests/runtime/programs/test_kernels.py tests/runtime/process/test_scopes.py
# Hundreds of kernels, of which only is asked how they are told from each other.
KEYS := $(patsubst %,--deselect=tests/runtime/engine/test_engine.py::test_%,every_value_that_a_rewrite_uses_is_in_the_key \
  few_traces_are_kept)
# What address space says nothing about.
ROOMY := tests/runtime/macros tests/runtime/devices tests/runtime/engine/test_boundscheck.py \
  $(patsubst %,tests/runtime/programs/test_%.py,startup_profile templates smaller)
# Stages are processes of their own. Two run at a time, the longest first, so that both ends come together; what one
# says is printed when it has ended. Longer stages run all tests once, the others a part of them in another mode.
STAGES := $(patsubst %,stage-%,aside dispatch rest check unguarded limited numpy blas)
# Threads of OpenBLAS wait for each other by turning, for long where another stage has the processors. So stages have one
# such thread; tests of products run with all, too.
PYTEST := $(SAFE) $(BIN)/python -m pytest -q
TESTS := OPENBLAS_NUM_THREADS=1 $(PYTEST)
# What an earlier stage has compiled is found by those that run the same in another mode. The stage `aside` starts
# hundreds of processes that compile something, each of which would look at all that is kept.
CODE := $(CURDIR)/build/code
AGAIN := NPACCEL_CACHE_DIR="$(CODE)" $(TESTS)
TWO := -j2 -k --output-sync=target --no-print-directory
.PHONY: ci native $(STAGES)

test: $(INSTALLED)
	@echo "$(words $(STAGES)) stages, two at a time; what one says comes when it has ended, the first after some minutes"
	@rm -rf "$(CODE)"
	@$(MAKE) $(TWO) native $(STAGES)

# What npaccel needs is installed while it is built, the C tests run beside that, and the checks beside the first
# stages.
ci:
	@rm -rf "$(CODE)"
	@$(MAKE) $(TWO) $(WHEEL)/built $(DEPENDENCIES) native
	@$(MAKE) $(TWO) check docs $(STAGES)

native:
	@$(require_compiler)
	$(MAKE) -C tests/native check OUT="$(CURDIR)/build/native"

stage-dispatch: $(INSTALLED)
	$(AGAIN) --ignore=tests/dispatch/small tests/dispatch

stage-blas: $(INSTALLED)
	$(PYTEST) -k '(test_blas or test_calls or larger_matrices or norm or product-) and not trials' \
	  $(patsubst %,tests/dispatch/test_%.py,blas correlate last_bits rows)

stage-aside: $(INSTALLED)
	$(TESTS) $(ASIDE)

stage-rest: $(INSTALLED)
	$(AGAIN) $(ASIDE:%=--ignore=%) --ignore=tests/dispatch

stage-check: $(INSTALLED)
	NPACCEL_CHECK=compute $(AGAIN) $(TWICE:%=--ignore=%) $(AT_ONCE:%=--ignore=%) tests/dispatch tests/test_examples.py

stage-unguarded: $(INSTALLED)
	NPACCEL_GUARD=off $(AGAIN) $(AT_ONCE:%=--ignore=%) $(VALUED:%=--ignore=%) $(VALUES:%=--ignore=%) $(KEYS) \
	  $(UNGUARDED) tests/test_examples.py

stage-limited: $(INSTALLED)
	$(LIMITED) $(AGAIN) $(ROOMY:%=--ignore=%) $(VALUES:%=--ignore=%) $(KEYS) \
	  $(filter-out tests/dispatch %/test_threads_and_processes.py,$(UNGUARDED))

stage-numpy: $(INSTALLED)
	NPACCEL_BACKEND=numpy $(AGAIN) $(AT_ONCE:%=--ignore=%) $(VALUED:%=--ignore=%) tests/dispatch

# With each case of the tests of which the stages run some.
EACH := $(SAFE) TEST_EACH=1
test-all: test
	$(EACH) NPACCEL_CHECK=compute $(BIN)/python -m pytest -q $(TWICE)
	$(EACH) NPACCEL_BACKEND=numpy $(BIN)/python -m pytest -q $(VALUED)
	$(EACH) NPACCEL_GUARD=off $(BIN)/python -m pytest -q tests
	$(LIMITED) $(EACH) $(BIN)/python -m pytest -q tests
	$(SAFE) $(BIN)/python -m pytest -q -m slow tests
	TEST_COMPILED=1 $(EACH) $(BIN)/python -m pytest -q tests/dispatch

# Code of an earlier run is used again, and PoCL builds no second variant of each kernel. ARGS="-k ..." or
# ARGS="--lf" (what failed the last time) run some. A test may build hundreds of kernels.
BACKEND ?= opencl
differential: $(INSTALLED)
	$(SAFE) NPACCEL_BACKEND=$(BACKEND) NPACCEL_CACHE_DIR="$(CURDIR)/build/cache" \
	  NPACCEL_CACHE_LIMIT=8000000000 \
	  POCL_WORK_GROUP_SPECIALIZATION=0 $(BIN)/python -m pytest -v --timeout=3000 tests/dispatch $(ARGS)
	$(SAFE) TEST_SECTIONS=$(BACKEND) NPACCEL_CACHE_DIR="$(CURDIR)/build/cache" \
	  NPACCEL_CACHE_LIMIT=8000000000 NPACCEL_DEVICE_MEMORY=1048576 \
	  $(BIN)/python -m pytest -v tests/runtime/macros $(ARGS)

INTEL := $(VENV)/.npaccel-intel-opencl
$(INTEL)/intel.icd: $(INSTALLED)
	$(PIP) install --quiet intel-opencl-rt intel-cmplr-lib-rt
	mkdir -p $(INTEL)
	ls $(CURDIR)/$(VENV)/lib/libintelocl.so.* > $@

# As a device that shares the host's memory, as one that does not, and with the code for work groups.
test-opencl: $(INTEL)/intel.icd
	export $(SAFE) OCL_ICD_VENDORS=$(CURDIR)/$(INTEL) LD_LIBRARY_PATH=$(CURDIR)/$(VENV)/lib; \
	for machine in opencl apart groups; do \
	  TEST_BACKENDS=$$machine $(BIN)/python -m pytest -q -m "" tests/backends; done; \
	$(BIN)/python -m pytest -q -m "" tests/runtime/devices tests/dispatch/test_opencl.py

# On an emulated driver; EMULATED= is on a device. PTXAS=... also assembles all that is compiled.
EMULATED ?= emulated
test-cuda: $(INSTALLED)
	export $(SAFE) TEST_PTXAS=$(PTXAS); \
	TEST_BACKENDS=$(or $(EMULATED),cuda) $(BIN)/python -m pytest -q -m "" tests/backends; \
	TEST_DEVICE=$(or $(EMULATED),cuda) $(BIN)/python -m pytest -q tests/runtime/devices

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.npaccel-bench
	$(SAFE) $(BIN)/python bench/run_all.py $(ARGS)

# What is saved, in .bench/micro/, is of this machine. Nothing here passes or fails by a time.
micro: $(VENV)/.npaccel-bench
	$(SAFE) $(BIN)/python -m pytest -q bench/micro --benchmark-storage="file://$(CURDIR)/.bench/micro" \
	  --benchmark-columns=min,median,iqr,rounds --benchmark-group-by=name \
	  $(if $(SAVE),--benchmark-save=$(SAVE),$(if $(wildcard .bench/micro/*/*.json),--benchmark-compare)) $(ARGS)

# Hours; see docs/conformance.md, which it writes.
conformance: $(INSTALLED)
	$(SAFE) $(BIN)/python bench/conformance/judge.py $(ARGS)
	$(SAFE) PYTHONPATH=bench/conformance $(BIN)/python bench/conformance/report.py --page docs/conformance.md

coverage: $(INSTALLED)
	@mkdir -p build
	$(SAFE) $(BIN)/python tools/coverage.py > build/coverage.md
	mv build/coverage.md docs/coverage.md

ops: $(INSTALLED)
	@mkdir -p build
	$(SAFE) $(BIN)/python tools/ops.py > build/ops.md
	mv build/ops.md docs/ops.md

# Programs of other libraries, then hours of these libraries' own tests, in an environment of their own: some bring
# plugins for pytest. It goes on where it was ended; ARGS="--library scipy ndimage" runs some.
AROUND := build/suites
JUDGED := scipy,pandas,sklearn,xarray,skimage,astropy,statsmodels,dask
ecosystem: $(INSTALLED)
	$(PIP) install --quiet '.[ecosystem]'
	$(SAFE) $(BIN)/python -m pytest -q -m 'slow or not slow' tests/ecosystem
	test -e $(AROUND)/bin/python || $(BIN)/python -m venv $(AROUND)
	$(AROUND)/bin/python -m pip install --quiet --disable-pip-version-check '.[suites]'
	$(AROUND)/bin/python tools/skimage_tests.py
	cd $(AROUND) && $(SAFE) bin/python $(CURDIR)/bench/conformance/judge.py --library $(JUDGED) \
	  --keep all --seconds 120 --out $(CURDIR)/.ecosystem $(ARGS)
	$(SAFE) PYTHONPATH=bench/conformance $(AROUND)/bin/python bench/conformance/report.py --around \
	  --out .ecosystem --page docs/ecosystem.md

sanitize:
	@$(require_compiler)
	$(MAKE) -C tests/native sanitize OUT="$(CURDIR)/build/native"

# Without the guard each program that tests start would be told of it, but where it is set so. -rs: what is skipped,
# and why.
PORTABLE := build/portable
portable: $(PORTABLE)/.npaccel-installed

$(PORTABLE)/bin/python:
	@$(require_python)
	"$(PYTHON)" -m venv $(PORTABLE)

$(PORTABLE)/.npaccel-installed: $(SOURCES) build/sources.list | $(PORTABLE)/bin/python
	@$(require_compiler)
	NPACCEL_PORTABLE=1 $(PORTABLE)/bin/python -m pip install --quiet --disable-pip-version-check '.[test]'
	@touch $@

test-portable: portable
	$(SAFE) $(PORTABLE)/bin/python -m pytest -q -rs tests/dispatch tests/runtime tests/test_portable.py
	$(SAFE) NPACCEL_GUARD=off $(PORTABLE)/bin/python -m pytest -q -rs $(wildcard tests/test_*.py)

# What that shows, and what not, is said in the tool.
portable-check: $(INSTALLED)
	$(SAFE) $(BIN)/python tools/portable_check.py $(ARGS)

# What is built says when its commit was made, and nothing else of when or where.
MACHINE ?= $(shell uname -m)
PYTHONS ?= $(shell for v in 3.11 3.12 3.13 3.14; do \
  for p in python$$v $$HOME/.pyenv/versions/$$v.*/bin/python$$v; do \
    if "$$p" --version >/dev/null 2>&1; then command -v "$$p"; break; fi; done; done)
ROOT_SUITES ?= bookworm
EPOCH := SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)

wheel:
	@$(require_compiler)
	$(EPOCH) $(PYTHON) tools/wheels.py --sdist --machine $(MACHINE) $(PYTHONS)

# A root by debootstrap has Debian's own Python: 3.11 in bookworm.
wheel-check:
	for python in $(PYTHONS); do \
	  version=$$("$$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])'); \
	  $(PYTHON) tools/wheel_check.py dist/npaccel-*-$$version-*_$$(uname -m).whl "$$python"; done
	for suite in $(ROOT_SUITES); do \
	  $(PYTHON) tools/wheel_check.py dist/npaccel-*-cp311-*_$$(uname -m).whl $$suite; done

matrix:
	$(PYTHON) tools/matrix.py $(ARGS) $(PYTHONS)

SITE := build/mkdocs
# In an environment of its own, as tests run in the other one meanwhile.
docs: $(SITE)/.npaccel-site
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build --clean --quiet

$(SITE)/.npaccel-site:
	@$(require_python)
	"$(PYTHON)" -m venv $(SITE)
	@PIP_COMPILE=0 $(SITE)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'mkdocs-material>=9.7,<10' 'mkdocstrings[python]>=1.0'
	@touch $@

clean:
	rm -rf build .bench $(INSTALLED) $(DEPENDENCIES) $(VENV)/.npaccel-bench

define require_compiler
command -v $${CC:-cc} >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || \
  { echo "npaccel: no C compiler found (looked for $${CC:-cc}, gcc, clang); install one, e.g. 'apt install gcc'" >&2; exit 1; }
endef

define require_python
test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "npaccel: needs Python 3.11 or newer (found '$(PYTHON)'); name one with PYTHON=..." >&2; exit 1; }
"$(PYTHON)" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || \
  { echo "npaccel: Python.h is missing for '$(PYTHON)'; install its headers, e.g. 'apt install python3-dev'" >&2; exit 1; }
endef

$(BIN)/python:
	@$(require_python)
	"$(PYTHON)" -m venv $(VENV)

# A source that was removed must also cause a new build.
build/sources.list: FORCE
	@mkdir -p build
	@printf '%s\n' $(sort $(SOURCES)) | cmp -s - $@ || printf '%s\n' $(sort $(SOURCES)) > $@

# First, and whenever pyproject.toml changes: as a user would build it, in pip's isolated build. Of what it needs only
# what is imported is compiled to bytecode, then.
$(WHEEL)/built: pyproject.toml | build/sources.list $(BIN)/python
	@$(require_compiler)
	@echo 'building npaccel (a few minutes the first time)'
	@rm -rf $(WHEEL) && mkdir -p $(WHEEL) && touch $@.begun
	@$(PIP) wheel --quiet --no-deps --wheel-dir $(WHEEL) .
	@mv $@.begun $@

REQUIRED := import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  extras = project["optional-dependencies"]; \
  print(*project["dependencies"], *(r for e in sys.argv[1].split(",") for r in extras[e]), sep="\n")
$(DEPENDENCIES): pyproject.toml | $(BIN)/python
	@echo 'installing what npaccel needs'
	@mkdir -p build && $(BIN)/python -c '$(REQUIRED)' $(EXTRAS) > build/required.txt
	@PIP_COMPILE=0 $(PIP) install --quiet -r build/required.txt
	@touch $@

# Otherwise only the package, with the build tools that are in the environment already. What comes from the wheel is as
# old as its begin: sources that changed since are newer.
$(INSTALLED): $(SOURCES) build/sources.list | $(DEPENDENCIES) $(WHEEL)/built
	@$(require_compiler)
	@if [[ $(WHEEL)/built -nt $@ ]]; then \
	  $(PIP) install --quiet --no-deps --force-reinstall $(WHEEL)/*.whl; \
	  touch -r $(WHEEL)/built $@; \
	else \
	  echo 'building npaccel'; \
	  PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --quiet --no-deps --force-reinstall --no-build-isolation \
	    -Cbuild-dir=build/incremental . ; \
	  touch $@; \
	fi

$(VENV)/.npaccel-bench: $(INSTALLED)
	@if [[ ! -e $@ || pyproject.toml -nt $@ ]]; then $(PIP) install --quiet '.[bench]'; fi
	@touch $@

FORCE:
