#!/usr/bin/env bash
# Builds, tests and measures on a machine with a GPU; needs no network.
# usage: gpu_check.sh [build] [test] [driver-only] [unit] [bench] [sanitizer] [sanitizer-all]
# (default: all but the last, which takes long)
# Results go to $OUT (default build/gpu). PYTHON chooses the interpreter, PARTS how many processes
# share the tests, TEST_LIMIT the seconds after which a process that hangs is ended. Stage bench:
# BENCH chooses suites ("fft linalg audio"), PEERS, BENCH_FLAGS ("--quick") and BENCH_LIMIT, seconds
# for each; one that is ended saves what it has. Stage sanitizer: SANITIZE_TESTS chooses tests
# (pytest -k; "attention or moe"), SANITIZE_TOOLS tools (default "memcheck racecheck").
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-build/gpu}
PYTHON=${PYTHON:-$(command -v python || command -v python3)}
PARTS=${PARTS:-$(nproc)}
BENCH=${BENCH:-launch startup copy elementwise}
PEERS=${PEERS:-numpy,cupy,torch}
BENCH_FLAGS=${BENCH_FLAGS:-}
BENCH_LIMIT=${BENCH_LIMIT:-600}
SANITIZE_TESTS=${SANITIZE_TESTS:-}
SANITIZE_TOOLS=${SANITIZE_TOOLS:-memcheck racecheck}
mkdir -p "$OUT"
export OUT PYTHON PARTS TEST_LIMIT=${TEST_LIMIT:-3600}

# A cache of kernels for all stages, CACHE or a temporary one: most of the time of tests goes into
# compiling them.
cache=${CACHE:-$(mktemp -d)}
[ -n "${CACHE:-}" ] || trap 'rm -rf "$cache"' EXIT

run_build() {
  local flags=(--no-index --no-build-isolation --no-deps --config-settings=build-dir=build/gpu-py)
  # Distributions mark their Python as externally managed; a virtual environment is not.
  if "$PYTHON" - <<'PY'
import os, sys, sysconfig
managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
sys.exit(0 if sys.prefix == sys.base_prefix and os.path.exists(managed) else 1)
PY
  then flags+=(--break-system-packages); fi
  "$PYTHON" -m pip install "${flags[@]}" .
}

run_test() {
  # Tests that query the driver's free memory must be alone on the GPU.
  PYGPUKIT_REQUIRE_GPU=1 GPK_TEST_CACHE=$cache "$PYTHON" -m pytest tests/gpu -q -m alone
  GPK_TEST_CACHE=$cache test_in_parts full tests/gpu
}

# With NVRTC hidden and without cuBLASLt: every op comes from the PTX bundle.
run_driver-only() {
  PYGPUKIT_NVRTC_PATH=/nonexistent PYGPUKIT_MATMUL=native \
    GPK_TEST_CACHE=$cache/driver-only test_in_parts driver-only "${op_tests[@]}"
}

# They select CPU simulation.
run_unit() { PYGPUKIT_REQUIRE_GPU=0 GPK_TEST_CACHE=$cache test_in_parts unit tests/unit; }

# The tests that compare every op with its reference, over the case tables.
op_tests=(tests/gpu/test_{attention,audio,conv,elementwise,fft,grouped,indexing,linalg,manipulation,matmul,matmul_gemv,moe,nn,packed_gemm,paged_cache,products,quantize,random,recurrent,reduction,safetensors,sampling,sorting}.py)

# test_in_parts NAME PYTEST_ARGUMENTS...: in PARTS processes, all tests that need not be alone on the
# GPU, or those that TEST_MARK and TEST_SELECT (pytest's -m and -k) say; under TEST_UNDER.
test_in_parts() {
  export TEST_NAME=$1 TEST_ARGUMENTS="${*:2}"
  export TEST_MARK=${TEST_MARK:-not alone} TEST_SELECT=${TEST_SELECT:-} TEST_UNDER=${TEST_UNDER:-}
  # NumPy's references: the parts already fill the cores.
  export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
  # 5: a part without tests.
  # shellcheck disable=SC2016  # the inner shell's variables
  seq 1 "$PARTS" | PYGPUKIT_REQUIRE_GPU=${PYGPUKIT_REQUIRE_GPU:-1} xargs -P "$PARTS" -I % bash -c '
    log="$OUT/gpu-tests-$TEST_NAME-%.txt"
    GPK_TEST_SHARD=%/$PARTS timeout -k 10 "$TEST_LIMIT" $TEST_UNDER \
      "$PYTHON" -m pytest $TEST_ARGUMENTS -q -m "$TEST_MARK" -k "$TEST_SELECT" \
      -o faulthandler_timeout=120 >"$log" 2>&1
    code=$?
    echo "$TEST_NAME, part % of $PARTS: $(tail -1 "$log")"
    [ $code -eq 0 ] || [ $code -eq 5 ] || { grep -E "^(FAILED|ERROR|=========)" "$log" | head -40; exit 1; }'
}

