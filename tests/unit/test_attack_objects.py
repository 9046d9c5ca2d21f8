"""Objects that were never constructed, pickles, sequences that change while they are read, deleters
that run while an error is on its way, subinterpreters: errors, never a crash or a hang."""

from __future__ import annotations

import copy
import ctypes
import operator
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native, _runtime
from pygpukit.core.errors import InvalidIndexError, InvalidTypeError

LIMIT = 60  # seconds; all of it takes a few

# Every class, every attribute, in a separate process. The last line shows where it ended.
WALK = """
import copy, importlib, pickle, pkgutil, types
import pygpukit
from pygpukit import _native

classes, seen = {}, set()

def walk(module):
    if module in seen:
        return
    seen.add(module)
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__.startswith("pygpukit"):
            classes[value] = None
        elif isinstance(value, types.ModuleType) and value.__name__.startswith("pygpukit"):
            walk(value)

for found in pkgutil.walk_packages(pygpukit.__path__, "pygpukit."):
    skipped = ("benchmark", "_cli", "__main__", "libpygpukit_sim")  # the last is no module
    if not found.name.startswith(tuple("pygpukit." + name for name in skipped)):
        walk(importlib.import_module(found.name))
walk(pygpukit)
walk(_native.load_runtime())

def attempt(call, *args):
    try:
        call(*args)
    except Exception as error:
        return error

def enter(thing):
    with thing:
        pass

CONSTRUCTS = ("__class__", "__new__", "__init__", "__setstate__", "__init_subclass__")
GIVEN = ((), (1,), ("a",), (1.0,), (1, 1), (1, "a"), (1.0, 2.0), (1, 1, 1), (None, None, None))

def attack(thing):
    for call in (repr, str, hash, len, iter, bool, enter, copy.copy, copy.deepcopy, dir):
        attempt(call, thing)
    for protocol in range(6):
        attempt(pickle.dumps, thing, protocol)
        attempt(lambda: thing.__reduce_ex__(protocol))
    for name in dir(type(thing)):
        if name in CONSTRUCTS:
            continue
        attempt(setattr, thing, name, 1)
        attempt(delattr, thing, name)
        value = attempt(getattr, thing, name)
        method = getattr(thing, name, None) if not isinstance(value, Exception) else None
        if callable(method):
            for args in (*GIVEN, (thing,), (thing, thing)):
                attempt(method, *args)

native = 0
for cls in classes:
    print(cls.__module__, cls.__qualname__, flush=True)
    if issubclass(cls, Exception):
        continue
    try:
        thing = cls.__new__(cls)
    except TypeError:
        continue
    native += cls.__module__.startswith("pygpukit._native")
    attack(thing)
    del thing
print("end", native, flush=True)
"""


def run(source: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", "-c", source, *args]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, **variables},
    )


def test_every_class_made_by_new_only() -> None:
    done = run(WALK)
    last = done.stdout.strip().splitlines()[-1].split()
    assert done.returncode == 0, f"{last}: {done.stderr[-3000:]}"
    assert last[0] == "end"
    assert int(last[1]) > 25


UNCONSTRUCTED = [
    lambda: repr(_native.Stream.__new__(_native.Stream)),
    lambda: _native.Stream.__new__(_native.Stream).handle,
    lambda: gp.zeros(3, dtype=_native.DataType.__new__(_native.DataType)),
    lambda: gp.CudaEvent().record(_native.Stream.__new__(_native.Stream)),
    lambda: _runtime.LimitLedger.__new__(_runtime.LimitLedger).available(),
    lambda: _runtime.Scheduler(_runtime.LimitLedger.__new__(_runtime.LimitLedger)),
    lambda: int(_runtime.QosClass.__new__(_runtime.QosClass)),
]


@pytest.mark.parametrize("use", UNCONSTRUCTED)
def test_an_object_that_was_never_constructed(use: Callable[[], object]) -> None:
    with pytest.raises(InvalidTypeError, match="never initialised"):
        use()


