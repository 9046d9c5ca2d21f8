"""NumPy-like arrays: views, broadcasting, indexing, reductions and a fused kernel."""

import numpy as np

import pygpukit as gp


@gp.fuse
def gate(x, w, bias, scale):
    return gp.silu(x * w + bias) * scale


def main() -> None:
    host = np.random.default_rng(0).standard_normal((512, 256), dtype=np.float32)
    x = gp.from_numpy(host)
    w = gp.linspace(0.5, 1.5, 256)
    bias = gp.zeros(256)

    centred = x - gp.mean(x, axis=0)
    print("column means:", gp.max(gp.abs(gp.mean(centred, axis=0))))

    top = gp.sort(x[:, 0], descending=True)[:3]
    print("largest of the first column:", top)

    y = gate(x, w, bias, 0.5)
    plain = host * np.linspace(0.5, 1.5, 256, dtype=np.float32)
    expected = 0.5 * plain / (1 + np.exp(-plain))
    error = float(np.abs(y.to_numpy() - expected).max())
    print("fused kernel, largest difference from NumPy:", error)
    assert error < 1e-5
    print(gate.source)


if __name__ == "__main__":
    main()
