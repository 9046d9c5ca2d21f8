"""An op is declared once: its line in native/ops/op_list.def matches what exists."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import BuiltinFunctionType, ModuleType
from typing import Any

import pytest
from cases import (
    audio,
    conv,
    elementwise_ops,
    fft,
    linalg,
    matmul,
    moe,
    nn,
    products,
    quantize,
    random,
    recurrent,
    reduction,
    sorting,
)

import pygpukit as gp
from pygpukit import _native, _reference

HERE = Path(__file__).resolve().parent
DECLARED = _native.function_list()  # (name, module, signature)
OPS = _native.op_list()  # (name, family, doc)


def used_in(file: str) -> set[str]:
    """Names of the functions that a test file looks up in modules."""
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


# Per family, the ops that its case tables and tests compare with an oracle.
CASES: dict[str, set[str]] = {
    "elementwise": set(elementwise_ops.OPS),
    "reduction": set(reduction.OPS),
    "sorting": set(sorting.FUNCTIONS),
    "matmul": {case.op for case in matmul.CASES}
    | ({"grouped_gemm"} if products.GROUPED else set()),
    "random": {case.op for case in random.CASES},
    "indexing": {"getitem", "setitem"} | used_in("test_indexing.py"),
    "creation": used_in("test_creation.py"),
    "nn": {case.op for case in nn.CASES} | used_in("test_nn.py"),
    "attention": used_in("../cases/run_attention.py"),
    "moe": set(moe.OPS),
    "sampling": used_in("../cases/run_sampling.py"),
    "kv_cache": used_in("../cases/run_paged_cache.py"),
    "conv": {case.op for case in conv.CASES},
    "recurrent": {case.op for case in recurrent.CASES},
    "linalg": set(linalg.OPS),
    "fft": fft.OPS,
    "audio": audio.OPS,
    "quantize": set(quantize.OPS),
}


def public_module(module: str) -> ModuleType | None:
    if module in ("_native", "GPUArray"):
        return None
    return importlib.import_module(f"pygpukit.ops.{module}")


def signature_of(function: Any) -> str:
    """Without types."""
    found = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(inspect.Signature(bare))


def test_names_are_declared_once() -> None:
    names = [name for name, *_ in DECLARED]
    assert len(set(names)) == len(names) > 200
    assert {name for name, *_ in OPS} <= set(names)


@pytest.mark.parametrize(("name", "family", "doc"), OPS, ids=lambda value: str(value)[:20])
def test_every_op_has_a_reference_and_cases(name: str, family: str, doc: str) -> None:
    assert callable(getattr(_reference, name, None)), f"_reference.{name} is missing"
    assert name in CASES[family], f"{name} has no cases"
    assert doc.strip()


@pytest.mark.parametrize(
    ("name", "module", "signature"),
    [row for row in DECLARED if row[1] != "GPUArray"],
    ids=lambda value: str(value)[:20],
)
def test_the_function_has_the_signature_of_its_line(name: str, module: str, signature: str) -> None:
    home = public_module(module)
    function = getattr(_native, name, None) or getattr(home, name)
    assert signature_of(function) == signature
    assert (inspect.getdoc(function) or "").strip()
    if home is None:
        assert not hasattr(gp, name)
        return
    public = getattr(home, name)
    assert getattr(gp, name) is public
    assert name in home.__all__
    assert public is function or inspect.isfunction(public)  # or Python prepares the arguments


@pytest.mark.parametrize("op", reduction.OPS)
def test_reductions_are_functions_of_the_core(op: str) -> None:
    function: Any = getattr(gp, op)
    assert isinstance(function, BuiltinFunctionType)
    method = getattr(gp.GPUArray, op, None)
    assert (method is None) == op.startswith("nan")
    if method is not None:
        assert type(method).__name__ == "method_descriptor"
        parameters = inspect.signature(method).parameters
        assert list(parameters)[:2] == ["self", "axis"]
        assert set(parameters) - {"self", "ddof"} <= set(inspect.signature(function).parameters)


def test_methods_give_what_functions_give() -> None:
    x = gp.from_numpy([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    for op in reduction.OPS:
        if not hasattr(gp.GPUArray, op):
            continue
        want = getattr(gp, op)(x, 1).to_numpy()
        assert getattr(x, op)(1).to_numpy().tolist() == want.tolist()
        assert getattr(x, op)(axis=1).to_numpy().tolist() == want.tolist()
        out = gp.empty(want.shape, str(want.dtype))
        assert getattr(x, op)(axis=1, out=out) is out
        assert out.to_numpy().tolist() == want.tolist()
    assert float(x.var(ddof=1)) == float(gp.var(x, correction=1))
    assert x.max(0, None, True).shape == (1, 3)  # NumPy's order: axis, out, keepdims


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: x.sum(0, None, None, False, 1, None, 2),
            "sum: takes 6 positional arguments but 7",
        ),
        (lambda x: x.sum(0, axis=0), "sum: got multiple values for argument 'axis'"),
        (lambda x: x.sum(order="F"), "sum: got an unexpected keyword argument 'order'"),
        (lambda x: gp.sum(), "sum: missing required argument 'x'"),
        (lambda x: gp.sum(x=x), "sum: got an unexpected keyword argument 'x'"),
        (lambda x: gp.argmax(x, 0, None, True), "argmax: takes 3 positional arguments but 4"),
        (lambda x: gp.sum(x, keepdims="yes"), "sum: keepdims is 'yes', expected a bool"),
        (lambda x: gp.var(x, correction="1"), "var: correction is '1', expected a number"),
        (lambda x: x.std(ddof=[]), r"std: ddof is \[\], expected a number"),
        (lambda x: gp.sort(x, axis=0.5), "sort: axis is 0.5, expected an integer"),
        (lambda x: gp.take(x, x, mode=3), "take: mode is 3, expected a str"),
        (lambda x: gp.bincount(3), "bincount: x is 3, expected a GPUArray"),
    ],
)
def test_wrong_arguments_are_named(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^{words}") as caught:
        call(gp.ones((2, 3)))
    assert isinstance(caught.value, gp.InvalidArgument)
