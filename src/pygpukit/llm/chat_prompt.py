"""A conversation as the text that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from pygpukit.llm.tokenizer import Tokenizer

# Of a chat template, beside those of a call that are named.
_TEMPLATE = ("tools", "documents", "chat_template")


def render_chat(
    tokenizer: Tokenizer,
    op: str,
    messages: Sequence[Mapping[str, Any]],
    template_options: Mapping[str, Any] | None,
    options: dict[str, Any],
    known: Iterable[str],
) -> str:
    """The text of a conversation. What belongs to the template is taken out of ``options``.

    ``known`` are the call's own, which stay there whatever the template reads.
    """
    if template_options is not None and not isinstance(template_options, Mapping):
        raise InvalidTypeError(
            f"{op}: template_options is of type {type(template_options).__name__}, expected a dict"
        )
    own = {name: options.pop(name) for name in _TEMPLATE if name in options}
    own.update(template_options or {})
    with_tools = own.get("tools") is not None
    template = tokenizer.chat_template(own.get("chat_template"), with_tools=with_tools)
    for name in sorted((options.keys() & template.variables) - set(known)):
        own.setdefault(name, options.pop(name))
    if "messages" in own:
        raise InvalidValueError(f"{op}: template_options has 'messages', expected them once")
    return tokenizer.apply_chat_template(messages, **{"add_generation_prompt": True, **own})


__all__ = ["render_chat"]
