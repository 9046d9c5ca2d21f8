"""The runtime on the CUDA path, on the fake driver of the C++ tests: no GPU needed."""

from __future__ import annotations

import pytest

from pygpukit import _native

PRELUDE = """
from cases import tasks
from pygpukit import scheduler
from pygpukit.scheduler import MB, Scheduler, TaskState

def nothing_is_left(sched):
    until(lambda: sched.native.streams_in_use == 0)
    tasks.nothing_is_left(sched)

def function(name, parameters):
    \"\"\"The address of a CUfunction, by the driver's own calls.\"\"\"
    def entry(symbol, *types):
        address = ctypes.c_void_p()
        assert fake.cuGetProcAddress_v2(symbol, ctypes.byref(address), 13000, 0, None) == 0
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(address.value)
    fake.gpk_fake_set_param_sizes(name, (ctypes.c_size_t * len(parameters))(*parameters),
                                  len(parameters))
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    pointer = ctypes.POINTER(ctypes.c_void_p)
    load = entry(b"cuModuleLoadDataEx", pointer, ctypes.c_char_p, ctypes.c_uint,
                 ctypes.c_void_p, ctypes.c_void_p)
    assert load(ctypes.byref(module), b"image", 0, None, None) == 0
    get = entry(b"cuModuleGetFunction", pointer, ctypes.c_void_p, ctypes.c_char_p)
    assert get(ctypes.byref(found), module, name) == 0
    return found.value
"""


@pytest.fixture
def run(run_on_fake):  # type: ignore[no-untyped-def]
    return lambda program: run_on_fake(PRELUDE + program)


def test_blocks_are_device_memory_and_evicted_ones_page_locked(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
pool = gp.memory.MemoryPool(4 * MB, enable_eviction=True)
before = gp.memory.stats()["used"]
blocks = [pool.allocate(MB) for _ in range(4)]
print(gp.memory.stats()["used"] - before == 4 * MB, fake.gpk_fake_live_objects(b"pinned"))
for i, block in enumerate(blocks):
    pool.write(block, np.full(1000, i, np.int32))
staging = fake.gpk_fake_live_objects(b"pinned")
fifth = pool.allocate(MB)
print([b.on_gpu for b in blocks], fake.gpk_fake_live_objects(b"pinned") - staging)
print(gp.memory.stats()["used"] - before == 4 * MB, fake.gpk_fake_used_bytes(0) >= 4 * MB)
pool.restore(blocks[0])
print([int(pool.read(b, np.int32).max()) for b in blocks])
pool.clear()
print(gp.memory.stats()["used"] - before, [b.host_data for b in blocks])
""")
    assert (
        out
        == "True 0\n[False, True, True, True] 1\nTrue True\n[0, 1, 2, 3]\n0 "
        + str([None] * 4)
        + "\n"
    )


def test_gates_count_and_limit_real_launches(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
gp.ones(1)
address = function(b"raw_kernel", [8])
stream = gp.Stream()
pacing = gp.dispatch.KernelPacingEngine(gp.dispatch.PacingConfig(window_ms=60_000.0))
pacing.allocate_stream(stream, 0.5)
print(pacing.should_launch(stream).decision_type)
dispatcher = gp.dispatch.KernelDispatcher(max_in_flight=2)
dispatcher.attach_stream(0, stream)
fake.gpk_fake_set_busy(stream.handle, 1)
launches = fake.gpk_fake_num_launches()
ids = [dispatcher.queue(address, gp.dispatch.LaunchConfig(1), [0]) for _ in range(2)]
gate = gp.dispatch.stats()[stream.handle]
print(fake.gpk_fake_num_launches() - launches, gate.launches, gate.in_flight, gate.limit)
print([dispatcher.get_request(i).state.name for i in ids])
stats = pacing.stream_stats(stream)
print(stats.launch_count, stats.launches_in_window, pacing.should_launch(stream).decision_type)
threading.Timer(0.05, fake.gpk_fake_set_busy, (stream.handle, 0)).start()
dispatcher.queue(address, gp.dispatch.LaunchConfig(1), [0])  # waits at the gate
dispatcher.drain()
gate = gp.dispatch.stats()[stream.handle]
print(fake.gpk_fake_num_launches() - launches, gate.launches, gate.in_flight, gate.waits)
print(pacing.stream_stats(stream).launch_count, dispatcher.stats().completed_count)
for wrong in (gp.default_stream(),):
    try:
        gp.dispatch.limit(wrong, 1)
    except ValueError as error:
        print(error)
""")
    assert out.splitlines() == [
        "Launch",
        "2 2 2 2",
        "['Launched', 'Launched']",
        "2 2 Wait",
        "3 3 0 1",
        "3 3",
        "dispatch.limit: the default stream has no limit of its own, expected another stream",
    ]


