"""Runs the cases of the sampling family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases.sampling import Case, chi_square, oracle, pack_bits
from pygpukit.ops import sampling


def on(device: str | None, filters: dict[str, Any]) -> dict[str, Any]:
    return {
        name: gp.from_numpy(value, device=device) if isinstance(value, np.ndarray) else value
        for name, value in filters.items()
    }


def run_case(case: Case, device: str | None = None) -> None:
    logits, filters = case.draw()
    want = oracle(logits, filters)
    x, options = gp.from_numpy(logits, device=device), on(device, filters)
    got = sampling.sampling_probs(x, **options).to_numpy()
    assert not got[want == 0].any()
    assert got[want > 1e-9].all()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-12)  # masses are of 2**-40
    for seed in range(3):
        tokens = sampling.sample(x, **options, seed=seed)
        assert (tokens.shape, tokens.dtype.name, tokens.device) == ((3,), "int32", x.device)
        assert (want[np.arange(3), tokens.to_numpy()] > 0).all()
    np.testing.assert_array_equal(x.to_numpy(), logits)


def run_chi_square(filters: dict[str, Any], draws: int, device: str | None = None) -> None:
    x = np.random.default_rng(8).normal(size=40).astype(np.float32) * 2
    row = gp.from_numpy(x, device=device)
    want = sampling.sampling_probs(row, **filters).to_numpy().astype(np.float64)
    want /= want.sum()
    rows = gp.broadcast_to(row, (draws, x.size))
    tokens = sampling.sample(rows, **filters, seed=5).to_numpy()
    assert abs(chi_square(tokens, want)) < 4.5


def run_chi_square_of_a_vocabulary(
    filters: dict[str, Any], width: int, draws: int, device: str | None = None
) -> None:
    """Against NumPy's probabilities; rare tokens are counted together."""
    x = np.random.default_rng(9).normal(size=(1, width)).astype(np.float32) * 2
    want = oracle(x, filters)[0]
    rows = gp.broadcast_to(gp.from_numpy(x, device=device), (500, width))
    tokens = [
        sampling.sample(rows, **filters, seed=5, step=step).to_numpy()
        for step in range(draws // 500)
    ]
    assert abs(chi_square(np.concatenate(tokens), want)) < 4.5


def run_chi_square_of_streams(draws: int, device: str | None = None) -> None:
    """Steps of a seed, and seeds, are as independent as rows."""
    x = np.random.default_rng(8).normal(size=40).astype(np.float32) * 2
    want = np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum()
    rows = gp.broadcast_to(gp.from_numpy(x, device=device), (draws, x.size))
    numbers = gp.from_numpy(np.arange(draws), device=device)
    seven = gp.full(draws, 7, "int64", device=device)
    for seed, step in ((seven, gp.copy(numbers)), (numbers, 3)):
        tokens = sampling.sample(rows, seed=seed, step=step).to_numpy()
        assert abs(chi_square(tokens, want)) < 4.5


def run_batch_invariance(device: str | None = None, width: int = 1000) -> None:
    """A row with its own seed gives the same token alone and in every batch."""
    rng = np.random.default_rng(4)
    logits = (rng.normal(size=(33, width)) * 3).astype(np.float32)
    seeds = rng.integers(0, 2**62, 33)
    x, s = gp.from_numpy(logits, device=device), gp.from_numpy(seeds, device=device)
    for filters in ({}, {"top_k": 50, "top_p": 0.9}, {"typical_p": 0.5}):
        together = sampling.sample(x, seed=s, **filters).to_numpy()
        for rows in (slice(0, 1), slice(4, 5), slice(7, 24)):
            alone = sampling.sample(x[rows], seed=s[rows], **filters).to_numpy()
            np.testing.assert_array_equal(alone, together[rows])


def run_steps(device: str | None = None) -> None:
    """An array of steps is counted up; a number is not."""
    x = gp.from_numpy(np.zeros((2, 1000), np.float32), device=device)
    steps = gp.from_numpy(np.array([5, 0]), device=device)
    seeds = gp.from_numpy(np.array([1, 1]), device=device)
    drawn = [sampling.sample(x, seed=seeds, step=steps).to_numpy() for _ in range(6)]
    np.testing.assert_array_equal(steps.to_numpy(), [11, 6])
    assert drawn[5][1] == drawn[0][0]  # step 5 of seed 1
    assert len({int(tokens[1]) for tokens in drawn}) == 6
    again = sampling.sample(x, seed=1, step=2).to_numpy()
    np.testing.assert_array_equal(sampling.sample(x, seed=1, step=2).to_numpy(), again)
    assert again[0] != again[1]


def run_special_values(device: str | None = None) -> None:
    inf, nan = np.inf, np.nan
    rows = np.array(
        [
            [1, nan, 1, 0],
            [-inf, -inf, 3, -inf],
            [nan, -inf, nan, -inf],
            [inf, 2, inf, nan],
            [-0.0, 0.0, -1, -inf],
            [3e38, -3e38, 3e38, 0],
        ],
        np.float32,
    )
    x = gp.from_numpy(rows, device=device)
    greedy = sampling.sample(x, temperature=0.0).to_numpy()
    np.testing.assert_array_equal(greedy, [0, 2, -1, 0, 0, 0])
    got = sampling.sampling_probs(x).to_numpy()
    e = np.exp(-1) / (2 + np.exp(-1))
    half = [0.5, 0, 0.5, 0]
    want = [[(1 - e) / 2, 0, (1 - e) / 2, e], [0, 0, 1, 0], [0, 0, 0, 0], half]
    want += [[(1 - e) / 2, (1 - e) / 2, e, 0], half]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for options in ({}, {"top_k": 1}, {"top_p": 0.5}, {"typical_p": 0.3}, {"temperature": 1e-38}):
        tokens = sampling.sample(x, seed=1, **options).to_numpy()
        assert tokens[2] == -1
        assert all(got[i, t] > 0 for i, t in enumerate(tokens) if i != 2)


def run_logprobs(device: str | None = None, width: int = 1000) -> None:
    rng = np.random.default_rng(6)
    logits = (rng.normal(size=(4, width)) * 3).astype(np.float32)
    logits[1] = 0.5  # equal ones: lowest index first
    logits[2, 3:] = -np.inf
    tokens = np.array([7, width - 1, 1, -1], np.int32)
    x, t = (gp.from_numpy(of, device=device) for of in (logits, tokens))
    chosen, ids, tops = (of.to_numpy() for of in sampling.token_logprobs(x, t, 5))
    logs = logits.astype(np.float64)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    np.testing.assert_allclose(chosen[:3], logs[np.arange(3), tokens[:3]], rtol=2e-6, atol=2e-6)
    assert np.isnan(chosen[3])
    order = np.argsort(-logits, kind="stable")[:, :5]
    order[2, 3:] = -1
    np.testing.assert_array_equal(ids, order)
    want = np.where(order >= 0, np.take_along_axis(logs, np.maximum(order, 0), -1), -np.inf)
    np.testing.assert_allclose(tops, want, rtol=2e-6, atol=2e-6)
    sampled = sampling.sample(x, seed=2, top_k=3, logprobs=2)
    assert isinstance(sampled, sampling.Sampled)
    np.testing.assert_array_equal(sampled.top_ids.to_numpy(), order[:, :2])
    again = sampling.token_logprobs(x, sampled.tokens)
    np.testing.assert_array_equal(sampled.logprobs.to_numpy(), again[0].to_numpy())
    assert again[1].shape == (4, 0)


def allowed_tokens(drawn: list[int], logits: Any, eos: int, first: int, initial: int) -> set[int]:
    """Tokens that may follow those drawn so far, by the rules in words."""
    width = logits.size
    left = set(range(width))
    stamps = [token for token in drawn if token >= first]
    if not drawn:
        left = set(range(first, min(first + initial + 1, width)))
    elif drawn[-1] >= first and (len(drawn) < 2 or drawn[-2] >= first):
        left -= set(range(first, width))  # a pair is complete, or the text begins
    elif drawn[-1] >= first:
        left -= set(range(eos))  # its second, or the end
        left -= set(range(first, stamps[-1]))
    elif stamps:
        left -= set(range(first, stamps[-1] + 1))
    times = [np.exp(np.float64(logits[t])) for t in left if t >= first]
    texts = [np.exp(np.float64(logits[t])) for t in left if t < first]
    if times and sum(times) > max(texts, default=0.0):
        left = {token for token in left if token >= first}
    return left


def run_timestamp_rules(device: str | None = None) -> None:
    """Random transcripts, token by token, two at a time."""
    rng = np.random.default_rng(9)
    width, eos, first = 70, 30, 33
    never = np.zeros(96, bool)
    never[[5, 31]] = True
    never_first = np.zeros(96, bool)
    never_first[[36, eos]] = True
    words = [gp.from_numpy(pack_bits(x), device=device) for x in (never, never_first)]
    history = gp.from_numpy(np.array([[-1, -1], [0, 0], [0, 0], [0, 0]], np.int32), device=device)
    drawn: list[list[int]] = [[], []]
    last = np.zeros(2, np.int32)
    for step in range(30):
        logits = (rng.normal(size=(2, width)) * 3).astype(np.float32)
        logits[:, :first] += 2 * (step % 3)
        logits[:, [5, 31]] = -50.0  # suppressed tokens weigh nothing in the sums either
        x = gp.from_numpy(logits, device=device)
        tokens = gp.from_numpy(last, device=device)
        got = sampling.timestamp_rules(
            x, tokens, history, *words, eos=eos, first_timestamp=first, max_initial=8
        ).to_numpy()
        for row in range(2):
            masked = logits[row].copy()
            masked[[5, 31, *([36, eos] if not drawn[row] else [])]] = -np.inf
            want = allowed_tokens(drawn[row], masked, eos, first, 8)
            want = {token for token in want if masked[token] > -np.inf}
            assert set(np.flatnonzero(got[row] > -np.inf).tolist()) == want
            last[row] = rng.choice(sorted(want))
            drawn[row].append(int(last[row]))
    np.testing.assert_array_equal(history.to_numpy()[0], [29, 29])
    np.testing.assert_array_equal(history.to_numpy()[1], [row[-2] for row in drawn])
    plain = gp.from_numpy(np.zeros((1, width), np.float32), device=device)
    fresh = gp.from_numpy(np.array([[-1], [0], [0], [0]], np.int32), device=device)
    out = sampling.timestamp_rules(plain, tokens[:1], fresh, *words, eos=eos, out=plain)
    assert out is plain
    assert np.isneginf(plain.to_numpy()).sum() == 4


def run_counts(device: str | None = None) -> None:
    ids = np.array([[3, 1, 3, -1, 9], [0, 0, 0, 5, 2]], np.int32)
    want = np.array([[0, 1, 0, 2, 0], [3, 0, 1, 0, 0]], np.int32)
    counts = sampling.token_counts(gp.from_numpy(ids, device=device), 5)
    np.testing.assert_array_equal(counts.to_numpy(), want)
    sampling.count_tokens(counts, gp.from_numpy(np.array([4, 4], np.int32), device=device))
    want[:, 4] += 1
    np.testing.assert_array_equal(counts.to_numpy(), want)
    x = gp.from_numpy(np.random.default_rng(2).normal(size=(2, 5)).astype("f4"), device=device)
    previous = gp.from_numpy(ids, device=device)
    options: dict[str, Any] = {"presence_penalty": 2.0, "seed": 3}
    by_counts = sampling.sample(x, counts=sampling.token_counts(previous, 5), **options)
    by_ids = sampling.sample(x, previous=previous, **options)
    np.testing.assert_array_equal(by_ids.to_numpy(), by_counts.to_numpy())


def run_shapes(device: str | None = None) -> None:
    """Any rank, strides, out=, no rows."""
    host = np.random.default_rng(1).normal(size=(4, 3, 50)).astype(np.float32)
    x = gp.from_numpy(host, device=device)
    want = host.argmax(-1)
    np.testing.assert_array_equal(sampling.sample(x, temperature=0.0).to_numpy(), want)
    strided = gp.permute_dims(gp.from_numpy(host.T.copy(), device=device), (2, 1, 0))
    np.testing.assert_array_equal(sampling.sample(strided, temperature=0.0).to_numpy(), want)
    columns = gp.from_numpy(np.repeat(host, 2, -1), device=device)[..., ::2]
    np.testing.assert_array_equal(sampling.sample(columns, temperature=0.0).to_numpy(), want)
    assert sampling.sample(x[0, 0], temperature=0.0).item() == want[0, 0]
    assert sampling.sample(x[:0], seed=0).shape == (0, 3)
    out = gp.zeros((4, 3), "int32", device=device)
    assert sampling.sample(x, temperature=0.0, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), want)
    wide = gp.zeros((3, 4), "int64", device=device)
    sampling.sample(x, temperature=0.0, out=gp.permute_dims(wide, (1, 0)))
    np.testing.assert_array_equal(wide.to_numpy().T, want)
    probs = gp.zeros((4, 3, 50), device=device)
    assert sampling.sampling_probs(x, out=probs) is probs
    np.testing.assert_allclose(probs.to_numpy().sum(-1), 1, rtol=1e-5)


