"""Text to token ids and back, by the tokenizer files of a Hugging Face model folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pygpukit.core.arguments import file_path, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.extras import import_extra
from pygpukit.llm.chat_template import ChatTemplate, ChatTemplateError, Message
from pygpukit.llm.generation_config import GenerationConfig
from pygpukit.llm.json_file import read_object_if_there

# Where no tokenizer_config.json says: the names that model families use.
_USUAL_TOKENS = {
    "bos_token": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "[CLS]"),
    "eos_token": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "[SEP]"),
    "pad_token": ("<pad>", "<|pad|>", "[PAD]"),
}


class Tokenizer:
    """A tokenizer with its special tokens and chat templates.

    ``path`` is a model folder, or a tokenizer.json alone, which has no chat template.

    >>> tokenizer = Tokenizer("models/qwen3-0.6b")
    >>> tokenizer.decode(tokenizer.encode("Hello"))
    'Hello'
    """

    special_tokens: dict[str, str]  # "eos_token" and its like, which templates see
    special_ids: frozenset[int]
    byte_ids: frozenset[int]  # tokens that are single bytes; decoding joins a run of them
    generation_config: GenerationConfig
    _templates: dict[str, ChatTemplate]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = Path(file_path("Tokenizer", path))
        if not path.is_dir():
            self._open(path.read_bytes(), path.name)
            return
        config = read_object_if_there(path / "tokenizer_config.json")
        special = read_object_if_there(path / "special_tokens_map.json")
        self._open((path / "tokenizer.json").read_bytes(), "tokenizer.json")
        if config or special:
            self.special_tokens = _special_tokens(special) | _special_tokens(config)
        self._templates = _chat_templates(path, config)
        self.generation_config = GenerationConfig.from_folder(path)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """From the content of a tokenizer.json."""
        if not isinstance(text, str):
            raise InvalidTypeError(
                f"Tokenizer.from_json: text is of type {type(text).__name__}, expected str"
            )
        made = cls.__new__(cls)
        made._open(text.encode("utf-8", "surrogatepass"), "Tokenizer.from_json: text")
        return made

    def to_json(self) -> str:
        """The content of a tokenizer.json."""
        text: str = self._tokenizer.to_str()
        return text

    def _open(self, data: bytes, name: str) -> None:
        library = import_extra("Tokenizer", "tokenizers", "llm")
        try:
            self._tokenizer = library.Tokenizer.from_buffer(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            raise InvalidValueError(f"{name}: is no tokenizer: {str(error)[:200]}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        added = self._tokenizer.get_added_tokens_decoder()
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        self.byte_ids = self._find_byte_ids()
        self.special_tokens = {
            kind: token
            for kind, usual in _USUAL_TOKENS.items()
            for token in [next(filter(self._has, usual), None)]
            if token is not None
        }
        self.generation_config = GenerationConfig()
        self._templates = {}

    def _has(self, token: str) -> bool:
        return self._tokenizer.token_to_id(token) is not None

    def _find_byte_ids(self) -> frozenset[int]:
        decoder = self._tokenizer.decoder
        if decoder is None or b'"ByteFallback"' not in decoder.__getstate__():
            return frozenset()
        ids = (self._tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return frozenset(token for token in ids if token is not None)

    # --- vocabulary ------------------------------------------------------------------------------

    @property
    def vocab_size(self) -> int:
        """Tokens, with those that were added."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def __len__(self) -> int:
        return self.vocab_size

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        if not isinstance(token, str):
            raise InvalidTypeError(
                f"Tokenizer.token_to_id: token is of type {type(token).__name__}, expected str"
            )
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def id_to_token(self, token_id: int) -> str | None:
        """The token of an id, as the vocabulary spells it, or None."""
        number = whole("Tokenizer.id_to_token", "token_id", token_id, 0, 2**32 - 1)
        token: str | None = self._tokenizer.id_to_token(number)
        return token

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text, or None."""
        return self._special_id("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text, or None. A model may have several: eos_token_ids."""
        return self._special_id("eos_token")

    @property
    def pad_token_id(self) -> int | None:
        """The token that fills a batch, or None."""
        return self._special_id("pad_token")

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The tokens that end generation: generation_config.json's, config.json's, or the eos."""
        eos = self.eos_token_id
        return self.generation_config.eos_token_ids or (() if eos is None else (eos,))

    def _special_id(self, kind: str) -> int | None:
        token = self.special_tokens.get(kind)
        return None if token is None else self.token_to_id(token)

    # --- text ------------------------------------------------------------------------------------

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text; special tokens are those that the tokenizer puts around it."""
        if not isinstance(text, str):
            raise InvalidTypeError(
                f"Tokenizer.encode: text is of type {type(text).__name__}, expected str"
            )
        try:
            encoding = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except TypeError:
            raise InvalidValueError("Tokenizer.encode: text has surrogates") from None
        except Exception as error:
            raise InvalidValueError(f"Tokenizer.encode: {str(error)[:200]}") from None
        ids: list[int] = encoding.ids
        return ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ids, with U+FFFD where bytes are no character. Unknown ids are left out."""
        try:
            text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        except (TypeError, OverflowError):
            raise InvalidTypeError(
                "Tokenizer.decode: ids has an element that is no id, expected ints from 0 to 2^32-1"
            ) from None
        return text

    # --- chat ------------------------------------------------------------------------------------

    @property
    def chat_templates(self) -> Mapping[str, ChatTemplate]:
        """By name; "default" is the one of most models, "tool_use" of some with tools."""
        return dict(self._templates)

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        **variables: Any,
    ) -> str:
        """The text of the messages by the model's template, or the one named ``chat_template``."""
        template = self.chat_template(chat_template, with_tools=tools is not None)
        return template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            **{**self.special_tokens, **variables},
        )

    def encode_chat(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """The ids of apply_chat_template, whose text has the special tokens in it."""
        return self.encode(self.apply_chat_template(messages, **options), add_special_tokens=False)

    def chat_template(self, name: str | None = None, *, with_tools: bool = False) -> ChatTemplate:
        """The template of that name, else the one that is used with or without tools."""
        wanted = name
        if wanted is None:
            wanted = "tool_use" if with_tools and "tool_use" in self._templates else "default"
        if wanted not in self._templates:
            known = ", ".join(map(repr, self._templates)) or "none"
            raise ChatTemplateError(
                f"apply_chat_template: no template {wanted!r}, the model has {known}"
            )
        return self._templates[wanted]


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """eos_token and its like: each a string, or an object with the string as its content."""
    tokens = {}
    for kind, value in config.items():
        token = value.get("content") if isinstance(value, dict) else value
        if kind.endswith("_token") and isinstance(token, str):
            tokens[kind] = token
    return tokens


def _chat_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, ChatTemplate]:
    """chat_template.jinja and additional_chat_templates/, else those of tokenizer_config.json."""
    files = {path.stem: path for path in folder.glob("additional_chat_templates/*.jinja")}
    if (folder / "chat_template.jinja").is_file():
        files["default"] = folder / "chat_template.jinja"
    if files:
        return {name: ChatTemplate(_read_text(path)) for name, path in files.items()}
    given = config.get("chat_template") or []
    named = [{"name": "default", "template": given}] if isinstance(given, str) else given
    try:
        return {str(entry["name"]): ChatTemplate(entry["template"]) for entry in named}
    except (TypeError, KeyError):
        raise InvalidValueError(
            "tokenizer_config.json: chat_template is neither a string nor a list of objects "
            "with name and template"
        ) from None


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise InvalidValueError(f"{path.name}: is not UTF-8") from None
