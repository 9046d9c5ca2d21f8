"""Jinja with nothing of Python in reach, and limited work: chat templates come with models.

Work is counted in characters that are moved; a turn of a loop and a call cost _STEP each. The
sandbox of Jinja refuses attributes that lead to Python's internals and changes to arguments.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import threading
from collections.abc import Callable
from typing import Any

from jinja2 import Template, TemplateError, Undefined, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from pygpukit.llm.chat_template import ChatTemplateError

_BUDGET = 200_000_000
_STEP = 500
_MAX_WIDTH = 65536
_PADDING = ("batch", "center", "format", "indent", "slice", "tojson")  # filters with a width
_WIDE_FORMAT = re.compile(r"%[-+ #0]*\d{6}|\{[^{}]*\d{6}")


class _Work(threading.local):
    """What the template that the thread renders may still do."""

    left = 0


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of chat templates, with the filters and functions of Transformers."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationBlock],
            finalize=self._output,
        )
        self._work = _Work()
        self.filters["tojson"] = _to_json
        for name, function in self.filters.items():
            self.filters[name] = self._counted(function, name in _PADDING)
        del self.globals["lipsum"]
        self.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)

    def begin(self) -> None:
        """A new budget for what the calling thread compiles or renders next."""
        self._work.left = _BUDGET

    def template(self, source: str) -> Template:
        """The template, with its loops, macros and `~` counted."""
        tree = _CountWork().visit(self.parse(source))
        tree.set_environment(self)
        return self.template_class.from_code(self, self.compile(tree), self.make_globals(None))

    def variables(self, source: str) -> frozenset[str]:
        """What the template reads and does not set."""
        return frozenset(meta.find_undeclared_variables(self.parse(source)))

    def spend(self, units: int) -> bool:
        """Counts work; True, so that it can be part of a condition."""
        self._work.left -= units
        if self._work.left < 0:
            raise ChatTemplateError("chat template: does more work than any template needs")
        return True

    def concatenate(self, *parts: object) -> str:
        """The operator `~`."""
        return "".join(map(self._output, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _check_format(left)
            _check_widths(right)
        elif operator in ("*", "**"):
            self.spend(_size_of_product(operator, left, right))
        result = super().call_binop(context, operator, left, right)
        self.spend(_STEP + _size(result))
        return result

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        # An Undefined, as Jinja has it, would be printed as nothing.
        kind = type(obj).__name__
        raise SecurityError(f"access to attribute {attribute!r} of {kind!r} is unsafe")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        # Names of the base class: keyword arguments of a template must not collide with them.
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja wraps str.format
        owner = getattr(method, "__self__", None)
        if owner is __self:
            return __obj(*args)
        if isinstance(owner, str):
            _check_widths(*args, *kwargs.values())
            if method.__name__ in ("format", "format_map"):
                _check_format(owner)
        __self.spend(_STEP + _size(owner))
        result = super().call(__context, __obj, *args, **kwargs)
        __self.spend(_size(result))
        return result

    def _output(self, value: object) -> str:
        text = value if isinstance(value, str) else str(value)
        self.spend(len(text))
        return text

    def _counted(self, function: Callable[..., Any], padding: bool) -> Callable[..., Any]:
        passed = int(hasattr(function, "jinja_pass_arg"))  # the value comes after the environment

        @functools.wraps(function)  # keeps what Jinja marked
        def run(*args: Any, **kwargs: Any) -> Any:
            value, options = args[passed], (*args[passed + 1 :], *kwargs.values())
            if padding:
                _check_format(value)
                _check_widths(*options)
            self.spend(_STEP + _size(value))
            result = function(*args, **kwargs)
            self.spend(_size(result))
            return result

        return run


class _CountWork(NodeTransformer):
    """Puts calls of Sandbox.spend into everything that can run more than once."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self._count_body(node)
        if node.test is not None:
            node.test = nodes.And(_call("spend", nodes.Const(_STEP)), node.test)
            node.test.set_lineno(node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:
        self._count_body(node)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:
        self._count_body(node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        call = _call("concatenate", *node.nodes)
        call.set_lineno(node.lineno)
        return call

    def _count_body(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> None:
        units = _STEP + sum(len(text.data) for text in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        count = nodes.ExprStmt(_call("spend", nodes.Const(units)))
        count.set_lineno(node.lineno)
        node.body.insert(0, count)


class _GenerationBlock(Extension):
    """{% generation %}: marks the assistant's text for training; here its text only."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _call(name: str, *args: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)


def _size(value: object) -> int:
    if isinstance(value, int):
        return value.bit_length() // 8
    return len(value) if isinstance(value, str | list | tuple | dict | range) else 0


def _size_of_product(operator: str, left: object, right: object) -> int:
    if operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            return left.bit_length() * max(right, 0) // 8
        return 0
    for times, value in ((left, right), (right, left)):
        if isinstance(times, int) and not isinstance(value, int):
            return max(times, 0) * _size(value)
    return 0


def _check_widths(*options: object) -> None:
    numbers = [n for o in options for n in (o if isinstance(o, tuple) else (o,))]
    if any(isinstance(n, int) and abs(n) > _MAX_WIDTH for n in numbers):
        raise _too_wide()


def _check_format(text: object) -> None:
    if isinstance(text, str) and _WIDE_FORMAT.search(text):
        raise _too_wide()


def _too_wide() -> ChatTemplateError:
    return ChatTemplateError(f"chat template: pads text to more than {_MAX_WIDTH} characters")


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Not Jinja's own, which escapes HTML.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: object) -> None:
    raise TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)
