"""How GEMMs are planned, explained and measured, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.ops.matmul import einsum, matmul
from pygpukit.ops.matmul_plan import (
    MatmulExplanation,
    explain_matmul,
    tune_matmul,
    with_matmul_plan,
)

any_explain: Any = explain_matmul
any_tune: Any = tune_matmul


def test_explains_without_computing() -> None:
    a, b = gp.ones((64, 32)), gp.ones((32, 48))
    out = gp.zeros((64, 48))
    explanation = explain_matmul(a, b, out=out)
    assert isinstance(explanation, MatmulExplanation)
    text = str(explanation)
    assert text.startswith("product   m=64 n=48 k=32, a=float32[32, 1]")
    assert "machine   sm_90, 132 multiprocessors" in text
    assert explanation.choice is not None
    assert explanation.choice["text"] in text
    assert explanation.reason == "model"
    assert any(plan["engine"] == "general" for plan in explanation.candidates)
    times = [plan["predicted_us"] for plan in explanation.candidates]
    assert times == sorted(times)
    assert times[0] > 0
    assert not out.to_numpy().any()
    assert matmul(a, b).to_numpy()[0, 0] == 32  # and from now on it computes again


def test_other_machines_and_other_calls() -> None:
    a, b = gp.ones((300, 200)), gp.ones((200, 100))
    assert "machine   sm_80" in str(explain_matmul(a, b, sm=80))
    several = explain_matmul(lambda: einsum("ij,jk,kl->il", a, b, gp.ones((100, 7))))
    assert len(several.products) == 2
    assert "n=7" in several.products[1]["product"]
    assert repr(several).startswith("<MatmulExplanation: ")


def test_layouts_show() -> None:
    a, b = gp.ones((64, 32), "bfloat16"), gp.ones((48, 32), "bfloat16")
    assert "b=bfloat16[1, 32] align 16" in str(explain_matmul(a, b.T))
    assert "align 2" in str(explain_matmul(a[:, 1:], b.T[1:]))


def test_formats_and_groups_show() -> None:
    a, b = gp.ones((64, 32)).astype("float8_e4m3fn"), gp.ones((48, 32)).astype("float8_e4m3fn")
    text = str(explain_matmul(lambda: gp.scaled_matmul(a, b.T, gp.ones(64), gp.ones((1, 48)))))
    assert "a=float8_e4m3fn[32, 1] align 16 (float32 scale per row), b=" in text
    assert "(float32 scale per column)" in text
    x, w = gp.ones((10, 8)), gp.ones((4, 6, 8))
    ids = gp.zeros(10, "int32")
    explanation = explain_matmul(lambda: gp.grouped_gemm(x, w, expert_ids=ids))
    assert "4 groups of stride 48 by expert ids on the device" in str(explanation)
    assert explanation.choice is not None
    assert explanation.choice["engine"] == "grouped"
    several = explain_matmul(lambda: gp.grouped_gemm(x, w, [3, 0, 6, 1]))
    assert [product["product"].split(",")[0] for product in several.products] == [
        "m=3 n=6 k=8",
        "m=6 n=6 k=8",
        "m=1 n=6 k=8",
    ]


def test_an_error_in_the_call_leaves_nothing_behind() -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        explain_matmul(fail)
    assert matmul(gp.ones((2, 2)), gp.ones((2, 2))).to_numpy()[0, 0] == 2


def test_a_plan_of_my_choice() -> None:
    a, b = gp.ones((64, 32)), gp.ones((32, 48))
    explanation = explain_matmul(a, b)
    for plan in explanation.candidates:
        forced = with_matmul_plan(lambda: explain_matmul(a, b), plan["text"])
        assert forced.choice == plan
        assert forced.reason == "forced"
    with pytest.raises(RuntimeError, match="matmul: no plan starts with 'magic'; candidates are\n"):
        with_matmul_plan(lambda: explain_matmul(a, b), "magic")
    assert explain_matmul(a, b).reason == "model"


def test_must_raise() -> None:
    x = gp.ones((2, 2))
    for wrong in ((x,), (1, x), (lambda: None, x)):
        with pytest.raises(TypeError, match="explain_matmul: "):
            any_explain(*wrong)
    with pytest.raises(ValueError, match="explain_matmul: sm is 70"):
        explain_matmul(x, x, sm=70)
    with pytest.raises(ValueError, match="explain_matmul: the call has no GEMM"):
        explain_matmul(lambda: None)
    with pytest.raises(ValueError, match="core dimension"):
        explain_matmul(x, gp.ones((3, 2)))
    with pytest.raises(ValueError, match="tune_matmul: the arrays are on the CPU"):
        tune_matmul(x, x)
    with pytest.raises(TypeError, match="tune_matmul: b is None"):
        any_tune(x)


def test_cublaslt_hidden_by_a_wrong_path(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "from pygpukit import _native\ninfo = _native.cublaslt_info()\n"
        "print(info['available'], info['tried'])\n",
        PYGPUKIT_CUBLASLT_PATH="/no/such/file.so",
        PYGPUKIT_DEVICE="cpu",
    )
    assert done.stdout.startswith("False ['/no/such/file.so: ")


def test_a_wrong_policy_is_named(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import pygpukit as gp\ntry:\n    gp.ones((2, 2))\nexcept ValueError as e:\n    print(e)\n",
        PYGPUKIT_MATMUL="fast",
        PYGPUKIT_DEVICE="cpu",
    )
    assert "PYGPUKIT_MATMUL is 'fast', expected auto, native or cublaslt" in done.stdout


FAKE = """
from pygpukit import _native
a = gp.ones((512, 256), "float64", device="cuda")
b = gp.ones((256, 384), "float64", device="cuda")
"""


@pytest.fixture
def run_fake(run_on_fake: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """On the fake driver of the C++ tests; NVRTC compiles, nothing is computed."""
    if not _native.nvrtc_info()["available"]:
        pytest.skip("NVRTC is not installed")

    def run(program: str, **variables: str) -> str:
        return run_on_fake(
            FAKE + program,
            PYGPUKIT_CACHE_DIR=str(tmp_path),
            PYGPUKIT_CUBLASLT_PATH="/no/such/file.so",
            **variables,
        )

    return run


def test_tuning_is_remembered_by_the_next_process(run_fake: Callable[..., str]) -> None:
    out = run_fake(
        "plans = gp.tune_matmul(a, b)\n"
        "assert len(plans) == 1 and plans[0] and all(us > 0 for _, us in plans[0])\n"
        "assert [us for _, us in plans[0]] == sorted(us for _, us in plans[0])\n"
        "print(gp.explain_matmul(a, b).reason)\n"
        "out = gp.empty((384, 512), 'float64', device='cuda').T\n"
        "print(gp.explain_matmul(a, b, out=out).reason)\n"
    )
    assert out.split() == ["measured", "model"]
    assert run_fake("print(gp.explain_matmul(a, b).reason)\n").split() == ["measured"]
    out = run_fake("print(_native.clear_matmul_tuning())\nprint(gp.explain_matmul(a, b).reason)\n")
    assert out.split() == ["1", "model"]
