"""Other implementations of language models, with random weights of the same shapes.

Transformers: eager prefill, and decode by torch.compile with a static cache.
"""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.peers import MODEL_PEERS


class PeerModel(Protocol):
    """A model on the GPU."""

    def prefill(self, tokens: Sequence[int]) -> Step:
        """A pass over a new text, with the logits of its last token."""

    def decode(self, token: int, context: int, steps: int) -> Step:
        """So many greedy steps after `context` tokens; each call starts there."""


class ModelPeer(Protocol):
    """An implementation of models."""

    name: str
    version: str

    def model(self, config: dict[str, Any]) -> PeerModel:
        """A model by its config.json, in bfloat16."""

    def release(self) -> None:
        """Releases cached memory and compiled code."""


class Transformers:
    """Hugging Face Transformers over PyTorch."""

    name = "transformers"

    def __init__(self, device: str = "cuda") -> None:
        self._torch: Any = importlib.import_module("torch")
        self._module: Any = importlib.import_module("transformers")
        self.version = f"{self._module.__version__} (torch {self._torch.__version__})"
        self._device = device
        self._torch.zeros(1, device=device)  # fails here without a GPU

    def model(self, config: dict[str, Any]) -> TransformersModel:
        """Made on the device by its own initialisation."""
        torch, module = self._torch, self._module
        numbers = dict(config)
        settings = module.AutoConfig.for_model(numbers.pop("model_type"), **numbers)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(self._device):
                model = module.AutoModelForCausalLM.from_config(settings)
        finally:
            torch.set_default_dtype(before)
        return TransformersModel(torch, module, model.eval(), self._device)

    def release(self) -> None:
        gc.collect()
        self._torch._dynamo.reset()
        self._torch.cuda.empty_cache()


class TransformersModel:
    """A model of Transformers."""

    def __init__(self, torch: Any, module: Any, model: Any, device: str) -> None:
        self._torch = torch
        self._module = module
        self._model = model
        self._device = device
        # Version 4 is told where in the cache a pass writes, version 5 counts.
        self._takes_positions = "cache_position" in inspect.signature(model.forward).parameters

    def prefill(self, tokens: Sequence[int]) -> Step:
        ids = self._torch.tensor([list(tokens)], device=self._device)

        def step() -> object:
            with self._torch.inference_mode():
                return self._model(input_ids=ids, use_cache=True, logits_to_keep=1).logits

        return step

    def decode(self, token: int, context: int, steps: int) -> Step:
        torch, device = self._torch, self._device
        room = -(-(context + steps) // 64) * 64
        cache = self._module.StaticCache(
            config=self._model.config,
            max_cache_len=room,
            max_batch_size=1,
            device=device,
            dtype=torch.bfloat16,
        )
        prompt = torch.full((1, context), token, device=device)
        with torch.no_grad():  # allocates the cache outside of the compiled code
            self._model(
                input_ids=prompt,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                **self._positions(torch.arange(context, device=device)),
            )
        forward = torch.compile(
            self._model.forward, mode="reduce-overhead", fullgraph=True, dynamic=False
        )
        ids = torch.full((1, 1), token, device=device)
        position = torch.full((1,), context, device=device)
        given = self._positions(position)

        def run() -> object:
            ids.fill_(token)
            position.fill_(context)
            self._rewind(cache, context)
            with torch.no_grad():
                for _ in range(steps):
                    torch.compiler.cudagraph_mark_step_begin()
                    logits = forward(
                        input_ids=ids,
                        position_ids=position[None],
                        past_key_values=cache,
                        use_cache=True,
                        **given,
                    ).logits
                    ids.copy_(logits[:, -1].argmax(-1, keepdim=True))
                    position.add_(1)
            return ids

        return run

    def _positions(self, positions: Any) -> dict[str, Any]:
        return {"cache_position": positions} if self._takes_positions else {}

    def _rewind(self, cache: Any, context: int) -> None:
        for layer in getattr(cache, "layers", ()):
            length: Any = getattr(layer, "cumulative_length", None)
            if self._torch.is_tensor(length):
                length.fill_(context)


_CLASSES = {"transformers": Transformers}


def load_model_peers(names: Iterable[str], *, on_gpu: bool) -> tuple[list[ModelPeer], list[str]]:
    """The installed ones, and a note for each one skipped."""
    peers: list[ModelPeer] = []
    notes = []
    for name in names:
        if name not in MODEL_PEERS:
            continue
        if not on_gpu:
            notes.append(f"peer {name} skipped: there is no GPU to compare on")
            continue
        try:
            peers.append(_CLASSES[name]())
        except ImportError:
            notes.append(f"peer {name} skipped: it is not installed")
        except Exception as error:  # third-party code may raise anything
            notes.append(f"peer {name} skipped: {type(error).__name__}: {error}")
    return peers, notes
