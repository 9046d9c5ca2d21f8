"""Messages stay short whatever they quote, and a repr that raises does not hide the error."""

from __future__ import annotations

import pytest

import pygpukit as gp
from pygpukit import _native


class Long:
    def __repr__(self) -> str:
        return "long" * 2_500_000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr today")


class Interrupted:
    """Once only: pytest shows arguments too."""

    interrupted = False

    def __repr__(self) -> str:
        if self.interrupted:
            return "Interrupted()"
        self.interrupted = True
        raise KeyboardInterrupt


CALLS = {
    "zeros": lambda x: gp.zeros(x),
    "sum": lambda x: gp.sum(gp.ones(3), axis=x),
    "astype": lambda x: gp.ones(3).astype(x),
    "add": lambda x: gp.add(x, 1),
    "concatenate": lambda x: gp.concatenate([x, x]),
    "out": lambda x: gp.sum(gp.ones(3), out=x),
    "einsum": lambda x: gp.einsum("i->i", x),
    "matmul": lambda x: gp.matmul(x, x),
    "jit": lambda x: gp.jit("__global__ void f() {}", "f", options=x),
    "from_dlpack": lambda x: gp.from_dlpack(x),
}


@pytest.mark.parametrize("call", CALLS)
def test_repr_is_capped(call: str) -> None:
    with pytest.raises(gp.PyGPUkitError) as caught:
        CALLS[call](Long())
    assert len(str(caught.value)) < 1000
    with pytest.raises(gp.PyGPUkitError):
        CALLS[call]("x" * 10_000_000)


# NumPy shows the object that is no dtype, so its error is the caller's own.
@pytest.mark.parametrize("call", [name for name in CALLS if name != "astype"])
def test_repr_that_raises(call: str) -> None:
    with pytest.raises(gp.PyGPUkitError) as caught:
        CALLS[call](Broken())
    assert "no repr today" not in str(caught.value)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "astype"])
def test_interrupts_get_through(call: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        CALLS[call](Interrupted())


def test_safe_repr() -> None:
    assert _native.safe_repr([1, "a"]) == "[1, 'a']"
    assert _native.safe_repr("\ud800") == r"'\ud800'"
    assert _native.safe_repr("\u20ac" * 300) == "'" + "\u20ac" * 199 + "..."
    assert _native.safe_repr(Broken()) == "<Broken, whose repr() raises>"
    assert _native.safe_repr(10**5000).startswith("<int")


def test_any_message_is_capped() -> None:
    with pytest.raises(gp.PyGPUkitError) as caught:
        gp.einsum("i" * 300_000, gp.ones(3))
    assert len(str(caught.value)) < 40_000


@pytest.mark.skipif(not _native.nvrtc_info()["available"], reason="NVRTC is not installed")
class TestCompileErrors:
    def test_source_and_log_are_capped(self) -> None:
        """A source of 5 MB in which every line is wrong."""
        source = "".join(f"int a{i} = nonsense_{i};\n" for i in range(20_000))
        source += f"// {'x' * 4_000_000}\n"
        with pytest.raises(gp.CompileError) as caught:
            gp.jit(source + "__global__ void f() {}", "f", options=["-D" + "Y" * 100_000])
        error = caught.value
        assert "nonsense_0" in str(error)
        assert "more bytes" in str(error)
        assert len(str(error)) < 40_000
        assert len(error.compilation_log) <= (1 << 20) + 100
        assert error.source.startswith(source)

    def test_what_is_no_utf8(self) -> None:
        """bytes are taken for a source; the error about them is ours and not one of decoding."""
        with pytest.raises(gp.CompileError) as caught:
            gp.RawModule(b"nonsense \xff")
        assert r"\xff" in str(caught.value)
