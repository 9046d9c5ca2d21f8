set -x
export PIP_BREAK_SYSTEM_PACKAGES=1
( time python3 -m pip install -q --no-index --no-build-isolation --no-deps --config-settings=build-dir=build/gpu-py --config-settings=cmake.define.GPK_BUNDLE=OFF . ) > $OUT/build.log 2>&1 || { grep -E "error|Error" $OUT/build.log | head -40; exit 1; }
tail -3 $OUT/build.log
export PYGPUKIT_REQUIRE_GPU=1
timeout ${T1:-200} python3 -m pytest tests/gpu -q --timeout=100 -x --maxfail=${MAXFAIL:-60} ${PYARGS:-} -p no:cacheprovider > $OUT/gpu.txt 2>&1
grep -E "^(FAILED|ERROR)" $OUT/gpu.txt | cut -c1-220 | head -70; tail -3 $OUT/gpu.txt
[ -n "$PERF" ] && timeout ${T2:-150} python3 -m pygpukit.benchmark $PERF --save $OUT/bench.json > $OUT/bench.txt 2>&1; tail -60 $OUT/bench.txt | cut -c1-150