def test_the_kernel_cache_has_the_loaded_modules(run) -> None:  # type: ignore[no-untyped-def]
    if not _native.nvrtc_info()["available"]:
        pytest.skip("NVRTC is not installed")
    out = run("""
kernel = gp.jit('extern "C" __global__ void scale(float* x) { *x *= 2; }', "scale")
cache = gp.dispatch.KernelCache()
found = cache.get_by_name("scale")
print(found.is_loaded, cache.stats().loaded_count, ".entry scale" in found.ptx)
modules = fake.gpk_fake_live_objects(b"module")
del kernel
print(fake.gpk_fake_live_objects(b"module") == modules)
""")
    assert out == "True 1 True\nTrue\n"


def test_transfers_move_through_the_driver(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
engine = gp.transfer.AsyncTransferEngine()
x, host, back = gp.zeros(1000), np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
up = engine.enqueue_h2d(host.ctypes.data, x.device_ptr, 4000)
print(len(engine.get_ready_transfers()), engine.complete(up))
down = engine.enqueue_d2h(x.device_ptr, back.ctypes.data, 4000)
print(engine.start(down), engine.complete(down), (back == host).all())
stats = gp.transfer.stats()
print(stats["h2d"].completed, stats["d2h"].completed, engine.stats().total_bytes)
""")
    assert out == "1 True\nTrue True True\n1 1 8000\n"


def test_pinned_memory_comes_from_the_driver(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
manager = gp.transfer.PinnedMemoryManager()
number, size, reused = manager.allocate(10)
print(fake.gpk_fake_live_objects(b"pinned"), size, reused)
manager.free(number)
print(manager.allocate(10)[2], fake.gpk_fake_live_objects(b"pinned"))
manager.clear()
print(fake.gpk_fake_live_objects(b"pinned"))
""")
    assert out == "1 4096 False\nTrue 1\n0\n"


def test_a_task_ends_when_its_stream_is_done(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
with Scheduler(workers=1, memory=10 * MB) as sched:
    handles = []
    def work():
        handles.append(gp.current_stream().handle)
        fake.gpk_fake_set_busy(handles[-1], 1)
        return "returned"
    first = sched.submit(work, memory=6 * MB)
    until(lambda: handles)
    time.sleep(0.02)
    print(first.state.name, sched.native.stats().reserved_memory == 6 * MB)
    other = sched.submit(lambda: gp.current_stream().handle)  # the worker is free, on a new stream
    print(other.result(20) != handles[0], first.done())
    fits_later = sched.submit(lambda: "later", memory=6 * MB)
    print(fits_later.state.name)
    fake.gpk_fake_set_busy(handles[0], 0)
    print(first.result(20), fits_later.result(20))
    cancelled = sched.submit(work)
    until(lambda: len(handles) == 2)
    cancelled.cancel()
    time.sleep(0.01)
    print(cancelled.state.name)  # its work is on the GPU
    fake.gpk_fake_set_busy(handles[1], 0)
    until(cancelled.done)
    print(cancelled.state.name)
    nothing_is_left(sched)
""")
    assert out == "RUNNING True\nTrue False\nQUEUED\nreturned later\nRUNNING\nCANCELLED\n"


def test_classes_are_stream_priorities(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
with Scheduler() as sched:
    for qos in ("guaranteed", "burstable", "best_effort"):
        print(sched.submit(lambda: gp.current_stream().priority.name, qos=qos).result(20))
""")
    assert out == "HIGH\nLOW\nLOW\n"


