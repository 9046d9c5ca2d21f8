"""Text to phonemes: by the package misaki, or by the program espeak-ng."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidValueError, MissingPackageError, OperationError

# Language codes of Kokoro, and espeak-ng's names of them.
LANGUAGES = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "cmn",
}
# What espeak-ng writes, and how Kokoro writes it; in this order.
_TIE = "\u0361"
_ESPEAK = (
    (_TIE, ""),
    ("t\u0283", "\u02a7"),
    ("d\u0292", "\u02a4"),
    ("e\u026a", "A"),
    ("a\u026a", "I"),
    ("a\u028a", "W"),
    ("\u0254\u026a", "Y"),
    ("\u025a", "\u0259\u0279"),
    ("\u0329", ""),
    ("r", "\u0279"),
    ("x", "k"),
    ("g", "\u0261"),
)
_ESPEAK_AMERICAN = (
    ("o\u028a", "O"),
    ("\u025c\u02d0\u0279", "\u025c\u0279"),
    ("\u025c\u02d0", "\u025c\u0279"),
    ("\u02d0", ""),
)
_ESPEAK_BRITISH = (("\u0259\u028a", "Q"), ("e\u0259", "\u025b\u02d0"))
_TIMEOUT_S = 60


def check_language(lang: str) -> str:
    """The code of a language, given by its code or by espeak-ng's name."""
    names = {name: code for code, name in LANGUAGES.items()}
    code = names.get(lang, lang)
    if code not in LANGUAGES:
        known = ", ".join(f"'{code}' ({name})" for code, name in LANGUAGES.items())
        raise InvalidValueError(f"kokoro: lang is {safe_repr(lang)}, expected one of {known}")
    return code


def phonemizer(lang: str) -> Callable[[str], str]:
    """A function from text to phonemes. MissingPackageError where nothing is installed."""
    lang = check_language(lang)
    try:
        return _misaki(lang)
    except ImportError:
        program = shutil.which("espeak-ng")
        if program is None:
            raise MissingPackageError(
                "kokoro: text needs the package misaki: pip install 'pygpukit[tts]', or the "
                "program espeak-ng; phonemes need neither"
            ) from None
        return _Espeak(program, lang)


def _misaki(lang: str) -> Callable[[str], str]:
    if lang in "ab":
        from misaki import en

        g2p = en.G2P(trf=False, british=lang == "b", fallback=_misaki_fallback(lang), unk="")
    elif lang == "j":
        from misaki import ja

        g2p = ja.JAG2P()
    elif lang == "z":
        from misaki import zh

        g2p = zh.ZHG2P()
    else:
        from misaki import espeak

        g2p = espeak.EspeakG2P(language=LANGUAGES[lang])
    return lambda text: str(g2p(text)[0])


def _misaki_fallback(lang: str) -> Any:
    """For words that misaki's dictionary does not have; None without espeak."""
    try:
        from misaki import espeak

        return espeak.EspeakFallback(british=lang == "b")
    except (ImportError, RuntimeError, OSError):
        return None


class _Espeak:
    """The program espeak-ng."""

    def __init__(self, program: str, lang: str) -> None:
        self.program = program
        self.lang = lang

    def __call__(self, text: str) -> str:
        command = [self.program, "-q", "--ipa=3", "-v", LANGUAGES[self.lang], "--stdin"]
        try:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OperationError(f"kokoro: espeak-ng failed: {error}") from error
        if done.returncode != 0:
            raise OperationError(f"kokoro: espeak-ng failed: {done.stderr.strip()[:200]}")
        phonemes = " ".join(done.stdout.split()).replace("_", "")
        return self._as_kokoro(phonemes) + _last_mark(text)

    def _as_kokoro(self, phonemes: str) -> str:
        english = {"a": _ESPEAK_AMERICAN, "b": _ESPEAK_BRITISH}.get(self.lang, ())
        for theirs, ours in (*_ESPEAK, *english):
            phonemes = phonemes.replace(theirs, ours)
        return phonemes


def _last_mark(text: str) -> str:
    """espeak-ng drops punctuation; the end of a sentence is heard."""
    last = text.rstrip()[-1:]
    return last if last in tuple(".!?\u2026") else ""