def test_subclasses_construct_their_base() -> None:
    class Good(_runtime.LimitLedger):
        def __init__(self) -> None:
            super().__init__(100)

    class Early(_runtime.LimitLedger):
        def __init__(self) -> None:
            self.available()

    assert Good().available() == 100
    with pytest.raises(InvalidTypeError, match="never initialised"):
        Early()


@pytest.mark.parametrize("protocol", range(6))
def test_pickling(protocol: int) -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '(pygpukit\._native\.)?Stream' object"):
        pickle.dumps(gp.Stream(), protocol)
    with pytest.raises(TypeError, match="cannot pickle"):
        _runtime.LimitLedger(1).__reduce_ex__(protocol)
    with pytest.raises(TypeError, match="cannot pickle"):
        object.__reduce_ex__(gp.CudaEvent(), protocol)
    with pytest.raises(TypeError, match="cannot pickle"):
        gp.CudaEvent().__reduce__()
    x = gp.arange(6, dtype="float32").reshape(2, 3)
    back = pickle.loads(pickle.dumps(x, protocol))
    assert back.dtype is x.dtype
    np.testing.assert_array_equal(back.to_numpy(), x.to_numpy())
    assert pickle.loads(pickle.dumps(gp.float32, protocol)) is gp.float32


def test_copies_of_what_cannot_be_copied() -> None:
    for copier in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            copier(gp.Stream())
        assert copier(_runtime.QosClass.Guaranteed) == _runtime.QosClass.Guaranteed


def test_the_base_of_all_classes_cannot_be_called() -> None:
    done = run("import pygpukit as gp\ntype(gp.Stream()).__mro__[-2]()")
    assert done.returncode == 1, done.stderr
    assert "TypeError: cannot create 'pybind11_object' instances" in done.stderr


# --- raw indices and sizes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index", [(3, 0), (0, 4), (-1, 0), (0,), (0, 0, 0), (), (2**62, 0), (-(2**62), 2**62)]
)
def test_element_is_inside(index: tuple[int, ...]) -> None:
    x = gp.arange(12).reshape(3, 4)
    with pytest.raises(InvalidIndexError, match=r"element: index is \(.*shape \(3, 4\)"):
        _native.element(x, index)
    assert _native.element(x, (2, 3)).item() == 11


def test_byte_windows_are_inside_the_buffer() -> None:
    x, wide = gp.arange(8, dtype="uint8"), gp.broadcast_to(gp.zeros(1, dtype="uint8"), (1 << 30,))
    for dst, src, size in ((wide, x, 8), (x, wide, 8), (x[::-1], x, 8), (x, x[::2], 4)):
        with pytest.raises(gp.InvalidArgument, match="contiguous"):
            _native.copy_device_to_device_offset(dst, 0, src, 0, size)


# --- sequences that change while they are read ----------------------------------------------------


class Shrinks:
    """Empties the list it is in when its value is read."""

    def __init__(self, items: list[Any], value: Any) -> None:
        self.items, self.value = items, value

    def __index__(self) -> Any:
        self.items.clear()
        _ = [object() for _ in range(64)]  # the freed slots are written over
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())


def evil(*values: Any) -> list[Any]:
    items: list[Any] = []
    items.extend(Shrinks(items, value) for value in values)
    return items


SEQUENCES: list[Callable[[], object]] = [
    lambda: gp.zeros(evil(2, 3, 4)).shape == (2, 3, 4),
    lambda: gp.zeros((2, 3, 4)).sum(axis=tuple(evil(0, 1, 2))).shape == (),
    lambda: gp.sum(gp.zeros((2, 3, 4)), axis=evil(0, 1)).shape == (4,),
    lambda: gp.reshape(gp.zeros(24), evil(2, 3, 4)).shape == (2, 3, 4),
    lambda: gp.permute_dims(gp.zeros((2, 3, 4)), evil(2, 1, 0)).shape == (4, 3, 2),
    lambda: gp.broadcast_to(gp.zeros(1), evil(2, 3)).shape == (2, 3),
    lambda: gp.flip(gp.zeros((2, 3)), evil(0, 1)).shape == (2, 3),
    lambda: gp.moveaxis(gp.zeros((2, 3, 4)), evil(0, 1), evil(2, 0)).ndim == 3,
    lambda: gp.roll(gp.zeros((2, 3)), evil(1, 1), evil(0, 1)).shape == (2, 3),
    lambda: gp.tile(gp.zeros((2, 3)), evil(1, 2)).shape == (2, 6),
    lambda: gp.tensordot(gp.zeros((2, 3)), gp.zeros((3, 2)), axes=(evil(1), evil(0))).ndim == 2,
]
REFUSED: list[Callable[[], object]] = [
    lambda: gp.ravel_multi_index(evil(1, 2), (3, 4)),
    lambda: _native.element(gp.zeros((2, 3)), evil(1, 2)),
    lambda: _native.FusedKernel("f", "", evil(1, 2), "float32"),
]


