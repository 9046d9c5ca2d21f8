"""A language model from a Hugging Face folder, and the texts it generates."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import items, require_callable, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.loaded_model import LoadedModel
from pygpukit.core.model_lock import LockedIterator, ModelLock
from pygpukit.llm.batch_text import BatchText
from pygpukit.llm.chat_prompt import render_chat
from pygpukit.llm.detokenizer import Detokenizer
from pygpukit.llm.generation_config import GenerationConfig
from pygpukit.llm.generation_options import (
    NAMES,
    generation_options,
    refuse_unknown,
    stop_tokens,
)
from pygpukit.llm.stop_strings import StopStrings
from pygpukit.llm.strategies import Strategy
from pygpukit.llm.text_stream import TextStream

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pygpukit._native import DataType, GPUArray
    from pygpukit.llm.tokenizer import Tokenizer

    Prompt = str | Sequence[int]
    Progress = Callable[[int, int], object] | bool | None

# Names of cache dtypes.
_KV_DTYPES = {"fp8": "float8_e4m3fn", "float8_e4m3fn": "float8_e4m3fn"}
_LEAST_BLOCK, _MOST_BLOCK = 2 << 20, 64 << 20
_PAGE = 64  # tokens


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
    zero_point: bool = False,
    block: bool = False,
    kv_dtype: str | None = None,
    persistent: bool = False,
) -> LanguageModel:
    """The model in a Hugging Face folder, on a device.

    ``dtype`` "auto" is that of the files. ``max_length`` is the longest text in tokens (default:
    what the model was made for, up to 4096), ``max_batch`` the most texts of one call: both decide
    how much memory the cache takes. With ``evictable`` weights may be moved to host memory and
    back, so that a model larger than the memory limit runs. ``max_memory`` (bytes, "8GiB", "50%")
    sets that limit, which is the pool's (gp.memory.set_limit) and stays, and makes weights
    evictable. ``quantization`` ("fp8", "int8", "int4", "nvfp4", ...; gp.quantize) packs the linear
    layers on the way in, experts too, with ``group``, ``zero_point`` and ``block`` as gp.quantize
    has them; embeddings and the head stay as they are. Folders that are quantised already (AWQ,
    GPTQ, compressed-tensors, FP8, bitsandbytes nf4) are read as they are. ``kv_dtype`` "fp8" keeps
    keys and values in 8 bits (e4m3, saturated at 448): half of the cache's memory and traffic. With
    ``persistent`` a decode step of up to 8 rows runs its layers in one cooperative kernel, where
    they can be chained (SM 90 and 100, 16-bit weights; docs/llm.md): the same bits, fewer launches.
    """
    kv_cache_dtype("load", kv_dtype)  # before the files are read
    if quantization is not None and not isinstance(quantization, str):
        raise InvalidTypeError(f"load: quantization is {quantization!r}, expected a str or None")
    if group is not None:
        whole("load", "group", group)
    whole("load", "max_batch", max_batch, 1)
    if max_length is not None:
        whole("load", "max_length", max_length, 1)
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(
            f"load: path is of type {type(path).__name__}, expected str or os.PathLike"
        )
    if progress is not None and not isinstance(progress, bool):
        require_callable("load", "progress", progress)
    if max_memory is not None and not isinstance(max_memory, str):
        whole("load", "max_memory", max_memory, 1)
    if not os.path.isdir(path):
        raise FileNotFoundError(errno.ENOENT, "load: there is no such folder", os.fspath(path))
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
        bool(zero_point),
        bool(block),
    )
    return LanguageModel(
        where,
        path,
        max_length=max_length,
        max_batch=max_batch,
        kv_dtype=kv_dtype,
        persistent=persistent,
    )


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
        persistent: bool = False,
    ) -> None:
        """Of a model that has been loaded; without a folder, for token ids only.

        ``chunk`` is the number of prompt tokens of one pass, ``kv_dtype`` and ``persistent`` are as
        load() has them.
        """
        self.folder = None if folder is None else os.fspath(folder)
        self.generation_config = (
            GenerationConfig() if folder is None else GenerationConfig.from_folder(folder)
        )
        if self.generation_config.unsupported:
            warnings.warn(
                "generation_config.json: not supported, so texts may differ from those of "
                "Transformers: " + ", ".join(self.generation_config.unsupported),
                UserWarning,
                stacklevel=2,
            )
        self._model = model
        self._lock = ModelLock(model.device)
        self._tokenizer: Tokenizer | None = None
        # The tokens of the newest chat whose pages are kept, and these.
        self._chat: tuple[list[int], _native.LlmSequence] | None = None
        self._runner = _native.LlmRunner(
            model,
            chunk,
            whole("LanguageModel", "max_batch", max_batch, 1),
            0 if max_length is None else whole("LanguageModel", "max_length", max_length, 1),
            0,
            _PAGE,
            kv_cache_dtype("LanguageModel", kv_dtype),
            bool(persistent),
        )
        self.kv_dtype = kv_dtype
        self.persistent = bool(persistent)

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
        """Tokens that the cache has room for, beside the newest chat."""
        return self._runner.num_free_pages * _PAGE

    def logits(self, prompt: Prompt) -> GPUArray:
        """Logits after every token: (tokens, vocabulary)."""
        return self._logits("logits", self._ids("logits", prompt))

    def _logits(self, op: str, ids: list[int]) -> GPUArray:
        if not ids:
            raise InvalidValueError(f"{op}: a prompt has no tokens, expected 1 or more")
        if len(ids) > self.max_length:
            raise InvalidValueError(
                f"{op}: the text has {len(ids)} tokens, expected at most max_length, "
                f"{self.max_length}"
            )
        chunk = self._runner.max_tokens
        with self._lock:
            self._chat = None
            sequence = self._runner.make_sequence(len(ids))
            try:
                parts = [
                    _native.positive(self._runner.forward(sequence, ids[i : i + chunk], True))
                    for i in range(0, len(ids), chunk)
                ]
            finally:  # a traceback may keep the sequence, not its pages
                sequence.truncate(0)
        return parts[0] if len(parts) == 1 else _native.concat(parts, 0)

    def perplexity(self, prompt: Prompt) -> float:
        """exp of the mean negative log-likelihood of each token after those before it."""
        import numpy as np

        ids = self._ids("perplexity", prompt)
        if len(ids) < 2:
            raise InvalidValueError(
                f"perplexity: the text has {len(ids)} tokens, expected 2 or more"
            )
        logits = self._logits("perplexity", ids[:-1])
        targets = _native.from_numpy(np.asarray(ids[1:], np.int32), device=str(logits.device))
        scores = _native.log_likelihood(_native.astype(logits, "float32"), targets)
        return float(np.exp(-scores.to_numpy().astype(np.float64).mean()))

    def generate(self, prompt: Prompt, **options: Any) -> str | list[int]:
        """The continuation: text for text, ids for ids. Options as generate_stream()."""
        with closing(self.generate_stream(prompt, **options)) as pieces:
            if isinstance(prompt, str):
                return "".join(str(piece) for piece in pieces)
            return [int(piece) for piece in pieces]

    def generate_stream(self, prompt: Prompt, **options: Any) -> TextStream | LockedIterator[int]:
        """The continuation piece by piece: whole characters of a text, or ids.

        ``max_new_tokens``, ``temperature`` (0: the likeliest token), ``top_k``, ``top_p``,
        ``min_p``, ``typical_p``, ``repetition_penalty``, ``presence_penalty``,
        ``frequency_penalty``, ``seed``, ``stop`` (strings), ``stop_tokens``, ``use_graph``. What
        is not given comes from the folder's generation_config.json. ``strategy`` may compute
        several tokens at once (NgramLookup(), DraftModel(small), ...); the text is the same.
        ``close()`` of the result, or its end, frees its part of the cache.
        """
        stop = options.pop("stop", None)
        given = self._ids("generate", prompt)
        if not isinstance(prompt, str):
            if stop:
                raise InvalidValueError("generate: stop is given for ids, expected a text prompt")
            return self._tokens("generate", given, options)
        stops = self._stops(stop)
        return TextStream(
            self._tokens("generate", given, options),
            Detokenizer(self.tokenizer, prompt=given),
            stops,
        )

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        template_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TextStream:
        """The reply to a conversation, piece by piece, by the folder's chat template.

        ``messages`` have a "role" and a "content". Options as generate_stream(), and ``tools``,
        ``documents``, ``chat_template`` and the variables that the template reads, as
        Tokenizer.apply_chat_template() has them; ``template_options`` are more of these. The pages
        of the messages stay in the cache for the next turn, until something else needs the model.
        """
        stop = options.pop("stop", None)
        known = (*NAMES, "use_graph", "strategy")
        text = render_chat(self.tokenizer, "chat", messages, template_options, options, known)
        given = self.tokenizer.encode(text, add_special_tokens=False)
        stops = self._stops(stop)
        ids = self._tokens("chat", given, options, chats=True)
        return TextStream(ids, Detokenizer(self.tokenizer, prompt=given), stops)

    def generate_batch(self, prompts: Iterable[Prompt], **options: Any) -> list[str | list[int]]:
        """A continuation of each prompt, computed together; the same tokens as one by one.

        More prompts than ``max_batch`` of load() are computed in turns. Options as
        generate_stream(), without ``strategy``.
        """
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise InvalidTypeError(
                f"generate_batch: prompts is of type {type(prompts).__name__}, expected a list of "
                "prompts"
            )
        prompts = list(prompts)
        op, stop = "generate_batch", options.pop("stop", None)
        # Every prompt and every group read them, and iterators are read once.
        if options.get("stop_tokens") is not None:
            options["stop_tokens"] = stop_tokens(op, options["stop_tokens"])
        if stop is not None and not isinstance(stop, str):
            stop = items(op, "stop", stop, "a str or several")
        if stop and not all(isinstance(prompt, str) for prompt in prompts):
            raise InvalidValueError(f"{op}: stop is given for ids, expected text prompts")
        rows = [self._ids(op, prompt) for prompt in prompts]
        # All are checked before the first is computed.
        values = [self._options(op, row, options) for row in rows or [[]]]

        def new_text(i: int) -> BatchText:
            if not isinstance(prompts[i], str):
                return BatchText()
            return BatchText(self.tokenizer, rows[i], self._stops(stop))

        texts = [new_text(i) for i in range(len(rows))]
        batch = self._runner.max_sequences
        for first in range(0, len(rows), batch):
            group = list(range(first, min(first + batch, len(rows))))
            while group:
                most = min(values[i]["max_new_tokens"] for i in group)
                self._extend(
                    [rows[i] for i in group],
                    [texts[i] for i in group],
                    {**values[group[0]], "max_new_tokens": most},
                )
                # Those with room for more begin again without the others, with the same tokens.
                group = [
                    i for i in group if values[i]["max_new_tokens"] > most and not texts[i].ended
                ]
                for i in group:
                    texts[i] = new_text(i)
        return [text.result() for text in texts]

    def _extend(
        self, rows: list[list[int]], texts: list[BatchText], options: dict[str, Any]
    ) -> None:
        start = self._start(rows, _native.LlmGenerationOptions(**options))
        with closing(LockedIterator([self._lock], start)) as steps:
            for step in steps:
                for text, token in zip(texts, step, strict=True):
                    text.push(token)
                if all(text.ended for text in texts):
                    break

    def _ids(self, op: str, prompt: Prompt) -> list[int]:
        last = self.vocab_size - 1
        if isinstance(prompt, str):
            prompt = self.tokenizer.encode(prompt)  # which may have more tokens than the model
        if not isinstance(prompt, Iterable):
            raise InvalidTypeError(
                f"{op}: prompt is of type {type(prompt).__name__}, expected str or token ids"
            )
        return [whole(op, "a token id", token, 0, last) for token in prompt]

    def _stops(self, given: str | Sequence[str] | None) -> StopStrings:
        return StopStrings(self.generation_config.stop_strings if given is None else given)

    def _tokens(
        self, op: str, prompt: list[int], options: dict[str, Any], chats: bool = False
    ) -> LockedIterator[int]:
        strategy = options.pop("strategy", None)
        checked = self._options(op, prompt, options)
        values = _native.LlmGenerationOptions(**checked)
        if strategy is None:
            start_steps = self._start([prompt], values, chats)
            return LockedIterator([self._lock], lambda: _first_of(start_steps()))
        if not isinstance(strategy, Strategy):
            raise InvalidTypeError(
                f"{op}: strategy is of type {type(strategy).__name__}, expected one of "
                "pygpukit.llm: NgramLookup, DraftModel, SelfSpeculation, Jacobi, Lookahead"
            )

        def start() -> Iterator[int]:
            self._chat = None
            return strategy._tokens(self._model, self._runner, prompt, values, checked["use_graph"])

        return LockedIterator(strategy._locks(self._lock), start)

    def _start(
        self,
        prompts: list[list[int]],
        options: _native.LlmGenerationOptions,
        chats: bool = False,
    ) -> Callable[[], Generator[list[int], None, None]]:
        def start() -> Generator[list[int], None, None]:
            known = self._known_beginning(prompts[0]) if chats else None
            if not chats:
                self._chat = None
            generation = (
                _native.LlmGeneration(self._runner, prompts, options)
                if known is None
                else _native.LlmGeneration.after(known, self._runner, prompts[0], options)
            )
            if chats:
                pages = generation.prompt_pages()
                self._chat = (prompts[0][: pages.length], pages)
            return _steps([generation])

        return start

    def _known_beginning(self, prompt: list[int]) -> _native.LlmSequence | None:
        """The full pages of the newest chat that this one begins with; others are freed.

        Two tokens of the prompt are left: a pass of one would take other kernels.
        """
        if self._chat is None:
            return None
        ids, pages = self._chat
        pairs = zip(ids, prompt[:-2], strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(prompt) - 2))
        pages.truncate(max(same, 0) // _PAGE * _PAGE)
        self._chat = (ids[: pages.length], pages)
        return pages if pages.length else None

    def _options(self, op: str, prompt: list[int], options: dict[str, Any]) -> dict[str, Any]:
        """Those of LlmGenerationOptions."""
        refuse_unknown(op, options, (*NAMES, "use_graph"))
        length, use_graph = len(prompt), options.get("use_graph")
        return {
            **generation_options(op, self.generation_config, options, length, self.max_length),
            "use_graph": True if use_graph is None else bool(use_graph),
        }


def _steps(generation: list[_native.LlmGeneration]) -> Generator[list[int], None, None]:
    """Of one, which is dropped at the end: a traceback may keep the list, not its pages."""
    try:
        while step := generation[0].next():
            yield step
    finally:
        generation.clear()


def _first_of(steps: Generator[list[int], None, None]) -> Iterator[int]:
    with closing(steps):
        for step in steps:
            yield step[0]


__all__ = ["LanguageModel", "load"]
