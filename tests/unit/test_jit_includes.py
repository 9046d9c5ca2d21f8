"""include_folders and PYGPUKIT_JIT_INCLUDES: source that is not ours reads no other file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.jit import compile_to_ptx

pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)

KERNEL = '\nextern "C" __global__ void f(int* x) { *x = 42; }\n'
SECRET = "int topsecret;\nbad bad line\n"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return str(path)


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    (folder / "sub").mkdir(parents=True)
    (folder / "value.h").write_text('#pragma once\n#include "sub/deep.h"\n#define VALUE DEEP\n')
    (folder / "sub" / "deep.h").write_text(
        "#ifdef NEVER\n#include <nowhere.h>\n#endif\n#define DEEP 77\n"
    )
    return folder


def refused(source: str, folder: Path, options: list[str] | None = None, **more: object) -> str:
    """The message; there must be no compiler's log in it."""
    with pytest.raises(InvalidValueError) as caught:
        compile_to_ptx(source, options=options or [], include_folders=[str(folder)], **more)
    text = str(caught.value)
    assert text.startswith("jit: ")
    assert "topsecret" not in text
    return text


TRICKS = {
    "plain": '#include "{}"',
    "angle": "#include <{}>",
    "splice": '#\\\ninclude "{}"',
    "splice in the word": '#incl\\\r\nude "{}"',
    "splice and blanks": '#incl\\ \nude "{}"',
    "digraph": '%:include "{}"',
    "trigraph": '??=include "{}"',
    "trigraph splice": '#inc??/\nlude "{}"',
    "comment": '#/**/include/**/"{}"',
    "comment over lines": '/*x*/ # /*\n*/ include "{}"',
    "blanks": '#\v\f\tinclude "{}"',
    "macro": '#define M "{}"\n#include M',
    "has_include": '#if __has_include("{}")\n#endif',
    "has_include, spliced": '#if __has_\\\ninclude("{}")\n#endif',
    "embed": 'const char x[] = {{\n#embed "{}"\n}};',
    "include_next": '#include_next "{}"',
    "import": '#import "{}"',
    "header unit": 'import "{}";',
    "header unit by macro": '#define M "{}"\nimport M;',
    "carriage return": '// x\r#include "{}"',
    "carriage return hides": '// x\r/*\n#include "{}"\n// */',
    "raw string of C++11 or not": 'const char* a = R"(" /*)";\n#include "{}"\n// */',
    "character": '#\\u0069nclude "{}"',
    "not ASCII": '#\u00a0include "{}"',
    "dots": '#include "sub/../../{name}"',
    "after a conditional": '#if 0\n#else\n#include "{}"\n#endif',
    "not there": '#include "/nonexistent/file.h"',
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("std", ["c++14", "c++20"])
def test_tricks(secret: str, allowed: Path, trick: str, std: str) -> None:
    source = TRICKS[trick].format(secret, name=Path(secret).name)
    refused(source + KERNEL, allowed, [f"--std={std}"])
    if trick in ("plain", "angle"):
        assert secret in refused(source + KERNEL, allowed), "the include is named"


def test_the_tricks_work_without_the_option(secret: str) -> None:
    """Or the test above would show nothing."""
    leaks = 0
    for trick in ("plain", "splice", "digraph", "comment", "macro", "blanks"):
        with pytest.raises(gp.CompileError) as caught:
            compile_to_ptx(TRICKS[trick].format(secret) + KERNEL)
        leaks += "topsecret" in str(caught.value)
    assert leaks == 6


@pytest.mark.parametrize(
    "options",
    [
        ["--pre-include={}"],
        ["-include", "{}"],
        ["-I{folder}"],
        ["-I", "{folder}"],
        ["--include-path={folder}"],
        ["--include-path={allowed}/x,{folder}"],
        ["--ptxas-options=--options-file={}"],
        ["-Xptxas", "--options-file={}"],
        ["@{}"],
        ["--pch"],
        ["--pch-dir={folder}"],
        ["--time={folder}/out"],
        ["--fdevice-time-trace={folder}/out"],
        ["-DX=1\n#include <{}>"],
        ["-D"],
        ["--no-such-option"],
        ["-O2"],
        ["-include", "-O3", "{}"],  # -O3 is dropped as a default
    ],
)
def test_options(secret: str, allowed: Path, options: list[str]) -> None:
    folder = str(Path(secret).parent)
    given = [option.format(secret, folder=folder, allowed=allowed) for option in options]
    refused(KERNEL, allowed, given)
    assert sorted(os.listdir(folder)) == ["allowed", "secret.txt"]


def test_options_that_read_nothing(allowed: Path) -> None:
    options = ["-DX=1", "-D", "Y=2", "-UZ", "--use_fast_math", "-std=c++17", "-lineinfo", "-w"]
    options += ["-O3", "-x", "cu"]
    options += [f"-I{allowed / 'sub'}", "--maxrregcount=32", "--include-path", str(allowed)]
    source = '#include "deep.h"\n' + KERNEL.replace("42", "DEEP + X + Y")
    assert "80" in compile_to_ptx(source, options=options, include_folders=[str(allowed)]).ptx


def test_name_expressions(secret: str, allowed: Path) -> None:
    """NVRTC writes them into the text that it compiles."""
    with pytest.raises(InvalidValueError, match="name expression"):
        gp.RawModule(
            KERNEL,
            name_expressions=[f'0\n#include "{secret}"\n'],
            include_folders=[str(allowed)],
        )


def test_the_source_is_not_a_way_to_a_folder(secret: str, allowed: Path) -> None:
    """A quoted name is searched in the folder of the source's name, and in the working folder."""
    refused('#include "secret.txt"' + KERNEL, allowed, name=str(Path(secret).parent / "k.cu"))
    before = Path.cwd()
    os.chdir(Path(secret).parent)
    try:
        refused('#include "secret.txt"' + KERNEL, allowed)
    finally:
        os.chdir(before)


@pytest.mark.skipif(os.name == "nt", reason="symlinks")
def test_symlinks_do_not_lead_out(secret: str, allowed: Path) -> None:
    (allowed / "link.h").symlink_to(secret)
    (allowed / "out").symlink_to(Path(secret).parent)
    assert "link.h" in refused('#include "link.h"' + KERNEL, allowed)
    refused("#include <out/secret.txt>" + KERNEL, allowed)
    # An allowed header that was written with such a link in it.
    (allowed / "outer.h").write_text('#include "link.h"\n')
    assert "link.h" in refused('#include "outer.h"' + KERNEL, allowed)


def test_computed_include_in_an_allowed_header(secret: str, allowed: Path) -> None:
    (allowed / "open.h").write_text("#include NAME\n")
    text = refused(f'#define NAME "{secret}"\n#include "open.h"' + KERNEL, allowed)
    assert "open.h" in text


def test_what_is_allowed(allowed: Path) -> None:
    source = '#include <value.h>\n// # of threads: 1, printf("#\\n")\n' + KERNEL.replace(
        "42", "VALUE"
    )
    assert "77" in compile_to_ptx(source, include_folders=[str(allowed)]).ptx
    kernel = gp.jit(source, "f", include_folders=[str(allowed)])
    assert kernel.is_compiled
    assert gp.jit(KERNEL, "f", include_folders=[]).is_compiled
    with pytest.raises(InvalidValueError, match=r"value\.h"):
        gp.jit(source, "f", include_folders=[])


@pytest.mark.skipif(
    not _native.nvrtc_info().get("include_folder"), reason="CUDA's headers are not installed"
)
def test_cuda_headers_are_allowed() -> None:
    source = "#include <cuda_fp16.h>\n" + KERNEL
    assert compile_to_ptx(source, include_folders=[]).ptx


def test_mistakes_in_the_argument(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="not a folder"):
        gp.jit(KERNEL, "f", include_folders=[str(tmp_path / "missing")])
    with pytest.raises(InvalidTypeError, match="include_folders is '/usr'"):
        gp.jit(KERNEL, "f", include_folders="/usr")


def test_messages_quote_nothing_of_included_files(allowed: Path) -> None:
    (allowed / "broken.h").write_text("int mine = theirs_alone * ;\n")
    source = '#include "broken.h"\n#error mine_to_see' + KERNEL
    with pytest.raises(gp.CompileError) as caught:
        compile_to_ptx(source, include_folders=[str(allowed)])
    text = str(caught.value) + caught.value.compilation_log
    assert "broken.h(1): error" in text
    assert "theirs_alone * ;" not in text
    assert "#error mine_to_see" in text
    with pytest.raises(gp.CompileError, match=r"theirs_alone \* ;"):
        compile_to_ptx(source, options=[f"-I{allowed}"])


def test_for_the_whole_process(run_python, secret: str, allowed: Path) -> None:
    code = f"""
import pygpukit as gp
def attempt(source, **options):
    try:
        return gp.jit(source, "f", **options).is_compiled
    except ValueError as error:
        return str(error)
kernel = {KERNEL!r}
print(attempt('#include "value.h"' + kernel))
print(attempt('#include "{secret}"' + kernel))
print(attempt(kernel, include_folders=["/"]))
print(attempt('#include "deep.h"' + kernel, include_folders=["{allowed}/sub"]))
print((gp.ones(3) + 1).to_numpy())
"""
    done = run_python(code, PYGPUKIT_JIT_INCLUDES=f"{allowed}{os.pathsep}{allowed}/sub")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == lines[3] == "True"
    assert "is refused" in lines[1]
    assert "outside of PYGPUKIT_JIT_INCLUDES" in lines[2]
    assert lines[4] == "[2. 2. 2.]"
    none = run_python(code, PYGPUKIT_JIT_INCLUDES="none").stdout.splitlines()
    assert all("PYGPUKIT_JIT_INCLUDES" in line or "is refused" in line for line in none[:4])