@pytest.mark.parametrize("call", SEQUENCES)
def test_a_list_that_shrinks(call: Callable[[], object]) -> None:
    assert call()


@pytest.mark.parametrize("call", REFUSED)
def test_a_list_that_shrinks_too_early(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, IndexError)):
        call()


FRESH = """
import numpy
import pygpukit as gp

class Fresh:
    def __len__(self):
        return 2

    def __getitem__(self, at):
        if at > 1:
            raise IndexError
        return numpy.full(3, at + 1)  # the only reference

indices = gp._native.ravel_multi_index(Fresh(), (4, 5), "raise")
assert indices.to_numpy().tolist() == [7, 7, 7]
"""


def test_items_made_on_the_fly_live_long_enough() -> None:
    done = run(FRESH, PYTHONMALLOC="debug")  # memory that was freed is written over
    assert done.returncode == 0, done.stderr[-2000:]


# --- DLPack deleters ------------------------------------------------------------------------------


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Producer:
    """Four float32 in host memory; its deleter is Python code, which raises and catches."""

    def __init__(self) -> None:
        self.values, self.shape = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_int64 * 1)(4)
        self.num_deleted = 0
        self.callback = DELETER(self.delete)
        self.tensor = Tensor(
            ctypes.addressof(self.values), 1, 0, 1, 2, 32, 1, ctypes.addressof(self.shape)
        )
        self.tensor.deleter = ctypes.cast(self.callback, ctypes.c_void_p).value

    def delete(self, _: int) -> None:
        try:
            raise KeyError("inside the deleter")
        except KeyError:
            self.num_deleted += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("exported", [False, True])
def test_a_deleter_does_not_see_the_error_on_its_way(exported: bool) -> None:
    producer = Producer()

    def made() -> Any:
        x = gp.from_dlpack(producer)
        return x.__dlpack__() if exported else x

    with pytest.raises(TypeError, match="integer"):
        operator.index(made())  # the only reference: destroyed once the error is set
    assert producer.num_deleted == 1


# --- subinterpreters ------------------------------------------------------------------------------

SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

code = '''
try:
    import {module}
except ImportError as error:
    print(error, flush=True)
'''.format(module=sys.argv[1])
if "main" in sys.argv[2:]:
    import pygpukit
# "legacy" shares the GIL; the default of 3.12 and later does not, and refuses on its own.
make = interpreters.create
made = make("legacy") if sys.version_info >= (3, 13) else make(isolated=False)
run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string
failed = run(made, code)
assert not failed, failed
interpreters.destroy(made)
"""


@pytest.mark.parametrize("module", ["pygpukit", "pygpukit._native"])
@pytest.mark.parametrize("main", ["", "main"])
def test_a_subinterpreter_is_refused(module: str, main: str) -> None:
    done = run(SUBINTERPRETER, module, main)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pygpukit: cannot be imported in a subinterpreter" in done.stdout


@pytest.mark.parametrize(
    "call",
    [
        lambda text: gp.ones(1, device=text),
        lambda text: gp.Stream(priority=text),
        lambda text: gp.memory.set_limit(text),
        lambda text: gp.linear(gp.ones((1, 1)), gp.ones((1, 1)), activation=text),
    ],
)
def test_text_with_lone_surrogates(call: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call("\udcff")
    assert isinstance(caught.value, gp.InvalidArgument)
