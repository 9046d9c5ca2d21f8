"""The chat functions of 0.2: templates by the name of a model family."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pygpukit.llm.chat_template import ChatTemplate


@dataclass
class ChatMessage:
    """What "system", "user" or "assistant" said."""

    role: str
    content: str


Messages = Sequence[ChatMessage | Mapping[str, Any]]

_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LLAMA2 = (
    "{% set system = namespace(text='') %}"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}"
    "{% set system.text = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}"
    "{% elif m.role == 'user' %}"
    "<s>[INST] {{ system.text }}{{ m.content }} [/INST]{% set system.text = '' %}"
    "{% else %} {{ m.content }} </s>{% endif %}"
    "{% endfor %}"
)
_LLAMA3 = (
    "<|begin_of_text|>"
    "{% for m in messages %}"
    "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_MISTRAL = (
    "{% set system = namespace(text='') %}<s>"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{% set system.text = m.content + '\n\n' %}"
    "{% elif m.role == 'user' %}"
    "[INST] {{ system.text }}{{ m.content }} [/INST]{% set system.text = '' %}"
    "{% else %} {{ m.content }}</s>{% endif %}"
    "{% endfor %}"
)
_TEMPLATES = {"llama2": _LLAMA2, "llama3": _LLAMA3, "mistral": _MISTRAL}  # others: ChatML, as Qwen


def format_chat_messages(
    messages: Messages, model_type: str = "chatml", add_generation_prompt: bool = True
) -> str:
    """The text of messages for a family: qwen, qwen2, qwen3, llama2, llama3, mistral, chatml."""
    template = _template(model_type.lower())
    return template.render(_as_dicts(messages), add_generation_prompt=add_generation_prompt)


def apply_chat_template(
    messages: Messages,
    tokenizer: Any,
    add_generation_prompt: bool = True,
    model_type: str = "chatml",
) -> list[int]:
    """The ids of messages, by the tokenizer's own template, or that of ``model_type`` if none."""
    if getattr(tokenizer, "chat_templates", None):
        return list(
            tokenizer.encode_chat(_as_dicts(messages), add_generation_prompt=add_generation_prompt)
        )
    text = format_chat_messages(messages, model_type, add_generation_prompt)
    ids = tokenizer.encode(text, add_special_tokens=False)
    return list(getattr(ids, "ids", ids))


def create_chat_prompt(
    user: str, system: str | None = None, assistant_prefix: str | None = None
) -> list[ChatMessage]:
    """The messages of one question; an answer may be begun."""
    said = (("system", system), ("user", user), ("assistant", assistant_prefix))
    return [ChatMessage(role, content) for role, content in said if content is not None]


@functools.cache
def _template(model_type: str) -> ChatTemplate:
    return ChatTemplate(_TEMPLATES.get(model_type, _CHATML))


def _as_dicts(messages: Any) -> Any:
    """Dicts for ChatMessages; anything else is left to the template's own checks."""
    if not isinstance(messages, list | tuple):
        return messages
    return [asdict(m) if isinstance(m, ChatMessage) else m for m in messages]


__all__ = ["ChatMessage", "apply_chat_template", "create_chat_prompt", "format_chat_messages"]
