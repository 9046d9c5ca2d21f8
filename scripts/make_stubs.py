"""The stubs of the installed extension.

src/pygpukit/_native.pyi is the module, src/pygpukit/_runtime.pyi its submodule `runtime`.

pybind11-stubgen lists the functions and classes. stub_tables.py adds the types it cannot see:
arguments the bindings declare as object, and the types written with the C API. A row that
matches nothing is an error, and so is an unresolved type, so the tables cannot go stale.
Methods that Python code attaches to a type come from their own source.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tempfile
import textwrap
import types
from pathlib import Path

import declarations
from stub_members import (
    ENUM_METHODS,
    HIDDEN,
    MEMBERS,
    PRELUDE,
    RUNTIME_PRELUDE,
    RUNTIME_TYPES,
)
from stub_results import RETURNS
from stub_tables import ARGUMENTS, OPEN, SPELLINGS, TAKE_ARRAYS, TAKE_LISTS

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "src" / "pygpukit" / "_native.pyi"
RUNTIME_STUB = ROOT / "src" / "pygpukit" / "_runtime.pyi"
MODULE = "pygpukit._native"
RUNTIME_MODULE = f"{MODULE}.runtime"

CAN_BE_A_BASE = 1 << 10  # Py_TPFLAGS_BASETYPE


class Problem(Exception):
    """Something in the stub that needs a manual decision, described by the message."""


class Respell(ast.NodeTransformer):
    """Respells annotations for this stub."""

    def visit(self, node: ast.AST) -> ast.AST:
        other = SPELLINGS.get(ast.unparse(node)) if isinstance(node, ast.expr) else None
        return expression(other) if other else self.generic_visit(node)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def respell(annotation: ast.expr) -> ast.expr:
    respelled = Respell().visit(annotation)
    assert isinstance(respelled, ast.expr)
    return respelled


class Typer:
    """Completes stubgen's module from the tables, and tracks the rows used."""

    def __init__(self, module: object) -> None:
        self.module = module
        self.used: set[str] = set()
        rows = declarations.read()
        self.declared = {row.name for row in rows}
        self.take_lists = {row.name for row in rows if row.module in TAKE_LISTS}
        self.take_lists = (self.take_lists | {"matmul"}) - set(TAKE_ARRAYS)
        self.members = {c.name: c for c in ast.parse(MEMBERS).body if isinstance(c, ast.ClassDef)}

    def complete(self, tree: ast.Module) -> list[ast.stmt]:
        """The classes, functions and variables, with types."""
        body: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                body.append(self.type_class(node))
            elif isinstance(node, ast.FunctionDef):
                body.append(self.type_function(node, node.name))
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) != "__all__":
                node.value = None  # values change between versions, and types are enough
                body.append(node)
        unused = ({*ARGUMENTS, *RETURNS, *HIDDEN} - self.used) | set(self.members)
        if unused:
            raise Problem(f"the tables name unknown members:  {', '.join(sorted(unused))}")
        return body

    def type_class(self, node: ast.ClassDef) -> ast.ClassDef:
        real = getattr(self.module, node.name)
        rows = self.take_members(node.name, real)
        found: dict[str, ast.FunctionDef] = {}
        for member in node.body:
            path = f"{node.name}.{getattr(member, 'name', '')}"
            if path in HIDDEN:
                self.used.add(path)
            elif isinstance(member, ast.FunctionDef):
                found[member.name] = rows.get(member.name) or self.type_function(member, path)
        members = {**rows, **found}
        check_members(real, set(members))
        if not real.__flags__ & CAN_BE_A_BASE:
            node.decorator_list = [expression("final")]
        node.body = [docstring(inspect.getdoc(real))]
        for name, row in members.items():
            node.body += [row, *setters(real, name)]
        return node

    def take_members(self, owner: str, real: type) -> dict[str, ast.FunctionDef]:
        """The rows of MEMBERS for a type, as stub members."""
        rows = {}
        for row in self.members.pop(owner).body if owner in self.members else []:
            if isinstance(row, ast.AnnAssign):
                name, result = ast.unparse(row.target), ast.unparse(row.annotation)
                (row,) = ast.parse(f"@property\ndef {name}(self) -> {result}: ...").body
            assert isinstance(row, ast.FunctionDef)
            if not row.name.startswith("_"):
                row.body = [docstring(inspect.getdoc(getattr(real, row.name, None)))]
            rows[row.name] = self.type_function(row, f"{owner}.{row.name}")
        found = attached(real).items()
        return {**rows, **{name: row for name, row in found if f"{owner}.{name}" not in HIDDEN}}

    def type_function(self, node: ast.FunctionDef, path: str) -> ast.FunctionDef:
        """Types of arguments and result; `path` is Class.method or the function's name."""
        args = node.args
        named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        is_static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
        for arg in named[1:] if "." in path and not is_static else named:
            arg.annotation = self.resolve(arg.annotation, ARGUMENTS, path, arg.arg)
            if path in self.take_lists and ast.unparse(arg.annotation) == "GPUArray":
                arg.annotation = expression("_ArrayLike")
        for rest in filter(None, (args.vararg, args.kwarg)):
            rest.annotation = expression("object")
        returns_any = node.returns is None or ast.unparse(node.returns) == "typing.Any"
        gives_array = path in self.declared or any(arg.arg == "out" for arg in named)
        if returns_any and gives_array and path not in RETURNS:
            node.returns = expression("GPUArray")
        node.returns = self.resolve(node.returns, RETURNS, path)
        text = ast.get_docstring(node)
        if node.name.startswith("__") and node.name != "__init__":
            text = None  # Python's own
        node.body = [docstring(text)]
        return node

    def resolve(
        self, annotation: ast.expr | None, table: dict[str, str], path: str, arg: str = ""
    ) -> ast.expr:
        """The given type if it is specific, else that of the table."""
        if annotation is not None:
            annotation = respell(annotation)
            if ast.unparse(annotation) == "dict":
                return expression("dict[str, Any]")
            if ast.unparse(annotation) not in OPEN:
                return annotation
        full = f"{path}.{arg}" if arg else path
        words = full.split(".")
        for key in (full, ".".join(words[-2:]), words[-1]):
            if key in table:
                self.used.add(key)
                return respell(expression(table[key]))
        raise Problem(
            f"the type of {full} is unresolved; add a row to ARGUMENTS, RETURNS or MEMBERS"
        )


