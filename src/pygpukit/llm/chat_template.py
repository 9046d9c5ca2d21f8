"""Chat messages to the text that a model was trained on, by the model's own template."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.extras import import_extra

if TYPE_CHECKING:
    from jinja2 import Template

    from pygpukit.llm.template_sandbox import Sandbox

Message = Mapping[str, Any]

_MAX_SOURCE = 1 << 20


class ChatTemplateError(InvalidValueError):
    """A template that does not compile, that refuses the messages, or that is hostile."""


class ChatTemplate:
    """A Jinja template, compiled when it is first used.

    >>> template = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}")
    >>> template.render([{"role": "user", "content": "hello"}])
    'user: hello'
    """

    def __init__(self, source: str) -> None:
        if not isinstance(source, str):
            raise InvalidTypeError(
                f"ChatTemplate: source is of type {type(source).__name__}, expected str"
            )
        if len(source) > _MAX_SOURCE:
            raise ChatTemplateError(
                f"chat template: has {len(source)} characters, expected at most {_MAX_SOURCE}"
            )
        self.source = source
        self._lock = threading.Lock()
        self._template: Template | None = None
        self._variables: frozenset[str] | None = None

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The text of the messages; ``variables`` are the template's own (enable_thinking, ...)."""
        _check_messages(messages)
        with self._lock:
            self._template = self._template or _run(self._compile)
        text: str = _run(
            self._template.render,
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            **variables,
        )
        return text

    @property
    def variables(self) -> frozenset[str]:
        """Names that the template reads and does not set: messages, tools, enable_thinking, ..."""
        with self._lock:
            if self._variables is None:
                self._variables = _run(lambda: _sandbox().variables(self.source))
            return self._variables

    def _compile(self) -> Template:
        return _sandbox().template(self.source)


@functools.cache
def _sandbox() -> Sandbox:
    import_extra("ChatTemplate", "jinja2", "llm")
    from pygpukit.llm.template_sandbox import Sandbox

    return Sandbox()


def _run(action: Any, **variables: Any) -> Any:
    """Whatever goes wrong in a template is an error of the template."""
    _sandbox().begin()
    try:
        return action(**variables)
    except ChatTemplateError:
        raise
    except Exception as error:
        line = getattr(error, "lineno", None)
        where = f" line {line}:" if line else ""
        text = f"{type(error).__name__}: {error}"[:1000]
        raise ChatTemplateError(f"chat template:{where} {text}") from error


def _check_messages(messages: object) -> None:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InvalidTypeError(
            f"chat template: messages is of type {type(messages).__name__}, "
            "expected a list of dicts"
        )
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidTypeError(
                f"chat template: messages[{i}] is of type {type(message).__name__}, expected a dict"
            )
        if not isinstance(message.get("role"), str):
            raise InvalidValueError(f"chat template: messages[{i}] has no 'role' that is a str")
