"""Layers and buffers of sections 18.3 and 18.4 of 0.2, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from pygpukit import llm
from pygpukit.ops.sampling import set_sampling_seed

RNG = np.random.default_rng(3)
CONFIG = llm.TransformerConfig(
    vocab_size=40, hidden_size=24, num_layers=2, num_heads=4, num_kv_heads=2, _head_dim=8,
    intermediate_size=20, norm_eps=1e-6,
)  # fmt: skip


def host(*shape: int) -> Any:
    return (RNG.normal(size=shape) * 0.3).astype(np.float32)


def on(x: Any) -> gp.GPUArray:
    return gp.from_numpy(x)


def close(got: gp.GPUArray, want: Any, atol: float = 2e-6) -> None:
    np.testing.assert_allclose(got.to_numpy(), want, atol=atol)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def test_linear() -> None:
    w, b, x = host(5, 7), host(5), host(3, 7)
    layer = llm.LinearBF16(on(w), on(b))
    assert llm.Linear is llm.LinearBF16
    assert (layer.in_features, layer.out_features) == (7, 5)
    close(layer(on(x)), x @ w.T + b)
    out = gp.empty((3, 5))
    assert layer(on(x), out=out) is out
    close(out, x @ w.T + b)
    with pytest.raises(ValueError, match=r"weight has shape \(5,\), expected \(out, in\)"):
        llm.Linear(on(b))
    with pytest.raises(ValueError, match=r"bias has shape \(7,\), expected \(5,\)"):
        llm.Linear(on(w), on(host(7)))
    with pytest.raises(TypeError, match=r"weight is of type numpy\.ndarray"):
        llm.Linear(w)


def test_linear_fp8() -> None:
    w, x = host(6, 10), host(2, 10)
    stored = (w * 100).astype(ml_dtypes.float8_e4m3fn)
    scales = RNG.uniform(0.005, 0.02, (2, 3)).astype(np.float32)
    layer = llm.LinearFP8(on(stored.view(np.uint8)), on(scales), block_size=(4, 4))
    decoded = stored.astype(np.float32) * np.repeat(np.repeat(scales, 4, 0), 4, 1)[:6, :10]
    close(layer(on(x)), x @ decoded.T)
    bias = host(6)
    close(
        llm.LinearFP8(layer.weight_fp8, on(scales), on(bias), (4, 4))(on(x)), x @ decoded.T + bias
    )
    with pytest.raises(ValueError, match=r"scale_inv has shape \(2, 3\), expected \(1, 1\)"):
        llm.LinearFP8(layer.weight_fp8, on(scales))
    with pytest.raises(ValueError, match="dtype float32, expected"):
        llm.LinearFP8(on(w), on(scales))


def test_norm() -> None:
    x, w, b = host(3, 8), host(8), host(8)
    assert llm.RMSNorm is llm.LayerNorm is llm.Norm
    close(llm.Norm(on(w), eps=1e-5)(on(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w)
    centred = x - x.mean(-1, keepdims=True)
    want = centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
    close(llm.Norm(on(w), on(b), "layernorm")(on(x)), want, 1e-5)
    with pytest.raises(ValueError, match="a layernorm without a bias"):
        llm.Norm(on(w), norm_type="layernorm")
    with pytest.raises(ValueError, match="norm_type is 'batch'"):
        llm.Norm(on(w), norm_type="batch")


def test_mlp() -> None:
    x, gate, up, down = host(3, 24), host(20, 24), host(20, 24), host(24, 20)
    assert llm.LlamaMLP is llm.MLP
    layer = llm.MLP(CONFIG, gate_proj=on(gate), up_proj=on(up), down_proj=on(down))
    close(layer(on(x)), (silu(x @ gate.T) * (x @ up.T)) @ down.T)
    plain = llm.GPT2Config(n_embd=24, n_head=4).to_transformer_config()
    b1, b2 = host(20), host(24)
    other = llm.MLP(plain, on(gate), on(b1), on(down), on(b2))
    close(other(on(x)), gelu(x @ gate.T + b1) @ down.T + b2)
    with pytest.raises(ValueError, match="no gate_proj, which an MLP with silu needs"):
        llm.MLP(CONFIG)
    with pytest.raises(ValueError, match="no fc2_weight, which an MLP with gelu needs"):
        llm.MLP(plain, on(gate))


def test_moe_layer() -> None:
    config = llm.TransformerConfig(hidden_size=24, num_heads=4, num_experts=5)
    x, router = host(7, 24), host(5, 24)
    experts = [(host(12, 24), host(12, 24), host(24, 12)) for _ in range(5)]
    layer = llm.MoELayer(config, on(router), [tuple(map(on, e)) for e in experts])
    want = np.zeros_like(x)
    for row, out in zip(x, want, strict=True):
        logits = router @ row
        chosen = np.argsort(-logits)[:2]
        weights = np.exp(logits[chosen]) / np.exp(logits[chosen]).sum()
        for weight, e in zip(weights, chosen, strict=True):
            gate, up, down = experts[e]
            out += weight * (down @ (silu(gate @ row) * (up @ row)))
    close(layer(on(x)), want, 1e-5)
    with pytest.raises(ValueError, match="4 experts, a router for 5"):
        llm.MoELayer(config, on(router), [tuple(map(on, e)) for e in experts[:4]])
    with pytest.raises(TypeError, match=r"expert_weights\[0\] is"):
        llm.MoELayer(config, on(router), [3])
    with pytest.raises(ValueError, match="no expert_weights"):
        llm.MoELayer(config, on(router), [])


def weights_of_attention() -> tuple[Any, Any, Any, Any]:
    return host(32, 24), host(16, 24), host(16, 24), host(24, 32)


def attention_in_numpy(x: Any, weights: Any, theta: float = 1e4) -> Any:
    q, k, v, o = weights
    cos, sin = llm.precompute_freqs_cis(8, len(x), theta)
    q, k = llm.apply_rotary_pos_emb_numpy(
        (x @ q.T).reshape(-1, 4, 8), (x @ k.T).reshape(-1, 2, 8), cos, sin
    )
    v = (x @ v.T).reshape(-1, 2, 8)
    rows = []
    for h in range(4):
        scores = q[:, h] @ k[:, h // 2].T / np.sqrt(8)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        rows.append(shares / shares.sum(-1, keepdims=True) @ v[:, h // 2])
    return np.concatenate(rows, -1) @ o.T


def test_precompute_freqs_cis() -> None:
    cos, sin = llm.precompute_freqs_cis(8, 5, theta=100.0)
    assert cos.shape == sin.shape == (5, 8)
    angles = np.arange(5)[:, None] * 100.0 ** -(np.arange(0, 8, 2) / 8)
    np.testing.assert_allclose(cos, np.cos(np.tile(angles, 2)), atol=1e-6)
    np.testing.assert_allclose(sin, np.sin(np.tile(angles, 2)), atol=1e-6)
    with pytest.raises(ValueError, match="precompute_freqs_cis: dim is 7"):
        llm.precompute_freqs_cis(7, 5)


def test_apply_rotary_pos_emb_numpy() -> None:
    q, k = host(3, 2, 4), host(3, 1, 4)
    cos, sin = llm.precompute_freqs_cis(4, 3)
    got_q, got_k = llm.apply_rotary_pos_emb_numpy(q, k, cos, sin)
    ours = [on(x.copy()) for x in (q, k)]
    gp.ops.nn.rope_inplace(ours[0], ours[1], on(cos), on(sin))
    np.testing.assert_allclose(got_q, ours[0].to_numpy(), atol=1e-6)
    np.testing.assert_allclose(got_k, ours[1].to_numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="q has shape"):
        llm.apply_rotary_pos_emb_numpy(q, k, cos[:2], sin[:2])


def test_attention() -> None:
    x, weights = host(6, 24), weights_of_attention()
    assert llm.LlamaAttention is llm.CausalSelfAttention is llm.Attention
    layer = llm.Attention(*map(on, weights), CONFIG)
    want = attention_in_numpy(x, weights)
    out, kv = layer(on(x))
    assert kv is None
    close(out, want, 1e-5)
    _, past = layer(on(x[:4]), use_cache=True)
    assert past is not None
    assert past[0].shape == past[1].shape == (4, 2, 8)
    rest, present = layer(on(x[4:]), past_kv=past, use_cache=True)
    close(rest, want[4:], 1e-5)
    assert present is not None
    assert present[0].shape == (6, 2, 8)
    again, _ = layer(on(x[4:]), position_ids=[4, 5], past_kv=past)
    close(again, want[4:], 1e-5)
    with pytest.raises(ValueError, match="1 position_ids for 2 rows"):
        layer(on(x[4:]), position_ids=[4])
    with pytest.raises(ValueError, match="k_proj has 32 rows, expected 2 heads of 8"):
        llm.Attention(on(weights[0]), on(weights[0]), on(weights[2]), on(weights[3]), CONFIG)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_fixed_cache(dtype: str) -> None:
    x, weights = host(6, 24), weights_of_attention()
    layer = llm.Attention(*map(on, weights), CONFIG)
    with pytest.raises(RuntimeError, match="no fixed cache"):
        layer.forward_fixed_cache(on(x[:1]), 0, 1)
    layer.init_fixed_cache(9, dtype)
    assert layer.k_cache is not None
    assert (layer.k_cache.shape, layer.k_cache.dtype.name) == ((4, 9, 8), dtype)
    want, atol = attention_in_numpy(x, weights), 1e-5 if dtype == "float32" else 2e-3
    close(layer.forward_fixed_cache_batch(on(x[:4]), 0, 4), want[:4], atol)
    out = gp.empty((1, 24))
    assert layer.forward_fixed_cache(on(x[4:5]), 4, 5, out=out) is out
    close(out, want[4:5], atol)
    device_numbers = [on(np.array([n], np.int32)) for n in (5, 6)]
    close(layer.forward_fixed_cache(on(x[5:]), *device_numbers), want[5:], atol)


def test_fixed_cache_errors() -> None:
    layer = llm.Attention(*map(on, weights_of_attention()), CONFIG)
    for call, text in (
        (lambda: layer.init_fixed_cache(0), "max_seq_len is 0"),
        (lambda: layer.init_fixed_cache(8, "int8"), "dtype is 'int8', expected one of float16"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    layer.init_fixed_cache(4, "float32")
    x = on(host(1, 24))
    for position, length, text in (
        (4, 5, "position is 4, expected 0 to 3"),
        (-1, 1, "position is -1"),
        (0, 5, "context_len is 5, expected 1 to 4"),
        (0, 0, "context_len is 0"),
    ):
        with pytest.raises(ValueError, match=text):
            layer.forward_fixed_cache(x, position, length)
    with pytest.raises(ValueError, match=r"x has shape \(2, 24\), expected \(1, hidden\)"):
        layer.forward_fixed_cache(on(host(2, 24)), 0, 2)


def test_lookahead_of_a_layer() -> None:
    x = on(host(4, 24))
    layer = llm.Attention(*map(on, weights_of_attention()), CONFIG)
    with pytest.raises(RuntimeError, match="no fixed cache"):
        layer.reset_lookahead()
    layer.init_fixed_cache(6, "float32")
    layer.forward_fixed_cache_batch(x, 0, 4)
    layer.set_confirmed_pos(1)
    layer.commit_lookahead(1)
    assert layer.confirmed_pos == 2
    layer.reset_lookahead()
    assert layer.k_cache is not None
    assert layer.k_cache[:, :2].to_numpy().all()
    assert not layer.k_cache[:, 2:].to_numpy().any()
    with pytest.raises(ValueError, match="n_accepted is 5, expected 0 to 4"):
        layer.commit_lookahead(5)
    with pytest.raises(ValueError, match="pos is 7, expected 0 to 6"):
        layer.set_confirmed_pos(7)


def make_block() -> tuple[llm.TransformerBlock, Any]:
    weights = weights_of_attention()
    mlp = [host(20, 24), host(20, 24), host(24, 20)]
    norms = [1 + host(24), 1 + host(24)]
    block = llm.TransformerBlock(
        llm.Norm(on(norms[0]), eps=1e-6),
        llm.Attention(*map(on, weights), CONFIG),
        llm.Norm(on(norms[1]), eps=1e-6),
        llm.MLP(CONFIG, gate_proj=on(mlp[0]), up_proj=on(mlp[1]), down_proj=on(mlp[2])),
    )

    def reference(x: Any) -> Any:
        def norm(x: Any, w: Any) -> Any:
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w

        x = x + attention_in_numpy(norm(x, norms[0]), weights)
        y = norm(x, norms[1])
        return x + (silu(y @ mlp[0].T) * (y @ mlp[1].T)) @ mlp[2].T

    return block, reference


def test_transformer_block() -> None:
    assert llm.LlamaBlock is llm.TransformerBlock
    block, reference = make_block()
    x = host(5, 24)
    given = on(x)
    out, kv = block(given, use_cache=True)
    close(out, reference(x), 1e-5)
    close(given, x)  # not written to
    assert kv is not None
    assert kv[0].shape == (5, 2, 8)


def test_model_of_layers() -> None:
    blocks, references = zip(*(make_block() for _ in range(2)), strict=True)
    table, head, last = host(40, 24), host(40, 24), 1 + host(24)
    model = llm.CausalTransformerModel(
        CONFIG, on(table), blocks, llm.Norm(on(last), eps=1e-6), lm_head=on(head)
    )
    ids = [3, 17, 9, 30]
    x = table[ids]
    for reference in references:
        x = reference(x)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * last
    hidden, past = model(ids)
    assert past is None
    close(hidden, x, 1e-5)
    close(model.get_logits(hidden), x @ head.T, 1e-5)
    assert model.lm_head.shape == (40, 24)
    best = int(np.argmax(x[-1] @ head.T))
    assert model.generate(ids, max_new_tokens=1, temperature=0.0) == [*ids, best]
    with_cache = model.generate(ids, 6, temperature=0.0)
    assert with_cache == model.generate(ids, 6, temperature=0.0, use_cache=False)
    assert list(model.generate_stream(ids, 6, temperature=0.0)) == with_cache[4:]
    drawn = []
    for seed in (5, 5, 6):
        set_sampling_seed(seed)
        drawn.append(model.generate(ids, 12))
    assert drawn[0] == drawn[1] != drawn[2]
    llm.repack_model_weights(model)
    assert model.generate(ids, 6, temperature=0.0) == with_cache
    with pytest.raises(ValueError, match=r"expected .vocabulary, hidden. and one or more"):
        llm.CausalTransformerModel(CONFIG, on(table), [], model.final_norm)


def test_repack() -> None:
    w = on(host(6, 8))[::2]
    assert not w.is_contiguous()
    packed = llm.repack_weight(w)
    assert packed.is_contiguous()
    close(packed, w.to_numpy())
    linear = llm.Linear(w, on(host(3)))
    llm.repack_linear(linear)
    assert linear.weight.is_contiguous()
    norm = llm.Norm(on(host(8))[::2])
    llm.repack_norm(norm)
    assert norm.weight.is_contiguous()
    with pytest.raises(TypeError, match="repack_linear: the layer is of type Norm"):
        llm.repack_linear(norm)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="repack_model_weights: model is of type Norm"):
        llm.repack_model_weights(norm)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="weight is of type list"):
        llm.repack_weight([1.0])  # type: ignore[arg-type]


def test_buffers() -> None:
    one = llm.DecodeBuffers.allocate(CONFIG, dtype="float32", vocab_size=40)
    assert (one.hidden.shape, one.q.shape, one.k.shape) == ((1, 24), (1, 32), (1, 16))
    assert one.logits is not None
    assert (one.logits.shape, one.hidden.dtype.name) == ((1, 40), "float32")
    many = llm.DecodeBuffers.allocate(CONFIG, max_batch_size=4)
    assert (many.gate.shape, many.logits, many.gate.dtype.name) == ((4, 20), None, "float16")
    assert many.rows(3).gate.shape == (3, 20)
    prefill = llm.PrefillBuffers.allocate(CONFIG, 16, dtype="bfloat16")
    assert prefill.up.shape == (16, 20)
    moe = llm.TransformerConfig(hidden_size=24, num_heads=4, num_experts=5)
    routed = llm.DecodeBuffers.allocate(CONFIG, moe_config=moe)
    assert routed.router_logits is not None
    assert routed.router_logits.shape == (1, 5)
    with pytest.raises(ValueError, match="5 tokens, expected at most 4"):
        many.rows(5)
    with pytest.raises(ValueError, match="max_seq_len is 0"):
        llm.PrefillBuffers.allocate(CONFIG, 0)
    with pytest.raises(TypeError, match="config is of type dict, expected a TransformerConfig"):
        llm.DecodeBuffers.allocate({})  # type: ignore[arg-type]