def attached(real: type) -> dict[str, ast.FunctionDef]:
    """The methods and properties of a type that are Python functions, without their bodies."""
    rows = {}
    for name, member in vars(real).items():
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, types.FunctionType):
            rows[name] = without_body(function, name)
            if isinstance(member, property):
                rows[name].decorator_list = [expression("property")]
    return rows


def setters(real: type, name: str) -> list[ast.FunctionDef]:
    """The setter of a writable property."""
    member = vars(real).get(name)
    if not isinstance(member, property) or not isinstance(member.fset, types.FunctionType):
        return []
    node = without_body(member.fset, name)
    node.decorator_list = [expression(f"{name}.setter")]
    return [node]


def without_body(function: types.FunctionType, name: str) -> ast.FunctionDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    assert node.returns is not None
    node.name = name
    node.returns = respell(node.returns)
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every[0].annotation = None  # self
    for arg in (*every, node.args.vararg, node.args.kwarg):
        if arg is not None and arg.annotation is not None:
            arg.annotation = respell(arg.annotation)
    node.body = [docstring(None if name.startswith("__") else inspect.getdoc(function))]
    return node


def docstring(text: str | None) -> ast.stmt:
    if not text:
        return ast.Expr(ast.Constant(...))
    paragraphs = [textwrap.fill(p, 88) for p in inspect.cleandoc(text).split("\n\n")]
    filled = "\n\n".join(paragraphs)
    return ast.Expr(ast.Constant(filled + "\n" if "\n" in filled else filled))


def check_members(real: type, typed: set[str]) -> None:
    """Checks that the stub has exactly the public members of the type."""
    wrong = {name for name in typed if not hasattr(real, name)}
    if wrong:
        raise Problem(f"MEMBERS: {real.__name__} has no {', '.join(sorted(wrong))}")
    missing = {name for name in vars(real) if not name.startswith("_")} - typed
    if missing:
        raise Problem(f"MEMBERS: add {', '.join(sorted(missing))} of {real.__name__}")


