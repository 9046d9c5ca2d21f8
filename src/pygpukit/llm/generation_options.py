"""The options of one text: checked, and with the defaults of a folder's generation_config.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pygpukit.core.arguments import amount, items, whole
from pygpukit.core.errors import InvalidTypeError
from pygpukit.llm.generation_config import GenerationConfig

_NUMBERS = ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty")
_PENALTIES = ("presence_penalty", "frequency_penalty")
NAMES = ("max_new_tokens", "top_k", *_NUMBERS, *_PENALTIES, "seed", "stop_tokens")
_DEFAULT_LENGTH = 256
_MAX_TOKEN = 2**31 - 1


def generation_options(
    op: str, config: GenerationConfig, given: Mapping[str, Any], prompt_tokens: int, max_length: int
) -> dict[str, Any]:
    """A value for each of NAMES; what is not given, or None, is the folder's.

    The last new token is never read back, so it needs no place in ``max_length``.
    """
    defaults: dict[str, Any] = {
        **{name: getattr(config, name) for name in _NUMBERS},
        **dict.fromkeys(_PENALTIES, 0.0),
        "max_new_tokens": _default_length(config, prompt_tokens, max_length),
        "top_k": config.top_k if config.do_sample else 0,
        "seed": 0,
        "stop_tokens": config.eos_token_ids,
    }
    if not config.do_sample:
        defaults["temperature"] = 0.0
    values = {name: defaults[name] if given.get(name) is None else given[name] for name in defaults}
    for name in (*_NUMBERS, *_PENALTIES):  # the core knows what each may be
        values[name] = amount(op, name, values[name], -1e6)
    return {
        **values,
        "max_new_tokens": whole(op, "max_new_tokens", values["max_new_tokens"], 1, 2**62),
        "top_k": whole(op, "top_k", values["top_k"], 0, 2**31 - 1),
        "seed": whole(op, "seed", values["seed"], 0, 2**63 - 1),
        "stop_tokens": stop_tokens(op, values["stop_tokens"]),
    }


def _default_length(config: GenerationConfig, prompt_tokens: int, max_length: int) -> int:
    room = max_length - prompt_tokens + 1
    wanted = config.max_new_tokens
    if wanted is None:
        longest = config.max_length
        wanted = _DEFAULT_LENGTH if longest is None else longest - prompt_tokens
    return max(min(wanted, room), 1)


def stop_tokens(op: str, given: Iterable[int]) -> list[int]:
    """Token ids that end a text."""
    ids = items(op, "stop_tokens", given, "token ids")
    return [whole(op, "a token of stop_tokens", token, 0, _MAX_TOKEN) for token in ids]


def refuse_unknown(op: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raises for the first option that is not known."""
    known = list(known)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidTypeError(
            f"{op}: unknown option {unknown[0]!r}, expected one of {', '.join(known)}"
        )
