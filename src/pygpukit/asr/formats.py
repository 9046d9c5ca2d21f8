"""Transcripts as text files: plain text, SubRip, WebVTT, JSON."""

from __future__ import annotations

import dataclasses
import json

from pygpukit._native import safe_repr
from pygpukit.asr.result import TranscriptionResult
from pygpukit.core.errors import InvalidValueError

FORMATS = ("txt", "srt", "vtt", "json")


def format_transcript(result: TranscriptionResult, kind: str) -> str:
    """The content of a file of that kind: txt, srt, vtt or json."""
    if kind not in FORMATS:
        raise InvalidValueError(
            f"format_transcript: kind is {safe_repr(kind)}, expected one of {', '.join(FORMATS)}"
        )
    if kind == "json":
        return json.dumps(dataclasses.asdict(result), ensure_ascii=False, indent=2) + "\n"
    if kind == "txt":
        return "".join(f"{segment.text.strip()}\n" for segment in result.segments)
    mark = "," if kind == "srt" else "."
    texts = (_cue(segment.text, escaped=kind == "vtt") for segment in result.segments)
    cues = [
        f"{_time(segment.start, mark)} --> {_time(segment.end, mark)}\n{text}\n"
        for segment, text in zip(result.segments, texts, strict=True)
    ]
    if kind == "vtt":
        return "\n".join(["WEBVTT\n", *cues])
    return "\n".join(f"{number}\n{cue}" for number, cue in enumerate(cues, 1))


def _cue(text: str, *, escaped: bool) -> str:
    """An arrow would begin another cue, an empty line end this one; WebVTT has tags."""
    if escaped:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    lines = (line.strip() for line in text.replace("-->", "->").splitlines())
    return "\n".join(line for line in lines if line)


def _time(seconds: float, mark: str) -> str:
    """00:01:02.345"""
    whole, part = divmod(round(max(seconds, 0.0) * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{part:03}"


__all__ = ["FORMATS", "format_transcript"]
