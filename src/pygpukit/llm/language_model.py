"""A language model from a Hugging Face folder, and the texts it generates."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.loaded_model import LoadedModel
from pygpukit.llm.detokenizer import Detokenizer
from pygpukit.llm.generation_config import GenerationConfig
from pygpukit.llm.stop_strings import StopStrings
from pygpukit.llm.strategies import Strategy

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pygpukit._native import DataType, GPUArray
    from pygpukit.llm.tokenizer import Tokenizer

    Prompt = str | Sequence[int]
    Progress = Callable[[int, int], object] | bool | None

# Names of cache dtypes.
_KV_DTYPES = {"fp8": "float8_e4m3fn", "float8_e4m3fn": "float8_e4m3fn"}
_LEAST_BLOCK, _MOST_BLOCK = 2 << 20, 64 << 20


def load(
    path: str | os.PathLike[str],
    dtype: DTypeLike | DataType | None = "auto",
    *,
    device: str | None = None,
    max_length: int | None = None,
    max_batch: int = 8,
    max_memory: int | str | None = None,
    evictable: bool = False,
    progress: Progress = None,
    quantization: str | None = None,
    group: int | None = None,
    kv_dtype: str | None = None,
) -> LanguageModel:
    """The model in a Hugging Face folder, on a device.

    ``dtype`` "auto" is that of the files. ``max_length`` is the longest text in tokens (default:
    what the model was made for, up to 4096), ``max_batch`` the most texts of one call: both decide
    how much memory the cache takes. With ``evictable`` weights may be moved to host memory and
    back, so that a model larger than the memory limit runs. ``max_memory`` (bytes, "8GiB", "50%")
    sets that limit, which is the pool's (gp.memory.set_limit) and stays, and makes weights
    evictable. ``quantization`` ("fp8", "int8", "int4", "nvfp4", ...; gp.quantize) packs the linear
    layers on the way in, experts too, with ``group`` as gp.quantize has it; embeddings and the head
    stay as they are. Folders that are quantised already (AWQ, GPTQ, compressed-tensors, FP8,
    bitsandbytes nf4) are read as they are. ``kv_dtype`` "fp8" keeps keys and values in 8 bits
    (e4m3, saturated at 448): half of the cache's memory and traffic.
    """
    kv_cache_dtype("load", kv_dtype)  # before the files are read
    block_bytes = 0
    if max_memory is not None:
        _native.set_memory_limit(max_memory, device)
        evictable = True
        # Some layers must fit beside the one that runs.
        block_bytes = min(
            max(_native.memory_stats(device)["limit"] // 16, _LEAST_BLOCK), _MOST_BLOCK
        )
    where = _native.LlmModel.load_folder(
        os.fspath(path),
        None if isinstance(dtype, str) and dtype == "auto" else dtype,
        device,
        evictable,
        block_bytes,
        _bar if progress is True else (progress or None),
        quantization,
        group,
    )
    return LanguageModel(where, path, max_length=max_length, max_batch=max_batch, kv_dtype=kv_dtype)


def kv_cache_dtype(op: str, given: str | None) -> str | None:
    """The dtype of a cache: None for the model's."""
    if given is not None and given not in _KV_DTYPES:
        raise InvalidValueError(
            f"{op}: kv_dtype is {given!r}, expected None (the model's dtype) or one of "
            + ", ".join(map(repr, _KV_DTYPES))
        )
    return None if given is None else _KV_DTYPES[given]


def _bar(done: int, total: int) -> None:
    share = done / total if total else 1.0
    end = "\n" if done == total else ""
    print(f"\rloading {share:4.0%} of {total / 1e9:.2f} GB", end=end, file=sys.stderr, flush=True)