run_bench() {
  local suite code=0
  for suite in $BENCH; do
    # shellcheck disable=SC2086  # several flags
    timeout -k 10 "$BENCH_LIMIT" "$PYTHON" -m pygpukit.benchmark "--$suite" --peers "$PEERS" \
      --save "$OUT/bench-$suite.json" $BENCH_FLAGS || { echo "bench: $suite ended with $?"; code=1; }
  done
  return $code
}

# Small cases of every kernel family under each tool. Once without a tool first: it compiles the
# kernels.
run_sanitizer() {
  local file=tests/gpu/test_sanitize.py tool
  "$PYTHON" -m pytest "$file" -q --collect-only -k "$SANITIZE_TESTS" >"$OUT/sanitize-tests.txt" ||
    { cat "$OUT/sanitize-tests.txt"; return 1; }
  # Pool chunks larger than any array here: a bulk copy across two adjacent chunks is correct, but
  # memcheck reports it. Without cuBLASLt: its kernels are not ours.
  export PYGPUKIT_MEMORY_CHUNK=256MiB PYGPUKIT_MATMUL=native
  GPK_TEST_CACHE=$cache TEST_MARK=sanitize TEST_SELECT=$SANITIZE_TESTS test_in_parts plain "$file"
  for tool in $SANITIZE_TOOLS; do
    GPK_TEST_CACHE=$cache TEST_MARK=sanitize TEST_SELECT=$SANITIZE_TESTS \
      TEST_UNDER="compute-sanitizer --tool $tool ${sanitizer_flags[*]}" \
      test_in_parts "$tool" "$file"
  done
  unset PYGPUKIT_MEMORY_CHUNK PYGPUKIT_MATMUL
}

# Some tests provoke driver errors on purpose: those are not reported.
sanitizer_flags=(--report-api-errors no --error-exitcode 9)

run_sanitizer-all() {
  # Excluded: tests that break the context on purpose or take 2 GiB, threads (the tool takes the GIL
  # for its backtraces), and the documentation pages (separate processes).
  local skip="not test_docs and not fault and not two_to_the and not concurrent and not cublaslt"
  skip+=" and not measur"
  local products=(tests/gpu/test_products.py tests/gpu/test_matmul*.py)
  check_with memcheck tests/gpu -m "not alone" -k "$skip" "${products[@]/#/--ignore=}"
  # Chunks as for run_sanitizer. Racecheck covers the kernels that use shared memory most, on small
  # GEMMs.
  export PYGPUKIT_MEMORY_CHUNK=1GiB
  check_with memcheck "${products[@]}" -k "$skip and not hundred"
  check_with racecheck "${products[@]}" -k "$skip and not hundred and not larger and not many_tiles \
    and not long_dot and not frozen and (not every_plan or bfloat16)"
}

# check_with TOOL PYTEST_ARGUMENTS...
check_with() {
  local tool=$1
  shift
  compute-sanitizer --tool "$tool" "${sanitizer_flags[@]}" \
    "$PYTHON" -m pytest -q "$@" 2>&1 | tee -a "$OUT/$tool.log"
}

[ $# -gt 0 ] || set -- build test driver-only unit bench sanitizer
for stage in "$@"; do
  case "$stage" in
    build | test | driver-only | unit | bench | sanitizer | sanitizer-all)
      SECONDS=0
      echo "== $stage"
      "run_$stage"
      echo "== $stage: $SECONDS s"
      ;;
    *)
      echo "gpu_check.sh: unknown stage '$stage'" >&2
      exit 2
      ;;
  esac
done
