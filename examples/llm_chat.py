"""A conversation with a language model, by its chat template.

usage: llm_chat.py [FOLDER]    questions from standard input, one a line; an empty line ends
"""

import sys
from pathlib import Path

import pygpukit as gp

TINY = Path(__file__).resolve().parents[1] / "tests" / "data" / "tiny-qwen3-1m"


def main() -> None:
    model = gp.llm.load(sys.argv[1] if len(sys.argv) > 1 else TINY, max_batch=1)
    messages: list[dict[str, str]] = []
    for line in sys.stdin:
        question = line.strip()
        if not question:
            break
        messages.append({"role": "user", "content": question})
        reply = ""
        for piece in model.chat(messages, max_new_tokens=60):
            print(piece, end="", flush=True)
            reply += piece
        print()
        messages.append({"role": "assistant", "content": reply})


if __name__ == "__main__":
    main()