def test_a_task_whose_kernel_fails(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
INVALID_VALUE = 1
with Scheduler(workers=1, memory=10 * MB) as sched:
    handles = []
    def work():
        handles.append(gp.current_stream().handle)
        fake.gpk_fake_set_busy(handles[-1], 1)
    bad = sched.submit(work, memory=MB)
    dependent = sched.submit(int, after=[bad], memory=MB)
    until(lambda: handles)
    fake.gpk_fake_fail_next(b"cuEventQuery", INVALID_VALUE)
    error = bad.exception(20)
    print(type(error).__name__, error.call, bad.state.name)
    print(type(dependent.exception(20)).__name__, dependent.exception().__cause__ is not None)
    fake.gpk_fake_set_busy(handles[0], 0)
    print(sched.submit(lambda: "goes on", memory=10 * MB).result(20))
    nothing_is_left(sched)
""")
    assert out == "CudaError cuEventQuery FAILED\nDependencyFailed True\ngoes on\n"


def test_streams_that_cannot_be_made_fail_their_task_only(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
gp.ones(1)
with Scheduler(workers=2, memory=10 * MB) as sched:
    fake.gpk_fake_fail_next(b"cuStreamCreateWithPriority", 2)
    bad = sched.submit(lambda: "never", memory=MB)
    print(isinstance(bad.exception(20), (gp.CudaError, MemoryError)), bad.state.name)
    print(sched.submit(lambda: "goes on", memory=10 * MB).result(20))
    nothing_is_left(sched)
""")
    assert out == "True FAILED\ngoes on\n"


def test_streams_and_events_are_used_again_and_given_back(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
before = [fake.gpk_fake_live_objects(kind) for kind in (b"stream", b"event")]
sched = Scheduler(workers=2)
for task in [sched.submit(lambda: gp.ones(10) + 1) for _ in range(50)]:
    task.result(20)
print(fake.gpk_fake_live_objects(b"stream") - before[0] <= 32)
sched.shutdown()
del sched, task
import gc; gc.collect()
from pygpukit import _native
def given_back():
    _native.trim()  # a worker's last array may go after the scheduler, and leave an event
    return [fake.gpk_fake_live_objects(kind) for kind in (b"stream", b"event")] == before
until(given_back)
print("none left")
""")
    assert out == "True\nnone left\n"


def test_raw_functions_launch_on_the_contexts_stream(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
gp.ones(1)
address = function(b"raw_kernel", [8, 4])
context = scheduler.create_context("llm")
where = scheduler.AsyncKernelRequest(lambda: gp.current_stream().handle)
handle = context.dispatch_async(where).wait().output
request = scheduler.AsyncKernelRequest.linear(address, 1000).with_args([0x1234, 7])
launches = fake.gpk_fake_num_launches()
future = context.dispatch_async(request.with_shared_mem(64))
print(future.wait().success, str(future.state), future.exec_time > 0)
numbers, stream = (ctypes.c_uint32 * 16)(), ctypes.c_uint64()
fake.gpk_fake_launch_info(launches, numbers, ctypes.byref(stream))
print(list(numbers)[:6], stream.value == handle != 0)
out = ctypes.create_string_buffer(8)
fake.gpk_fake_launch_arg(launches, 0, out, 8)
print(int.from_bytes(out.raw, "little") == 0x1234)
fake.gpk_fake_launch_arg(launches, 1, out, 4)
print(int.from_bytes(out.raw[:4], "little"))

dispatcher = gp.dispatch.KernelDispatcher(max_in_flight=2)
stream = gp.Stream()
dispatcher.attach_stream(0, stream)
fake.gpk_fake_set_busy(stream.handle, 1)
a = dispatcher.queue(address, gp.dispatch.LaunchConfig(1), [1, 2])
b = dispatcher.queue(address, gp.dispatch.LaunchConfig(1), [1, 2])
print(dispatcher.get_in_flight(0) == [a, b], dispatcher.stats().pending_count)
fake.gpk_fake_set_busy(stream.handle, 0)
dispatcher.drain()
print(dispatcher.stats().completed_count)
fake.gpk_fake_fail_next(b"cuLaunchKernel", 701)
failing = dispatcher.queue(address, gp.dispatch.LaunchConfig(1), [1, 2])
try:
    dispatcher.wait(failing)
except gp.CudaError as error:
    print(error.code, dispatcher.get_request(failing).state.name)
failed = context.dispatch_async(scheduler.AsyncKernelRequest(0))
print(failed.wait().error)
scheduler.reset()
""")
    assert out.splitlines() == [
        "True COMPLETED True",
        "[4, 1, 1, 256, 1, 1] True",
        "True",
        "7",
        "True 0",
        "2",
        "701 Failed",
        "InvalidValueError: launch: the function's address is 0",
    ]


def test_exit_while_work_is_on_the_gpu(run) -> None:  # type: ignore[no-untyped-def]
    assert (
        run("""
handles = []
def work():
    handles.append(gp.current_stream().handle)
    fake.gpk_fake_set_busy(handles[-1], 1)
tasks = [scheduler.submit(work) for _ in range(3)]
until(lambda: len(handles) == 3)
print("left")
""")
        == "left\n"
    )
