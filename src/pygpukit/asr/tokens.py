"""The tokens of a Whisper: text, languages, tasks and timestamps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.json_file import read_object_if_there
from pygpukit.llm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import TypeGuard

SECONDS_PER_TIMESTAMP = 0.02
TASKS = ("transcribe", "translate")
_MOST_IDS = 2**31 - 1  # where config.json has no vocab_size
# Names of languages, as many programs spell them; codes are the tokens of a model.
_NAMES = {
    "english": "en", "chinese": "zh", "german": "de", "spanish": "es", "russian": "ru",
    "korean": "ko", "french": "fr", "japanese": "ja", "portuguese": "pt", "turkish": "tr",
    "polish": "pl", "catalan": "ca", "dutch": "nl", "arabic": "ar", "swedish": "sv",
    "italian": "it", "indonesian": "id", "hindi": "hi", "finnish": "fi", "vietnamese": "vi",
    "hebrew": "he", "ukrainian": "uk", "greek": "el", "malay": "ms", "czech": "cs",
    "romanian": "ro", "danish": "da", "hungarian": "hu", "tamil": "ta", "norwegian": "no",
    "thai": "th", "urdu": "ur", "croatian": "hr", "bulgarian": "bg", "lithuanian": "lt",
    "latin": "la", "welsh": "cy", "slovak": "sk", "persian": "fa", "latvian": "lv",
    "bengali": "bn", "serbian": "sr", "slovenian": "sl", "estonian": "et", "icelandic": "is",
    "cantonese": "yue", "swahili": "sw", "afrikaans": "af", "basque": "eu", "irish": "ga",
}  # fmt: skip


class WhisperTokens:
    """Special tokens by their names in tokenizer.json, lists by generation_config.json.

    >>> tokens = WhisperTokens("models/whisper-small")
    >>> tokens.prompt("en", "transcribe", timestamps=True)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.tokenizer = Tokenizer(folder)
        values = read_object_if_there(Path(folder) / "generation_config.json")
        model = read_object_if_there(Path(folder) / "config.json")
        self.start = self._id("<|startoftranscript|>")
        self.eos = self._id("<|endoftext|>")
        self.no_timestamps = self._id("<|notimestamps|>")
        self.first_timestamp = self.no_timestamps + 1
        self.previous = self._find("<|startofprev|>")
        self.no_speech = self._find("<|nospeech|>", "<|nocaptions|>")
        self.tasks = {task: self._find(f"<|{task}|>") for task in TASKS}
        self.languages = self._languages(values, _vocab_size(model))
        self.is_multilingual = bool(values.get("is_multilingual", len(self.languages) > 1))
        self.suppressed = _ids("suppress_tokens", values, model)
        self.begin_suppressed = _ids("begin_suppress_tokens", values, model)
        self.max_initial_timestamp = _index("max_initial_timestamp_index", values)
        self.alignment_heads = _heads(values)

    def _id(self, name: str) -> int:
        token = self._find(name)
        if token is None:
            raise InvalidValueError(f"tokenizer.json: has no token {name}, which Whisper needs")
        return token

    def _find(self, *names: str) -> int | None:
        ids = (self.tokenizer.token_to_id(name) for name in names)
        return next((token for token in ids if token is not None), None)

    def _languages(self, values: dict[str, Any], vocab_size: int) -> dict[str, int]:
        """Tokens <|en|> and its like, which are between the start and the tasks."""
        listed = values.get("lang_to_id")
        if listed is not None:
            if not isinstance(listed, dict):
                raise InvalidTypeError("generation_config.json: lang_to_id is no object")
            for name, token in listed.items():
                if not _is_int(token) or not 0 <= token < vocab_size:
                    raise InvalidValueError(
                        f"generation_config.json: lang_to_id has {safe_repr(token)} for "
                        f"{safe_repr(name)}, expected a token id below {vocab_size}"
                    )
            return {name.strip("<|>"): token for name, token in listed.items()}
        end = self.tasks["translate"] or self.tasks["transcribe"] or self.start + 1
        names = ((i, self.tokenizer.id_to_token(i)) for i in range(self.start + 1, end))
        return {name.strip("<|>"): i for i, name in names if name is not None}

    # --- prompts ---------------------------------------------------------------------------------

    def language_code(self, language: str) -> str:
        """ "en" for "en", "English" and "<|en|>"."""
        if not isinstance(language, str):
            raise InvalidTypeError(
                f"transcribe: language is of type {type(language).__name__}, expected str"
            )
        code = language.strip("<|>").lower()
        code = _NAMES.get(code, code)
        if code not in self.languages:
            known = ", ".join(sorted(self.languages)) or "none"
            raise InvalidValueError(
                f"transcribe: language is {safe_repr(language)}, the model knows {known}"
            )
        return code

    def prompt(self, language: str | None, task: str, *, timestamps: bool) -> list[int]:
        """What a transcript begins with."""
        if task not in TASKS:
            raise InvalidValueError(
                f"transcribe: task is {safe_repr(task)}, expected 'transcribe' or 'translate'"
            )
        ids = [self.start]
        if self.is_multilingual:
            token = self.tasks[task]
            if token is None:
                raise InvalidValueError(f"transcribe: the model has no token <|{task}|>")
            if language is not None:
                ids.append(self.languages[self.language_code(language)])
            ids.append(token)
        elif task == "translate":
            raise InvalidValueError("transcribe: task is 'translate', the model knows one language")
        return ids if timestamps else [*ids, self.no_timestamps]

    def context(self, ids: Sequence[int], most: int) -> list[int]:
        """Tokens ahead of a prompt: the last ones of what was said before."""
        if not ids or self.previous is None or most < 2:
            return []
        return [self.previous, *ids[-(most - 1) :]]

    # --- text ------------------------------------------------------------------------------------

    def is_text(self, token: int) -> bool:
        """Whether it is no special token and no timestamp."""
        return token < self.eos

    def text(self, ids: Iterable[int]) -> str:
        """What the tokens say, without special tokens and timestamps."""
        return self.tokenizer.decode([i for i in ids if self.is_text(i)])

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, none of them special."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def seconds(self, timestamp: int) -> float:
        """The time of a timestamp token."""
        return (timestamp - self.first_timestamp) * SECONDS_PER_TIMESTAMP


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _vocab_size(model: dict[str, Any]) -> int:
    """That of config.json, or all that ids may be."""
    size = model.get("vocab_size")
    return size if _is_int(size) else _MOST_IDS


def _ids(name: str, *sources: dict[str, Any]) -> list[int]:
    """The first list of that name that is given."""
    for values in sources:
        found = values.get(name)
        if found is None:
            continue
        if not isinstance(found, list) or not all(_is_int(i) for i in found):
            raise InvalidTypeError(f"generation_config.json: {name} is no list of token ids")
        return [i for i in found if i >= 0]
    return []


def _index(name: str, values: dict[str, Any]) -> int:
    found = values.get(name)
    if found is None:
        return -1
    if not _is_int(found) or found < 0:
        raise InvalidValueError(
            f"generation_config.json: {name} is {safe_repr(found)}, expected 0 or more"
        )
    return found


def _heads(values: dict[str, Any]) -> list[tuple[int, int]]:
    found = values.get("alignment_heads") or []
    try:
        return [(int(layer), int(head)) for layer, head in found]
    except (TypeError, ValueError):
        raise InvalidTypeError(
            "generation_config.json: alignment_heads is no list of (layer, head)"
        ) from None


__all__ = ["SECONDS_PER_TIMESTAMP", "TASKS", "WhisperTokens"]
