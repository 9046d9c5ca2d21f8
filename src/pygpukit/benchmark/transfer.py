"""The transfer engine: pinned copies against the driver, pageable against peers, urgent ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.measure import Stats, Step, measure_kernel, summarize
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.transfer import submit_d2h, submit_h2d

if TYPE_CHECKING:
    from numpy.typing import NDArray

DRIVER = "driver"  # one driver call for all bytes
URGENT_BYTES = 4096


def sizes(session: Session) -> tuple[int, int]:
    """Bytes of pinned and of pageable copies."""
    if session.sizes:
        return session.sizes[0], session.sizes[-1]
    if not session.on_gpu:
        return 2**20, 2**22
    return (2**28, 2**30) if session.quick else (2**30, 2**32)


def run(session: Session) -> None:
    """Runs the suite."""
    pinned_bytes, pageable_bytes = sizes(session)
    if session.on_gpu:
        _pinned(session, pinned_bytes)
    _pageable(session, pageable_bytes)
    _urgent(session, pageable_bytes)


def _numbers(nbytes: int) -> NDArray[Any]:
    import numpy as np

    return np.arange(nbytes // 8, dtype=np.uint64)


def _add(
    session: Session, name: str, impl: str, step: Step, nbytes: int, correct: bool, runs: int
) -> Stats:
    session.step(f"transfer: {name} {nbytes} bytes, {impl}")
    stats = measure_kernel(step, 1, runs, _native.synchronize)
    session.add(
        "transfer",
        name,
        impl,
        stats,
        runs,
        params={"bytes": nbytes},
        bandwidth_gbps=nbytes / stats.median / 1e3,
        correct=correct,
    )
    return stats


def _pinned(session: Session, nbytes: int) -> None:
    import numpy as np

    host = _native.pinned_empty(nbytes // 8, "uint64")
    host[:] = _numbers(nbytes)
    array = _native.full(nbytes // 8, 0, "uint64")
    stream = _native.default_stream()

    def raw_h2d() -> None:
        _native.copy_to_device_async(array, host.ctypes.data, nbytes)
        stream.synchronize()

    def raw_d2h() -> None:
        _native.copy_to_host_async(array, host.ctypes.data, nbytes)
        stream.synchronize()

    def own_h2d() -> None:
        submit_h2d(array, host).wait()

    def own_d2h() -> None:
        submit_d2h(array, host).wait()

    own_h2d()
    host[:] = 0
    own_d2h()
    correct = bool(np.array_equal(host, _numbers(nbytes)))
    runs = 10
    for name, raw, own in (("h2d_pinned", raw_h2d, own_h2d), ("d2h_pinned", raw_d2h, own_d2h)):
        driver = _add(session, name, DRIVER, raw, nbytes, True, runs)
        ours = _add(session, name, OURS, own, nbytes, correct, runs)
        session.note(f"{name}: {driver.median / ours.median:.3f} of the driver's rate")


def _pageable(session: Session, nbytes: int) -> None:
    host = _numbers(nbytes)
    medians: dict[tuple[str, str], float] = {}
    for engine in session.engines:
        if session.on_gpu and not engine.on_gpu:
            continue
        try:
            for name, stats in _pageable_of(session, engine, host).items():
                medians[name, engine.name] = stats.median
        except Exception as error:
            if engine.name == OURS:
                raise
            session.note(f"{engine.name} stopped in transfer: {type(error).__name__}: {error}")
        finally:
            engine.release()
    for (name, impl), median in medians.items():
        if impl != OURS:
            session.note(f"{name}: {median / medians[name, OURS]:.2f}x the speed of {impl}")


def _pageable_of(session: Session, engine: Engine, host: NDArray[Any]) -> dict[str, Stats]:
    import numpy as np

    kept: list[Any] = [None]

    def upload() -> None:
        kept[0] = None  # first, so that two need not fit
        kept[0] = engine.from_host(host)

    upload()
    array = kept[0]
    back: list[Any] = [None]

    def download() -> None:
        back[0] = None
        back[0] = engine.to_host(array)

    download()
    correct = bool(np.array_equal(back[0], host))
    del array
    runs = 3 if host.nbytes >= 2**30 else 10
    found = {
        "from_numpy": _add(session, "from_numpy", engine.name, upload, host.nbytes, correct, runs)
    }
    array = kept[0]
    found["to_numpy"] = _add(session, "to_numpy", engine.name, download, host.nbytes, correct, runs)
    return found


def _urgent(session: Session, nbytes: int) -> None:
    """A small high-priority copy, alone and behind a large low-priority one."""
    import numpy as np

    host = _numbers(nbytes)
    large = _native.full(nbytes // 8, 0, "uint64")
    small_host = _native.pinned_empty(URGENT_BYTES // 8, "uint64")
    small_host[:] = 7
    small = _native.full(URGENT_BYTES // 8, 0, "uint64")

    def urgent() -> float:
        start = time.perf_counter()
        submit_h2d(small, small_host, priority=10).wait()
        return (time.perf_counter() - start) * 1e6

    session.step("transfer: urgent copies")
    for _ in range(5):
        urgent()
    alone = [urgent() for _ in range(200)]
    behind: list[float] = []
    while len(behind) < (20 if session.quick else 200):
        slow = submit_h2d(large, host)
        taken = []
        while not slow.done():
            time.sleep(0.0005)
            taken.append(urgent())
        behind.extend(taken[:-1] or taken)  # the last may have run after the end
        slow.wait()
    correct = bool(np.array_equal(large.to_numpy(), host)) and bool((small.to_numpy() == 7).all())
    for name, samples in (("urgent_alone", alone), ("urgent_behind", behind)):
        session.add(
            "transfer",
            name,
            OURS,
            summarize(samples),
            len(samples),
            params={"bytes": URGENT_BYTES},
            correct=correct,
        )
    session.note(
        f"urgent {URGENT_BYTES} bytes behind {nbytes}: median {np.median(behind):.0f} us, "
        f"P99 {np.percentile(behind, 99):.0f} us, worst {max(behind):.0f} us "
        f"(alone {np.median(alone):.0f} us)"
    )
