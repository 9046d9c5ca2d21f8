# Everything a developer runs; `make help` lists it. Needs Python >= 3.10, make and a C++20 compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# C++ tests link to the package's own objects, so that nothing is compiled twice; other presets
# (debug, release, asan, tsan) build everything themselves.
PRESET ?= package
CPP_BUILD := build/$(PRESET:package=py)
# A wheel is tagged for the oldest platform this compiler and C library allow. PORTABLE=1 targets
# glibc 2.28 instead, with Zig's C++ compiler from PyPI.
ifdef PORTABLE
WHEEL_PLAT := manylinux_2_28_$(shell uname -m)
WHEEL_BUILD := build/wheel-portable
else
WHEEL_PLAT ?= auto
WHEEL_BUILD := build/wheel
endif

export PATH := $(CURDIR)/$(BIN):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Folders too: their mtime changes when a file is removed.
PACKAGE_FILES := $(shell find native src cmake -not -path '*/__pycache__*' -not -name '*.md') \
  $(wildcard scripts/*embed*.py scripts/bundle_roots.py) CMakeLists.txt pyproject.toml README.md
CXX_FILES := $(shell find native tests/native examples -name '*.h' -o -name '*.cpp' -o -name '*.cuh')
HEADERS := $(filter %.h %.def,$(PACKAGE_FILES))
BINDING_FILES := $(filter native/bindings/%.cpp,$(PACKAGE_FILES))
TIDY_FILES := $(filter-out native/tools/% $(BINDING_FILES),$(filter native/%.cpp,$(PACKAGE_FILES)))
TIDY_STAMPS := $(TIDY_FILES:%=build/tidy/%.ok)
TIDY_UNITY := build/tidy/native/CMakeFiles/_native.dir/Unity

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
ifndef TIDY  # the steps share one environment and one order; only clang-tidy runs in parallel
.NOTPARALLEL:
endif

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.package  ## install the package and show what it can do on this machine
	@# Threads of NumPy's BLAS would wait for each other where other programs have the cores: seconds.
	OPENBLAS_NUM_THREADS=1 $(PY) examples/demo.py

test: lint cpp unit clients  ## checks and tests that need no GPU (clang-tidy apart: make tidy)

lint: format-check $(VENV)/.dev $(VENV)/.package  ## format, types, include law, ASCII, named files, the tutorial, generated files
	$(BIN)/ruff check .
	$(PY) scripts/check_include_law.py
	$(PY) scripts/check_kernel_args.py
	$(PY) scripts/check_ascii.py
	$(PY) scripts/check_named_files.py
	$(PY) scripts/check_adding_an_op.py --diffs
	$(BIN)/mypy
	$(PY) scripts/generate.py --check

cpp: $(VENV)/.dev $(if $(filter package,$(PRESET)),$(VENV)/.package)  ## C++ tests (PRESET=debug, release, asan, tsan)
ifeq ($(PRESET),package)
	cmake -S . -B $(CPP_BUILD) --log-level=WARNING -DGPK_BUILD_TESTS=ON
	cmake --build $(CPP_BUILD) --target gpk_tests --target gpk_kernel_tests
	ctest --test-dir $(CPP_BUILD) --progress --output-on-failure -j $(JOBS)
else
	cmake --preset $(PRESET) --log-level=WARNING
	cmake --build --preset $(PRESET)
	ctest --preset $(PRESET) --progress
endif

# The pool is tested in a process of its own; the kernel tests use all cores.
ALONE := test_memory_pool test_builtin_kernels test_bundle test_sim_families
unit: $(VENV)/.dev $(VENV)/.ptxas $(VENV)/.bundle  ## Python tests that need no GPU
	@# A process for each core: threads of NumPy's BLAS would wait for each other.
	@seq 1 $(JOBS) | OPENBLAS_NUM_THREADS=1 GPK_TEST_BUILD_DIR=$(CURDIR)/$(CPP_BUILD) xargs -P $(JOBS) -I PART \
	  sh -c 'GPK_TEST_SHARD=PART/$(JOBS) $(PY) -m pytest tests/unit -q -p no:cacheprovider \
	    $(ALONE:%=--ignore=tests/unit/%.py)'
	OPENBLAS_NUM_THREADS=1 $(PY) -m pytest $(ALONE:%=tests/unit/%.py) -q

clients: $(VENV)/.package $(VENV)/.clients  ## scikit-learn, SciPy, Dask, xarray, einops, ... on our arrays
	@if test -x $(VENV)/clients/bin/python; then \
	  $(VENV)/clients/bin/python -m pytest tests/clients -q -p no:cacheprovider && \
	  GPK_TEST_BUILD_DIR=$(CURDIR)/$(CPP_BUILD) $(VENV)/clients/bin/python -m pytest tests/unit/test_implicit_conversion.py -q -p no:cacheprovider; \
	else echo "note: the other libraries are not installed; their tests are skipped"; fi

kernels: $(VENV)/.dev $(VENV)/.ptxas $(VENV)/.package  ## every built-in kernel for every architecture, the whole bundle (long)
	$(INSTALL) --config-settings=cmake.define.GPK_BUNDLE=ON --config-settings=cmake.define.GPK_BUNDLE_EVERY=1 .
	rm -f $(VENV)/.bundle
	GPK_TEST_ALL_ARCHS=1 $(PY) -m pytest tests/unit/test_builtin_kernels.py tests/unit/test_bundle.py -q

tidy: $(VENV)/.dev  ## clang-tidy on files that changed since it last passed
	@cmake -S . -B build/tidy -G Ninja --log-level=WARNING -DGPK_BUILD_PYTHON=ON -DGPK_BUNDLE=OFF \
	  -DGPK_UNITY_BINDINGS=ON
	@$(MAKE) TIDY=1 --no-print-directory -k -j$(JOBS) --output-sync $(TIDY_STAMPS) \
	  $$(ls $(TIDY_UNITY)/*.cxx | sed 's/$$/.ok/')

sanitize:  ## C++ tests under the address, undefined-behaviour and thread sanitizers
	$(MAKE) cpp PRESET=asan
	$(MAKE) cpp PRESET=tsan

# PART=3/60: the third of 60 parts of equal length; the whole takes hours.
PART ?= 1/60
simulate: $(VENV)/.dev $(VENV)/.package  ## a part of the GPU tests on a simulated GPU (PART=1/60)
	PYGPUKIT_DEVICE=sim:sm_90a PYGPUKIT_PREFETCH=0 GPK_TEST_SHARD=$(PART) $(PY) -m pytest tests/gpu -q -p no:cacheprovider

gpu:  ## build, test and measure on a machine with a GPU
	scripts/gpu_check.sh

# With release optimisation, which .package leaves out of the bindings.
bench: $(VENV)/.package  ## benchmarks on this machine
	$(PY) -m pip install -q --no-build-isolation --no-deps --config-settings=build-dir=build/bench-py .
	$(PY) -m pygpukit.benchmark
	cmake -S benchmarks/native -B build/bench -G Ninja --log-level=NOTICE
	cmake --build build/bench
	ctest --test-dir build/bench -V --no-tests=ignore

wheel: $(VENV)/.dev  ## dist/*.whl with the PTX bundle, checked (PORTABLE=1: manylinux_2_28)
	rm -rf build/wheelhouse
	$(if $(PORTABLE),$(PY) -m pip install -q ziglang==0.17.0)
	$(if $(PORTABLE),CXX=$(CURDIR)/scripts/portable_cxx.sh) $(PY) -m pip wheel . -w build/wheelhouse \
	  --no-build-isolation --no-deps --config-settings=build-dir=$(WHEEL_BUILD) \
	  --config-settings=cmake.define.GPK_REQUIRE_BUNDLE=ON
	$(BIN)/auditwheel repair build/wheelhouse/*.whl -w dist --plat $(WHEEL_PLAT) \
	  --exclude libcuda.so.1 --exclude 'libnvrtc*' --exclude 'libcublas*'
	$(PY) scripts/check_wheel.py dist/*.whl

format: $(VENV)/.dev  ## format all files
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format -q .
	$(BIN)/clang-format -i $(CXX_FILES)

format-check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

# The stubs and docs/ops.md come from the installed package, which contains the other files.
generate: $(VENV)/.dev  ## everything that is generated: names, modules, stubs, docs/ops.md
	$(PY) scripts/generate.py --sources
	$(MAKE) --no-print-directory $(VENV)/.package
	$(PY) scripts/generate.py

tutorial: $(VENV)/.dev $(VENV)/.package  ## follow docs/adding-an-op.md in a copy of the tree
	$(PY) scripts/check_adding_an_op.py

clean:  ## remove everything that was built
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help demo test lint cpp unit kernels tidy sanitize simulate gpu bench wheel format format-check generate tutorial clean \
  clients

# --- environment: what the package needs, then what developers need -----------------------------
# NVRTC and the tokenizer are optional: without them the package builds with an empty PTX bundle and
# still works, and language models take token ids.
$(VENV)/.base: pyproject.toml scripts/requirements.py
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) scripts/requirements.py build core > $(VENV)/base.txt
	$(PY) scripts/requirements.py jit > $(VENV)/jit.txt
	$(PY) scripts/requirements.py llm > $(VENV)/llm.txt
	$(PY) -m pip install -q -r $(VENV)/base.txt
	$(PY) -m pip install -q -r $(VENV)/jit.txt || echo "note: NVRTC could not be installed; going on without"
	$(PY) -m pip install -q -r $(VENV)/llm.txt || echo "note: tokenizers could not be installed; going on without"
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PY) scripts/requirements.py dev llm grammar > $(VENV)/dev.txt
	$(PY) -m pip install -q -r $(VENV)/dev.txt
	touch $@

# What other libraries are tested in; it borrows the packages of $(VENV), whose own stay as they are.
$(VENV)/.clients: $(VENV)/.dev scripts/make_clients_env.py
	$(PY) scripts/make_clients_env.py $(VENV)/clients
	if test -d $(VENV)/clients; then touch $@; fi

# The assemblers of the oldest driver supported by the PTX bundle, and of one that knows all
# targets. They conflict in one site-packages.
$(VENV)/.ptxas: $(VENV)/.base
	$(PY) -m pip install -q --no-deps --upgrade --target $(VENV)/ptxas/11.8 nvidia-cuda-nvcc-cu11==11.8.89
	$(PY) -m pip install -q --no-deps --upgrade --target $(VENV)/ptxas/12.9 nvidia-cuda-nvcc-cu12==12.9.86
	touch $@

# build/py keeps the object files, so only what changed is compiled again. Without the PTX bundle,
# which takes two minutes: this environment has NVRTC.
INSTALL := $(PY) -m pip install -q --no-build-isolation --no-deps --config-settings=build-dir=build/py \
  --config-settings=cmake.define.GPK_FAST_BUILD=ON
$(VENV)/.package: $(VENV)/.base $(PACKAGE_FILES)
	$(INSTALL) --config-settings=cmake.define.GPK_BUNDLE=OFF .
	touch $@

# With a bundle, of a sample of the kernels.
$(VENV)/.bundle: $(VENV)/.package
	$(INSTALL) --config-settings=cmake.define.GPK_BUNDLE=ON --config-settings=cmake.define.GPK_BUNDLE_EVERY=12 .
	touch $@

# Unity builds of six binding files: most of the time goes into parsing pybind11.
$(TIDY_UNITY)/%.ok: $(TIDY_UNITY)/% $(BINDING_FILES) $(HEADERS) .clang-tidy
	@echo "clang-tidy $<"
	@$(BIN)/clang-tidy -p build/tidy --quiet $< 2>$@.err || { cat $@.err; exit 1; }
	@touch $@

build/tidy/%.ok: % $(HEADERS) .clang-tidy
	@mkdir -p $(@D)
	@echo "clang-tidy $<"
	@$(BIN)/clang-tidy -p build/tidy --quiet $< 2>$@.err || { cat $@.err; exit 1; }
	@touch $@
