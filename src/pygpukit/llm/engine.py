"""Continuous batching: many requests share the steps of one model."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.chat_prompt import render_chat
from pygpukit.llm.detokenizer import Detokenizer
from pygpukit.llm.generation_config import GenerationConfig
from pygpukit.llm.generation_options import NAMES, generation_options, refuse_unknown
from pygpukit.llm.grammar import Grammar, grammar_tokenizer
from pygpukit.llm.language_model import LanguageModel, kv_cache_dtype
from pygpukit.llm.request import Request
from pygpukit.llm.stop_strings import StopStrings
from pygpukit.scheduler.tasks import qos_class

if TYPE_CHECKING:
    from pygpukit.llm.language_model import Prompt
    from pygpukit.scheduler import QosClass, TaskPolicy

_SUBMIT_OPTIONS = (*NAMES, "stop", "logprobs", "grammar", "priority", "qos", "deadline")
_WAIT = 0.5  # seconds between looks whether the engine is still there


@dataclass(frozen=True)
class EngineMetrics:
    """Requests by state, pages of the cache, and counts since the engine was made."""

    waiting: int
    prefilling: int
    running: int
    swapped: int  # preempted: their keys and values are in host memory
    pages: int
    free_pages: int
    cached_pages: int  # of the prefix cache
    idle_pages: int  # of them, in use by no request
    host_pages_used: int
    submitted: int
    finished: int
    cancelled: int
    failed: int
    preemptions: int
    restores: int
    steps: int
    prefill_passes: int
    decode_steps: int
    prompt_tokens: int  # computed; not those of the prefix cache
    new_tokens: int
    prefix_hit_rate: float  # tokens of prompts that the prefix cache had
    tokens_per_second: float  # new ones, while there was work
    time_to_first_token: float  # seconds, the mean of all requests


class _Readers:
    """The requests of an engine by id, and what the engine reports about them."""

    def __init__(self, native: _native.LlmEngine) -> None:
        self.native = native
        self.lock = threading.Lock()
        self.requests: dict[int, Request] = {}

    def pump(self, timeout: float = 0.0) -> bool:
        """Passes on what has happened; False when nothing will any more."""
        closed = self.native.closed
        events = self.native.wait_events(timeout)
        for number, tokens, scores, reason, error, submitted, first, _ in events:
            with self.lock:
                request = self.requests.get(number)
                if reason is not None:
                    self.requests.pop(number, None)
            if request is None:  # Ctrl-C came while submit() was at it: nobody has this one
                self.native.cancel(number)
                continue
            if first >= 0:
                request.time_to_first_token = (first - submitted) * 1e-9
            try:
                request._deliver(tokens, scores)
            except Exception as broken:  # of the tokenizer; others go on
                request._finish("failed", f"{type(broken).__name__}: {broken}")
                request.cancel()
            if reason is not None:
                request._finish(reason, error)
        return bool(events) or not closed

    def pump_until_closed(self) -> None:
        while self.pump(_WAIT):
            pass


def _close(readers: _Readers, thread: threading.Thread | None) -> None:
    readers.native.close()
    if thread is None or thread.ident is None:  # none, or one that did not start
        readers.pump_until_closed()
    elif thread is not threading.current_thread():
        thread.join()


class Engine:
    """Serves requests with one model: their tokens are those that each would get alone.

    >>> with gp.llm.Engine(gp.llm.load("models/qwen3-0.6b")) as engine:
    ...     for piece in engine.submit("The capital of France is"):
    ...         print(piece, end="")

    ``max_batch`` requests hold pages at a time, ``kv_memory`` (bytes, "8GiB", "50%" of the device's
    memory) is for their keys and values
    (default: enough for ``max_batch`` texts of ``max_length``, in up to half of the free memory),
    ``host_memory`` for those of preempted requests (default: room for ``max_batch`` texts of
    ``max_length``; allocated when needed).
    ``chunk`` is how many tokens of prompts one step takes, ``page`` the tokens of a page,
    ``aging`` the seconds of waiting that count as one step of priority. With ``start=False`` no
    thread is started, and ``step()`` does the work. ``kv_dtype`` "fp8" keeps keys and values in 8
    bits, ``persistent`` runs the layers of small decode steps in one kernel, as load() has them
    (default: what the LanguageModel has).
    """

    def __init__(
        self,
        model: LanguageModel | _native.LlmModel,
        *,
        max_batch: int = 64,
        max_length: int | None = None,
        kv_memory: int | str | None = None,
        host_memory: int | str | None = None,
        chunk: int = 512,
        page: int = 64,
        prefix_cache: bool = True,
        max_waiting: int = 65536,
        aging: float = 1.0,
        use_graph: bool = True,
        start: bool = True,
        kv_dtype: str | None = None,
        persistent: bool | None = None,
    ) -> None:
        if not isinstance(model, LanguageModel | _native.LlmModel):
            raise InvalidTypeError(
                f"Engine: model is of type {type(model).__name__}, expected a LanguageModel"
            )
        self._text = model if isinstance(model, LanguageModel) else None
        self._model = model._model if isinstance(model, LanguageModel) else model
        self._config = GenerationConfig() if self._text is None else self._text.generation_config
        self._grammar_tokenizer: Any = None
        if max_length is None:
            max_length = 0 if self._text is None else self._text.max_length
        if kv_dtype is None and self._text is not None:
            kv_dtype = self._text.kv_dtype
        if persistent is None:
            persistent = self._text is not None and self._text.persistent
        self._native = _native.LlmEngine(
            self._model,
            whole("Engine", "max_batch", max_batch, 1),
            whole("Engine", "chunk", chunk, 2),
            whole("Engine", "max_length", max_length),
            0 if kv_memory is None else self._bytes("kv_memory", kv_memory, 1),
            -1 if host_memory is None else self._bytes("host_memory", host_memory, 0),
            whole("Engine", "page", page),
            bool(prefix_cache),
            whole("Engine", "max_waiting", max_waiting, 1),
            amount("Engine", "aging", aging, 0.0, 1000.0),
            bool(use_graph),
            kv_cache_dtype("Engine", kv_dtype),
            bool(persistent),
        )
        self._readers = _Readers(self._native)
        self._thread = None
        if start:
            self._thread = threading.Thread(
                target=self._readers.pump_until_closed, name="pygpukit-engine", daemon=True
            )
        # Before anything runs: Ctrl-C may come at any time.
        self._closing = weakref.finalize(self, _close, self._readers, self._thread)
        if self._thread is not None:
            self._native.start()
            self._thread.start()

    def _bytes(self, name: str, given: int | str, least: int) -> int:
        if isinstance(given, str):
            return _native.llm_kv_bytes(given, self._model, name)
        return whole("Engine", name, given, least)

    def submit(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical_p: float | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        seed: int = 0,
        stop: str | Sequence[str] | None = None,
        stop_tokens: Iterable[int] | None = None,
        logprobs: int = 0,
        grammar: Grammar | Mapping[str, Any] | None = None,
        priority: int = 0,
        qos: QosClass | TaskPolicy | str = "best_effort",
        deadline: float | None = None,
    ) -> Request:
        """Queues a prompt, text or token ids, and returns its request.

        A higher ``priority`` goes first, added to that of ``qos``: "guaranteed" 100, "burstable"
        50, "best_effort" 0. ``deadline`` is in seconds from now. ``logprobs`` is how many of the
        likeliest tokens are reported with each one. A ``grammar`` may be given as a JSON schema.
        What is not given comes from the folder's generation_config.json.
        """
        ids, text = self._prompt(prompt)
        given = self._config
        if stop and text is None:
            raise InvalidValueError("submit: stop is given for ids, expected a text prompt")
        stops = StopStrings((() if text is None else given.stop_strings) if stop is None else stop)
        values = {
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "typical_p": typical_p,
            "repetition_penalty": repetition_penalty,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
            "seed": seed,
            "stop_tokens": stop_tokens,
        }
        options = {
            **generation_options("submit", given, values, len(ids), self._native.max_length),
            "logprobs": whole("submit", "logprobs", logprobs, 0, 64),
            "qos": int(qos_class(qos)),
            "priority": whole("submit", "priority", priority, -(2**31), 2**31 - 1),
            "deadline": 0.0 if deadline is None else amount("submit", "deadline", deadline, 1e-9),
            "mask": self._mask(grammar),
        }
        readers = self._readers
        with readers.lock:  # its events may come before submit() has returned
            request = Request(ids, text, stops)
            request._engine, request._id = self, self._native.submit(ids, **options)
            readers.requests[request._id] = request
        return request

    def submit_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        template_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Request:
        """The reply to a conversation, by the folder's chat template.

        Options as submit(), and those of the template as LanguageModel.chat() has them.
        """
        if self._text is None:
            raise InvalidValueError("submit_chat: the engine has a model without a tokenizer")
        tokenizer = self._text.tokenizer
        text = render_chat(
            tokenizer, "submit_chat", messages, template_options, options, _SUBMIT_OPTIONS
        )
        refuse_unknown("submit_chat", options, _SUBMIT_OPTIONS)
        return self.submit(_Chat(text), **options)

    def _prompt(self, prompt: Prompt) -> tuple[list[int], Detokenizer | None]:
        if not isinstance(prompt, str):
            if not isinstance(prompt, Iterable):
                raise InvalidTypeError(
                    f"submit: prompt is of type {type(prompt).__name__}, expected str or token ids"
                )
            return [whole("submit", "a token id", x, 0, 2**31 - 1) for x in prompt], None
        if self._text is None:
            raise InvalidValueError("submit: prompt is text, but the model has no tokenizer")
        tokenizer = self._text.tokenizer
        ids = tokenizer.encode(str(prompt), add_special_tokens=not isinstance(prompt, _Chat))
        return ids, Detokenizer(tokenizer, prompt=ids)

    def _mask(self, grammar: Grammar | Mapping[str, Any] | None) -> Any:
        if grammar is None:
            return None
        if isinstance(grammar, Mapping):
            grammar = Grammar.json_schema(grammar)
        if not isinstance(grammar, Grammar):
            raise InvalidTypeError(
                f"submit: grammar is of type {type(grammar).__name__}, expected a Grammar or a "
                "JSON schema"
            )
        if self._text is None:
            raise InvalidValueError("submit: grammar is given, but the model has no tokenizer")
        size = self._model.vocab_size
        if self._grammar_tokenizer is None:
            tokenizer = self._text.tokenizer
            self._grammar_tokenizer = grammar_tokenizer(tokenizer, size, tokenizer.eos_token_ids)
        return grammar._masks(self._grammar_tokenizer, size)

    def _cancel(self, request: int) -> None:
        self._native.cancel(request)

    def step(self) -> bool:
        """One iteration, of an engine made with start=False; False when there is nothing to do."""
        busy = self._native.step()
        self._readers.pump()
        return busy

    def metrics(self) -> EngineMetrics:
        """What it does now and did so far, as of the last step."""
        values = self._native.metrics()
        asked, hit = values.pop("prefix_asked_tokens"), values.pop("prefix_hit_tokens")
        busy, first = values.pop("busy_ns"), values.pop("first_token_ns")
        firsts = values.pop("first_tokens")
        return EngineMetrics(
            **values,
            prefix_hit_rate=hit / asked if asked else 0.0,
            tokens_per_second=values["new_tokens"] / busy * 1e9 if busy else 0.0,
            time_to_first_token=first / firsts * 1e-9 if firsts else 0.0,
        )

    def close(self) -> None:
        """Cancels what is left and ends the threads. Idempotent."""
        if self._closing.alive:
            _close(self._readers, self._thread)
            self._closing.detach()  # at the end, so that what Ctrl-C leaves can be closed again

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Chat(str):
    """A prompt that has its special tokens already."""


__all__ = ["Engine", "EngineMetrics"]
