"""Every public function of NumPy's namespaces with wrong arguments: errors are ours and named."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp
from pygpukit._naming import name_all

X = gp.asarray([[3.0, 1.0], [2.0, 4.0]])
# Wrong for (nearly) every function: what is not an array, an axis too large, text for a number.
WRONG: list[tuple[Any, ...]] = [
    (object(),),
    (3, 4),
    ("text", "more"),
    (X, "text"),
    (X, object()),
    (X, X, "text"),
    ({}, {}),
    (-3,),
    (X, 7),
]
KEYWORDS: list[dict[str, Any]] = [{"axis": "q"}, {"axis": 7}, {"axis": object()}]

# They run the program's own functions, or are no functions on arrays.
APART = {
    *("apply_along_axis", "apply_over_axes", "fromfunction", "fromiter", "fuse", "piecewise"),
    *("set_printoptions", "__array_namespace_info__", "submit", "jit", "synchronize", "warmup"),
    *("pinned_empty", "get_array_module"),
}


def functions() -> Iterator[tuple[str, str, Any]]:
    import numpy as np

    spaces = (("", gp, np), ("linalg", gp.linalg, np.linalg), ("fft", gp.fft, np.fft))
    for prefix, module, numpys in (*spaces, ("random", gp.random, np.random)):
        for name in module.__all__:
            value = getattr(module, name)
            theirs = getattr(numpys, name, None)
            known = name not in APART and callable(theirs) and theirs is not value
            if known and not isinstance(value, type) and inspect.isroutine(value):
                yield prefix, name, value
    for name in gp.special.__all__:
        yield "special", name, getattr(gp.special, name)


FUNCTIONS = list(functions())


@pytest.mark.parametrize(
    ("module", "name", "function"), FUNCTIONS, ids=[f"{m}.{n}" for m, n, _ in FUNCTIONS]
)
def test_wrong_arguments(
    module: str, name: str, function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write a file "text"
    calls = [(args, {}) for args in WRONG]
    calls += [((X,), options) for options in KEYWORDS]
    refusals = 0
    for args, options in calls:
        try:
            function(*args, **options)
        except gp.PyGPUkitError as error:
            text = str(error)
        except gp.linalg.LinAlgError as error:
            text = str(error)
        except OSError:  # files that do not exist
            refusals += 1
            continue
        else:
            continue
        refusals += 1
        shown = f"{module}.{name}{args} {options}: {text}"
        assert re.match(r"[\w.]+: \S", text), shown
        assert len(text) < 1000, shown
    assert refusals > 0


def test_composites_have_their_own_name() -> None:
    calls = {
        "ptp": lambda: gp.ptp(X, 7),
        "size": lambda: gp.size(X, 7),
        "trapezoid": lambda: gp.trapezoid(X, axis=7),
        "cov": lambda: gp.cov(object()),
        "tri": lambda: gp.tri(-3),
        "randint": lambda: gp.random.randint(-3),
        "softmax": lambda: gp.special.softmax(3),
        "add.at": lambda: gp.add.at(X, [9], 1),
        "hstack": lambda: gp.hstack(object()),
        "lexsort": lambda: gp.lexsort(object()),
        "einsum": lambda: gp.einsum(3, 4),
        "hanning": lambda: gp.hanning("abc"),
        "histogramdd": lambda: gp.histogramdd(3),
        "set_state": lambda: gp.random.set_state({}),
        "digitize": lambda: gp.digitize(X, ["a"]),
        "load": lambda: gp.load(3),
    }
    for name, call in calls.items():
        with pytest.raises(gp.PyGPUkitError, match=rf"^{re.escape(name)}: "):
            call()


def test_the_arguments_are_shown() -> None:
    with pytest.raises(TypeError, match=r"given \(GPUArray of shape \(2, 2\), axis='q'\)$"):
        gp.diff(X, axis="q")


def test_errors_of_the_programs_own_functions_are_theirs() -> None:
    def broken(row: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match=r"^'mine'$"):
        gp.apply_along_axis(broken, 0, X)


def test_named_functions_are_pickled_by_name_and_keep_their_signature() -> None:
    import pickle

    for function in (gp.pad, gp.linalg.norm, gp.fft.fft, gp.special.softmax, gp.random.normal):
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__
        assert inspect.signature(function).parameters


def test_errors_do_not_depend_on_how_a_function_was_imported(
    run_python: Callable[..., Any],
) -> None:
    """The module first, then the package, then the function imported before."""
    code = """
import pickle
from pygpukit.ops.joining import split
from pygpukit.ops import joining
import pygpukit as gp

def text(function):
    try:
        function(gp.ones(4), [1, "a"])
    except gp.InvalidArgument as error:
        return str(error)

assert text(split) == text(gp.split) == text(gp.ops.split) == text(joining.split)
assert text(split).startswith("split: "), text(split)
assert split is gp.split is joining.split
assert pickle.loads(pickle.dumps(split)) is split
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_every_function_of_an_op_module_is_named() -> None:
    import importlib

    from pygpukit import _naming
    from pygpukit._names import OPS

    for module, names in OPS.items():
        for name in names:
            function = getattr(importlib.import_module(module), name)
            home = getattr(function, "__module__", None) or ""
            exempt = name in _naming._CALLBACKS or home.rpartition(".")[2] in _naming._SEVERAL
            if inspect.isfunction(function) and home.startswith("pygpukit.") and not exempt:
                assert hasattr(function, "__wrapped__"), f"{module}.{name}"
                assert getattr(importlib.import_module(home), function.__name__) is function


def test_the_outermost_call_is_shown() -> None:
    """A function that fails in another public one has its own arguments in the message."""

    def inner(x: int, other: str) -> None:
        raise TypeError("no such thing")

    def outer(x: int) -> None:
        scope["inner"](x, "other")

    inner.__module__ = outer.__module__ = "pygpukit.ops.joining"
    scope: dict[str, Any] = {"__name__": "x", "inner": inner, "outer": outer}
    name_all(scope, ["inner", "outer"])
    for call, words in (("inner", "given (3, 4)"), ("outer", "given (3)")):
        with pytest.raises(gp.InvalidArgument) as caught:
            scope[call](*(3, 4)[: 2 if call == "inner" else 1])
        assert str(caught.value) == f"{call}: no such thing; {words}"
        assert type(caught.value.__cause__) is TypeError


def test_paths_with_a_nul_are_refused(tmp_path: Path) -> None:
    """The C library would take the NUL for the end: another file."""
    path = f"{tmp_path}/a\0b"
    (tmp_path / "a").write_bytes(b"")
    packed = gp.quantize(gp.ones((64, 64)), "int8")
    calls: list[Callable[[], Any]] = [
        lambda: gp.PackedWeight.load(path),
        lambda: packed.save(path),
        lambda: packed.save("\ud800"),
        lambda: gp.llm.SafeTensorsFile(path),
        lambda: gp.llm.ShardedSafeTensorsFile(path),
        lambda: gp.llm.load_safetensors(path),
        lambda: gp.llm.save_safetensors(path, {"x": X}),
        lambda: gp.llm.TorchFile(path),
        lambda: gp.llm.Tokenizer(path),
        lambda: gp.llm.GenerationConfig.from_folder(path),
        lambda: gp.ops.audio.load(path),
        lambda: gp.ops.audio.save(path, gp.ones(4), 16000),
    ]
    for call in calls:
        with pytest.raises(gp.InvalidArgument, match=r"^[\w.]+: path is '.*, which no file can"):
            call()
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert not (tmp_path / "a").read_bytes()