def run_names_of_0_2(device: str | None = None) -> None:
    x = np.random.default_rng(3).normal(size=60).astype(np.float16)
    row = gp.from_numpy(x, device=device)
    best = int(x.argmax())
    assert sampling.sample_greedy(row) == best
    assert sampling.sample_greedy(row.reshape((1, 60))) == best
    assert sampling.sample_topk(row, 1, 1.0) == best
    assert sampling.sample_topp(row, 1e-6, 1.0) == best
    assert sampling.sample_token_gpu(row, 0.0) == best
    draws = []
    for _ in range(2):
        sampling.set_sampling_seed(11)
        draws.append([sampling.sample_multinomial(row, 1.0) for _ in range(20)])
        draws[-1] += [sampling.sample_token_gpu(row, 1.0, 5, 0.9) for _ in range(20)]
    assert draws[0] == draws[1]
    assert len(set(draws[0][:20])) > 5
    assert set(draws[0][20:]) <= set(np.argsort(-x.astype("f4"))[:6].tolist())
    result = gp.zeros(1, "int32", device=device)
    order = sorted(np.argsort(-x.astype("f4"), kind="stable")[:3].tolist())
    for u, want in ((0.0, order[0]), (0.9999, order[-1])):
        number = gp.full(1, u, "float32", device=device)
        sampling.sample_topk_to_buf_ptr(row, result, number, 3, 1.0)
        assert result.item() == want
