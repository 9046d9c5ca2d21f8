"""Incremental detokenisation: the pieces are decode() of all, whole characters, and on time."""

from __future__ import annotations

import pytest
from cases import tokenizers as cases
from hypothesis import given
from hypothesis import strategies as st

from pygpukit.core.errors import InvalidTypeError, InvalidValueError, OperationError
from pygpukit.llm import Detokenizer, StopStrings, Tokenizer

TEXT = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="the tok\u4e2d\u6587\u3002 \U0001f600\U0001f3fd\u200d\ufffd\n", max_size=40),
)


def token_ids(tokenizer: Tokenizer) -> st.SearchStrategy[list[int]]:
    """Any tokens (special, broken bytes, unknown), those of texts, and both."""
    loose = st.lists(st.integers(0, len(tokenizer) + 3), max_size=60)
    return st.lists(st.one_of(loose, TEXT.map(tokenizer.encode)), max_size=3).map(
        lambda parts: [token for part in parts for token in part]
    )


def pieces(tokenizer: Tokenizer, ids: list[int], **options: object) -> list[str]:
    detokenizer = Detokenizer(tokenizer, **options)  # type: ignore[arg-type]
    return [*map(detokenizer.push, ids), detokenizer.finish()]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("kind", cases.KINDS)
@given(data=st.data())
def test_pieces_are_the_text_of_all(kind: str, skip: bool, data: st.DataObject) -> None:
    tokenizer = cases.tokenizer(kind)
    ids = data.draw(token_ids(tokenizer))
    got = pieces(tokenizer, ids, skip_special_tokens=skip)
    assert "".join(got) == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("kind", ["model", "byte_level"])
@given(data=st.data())
def test_bytes_wait_for_their_character_only(kind: str, data: st.DataObject) -> None:
    tokenizer = cases.tokenizer(kind)
    ids = data.draw(token_ids(tokenizer))
    detokenizer, text = Detokenizer(tokenizer), ""
    for count, token in enumerate(ids, 1):
        text += detokenizer.push(token)
        assert tokenizer.decode(ids[:count]) in (text, text + "\ufffd")


@pytest.mark.parametrize("kind", ["model", "byte_level", "byte_fallback"])
@given(text=TEXT.filter(lambda text: "\ufffd" not in text))
def test_whole_characters(kind: str, text: str) -> None:
    tokenizer = cases.tokenizer(kind)
    got = pieces(tokenizer, tokenizer.encode(text))
    assert not any("\ufffd" in piece for piece in got)
    assert "".join(got) == text


@pytest.mark.parametrize("kind", cases.KINDS)
@given(data=st.data())
def test_text_continues_the_prompt(kind: str, data: st.DataObject) -> None:
    tokenizer = cases.tokenizer(kind)
    prompt = tokenizer.encode(data.draw(st.sampled_from(cases.SENTENCES)))
    ids = tokenizer.encode(data.draw(st.sampled_from(cases.SENTENCES)))
    whole = tokenizer.decode([*prompt, *ids])
    start = tokenizer.decode(prompt)
    assert whole.startswith(start)
    assert start + "".join(pieces(tokenizer, ids, prompt=prompt)) == whole


def test_leading_space_of_sentencepiece() -> None:
    tokenizer = cases.tokenizer("byte_fallback")
    ids = tokenizer.encode("the tok")
    assert "".join(pieces(tokenizer, ids)) == "the tok"
    assert "".join(pieces(tokenizer, ids, prompt=tokenizer.encode("a"))) == " the tok"


def test_a_character_of_four_bytes_arrives_at_once() -> None:
    tokenizer = cases.tokenizer("byte_fallback")
    bytes_ = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in "\U0001f600".encode()]
    letter = tokenizer.token_to_id("t")
    assert pieces(tokenizer, [*bytes_, letter, *bytes_]) == [
        *("", "", "", ""),
        "\U0001f600t",
        *("", "", "", ""),
        "\U0001f600",
    ]
    assert pieces(tokenizer, [*bytes_[:2], letter]) == ["", "", "\ufffd\ufffdt", ""]


def test_the_work_of_a_token_does_not_grow() -> None:
    """Neither in good text nor in endless broken bytes or special tokens."""
    tokenizer = cases.tokenizer("byte_level")
    partial = next(i for i in range(len(tokenizer)) if tokenizer.decode([i]) == "\ufffd")
    for ids in (tokenizer.encode(cases.SENTENCES[0]) * 30, [partial] * 600, [1] * 600):
        detokenizer = Detokenizer(tokenizer)
        for token in ids:
            detokenizer.push(token)
            assert len(detokenizer._window) < 12


def test_errors() -> None:
    detokenizer = Detokenizer(cases.tokenizer("model"))
    with pytest.raises(InvalidTypeError, match=r"Detokenizer.push: token_id is str 'x'"):
        detokenizer.push("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"Detokenizer.push: token_id is -1"):
        detokenizer.push(-1)
    detokenizer.finish()
    with pytest.raises(OperationError, match=r"called after finish\(\)"):
        detokenizer.push(1)


# --- stop strings ---------------------------------------------------------------------------------


def cut_at_first_stop(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The definition, one character after the other."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    text=st.text("abc", max_size=30),
    stops=st.lists(st.text("abc", min_size=1, max_size=5), max_size=3),
    data=st.data(),
)
def test_stop_strings_in_any_pieces(text: str, stops: list[str], data: st.DataObject) -> None:
    found = StopStrings(stops)
    got, rest = "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        got += found.push(rest[:size])
        rest = rest[size:]
    held = found.finish()
    assert (got + held, found.matched) == cut_at_first_stop(text, stops)
    assert len(held) < max(map(len, stops), default=1)
    assert held == "" or any(stop.startswith(held) for stop in stops)


def test_only_what_may_match_is_held_back() -> None:
    stops = StopStrings("END")
    assert [stops.push(piece) for piece in ("one E", "D, two EN", "D three", "x")] == [
        "one ",
        "ED, two ",
        "",
        "",
    ]
    assert (stops.matched, stops.finish()) == ("END", "")


@pytest.mark.parametrize(
    ("stops", "error", "text"),
    [
        ([""], InvalidValueError, "StopStrings: stops has an empty string"),
        ("", InvalidValueError, "empty string"),
        ([3], InvalidTypeError, "StopStrings: stops has an element of type int, expected str"),
    ],
)
def test_stops_that_are_refused(stops: list[str], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        StopStrings(stops)