def check_module(body: list[ast.stmt], module: object) -> None:
    """Checks that the stub has every public name of the module."""
    typed = {n.name for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    typed |= {ast.unparse(n.target) for n in body if isinstance(n, ast.AnnAssign)}
    missing = {name for name in dir(module) if not name.startswith("_")} - typed
    if missing:
        raise Problem(f"stubgen omitted {', '.join(sorted(missing))}")


def check_text(text: str) -> None:
    """Checks that the stub does not depend on the machine."""
    if not text.isascii():
        raise Problem("a docstring is not ASCII")
    for found in (str(ROOT), sys.prefix, tempfile.gettempdir() + "/"):
        if found in text:
            raise Problem(f"the stub would contain {found}")
    if address := re.search(r"\b0x[0-9a-fA-F]{8,}", text):
        raise Problem(f"the stub would contain the address {address[0]}")


def run_stubgen(module: str, load: str) -> ast.Module:
    """stubgen's output for a module, which the statement `load` creates."""
    program = f"{load}; from pybind11_stubgen import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-c", program, module, "--exit-code", "-o", folder),
                # Types of attached methods come from their source.
                *("--ignore-unresolved-names", ".*"),
            ],
            check=True,
            cwd=folder,  # so that the installed package is imported, never the source tree
        )
        path = (Path(folder) / module.replace(".", "/")).with_suffix(".pyi")
        return ast.parse(path.read_text(encoding="utf-8"))


def finish(prelude: str, body: list[ast.stmt], own_bool: bool = False) -> str:
    """The text of a stub; `own_bool`: bool is Python's own in that module."""
    text = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    # The length of an array's sequence has no spelling in types.
    sized = r"typing\.Annotated\[([\w.]+\[[\w.]+\]), ['\"]?FixedSize\(\d+\)['\"]?\]"
    text = re.sub(sized, r"\1", text)
    if own_bool:
        text = text.replace("builtins.bool", "bool")
    text = ruff("format", ruff("check", prelude.lstrip() + "\n" + text + "\n"))
    check_text(text)
    return text


def generate_native() -> str:
    tree = run_stubgen(MODULE, "pass")
    module = importlib.import_module(MODULE)
    body = Typer(module).complete(tree)
    check_module(body, module)
    return finish(PRELUDE, body)


class RuntimeTyper(ast.NodeTransformer):
    """The submodule, nearly all of whose types pybind11 knows."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        if any(ast.unparse(n).startswith("__members__") for n in node.body):
            node.body = [n for n in node.body if self.belongs_to_enum(n)]
        self.generic_visit(node)
        return node

    @staticmethod
    def belongs_to_enum(node: ast.stmt) -> bool:
        if not isinstance(node, ast.FunctionDef):
            return True
        if any(ast.unparse(d) == "typing.overload" for d in node.decorator_list):
            return False
        return not node.name.startswith("__") or node.name in ENUM_METHODS

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name == "__eq__":
            (equal,) = ast.parse("def __eq__(self, other: object, /) -> bool: ...").body
            assert isinstance(equal, ast.FunctionDef)
            return equal
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if arg.annotation is not None:
                arg.annotation = self.resolve(arg.annotation, arg.arg, node.name)
        if node.returns is not None:
            node.returns = self.resolve(node.returns, node.name, node.name)
        node.decorator_list = [
            expression("overload") if ast.unparse(d) == "typing.overload" else d
            for d in node.decorator_list
        ]
        node.body = [docstring(ast.get_docstring(node))]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = respell(node.annotation)
        node.value = None
        return node

    @staticmethod
    def resolve(annotation: ast.expr, name: str, function: str) -> ast.expr:
        annotation = respell(annotation)
        if ast.unparse(annotation) not in OPEN or (function.startswith("__") and name == function):
            return annotation
        if name not in RUNTIME_TYPES:
            raise Problem(
                f"the type of {function}.{name} is unresolved; add a row to RUNTIME_TYPES"
            )
        return expression(RUNTIME_TYPES[name])


def generate_runtime() -> str:
    load = f"import {MODULE}; {MODULE}.load_runtime()"
    tree = run_stubgen(RUNTIME_MODULE, load)
    typed = RuntimeTyper().visit(tree)
    body = [n for n in typed.body if not isinstance(n, (ast.Import, ast.ImportFrom, ast.Expr))]
    body = [n for n in body if not ast.unparse(n).startswith("__all__")]
    check_module(body, importlib.import_module(MODULE).load_runtime())
    return finish(RUNTIME_PRELUDE, body, own_bool=True)


def ruff(command: str, text: str) -> str:
    flags = ["--fix-only", "--isolated", "--select", "I,UP,F401"] if command == "check" else []
    return subprocess.run(
        [sys.executable, "-m", "ruff", command, "-q", *flags, "--stdin-filename=_native.pyi", "-"],
        input=text,
        text=True,
        check=True,
        capture_output=True,
        cwd=ROOT,
    ).stdout


def generate() -> dict[Path, str]:
    """The text of both stubs."""
    try:
        return {STUB: generate_native(), RUNTIME_STUB: generate_runtime()}
    except Problem as problem:
        sys.exit(f"make_stubs: {problem}")
