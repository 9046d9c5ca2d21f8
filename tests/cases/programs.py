"""NumPy programs with nothing but the import changed: `xp` is numpy or pygpukit.

Each returns what it computed. Data is drawn with NumPy and enters through xp.asarray, as in a
program that loads it. New arrays are float32 here and float64 there: where one of them carries the
result, it is as close as float32 is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp

Program = Callable[[Any], Any]
PROGRAMS: dict[str, tuple[Program, float]] = {}


def program(close: float = 1e-9) -> Callable[[Program], Program]:
    def add(function: Program) -> Program:
        PROGRAMS[function.__name__] = function, close
        return function

    return add


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@program()
def k_means(xp: Any) -> Any:
    points = xp.asarray(drawn(1).normal(size=(200, 2)))
    points[:100] += 4.0
    centres = points[::50].copy()
    for _ in range(10):
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        label = distance.argmin(axis=1)
        for k in range(4):
            centres[k] = points[label == k].mean(axis=0)
    return centres, label


@program()
def game_of_life(xp: Any) -> Any:
    board = xp.asarray(drawn(2).integers(0, 2, (40, 50)))
    for _ in range(20):
        near = xp.zeros_like(board)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if (dy, dx) != (0, 0):
                    near += xp.roll(board, (dy, dx), axis=(0, 1))
        board = xp.where((near == 3) | ((board == 1) & (near == 2)), 1, 0)
    return board


@program()
def convolution_2d(xp: Any) -> Any:
    image = xp.asarray(drawn(3).normal(size=(30, 40)))
    kernel = xp.array([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]])
    windows = xp.lib.stride_tricks.sliding_window_view(image, (3, 3))
    return (windows * kernel).sum(axis=(2, 3))


@program(1e-6)
def principal_component_by_power_iteration(xp: Any) -> Any:
    data = xp.asarray(drawn(4).normal(size=(300, 6)) @ np.diag([5.0, 2.0, 1.0, 1.0, 0.5, 0.1]))
    covariance = xp.cov(data, rowvar=False)
    vector = xp.ones(6)
    for _ in range(60):
        vector = covariance @ vector
        vector = vector / xp.sqrt((vector**2).sum())
    return xp.abs(vector), vector @ covariance @ vector


@program()
def rolling_mean(xp: Any) -> Any:
    series = xp.asarray(drawn(5).normal(size=500))
    sums = xp.cumsum(xp.concatenate([xp.zeros(1), series]))
    return (sums[20:] - sums[:-20]) / 20


@program()
def image_blur(xp: Any) -> Any:
    image = xp.asarray(drawn(6).integers(0, 256, (32, 48)).astype(np.float64))
    padded = xp.pad(image, 2, mode="edge")
    weights = [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]
    rows = sum(w * padded[:, k : k + 48] for k, w in enumerate(weights))
    return sum(w * rows[k : k + 32] for k, w in enumerate(weights))


@program(1e-7)
def n_body(xp: Any) -> Any:
    rng = drawn(7)
    position, velocity = xp.asarray(rng.normal(size=(30, 3))), xp.asarray(rng.normal(size=(30, 3)))
    mass = xp.asarray(rng.uniform(0.5, 2.0, 30))
    for _ in range(20):
        offset = position[None, :, :] - position[:, None, :]
        cubed = ((offset**2).sum(axis=-1) + 0.1) ** 1.5
        force = (offset * (mass[None, :] / cubed)[:, :, None]).sum(axis=1)
        velocity += 0.01 * force
        position += 0.01 * velocity
    energy = 0.5 * (mass * (velocity**2).sum(axis=1)).sum()
    return position, energy


@program(1e-5)
def softmax_regression(xp: Any) -> Any:
    rng = drawn(8)
    x, label = rng.normal(size=(120, 5)), rng.integers(0, 3, 120)
    features, target = xp.asarray(x), xp.asarray(np.eye(3)[label])
    weight = xp.zeros((5, 3))
    for _ in range(50):
        logits = features @ weight
        logits = logits - logits.max(axis=1, keepdims=True)
        share = xp.exp(logits)
        share /= share.sum(axis=1, keepdims=True)
        weight -= 0.1 * features.T @ (share - target) / 120
    return weight, (xp.argmax(features @ weight, axis=1) == xp.asarray(label)).mean()


@program()
def mandelbrot(xp: Any) -> Any:
    y, x = xp.mgrid[-24:25, -40:21]
    c = x / 20.0 + 1j * (y / 20.0)
    z = xp.zeros_like(c)
    steps = xp.zeros(c.shape, dtype=int)
    for _ in range(30):
        inside = xp.abs(z) <= 2
        z = xp.where(inside, z * z + c, z)
        steps += inside
    return (steps == 30).sum(), steps[0], steps.shape


@program(0.02)
def monte_carlo_pi(xp: Any) -> Any:
    xp.random.seed(1)
    x, y = xp.random.rand(400_000), xp.random.rand(400_000)
    return 4.0 * ((x * x + y * y) < 1.0).mean()


@program(1e-4)
def heat_equation(xp: Any) -> Any:
    grid = xp.zeros((40, 40))
    grid[0, :] = 100.0
    for _ in range(200):
        inner = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) / 4
        change = xp.abs(inner - grid[1:-1, 1:-1]).max()
        grid[1:-1, 1:-1] = inner
    return grid, change


@program()
def nearest_neighbours(xp: Any) -> Any:
    rng = drawn(9)
    train, test = xp.asarray(rng.normal(size=(150, 4))), xp.asarray(rng.normal(size=(20, 4)))
    label = xp.asarray(rng.integers(0, 5, 150))
    squares = (test**2).sum(axis=1)[:, None] + (train**2).sum(axis=1)[None, :]
    distance = squares - 2.0 * test @ train.T
    nearest = xp.argsort(distance, axis=1)[:, :7]
    votes = label[nearest]
    return [int(xp.bincount(votes[n], minlength=5).argmax()) for n in range(20)]


@program()
def histogram_equalisation(xp: Any) -> Any:
    image = xp.asarray((drawn(10).normal(100, 20, (50, 60)).clip(0, 255)).astype(np.uint8))
    counts, _ = xp.histogram(image, bins=256, range=(0, 256))
    total = xp.cumsum(counts)
    table = xp.round(255 * total / total[-1])
    return table[image], counts


@program()
def floyd_warshall(xp: Any) -> Any:
    weight = drawn(11).integers(1, 100, (25, 25)).astype(np.float64)
    distance = xp.asarray(weight)
    xp.fill_diagonal(distance, 0.0)
    for k in range(25):
        distance = xp.minimum(distance, distance[:, k, None] + distance[None, k, :])
    return distance


@program()
def page_rank(xp: Any) -> Any:
    links = drawn(12).integers(0, 2, (40, 40)).astype(np.float64)
    np.fill_diagonal(links, 1.0)
    matrix = xp.asarray(links)
    matrix = matrix / matrix.sum(axis=0)
    rank = xp.full(40, 1 / 40)
    for _ in range(50):
        rank = 0.15 / 40 + 0.85 * (matrix @ rank)
    return rank, xp.argsort(-rank)


@program()
def edit_distance(xp: Any) -> Any:
    first, second = "kitten sitting here", "sitting kittens there"
    codes = xp.asarray([ord(c) for c in second])
    place = xp.arange(len(second) + 1)
    row = place
    for n, letter in enumerate(first):
        step = xp.minimum(row[1:] + 1, row[:-1] + (codes != ord(letter)))
        row = xp.concatenate([[n + 1], step])
        row = xp.minimum.accumulate(row - place) + place
    return row[-1]


@program(1e-6)
def moving_average_crossover(xp: Any) -> Any:
    price = xp.asarray(100 + np.cumsum(drawn(13).normal(size=300)))
    fast = xp.convolve(price, xp.ones(5) / 5, mode="valid")[15:]
    slow = xp.convolve(price, xp.ones(20) / 20, mode="valid")
    above = fast > slow
    crossed = xp.flatnonzero(above[1:] != above[:-1])
    signal = xp.where(above, 1.0, -1.0)
    gain = (signal[:-1] * xp.diff(price[19:])).sum()
    return crossed, gain


@program(1e-8)
def fourier_transform_by_matrix(xp: Any) -> Any:
    signal = xp.asarray(drawn(14).normal(size=64))
    n = xp.arange(64)
    matrix = xp.exp(-2j * xp.pi * xp.outer(n, n) / 64)
    spectrum = matrix @ signal
    return spectrum, xp.abs(spectrum[:32]).argmax(), xp.unwrap(xp.angle(spectrum[:8]))


@program()
def cumulative_statistics(xp: Any) -> Any:
    series = xp.asarray(drawn(15).normal(size=400))
    count = xp.arange(1, 401)
    mean = xp.cumsum(series) / count
    variance = xp.cumsum(series**2) / count - mean**2
    record = xp.maximum.accumulate(series)
    return mean, variance, record, (record - series).max()


@program()
def sieve(xp: Any) -> Any:
    prime = xp.ones(2000, dtype=bool)
    prime[:2] = False
    for n in range(2, 45):
        if prime[n]:
            prime[n * n :: n] = False
    return xp.flatnonzero(prime)


@program(1e-6)
def bootstrap_interval(xp: Any) -> Any:
    rng = drawn(16)
    data, picks = xp.asarray(rng.exponential(size=80)), xp.asarray(rng.integers(0, 80, (500, 80)))
    means = data[picks].mean(axis=1)
    return xp.percentile(means, [2.5, 97.5]), xp.interp(1.0, xp.sort(means), xp.linspace(0, 1, 500))


@program()
def one_hot_and_confusion(xp: Any) -> Any:
    rng = drawn(17)
    true, guess = xp.asarray(rng.integers(0, 6, 300)), xp.asarray(rng.integers(0, 6, 300))
    table = xp.zeros((6, 6), dtype=int)
    xp.add.at(table, (true, guess), 1)
    recall = xp.diagonal(table) / table.sum(axis=1)
    return table, recall


@program()
def fft_convolution(xp: Any) -> Any:
    signal, kernel = xp.asarray(drawn(18).normal(size=200)), xp.hanning(15)
    size = len(signal) + len(kernel) - 1
    product = xp.fft.rfft(signal, size) * xp.fft.rfft(kernel, size)
    result = xp.fft.irfft(product, size)
    error = xp.abs(result - xp.convolve(signal, kernel)).max()
    return result[7:-7], error < 1e-6


@program(1e-8)
def principal_components(xp: Any) -> Any:
    data = xp.asarray(drawn(19).normal(size=(100, 5)) @ np.diag([4.0, 3.0, 2.0, 1.0, 0.5]))
    centred = data - data.mean(axis=0)
    _, s, vt = xp.linalg.svd(centred, full_matrices=False)
    scores = centred @ vt[:2].T
    explained = s**2 / xp.sum(s**2)
    return xp.abs(scores), explained, xp.allclose(vt @ vt.T, xp.eye(5), atol=1e-6)


@program(1e-8)
def least_squares(xp: Any) -> Any:
    x = xp.asarray(drawn(20).uniform(0, 10, 60))
    y = 2.5 * x - 1.0 + xp.asarray(drawn(21).normal(size=60))
    design = xp.vstack([x, xp.ones(len(x))]).T
    (slope, intercept), residual, rank, _ = xp.linalg.lstsq(design, y, rcond=None)
    return slope, intercept, residual, rank, xp.polyfit(x, y, 1)


@program(1e-7)
def spectral_partition(xp: Any) -> Any:
    links = drawn(22).uniform(size=(20, 20)) < 0.3
    links[:10, 10:] &= drawn(23).uniform(size=(10, 10)) < 0.2
    adjacency = xp.asarray((np.triu(links, 1) + np.triu(links, 1).T).astype(float))
    laplacian = xp.diag(adjacency.sum(axis=0)) - adjacency
    values, vectors = xp.linalg.eigh(laplacian)
    return values, xp.abs(vectors[:, 1])


@program(1e-5)
def newton_method(xp: Any) -> Any:
    point = xp.array([1.5, 1.0])
    for _ in range(20):
        x, y = point
        value = xp.array([x**2 + y**2 - 4, xp.exp(x) + y - 1])
        jacobian = xp.array([[2 * x, 2 * y], [xp.exp(x), 1.0]])
        point = point - xp.linalg.solve(jacobian, value)
    return point, xp.linalg.norm(value) < 1e-5


@program(1e-5)
def kalman_filter(xp: Any) -> Any:
    step, noise = xp.array([[1.0, 1.0], [0.0, 1.0]]), xp.eye(2) * 0.01
    seen = xp.asarray(np.arange(30.0) + drawn(24).normal(size=30))
    state, spread, track = xp.zeros(2), xp.eye(2), []
    for measured in seen:
        state, spread = step @ state, step @ spread @ step.T + noise
        gain = spread[:, 0] / (spread[0, 0] + 1.0)
        state = state + gain * (measured - state[0])
        spread = spread - xp.outer(gain, spread[0])
        track.append(state[0])
    return xp.array(track), spread


@program()
def low_pass_filter(xp: Any) -> Any:
    t = xp.asarray(np.linspace(0, 1, 256, endpoint=False))
    wave = xp.sin(2 * xp.pi * 5 * t) + 0.3 * xp.sin(2 * xp.pi * 60 * t)
    spectrum = xp.fft.rfft(wave)
    frequency = xp.fft.rfftfreq(wave.size, d=1 / 256)
    spectrum[frequency > 20] = 0
    return xp.fft.irfft(spectrum), frequency[xp.argmax(xp.abs(spectrum))]


def as_host(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [as_host(part) for part in value]
    return gp.asnumpy(value)


def check(name: str) -> None:
    function, close = PROGRAMS[name]
    want, got = as_host(function(np)), as_host(function(gp))
    pairs = [(got, want)] if not isinstance(want, list) else list(zip(got, want, strict=True))
    for ours, theirs in pairs:
        assert np.shape(ours) == np.shape(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)
