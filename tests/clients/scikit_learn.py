"""scikit-learn with array_api_dispatch."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn import (
    decomposition,
    discriminant_analysis,
    linear_model,
    metrics,
    mixture,
    naive_bayes,
    pipeline,
    preprocessing,
)
from sklearn.base import clone
from sklearn.metrics import pairwise
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.utils import check_array, check_X_y

from clients.uses import Call, Use

RNG = np.random.default_rng(32)
X = RNG.normal(size=(80, 6)) @ np.diag([5.0, 3.0, 2.0, 1.0, 0.5, 0.2])
WEIGHT = RNG.normal(size=6)
Y = X @ WEIGHT + 0.1 * RNG.normal(size=80)
LABEL = (Y > 0).astype(np.int64) + (Y > 4)
GUESS = np.where(RNG.uniform(size=80) < 0.8, LABEL, (LABEL + 1) % 3)
FIRST = RNG.dirichlet(np.ones(3), 80)


def _dispatched(call: Call, **options: Any) -> Use:
    def use(a: Any) -> Any:
        with sklearn.config_context(array_api_dispatch=True):
            return call(a)

    return Use(use, **options)


def _fitted(estimator: Any, target: Any, results: tuple[str, ...]) -> Call:
    """Attributes and results of methods after fit."""

    def use(a: Any) -> Any:
        model = clone(estimator)
        model.fit(a(X), None if target is None else a(target))
        found = []
        for name in results:
            value = getattr(model, name)
            if name == "score":
                found.append(value(a(X), *([] if target is None else [a(target)])))
            else:
                found.append(value(a(X)) if callable(value) else value)
        return found

    return use


ESTIMATORS = {
    "PCA": (
        decomposition.PCA(3, svd_solver="full"),
        None,
        ("components_", "explained_variance_", "transform", "score_samples"),
    ),
    "PCA covariance": (
        decomposition.PCA(3, svd_solver="covariance_eigh", whiten=True),
        None,
        ("explained_variance_ratio_", "transform"),
    ),
    "PCA randomized": (
        decomposition.PCA(
            2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0
        ),
        None,
        ("singular_values_", "transform"),
    ),
    "Ridge": (
        linear_model.Ridge(0.5, solver="svd"),
        Y,
        ("coef_", "intercept_", "predict", "score"),
    ),
    "RidgeCV": (linear_model.RidgeCV([0.1, 1.0, 10.0]), Y, ("coef_", "predict")),
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis(),
        LABEL,
        ("means_", "decision_function", "predict", "predict_proba", "transform"),
    ),
    "LogisticRegression": (
        linear_model.LogisticRegression(C=0.1, max_iter=200),
        LABEL,
        ("predict", "predict_proba"),
    ),
    "PoissonRegressor": (linear_model.PoissonRegressor(), np.exp(0.1 * Y), ("predict",)),
    "GaussianNB": (naive_bayes.GaussianNB(), LABEL, ("theta_", "predict", "predict_proba")),
    "GaussianMixture": (
        mixture.GaussianMixture(2, covariance_type="diag", init_params="random", random_state=0),
        None,
        ("means_", "weights_", "predict", "score_samples"),
    ),
    "GaussianMixture full": (
        mixture.GaussianMixture(2, init_params="random_from_data", random_state=1, tol=0.05),
        None,
        ("means_", "covariances_", "bic"),
    ),
    "StandardScaler": (preprocessing.StandardScaler(), None, ("mean_", "var_", "transform")),
    "MinMaxScaler": (preprocessing.MinMaxScaler(), None, ("transform",)),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler(), None, ("transform",)),
    "Normalizer": (preprocessing.Normalizer(), None, ("transform",)),
    "Binarizer": (preprocessing.Binarizer(), None, ("transform",)),
    "PolynomialFeatures": (preprocessing.PolynomialFeatures(2), None, ("transform",)),
    "pipeline": (
        pipeline.make_pipeline(
            preprocessing.StandardScaler(),
            decomposition.PCA(4, svd_solver="full"),
            linear_model.Ridge(solver="svd"),
        ),
        Y,
        ("predict", "score"),
    ),
}

METRICS = {
    "accuracy_score": lambda a: metrics.accuracy_score(a(LABEL), a(GUESS)),
    "confusion_matrix": lambda a: metrics.confusion_matrix(a(LABEL), a(GUESS)),
    "f1_score": lambda a: metrics.f1_score(a(LABEL), a(GUESS), average="macro"),
    "precision_score": lambda a: metrics.precision_score(a(LABEL), a(GUESS), average="micro"),
    "recall_score": lambda a: metrics.recall_score(a(LABEL), a(GUESS), average="weighted"),
    "balanced_accuracy_score": lambda a: metrics.balanced_accuracy_score(a(LABEL), a(GUESS)),
    "cohen_kappa_score": lambda a: metrics.cohen_kappa_score(a(LABEL), a(GUESS)),
    "log_loss": lambda a: metrics.log_loss(a(LABEL), a(FIRST)),
    "zero_one_loss": lambda a: metrics.zero_one_loss(a(LABEL), a(GUESS)),
    "mean_squared_error": lambda a: metrics.mean_squared_error(a(Y), a(Y * 1.1)),
    "mean_absolute_error": lambda a: metrics.mean_absolute_error(a(Y), a(Y * 1.1)),
    "median_absolute_error": lambda a: metrics.median_absolute_error(a(Y), a(Y * 1.1)),
    "r2_score": lambda a: metrics.r2_score(a(Y), a(Y * 1.1)),
    "explained_variance_score": lambda a: metrics.explained_variance_score(a(Y), a(Y * 1.1)),
    "roc_auc_score": lambda a: metrics.roc_auc_score(a(LABEL > 0), a(Y)),
    "d2_tweedie_score": lambda a: metrics.d2_tweedie_score(a(Y), a(Y * 1.1)),
    "max_error": lambda a: metrics.max_error(a(Y), a(Y * 1.1)),
    "cosine_similarity": lambda a: pairwise.cosine_similarity(a(X)),
    "euclidean_distances": lambda a: pairwise.euclidean_distances(a(X), a(X[:5])),
    "rbf_kernel": lambda a: pairwise.rbf_kernel(a(X[:9])),
}  # fmt: skip

VALIDATION = {
    "check_array": lambda a: check_array(a(X), dtype="numeric"),
    "check_X_y": lambda a: check_X_y(a(X), a(Y)),
    "train_test_split": lambda a: train_test_split(a(X), a(Y), random_state=3),
    "cross_val_score": lambda a: cross_val_score(
        linear_model.Ridge(solver="svd"), a(X), a(Y), cv=3, scoring="r2"
    ).tolist(),
    "LabelEncoder": lambda a: preprocessing.LabelEncoder().fit_transform(a(LABEL * 3)),
}

# Results whose columns are singular vectors, and no one chooses their signs.
SIGNS = {"LinearDiscriminantAnalysis": (4,)}

# Averages of labels are float32, the namespace's default.
USES: dict[str, Use] = {
    **{
        name: _dispatched(_fitted(*parts), close=1e-7, signs=SIGNS.get(name, ()))
        for name, parts in ESTIMATORS.items()
    },
    **{name: _dispatched(call, close=2e-6) for name, call in METRICS.items()},
    **{name: _dispatched(call, close=1e-7) for name, call in VALIDATION.items()},
}
