"""SciPy with SCIPY_ARRAY_API=1."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import (
    cluster,
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    spatial,
    special,
    stats,
)
from scipy.optimize import elementwise

from clients.uses import Use

RNG = np.random.default_rng(31)
V = RNG.normal(size=60)
W = 0.5 * V + RNG.normal(size=60)
P = RNG.uniform(0.05, 0.95, 40)
M = RNG.normal(size=(12, 5))
IMAGE = RNG.normal(size=(20, 24))
SQUARE = M[:5] @ M[:5].T + np.eye(5)
T = np.linspace(0.0, 3.0, 25)


def _fields(result: Any, *names: str) -> list[Any]:
    return [getattr(result, name) for name in names]


SPECIAL = {
    "logsumexp": Use(lambda a: special.logsumexp(a(M), axis=1)),
    "softmax": Use(lambda a: (special.softmax(a(M), axis=0), special.log_softmax(a(M), axis=1))),
    "expit": Use(lambda a: special.expit(a(V))),
    "gammaln": Use(lambda a: special.gammaln(a(P * 9))),
    "erf": Use(lambda a: (special.erf(a(V)), special.ndtri(a(P)))),
    "xlogy": Use(lambda a: special.xlogy(a(P), a(P))),
    "rel_entr": Use(lambda a: special.rel_entr(a(P), a(P[::-1].copy()))),
    "betainc": Use(lambda a: special.betainc(a(P), a(P * 2), a(P)), converts=True),
    "multigammaln": Use(lambda a: special.multigammaln(a(P + 3), 3), converts=True),
}

STATS = {
    "pearsonr": Use(
        lambda a: _fields(stats.pearsonr(a(V), a(W)), "statistic", "pvalue"), converts=True
    ),
    "ttest_ind": Use(
        lambda a: _fields(stats.ttest_ind(a(V), a(W)), "statistic", "pvalue"), converts=True
    ),
    "ttest_1samp": Use(
        lambda a: _fields(stats.ttest_1samp(a(M), 0.1), "statistic", "pvalue"), converts=True
    ),
    "zscore": Use(lambda a: stats.zscore(a(M))),
    "moments": Use(
        lambda a: (stats.skew(a(M)), stats.kurtosis(a(M), axis=1), stats.moment(a(V), 3))
    ),
    "means": Use(lambda a: (stats.gmean(a(P)), stats.hmean(a(P)), stats.pmean(a(P), 3))),
    "entropy": Use(lambda a: stats.entropy(a(P), a(P[::-1].copy()))),
    "describe": Use(lambda a: _fields(stats.describe(a(V)), "mean", "variance", "skewness")),
    "bartlett": Use(lambda a: stats.bartlett(a(V), a(W)).statistic, converts=True),
    "f_oneway": Use(lambda a: stats.f_oneway(a(V), a(W)).statistic, converts=True),
    "variation": Use(lambda a: (stats.variation(a(M)), stats.sem(a(M)))),
    "quantile": Use(lambda a: stats.quantile(a(V), a([0.1, 0.5, 0.9]))),
    "rankdata": Use(lambda a: stats.rankdata(a(V))),
    "mannwhitneyu": Use(lambda a: _fields(stats.mannwhitneyu(a(V), a(W)), "statistic", "pvalue")),
    "chisquare": Use(
        lambda a: stats.chisquare(a([16.0, 18, 16, 14, 12, 12])).statistic, converts=True
    ),
    "tmean": Use(lambda a: (stats.tmean(a(V)), stats.trim_mean(a(V), 0.1))),
    "iqr": Use(lambda a: stats.iqr(a(V))),
    "directional_stats": Use(lambda a: stats.directional_stats(a(M)).mean_direction),
}

SIGNAL = {
    "convolve": Use(lambda a: signal.convolve(a(V), a(W[:9]), mode="same"), converts=True),
    "fftconvolve": Use(lambda a: signal.fftconvolve(a(IMAGE), a(M), mode="same")),
    "oaconvolve": Use(lambda a: signal.oaconvolve(a(V), a(W[:5]))),
    "correlate": Use(lambda a: signal.correlate(a(V), a(W)), converts=True),
    "hilbert": Use(lambda a: signal.hilbert(a(V))),
    "detrend": Use(lambda a: signal.detrend(a(V)), converts=True),
    "resample": Use(lambda a: signal.resample(a(V), 45)),
    "butter and sosfilt": Use(
        lambda a: signal.sosfilt(a(signal.butter(3, 0.2, output="sos")), a(V)), converts=True
    ),
    "lfilter": Use(lambda a: signal.lfilter(a([0.2, 0.3]), a([1.0, -0.5]), a(V)), converts=True),
    "filtfilt": Use(lambda a: signal.filtfilt(a([0.2, 0.3]), a([1.0, -0.5]), a(V)), converts=True),
    "savgol_filter": Use(lambda a: signal.savgol_filter(a(V), 7, 2), converts=True),
    "firwin": Use(lambda a: signal.firwin(9, 0.3), ours=False),
    "medfilt2d": Use(lambda a: signal.medfilt2d(a(IMAGE), 3), converts=True),
    "freqz": Use(lambda a: signal.freqz(a([0.2, 0.3]), worN=16)),
    "bilinear": Use(lambda a: signal.bilinear(a([1.0]), a([1.0, 1.0]), 10.0), converts=True),
    "zpk2tf": Use(lambda a: signal.zpk2tf(a([0.5]), a([0.2, 0.3]), 2.0)),
}

NDIMAGE = {
    "gaussian_filter": Use(lambda a: ndimage.gaussian_filter(a(IMAGE), 1.5), converts=True),
    "correlate": Use(lambda a: ndimage.correlate(a(IMAGE), a(M[:3, :3])), converts=True),
    "zoom": Use(lambda a: ndimage.zoom(a(IMAGE), 1.5, order=1), converts=True),
    "label": Use(lambda a: ndimage.label(a(IMAGE > 0))[0], converts=True),
    "binary_dilation": Use(lambda a: ndimage.binary_dilation(a(IMAGE > 1)), converts=True),
    "sobel": Use(lambda a: ndimage.sobel(a(IMAGE)), converts=True),
    "median_filter": Use(lambda a: ndimage.median_filter(a(IMAGE), 3), converts=True),
}

FFT = {
    "fft": Use(lambda a: (fft.fft(a(V)), fft.ifft(a(V + 1j * W)), fft.fftn(a(IMAGE)))),
    "rfft": Use(lambda a: (fft.rfft(a(M)), fft.irfft(a(V[:9] + 0j)), fft.rfftn(a(IMAGE)))),
    "hfft": Use(lambda a: (fft.hfft(a(V[:9] + 0j)), fft.ihfft(a(V)))),
    "shifts": Use(lambda a: (fft.fftshift(a(V)), fft.ifftshift(a(M), axes=0))),
    "dct": Use(lambda a: (fft.dct(a(V)), fft.dstn(a(IMAGE))), converts=True),
    "fht": Use(lambda a: fft.fht(a(P), 0.1, 0.5)),
}

LINALG = {
    "det": Use(lambda a: linalg.det(a(SQUARE)), converts=True, ours=False),
    "solve": Use(lambda a: linalg.solve(a(SQUARE), a(M[0])), converts=True, ours=False),
    "inv": Use(lambda a: linalg.inv(a(SQUARE)), converts=True, ours=False),
    "expm": Use(lambda a: linalg.expm(a(SQUARE * 0.1)), converts=True, ours=False),
    "svd": Use(lambda a: linalg.svd(a(M))[1], converts=True, ours=False),
    "cholesky": Use(lambda a: linalg.cholesky(a(SQUARE)), converts=True, ours=False),
    "lstsq": Use(lambda a: linalg.lstsq(a(M), a(V[:12]))[0], converts=True, ours=False),
    "norm": Use(lambda a: linalg.norm(a(M)), converts=True, ours=False),
}

OTHERS = {
    "cluster.vq.whiten": Use(lambda a: cluster.vq.whiten(a(M))),
    "cluster.vq.vq": Use(lambda a: cluster.vq.vq(a(M), a(M[:3])), converts=True),
    "cluster.vq.kmeans": Use(lambda a: cluster.vq.kmeans(a(M), a(M[:3]))[0], converts=True),
    "cluster.hierarchy.linkage": Use(
        lambda a: cluster.hierarchy.linkage(a(M), "average"), converts=True
    ),
    "constants": Use(lambda a: constants.convert_temperature(a(V), "C", "K")),
    "differentiate.derivative": Use(
        lambda a: differentiate.derivative(lambda x: x**3, a(T)).df, close=1e-7
    ),
    "differentiate.jacobian": Use(
        lambda a: differentiate.jacobian(lambda x: x**2, a(V[:3])).df, close=1e-7
    ),
    "integrate.trapezoid": Use(
        lambda a: (integrate.trapezoid(a(V)), integrate.cumulative_trapezoid(a(V)))
    ),
    "integrate.simpson": Use(
        lambda a: (integrate.simpson(a(V)), integrate.cumulative_simpson(a(V))),
        converts=True,
        close=1e-7,
    ),
    "integrate.tanhsinh": Use(
        lambda a: integrate.tanhsinh(lambda x: x**2, a(0.0 * P), a(P)).integral
    ),
    "integrate.cubature": Use(
        lambda a: (
            integrate.cubature(lambda x: x[:, 0] * x[:, 1], a([0.0, 0.0]), a([1.0, 2.0])).estimate
        )
    ),
    "interpolate.make_interp_spline": Use(
        lambda a: interpolate.make_interp_spline(a(T), a(T**2))(a(T[3:9] + 0.01)), converts=True
    ),
    "interpolate.CubicSpline": Use(
        lambda a: interpolate.CubicSpline(a(T), a(T**2))(a(T[3:9] + 0.01)), converts=True
    ),
    "interpolate.PchipInterpolator": Use(
        lambda a: interpolate.PchipInterpolator(a(T), a(T**2))(a(T[3:9] + 0.01)), converts=True
    ),
    "interpolate.RegularGridInterpolator": Use(
        lambda a: interpolate.RegularGridInterpolator((a(T[:20]), a(T[:24])), a(IMAGE))(
            a([[0.5, 0.6]])
        ),
        converts=True,
    ),
    "interpolate.BarycentricInterpolator": Use(
        lambda a: interpolate.BarycentricInterpolator(a(T[:6]), a(T[:6] ** 2), rng=1)(a(T[:4])),
        converts=True,
        ours=False,
    ),
    "optimize.elementwise.find_root": Use(
        lambda a: (
            elementwise.find_root(lambda x, c: x**3 - c, (a(0.0 * P), a(P + 1.0)), args=(a(P),)).x
        )
    ),
    "optimize.elementwise.find_minimum": Use(
        lambda a: (
            elementwise.find_minimum(
                lambda x, c: (x - c) ** 2, (a(P - 1), a(P), a(P + 2)), args=(a(P),)
            ).x
        ),
        close=1e-6,
    ),
    "optimize.rosen": Use(
        lambda a: (optimize.rosen(a(V)), optimize.rosen_der(a(V)), optimize.rosen_hess(a(V)))
    ),
    "spatial.transform.Rotation": Use(
        lambda a: spatial.transform.Rotation.from_rotvec(a(M[:, :3])).apply(a(M[:, 2:]))
    ),
    "spatial.transform.Slerp": Use(
        lambda a: spatial.transform.Rotation.from_quat(a(M[:, :4])).as_matrix()
    ),
    "spatial.distance.cdist": Use(
        lambda a: spatial.distance.cdist(a(M), a(M)), converts=True, ours=False
    ),
}

USES: dict[str, Use] = {
    f"{module} {name}": use
    for module, uses in (
        ("special", SPECIAL),
        ("stats", STATS),
        ("signal", SIGNAL),
        ("ndimage", NDIMAGE),
        ("fft", FFT),
        ("linalg", LINALG),
        ("", OTHERS),
    )
    for name, use in uses.items()
}
