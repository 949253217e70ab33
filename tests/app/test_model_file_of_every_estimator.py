"""Every estimator can be saved and loaded with the same bits, and a file whose contents do not fit is
refused.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import load_model, save_model
from craftc._common.merge_path import MergePath
from craftc._kernels.moments import Grid
from craftc.cli import main
from craftc.datasets import load_heart
from craftc.spectral import observed_graph
from tests.app.model_members import arrays_of, write_arrays

RNG = np.random.default_rng(0)
BLOBS = np.concatenate([RNG.normal(mean, 1.0, (40, 4)) for mean in (0, 6, 12)])
NAMES = np.repeat(["a", "b", "c"], 40)
COUNTS = np.floor(np.abs(BLOBS))
BINARY = (BLOBS > 5).astype(float)
LEVELS = np.floor(BLOBS / 3)
CONSTANT = np.column_stack([BLOBS, np.full(120, 1.5)])


def heart():
    frame = load_heart().data.assign(same="x", number=1.5)
    frame.loc[::7, "age"] = np.nan
    return frame


def dp_means(X=BLOBS, **parameters):
    return craftc.DPMeans(random_state=0, **parameters).fit(X), X


def mixture(X=BLOBS, **parameters):
    return craftc.FeatureSelectionMixture(5, random_state=0, **parameters).fit(X), X


def covariates(y=NAMES, **parameters):
    return craftc.ConvexCovariateClustering(**parameters).fit(BLOBS, y), BLOBS


def spectral(**parameters):
    return craftc.GraphSpectralFeatures(3, random_state=0, **parameters).fit(heart()), heart()


def given_graph():
    model, rows = spectral(graph=observed_graph(heart(), random_state=0))
    return model.set_params(graph=None), rows  # a file does not contain it


def prototypes(**parameters):
    return craftc.KPrototypes(3, n_init=2, random_state=0, **parameters).fit(heart()), heart()


def craft(**parameters):
    return craftc.CRAFT(n_init=2, random_state=0, **parameters).fit(heart()), heart()


def paper_craft(**parameters):
    return craftc.PaperCRAFT(3, random_state=0, **parameters).fit(heart()), heart()


def updated():
    model = craftc.DPMeans(random_state=0).fit(BLOBS.astype(np.float32))
    return model.partial_fit(BLOBS[:50].astype(np.float32) + 30), BLOBS.astype(np.float32)


CASES = {
    "craft": craft,
    "craft, diagonal": lambda: craft(covariance="diagonal"),
    "craft, covariances": lambda: craft(covariance="full"),
    "craft, one covariance": lambda: craft(covariance="tied"),
    "paper craft": paper_craft,
    "paper craft, printed": lambda: paper_craft(model="paper", numeric="auto"),
    "dp": dp_means,
    "dp, infinite penalty": lambda: dp_means(cluster_penalty=np.inf),
    "dp, data frame": lambda: dp_means(pd.DataFrame(BLOBS, columns=list("abcd"))),
    "dp, full": lambda: dp_means(covariance="full"),
    "dp, full-sized": lambda: dp_means(covariance="full-sized", n_clusters=3),
    "dp, one covariance": lambda: dp_means(covariance=np.diag([1.0, 2.0, 3.0, 4.0])),
    "dp, known covariances": lambda: dp_means(covariance=np.stack([np.eye(4)] * 3), n_clusters=3),
    "dp, updated": updated,
    "k-features": lambda: (craftc.KFeatures(3, random_state=0).fit(BLOBS), BLOBS),
    "k-modes": lambda: (craftc.KModes(3, random_state=0).fit(LEVELS), LEVELS),
    "k-modes, Ng": lambda: (craftc.KModes(3, cat_dissim="ng", random_state=0).fit(LEVELS), LEVELS),
    "k-prototypes": prototypes,
    "k-prototypes, Jaccard": lambda: prototypes(cat_dissim="jaccard-label", missing="category"),
    "k-prototypes, Ng": lambda: prototypes(cat_dissim="ng", update="batch", gamma=2.0),
    "bp": lambda: (craftc.BPMeans(random_state=0).fit(BLOBS), BLOBS),
    "bp, no features": lambda: (craftc.BPMeans(1e9, random_state=0).fit(BLOBS - BLOBS.mean(axis=0)), BLOBS),
    "convex": lambda: (craftc.ConvexClustering().fit(BLOBS), BLOBS),
    "convex, path": lambda: (craftc.ConvexClustering([3.0, 1.0]).fit(BLOBS), BLOBS),
    "covariates": covariates,
    "covariates, one penalty": lambda: covariates(fusion_penalty=2.0),
    "covariates, selection": lambda: covariates(sparsity=[1.0, 0.5, 0.25]),
    "covariates, numbers": lambda: covariates(np.repeat([0, 1, 5], 40), fusion_penalty=2.0),
    "covariates, objects": lambda: covariates(NAMES.astype(object), fusion_penalty=2.0),
    "covariates, texts that end with NUL": lambda: covariates(
        np.array(["a", "a\0", "b"], object)[np.arange(120) % 3], fusion_penalty=2.0
    ),
    "covariates, dates": lambda: covariates(
        np.array(["2020-01-01", "2021-01-01"], "M8[D]")[np.arange(120) % 2], fusion_penalty=2.0
    ),
    "covariates, booleans": lambda: covariates(NAMES == "a", fusion_penalty=2.0),
    "mixture": mixture,
    "mixture, full": lambda: mixture(covariance="full"),
    "mixture, all": lambda: mixture(covariance="full", selection="all", concentration="auto"),
    "mixture, constant column": lambda: mixture(CONSTANT),
    "mixture, tied": lambda: mixture(selection="shared", noise="feature"),
    "mixture, own fractions": lambda: mixture(learn_fraction="component"),
    "mixture, counts": lambda: mixture(COUNTS, component="poisson"),
    "mixture, indicators": lambda: mixture(BINARY, component="bernoulli"),
    "spectral": spectral,
    "spectral, given graph": given_graph,
    "spectral, ranks": lambda: spectral(scaling="normal"),
    "spectral, quadratic": lambda: spectral(unary=True),
    "spectral, category": lambda: spectral(missing="category"),
    "spectral, numbers": lambda: (craftc.GraphSpectralFeatures(2, random_state=0).fit(BLOBS), BLOBS),
}


@pytest.fixture(params=CASES)
def fitted(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[request.param]()


def check_same(a, b, name=""):
    """Equal values of equal types, arrays to the last bit; containers and objects member by member."""
    assert type(a) is type(b), name
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), name
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), name
        for key in a:
            check_same(a[key], b[key], f"{name}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), name
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            check_same(left, right, f"{name}[{i}]")
    elif isinstance(a, Grid):
        check_same(a.__reduce__()[1], b.__reduce__()[1], name)
    elif isinstance(a, MergePath):  # the labels of its first step may have another type
        check_same(a.changes(), b.changes(), name)
        check_same([step.labels for step in a], [step.labels for step in b], name)
        assert a.objectives() == b.objectives()
    elif is_dataclass(a):  # without what it computes when it is first asked
        for field in fields(a):
            check_same(getattr(a, field.name), getattr(b, field.name), f"{name}.{field.name}")
    elif hasattr(a, "__dict__"):
        check_same(vars(a), vars(b), name)
    else:
        assert a == b or (a != a and b != b), name


def check_methods(model, again, X):
    for name in ("predict", "transform", "predict_proba", "decision_function", "score_samples"):
        if hasattr(model, name):
            check_same(getattr(model, name)(X), getattr(again, name)(X), name)
    if hasattr(model, "inverse_transform"):
        one, other = (each.inverse_transform(each.transform(X)[:5]) for each in (model, again))
        pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(other), check_exact=True)
    if hasattr(model, "sample"):
        check_same(model.sample(20, random_state=1), again.sample(20, random_state=1))
    if hasattr(model, "summary"):
        pd.testing.assert_frame_equal(model.summary(), again.summary(), check_exact=True)
    for name in ("path_", "sparsity_path_"):
        if hasattr(model, name):
            pd.testing.assert_frame_equal(getattr(model, name), getattr(again, name), check_exact=True)
    if hasattr(model, "edges"):
        pd.testing.assert_frame_equal(model.edges(), again.edges(), check_exact=True)


def test_the_same_bits(fitted, tmp_path):
    model, X = fitted
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    check_same(model, again, type(model).__name__)
    check_methods(model, again, X)
    if hasattr(model, "_parameters"):
        assert model.score(X) == again.score(X)
    first = (tmp_path / "m").read_bytes()
    save_model(again, tmp_path / "m")
    assert len(first) == len((tmp_path / "m").read_bytes())


@pytest.mark.parametrize(
    ("model", "stored"),
    [
        (
            craftc.DPMeans(init=np.arange(120) % 3, random_state=np.random.RandomState(0)),
            {"init": "auto", "random_state": None},
        ),
        (craftc.KFeatures(init=np.arange(240).reshape(120, 2) % 2), {"init": "greedy"}),
        (
            craftc.ConvexClustering(weights=lambda rows: np.ones((len(rows), len(rows)))),
            {"weights": "gaussian-knn"},
        ),
        (craftc.FeatureSelectionMixture(3, init=np.eye(3)[np.arange(120) % 3]), {"init": "kmeans"}),
        (craftc.GraphSpectralFeatures(1, graph=np.ones((4, 4))), {"graph": None, "n_components": 1}),
    ],
)
def test_parameters_that_a_fitted_model_does_not_use(model, stored, tmp_path):
    model.fit(BLOBS)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert {name: getattr(again, name) for name in stored} == stored
    check_methods(model, again, BLOBS)
    again.fit(BLOBS)


def refused(path):
    """Whether a file is refused with the error for damaged files; otherwise it must load."""
    try:
        load_model(path)
    except ValueError as error:
        if "is damaged or cut short" not in str(error):
            raise
        return True
    return False


def spoilt(array):
    """Arrays that cannot stand in the place of this one, each with a word for it."""
    yield "another type", array.astype(np.complex64) if array.dtype.kind != "U" else np.zeros(array.shape)
    yield "one more dimension", array[None]
    if array.dtype.kind == "f" and array.size:
        yield "infinity", np.full_like(array, -np.inf)
    if array.ndim and len(array) > 1:
        yield "shorter", array[1:]
    if array.dtype.kind == "i" and array.size:
        yield "numbers that are too large", array + 10**6


LENGTH_IS_FREE = {
    "_unusual",
    "objective_path_",
    "labels_",
    "assignments_",
    "components_",
    "classes_",
    "features_",
}
POSSIBLE = {
    ("infinity", "_points.evidence"),
    ("infinity", "_points.gap"),
    ("infinity", "_selection_points.evidence"),
    ("infinity", "_selection_points.gap"),
    ("numbers that are too large", "classes_"),
    ("numbers that are too large", "_encoding.counts"),
}


@pytest.mark.slow_except(5)
def test_every_array_is_checked(fitted, tmp_path):
    model, _ = fitted
    path = tmp_path / "m"
    save_model(model, path)
    arrays = arrays_of(path)
    for name, array in arrays.items():
        if name == "model":
            continue
        write_arrays(path, {key: value for key, value in arrays.items() if key != name})
        assert refused(path), f"without {name}"
        for word, other in spoilt(array):
            if (word == "shorter" and name in LENGTH_IS_FREE) or (word, name) in POSSIBLE:
                continue
            write_arrays(path, arrays | {name: other})
            assert refused(path), f"{name}: {word}"


@pytest.mark.slow_except(6)
def test_every_value_of_the_head_is_checked(fitted, tmp_path):
    model, _ = fitted
    path = tmp_path / "m"
    save_model(model, path)
    arrays = arrays_of(path)
    head = json.loads(arrays["model"].tobytes())

    def changed(value, keys):
        copy = json.loads(json.dumps(head))
        place = copy
        for key in keys[:-1]:
            place = place[key]
        if value is None:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value
        write_arrays(path, arrays, copy)
        return refused(path)

    for name in ("parameters", "n_features", "feature_names", "values"):
        assert changed(None, [name])
    for name, value in head["values"].items():
        assert changed(None, ["values", name])
        assert changed(["x"], ["values", name])
        assert changed({"float": "nan"}, ["values", name])
        if not isinstance(value, str) and name != "_encoding.schema":
            assert changed("x", ["values", name])
    if "_frame_library" in head["values"]:
        assert changed("excel", ["values", "_frame_library"])
    assert changed(3, ["parameters", "n_quarks"])
    assert changed({"a": 1}, ["parameters", "n_threads"])
    assert changed(0, ["n_features"])
    assert changed(["a"], ["feature_names"])
    assert changed("a" * model.n_features_in_, ["feature_names"])


def test_a_file_of_one_estimator_is_none_of_another(tmp_path):
    path = tmp_path / "m"
    save_model(dp_means()[0], path)
    arrays = arrays_of(path)
    head = json.loads(arrays["model"].tobytes())
    for name in (
        "CRAFT",
        "KFeatures",
        "ConvexClustering",
        "FeatureSelectionMixture",
        "GraphSpectralFeatures",
        "ConvexCovariateClustering",
    ):
        write_arrays(path, arrays, head | {"estimator": name})
        assert refused(path)


def test_the_members_of_the_archive_are_plain(fitted, tmp_path):
    save_model(fitted[0], tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    assert not any(array.dtype.hasobject for array in arrays_of(tmp_path / "m").values())


def test_the_command_line_predicts_with_a_craft(tmp_path, capsys):
    save_model(dp_means()[0], tmp_path / "m")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "t.csv")]) == 2
    assert "holds a fitted DPMeans; this command needs a CRAFT." in " ".join(capsys.readouterr().err.split())
