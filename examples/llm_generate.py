"""Texts from a language model: one as it comes, and several at once.

usage: llm_generate.py [FOLDER [PROMPT...]]    a Hugging Face folder; default: a small model
"""

import sys
import time
from pathlib import Path

import pygpukit as gp

TINY = Path(__file__).resolve().parents[1] / "tests" / "data" / "tiny-qwen3-1m"

folder, *prompts = sys.argv[1:] or [TINY]
prompts = prompts or ["In the beginning", "My fellow Americans,", "And it came to pass"]

start = time.perf_counter()
model = gp.llm.load(folder, max_length=512, progress=sys.stderr.isatty())
seconds = time.perf_counter() - start
print(f"{model.family}, {model.num_parameters / 1e6:.1f} million parameters, {seconds:.2f} s")

# One text, piece by piece.
print(prompts[0], end="")
for piece in model.generate_stream(prompts[0], max_new_tokens=40):
    print(piece, end="", flush=True)
print()

# All of them in one batch; each gets the text that it gets alone.
start = time.perf_counter()
texts = model.generate_batch(prompts, max_new_tokens=40, stop_tokens=[])
seconds = time.perf_counter() - start
for prompt, text in zip(prompts, texts, strict=True):
    print(f"\n[{prompt}]{text}")
print(f"\n{40 * len(prompts) / seconds:.0f} tokens per second")

if texts[0] != model.generate(prompts[0], max_new_tokens=40, stop_tokens=[]):
    raise SystemExit("llm_generate: a text of a batch differs from the same text alone")