class LanguageModel(LoadedModel):
    """Weights, a cache, and the folder's tokenizer.

    >>> model = gp.llm.load("models/qwen3-0.6b")
    >>> model.generate("The capital of France is", max_new_tokens=20)
    """

    _model: _native.LlmModel

    def __init__(
        self,
        model: _native.LlmModel,
        folder: str | os.PathLike[str] | None = None,
        *,
        max_length: int | None = None,
        max_batch: int = 8,
        chunk: int = 512,
        kv_dtype: str | None = None,
    ) -> None:
        """Of a model that has been loaded; without a folder, for token ids only.

        ``chunk`` is the number of prompt tokens of one pass, ``kv_dtype`` as load() has it.
        """
        self.folder = None if folder is None else os.fspath(folder)
        self.generation_config = (
            GenerationConfig() if folder is None else GenerationConfig.from_folder(folder)
        )
        self._model = model
        self._tokenizer: Tokenizer | None = None
        self._runner = _native.LlmRunner(
            model,
            chunk,
            whole("LanguageModel", "max_batch", max_batch),
            0 if max_length is None else whole("LanguageModel", "max_length", max_length),
            0,
            64,
            kv_cache_dtype("LanguageModel", kv_dtype),
        )
        self.kv_dtype = kv_dtype

    @property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer, read on first use."""
        if self._tokenizer is None:
            if self.folder is None:
                raise InvalidValueError("LanguageModel: made without a folder, so it has no text")
            from pygpukit.llm.tokenizer import Tokenizer

            self._tokenizer = Tokenizer(self.folder)
        return self._tokenizer

    @property
    def family(self) -> str:
        """The kind of model: "qwen3"."""
        return self._model.family

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self._model.vocab_size

    @property
    def max_length(self) -> int:
        """The longest text, in tokens."""
        return self._runner.max_length

    @property
    def free_tokens(self) -> int:
        """Tokens that the cache has room for."""
        return self._runner.num_free_pages * 64

    def logits(self, prompt: Prompt) -> GPUArray:
        """Logits after every token: (tokens, vocabulary)."""
        ids = self._ids("logits", prompt)
        sequence = self._runner.make_sequence()
        chunk = self._runner.max_tokens
        parts = [
            _native.positive(self._runner.forward(sequence, ids[i : i + chunk], True))
            for i in range(0, len(ids), chunk)
        ]
        return parts[0] if len(parts) == 1 else _native.concat(parts, 0)

    def perplexity(self, prompt: Prompt) -> float:
        """exp of the mean negative log-likelihood of each token after those before it."""
        import numpy as np

        ids = self._ids("perplexity", prompt)
        if len(ids) < 2:
            raise InvalidValueError(
                f"perplexity: the text has {len(ids)} tokens, expected 2 or more"
            )
        logits = self.logits(ids[:-1])
        targets = _native.from_numpy(np.asarray(ids[1:], np.int32), device=str(logits.device))
        scores = _native.log_likelihood(_native.astype(logits, "float32"), targets)
        return float(np.exp(-scores.to_numpy().astype(np.float64).mean()))

    def generate(self, prompt: Prompt, **options: Any) -> str | list[int]:
        """The continuation: text for text, ids for ids. Options as generate_stream()."""
        pieces = self.generate_stream(prompt, **options)
        if isinstance(prompt, str):
            return "".join(str(piece) for piece in pieces)
        return [int(piece) for piece in pieces]

    def generate_stream(self, prompt: Prompt, **options: Any) -> Iterator[str | int]:
        """The continuation piece by piece: whole characters of a text, or ids.

        ``max_new_tokens``, ``temperature`` (0: the likeliest token), ``top_k``, ``top_p``,
        ``min_p``, ``typical_p``, ``repetition_penalty``, ``presence_penalty``,
        ``frequency_penalty``, ``seed``, ``stop`` (strings), ``stop_tokens``, ``use_graph``. What
        is not given comes from the folder's generation_config.json. ``strategy`` may compute
        several tokens at once (NgramLookup(), DraftModel(small), ...); the text is the same.
        """
        stop = options.pop("stop", ())
        given = self._ids("generate", prompt)
        ids = self._tokens("generate", given, options)
        if isinstance(prompt, str):
            return _pieces(ids, Detokenizer(self.tokenizer, prompt=given), StopStrings(stop))
        if stop:
            raise InvalidValueError("generate: stop is given for ids, expected a text prompt")
        return ids

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Iterator[str]:
        """The reply to a conversation, piece by piece, by the folder's chat template.

        ``messages`` have a "role" and a "content". Options as generate_stream().
        """
        stop = options.pop("stop", ())
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        given = self.tokenizer.encode(text, add_special_tokens=False)
        ids = self._tokens("chat", given, options)
        return _pieces(ids, Detokenizer(self.tokenizer, prompt=given), StopStrings(stop))

    def generate_batch(self, prompts: Iterable[Prompt], **options: Any) -> list[str | list[int]]:
        """A continuation of each prompt, computed together; the same tokens as one by one."""
        prompts = list(prompts)
        rows = [self._ids("generate_batch", prompt) for prompt in prompts]
        texts: list[list[int]] = [[] for _ in rows]
        values = self._options("generate_batch", rows, options)
        for step in _steps(_native.LlmGeneration(self._runner, rows, values)):
            for text, token in zip(texts, step, strict=True):
                if token >= 0:
                    text.append(token)
        return [
            self.tokenizer.decode(text) if isinstance(prompt, str) else text
            for prompt, text in zip(prompts, texts, strict=True)
        ]

    def _ids(self, op: str, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        if not isinstance(prompt, Iterable):
            raise InvalidTypeError(
                f"{op}: prompt is of type {type(prompt).__name__}, expected str or token ids"
            )
        return [whole(op, "a token id", token) for token in prompt]

    def _tokens(self, op: str, prompt: list[int], options: dict[str, Any]) -> Iterator[int]:
        strategy = options.pop("strategy", None)
        values = self._options(op, [prompt], options)
        if strategy is None:
            return (row[0] for row in _steps(_native.LlmGeneration(self._runner, [prompt], values)))
        if not isinstance(strategy, Strategy):
            raise InvalidTypeError(
                f"{op}: strategy is of type {type(strategy).__name__}, expected one of "
                "pygpukit.llm: NgramLookup, DraftModel, SelfSpeculation, Jacobi, Lookahead"
            )
        use_graph = bool(options.get("use_graph", True))
        return strategy._tokens(self._model, self._runner, prompt, values, use_graph)

    def _options(
        self, op: str, prompts: list[list[int]], options: dict[str, Any]
    ) -> _native.LlmGenerationOptions:
        given = self.generation_config
        room = self.max_length - max((len(prompt) for prompt in prompts), default=0)
        values: dict[str, Any] = {
            "max_new_tokens": given.max_new_tokens or max(min(room, 256), 1),
            "temperature": given.temperature if given.do_sample else 0.0,
            "top_k": given.top_k if given.do_sample else 0,
            "top_p": given.top_p,
            "min_p": given.min_p,
            "typical_p": given.typical_p,
            "repetition_penalty": given.repetition_penalty,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": 0,
            "stop_tokens": list(given.eos_token_ids),
            "use_graph": True,
        }
        unknown = sorted(set(options) - set(values))
        if unknown:
            raise InvalidTypeError(
                f"{op}: unknown option {unknown[0]!r}, expected one of {', '.join(values)}"
            )
        values.update(options)
        return _native.LlmGenerationOptions(**values)


def _pieces(ids: Iterator[int], text: Detokenizer, stop: StopStrings) -> Iterator[str]:
    """What the ids say, up to a stop string."""
    for token in ids:
        piece = stop.push(text.push(token))
        if piece:
            yield piece
        if stop.matched is not None:
            return
    rest = stop.push(text.finish()) + stop.finish()
    if rest:
        yield rest


def _steps(generation: _native.LlmGeneration) -> Iterator[list[int]]:
    while step := generation.next():
        yield step


__all__ = ["LanguageModel", "load"]
