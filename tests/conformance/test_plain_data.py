"""Fitted models hold arrays, Python values and objects of craftc's Python classes, so that formats other than
pickle can hold them: skops restores every estimator from a fixed list of types.
"""

from __future__ import annotations

import copyreg
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.conformance import fingerprints

skops = pytest.importorskip("skops.io", reason="skops is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning")

_COLUMNS = ["craftc.table.mixed_table.Schema", "numpy.dtype"]
_ENCODING = ["craftc.table.numeric_encoding.NumericEncoding", "craftc.table.numeric_encoding.EncodingRecipe"]
_LEVELS = ["craftc.table.levels.LevelEncoding", "craftc.table.levels.NumberLevels"]
_FITTED = [
    "craftc.craft.fitted.ColumnLinks",
    "craftc.table.moments.ExactSums",
    "craftc.craft.fitted.FittedClusters",
    "craftc.craft.rows.scores.MixtureFit",
    "craftc.craft.one_factor.OneFactor",
    "craftc.craft.parameters.ModelSpec",
    *_COLUMNS,
]
_CRAFT = [
    "craftc._common.merge_path.MergePath",
    "craftc._common.merge_path.Change",
    "craftc.craft.estimator.CRAFT",
    "craftc.craft.fitted.CarriedSums",
    "craftc.craft.fitted.PathClusters",
    "craftc.craft.covariance.Covariance",
    "craftc.craft.products.CrossProducts",
    "craftc.table.levels.Axis",
    *_FITTED,
    *_LEVELS,
]
_DP_MEANS = ["craftc._common.cluster_moments.ClusterMoments", "craftc.dpmeans.estimator.DPMeans"]
_MIXTURE = [
    "craftc.mixture.estimator.FeatureSelectionMixture",
    "craftc.mixture.posterior.ColumnDensities",
    "craftc.mixture.priors.Priors",
    "craftc.mixture.scaling.ColumnScaling",
]
_PROTOTYPES = ["craftc.kprototypes.fitted.Prototypes", "craftc.table.moments.ExactSums", *_COLUMNS]
_SPECTRAL = [
    "craftc.spectral.encoding.Encoding",
    "craftc.spectral.estimator.GraphSpectralFeatures",
    *_COLUMNS,
]

#: Types that `skops.io.load(file, trusted=...)` needs, by the estimator and its variant.
TRUSTED = {
    "craft": _CRAFT,
    "craft, priced": ["craftc.craft.paper.estimator.PaperCRAFT", *_FITTED, *_ENCODING],
    "dp-means": _DP_MEANS,
    "dp-means, full": [
        *_DP_MEANS,
        "craftc.dpmeans.gaussian.Gaussian",
        "craftc.dpmeans.gaussian.ClusterShapes",
    ],
    "bp-means": ["craftc.bpmeans.estimators.BPMeans"],
    "k-features": ["craftc.bpmeans.estimators.KFeatures"],
    "mixture": [*_MIXTURE, "craftc.mixture.posterior.Posterior"],
    "mixture, full": [
        *_MIXTURE,
        "craftc.mixture.full_covariance.FullPosterior",
        "craftc.mixture.wishart.NormalWishart",
    ],
    "k-modes": ["craftc.kprototypes.estimators.KModes", *_PROTOTYPES],
    "k-prototypes": ["craftc.kprototypes.estimators.KPrototypes", *_PROTOTYPES],
    "covariates": [
        "craftc.covariates.estimator.ConvexCovariateClustering",
        "craftc.covariates.estimator.PathPoint",
    ],
    "convex": [
        "craftc._common.cluster_moments.ClusterMoments",
        "craftc.convex.estimator.ConvexClustering",
        "craftc.convex.estimator.RowsPoint",
    ],
    "spectral": [*_SPECTRAL, "craftc.spectral.pseudo_likelihood.Parameters"],
    "spectral, few values": [*_SPECTRAL, *_ENCODING, "craftc.spectral.pseudo_likelihood.Parameters"],
    "spectral, given graph": [*_SPECTRAL, "craftc.spectral.observed.ObservedGraph"],
}


def types_of(name):
    """Types to trust of a model: its own, or those of its estimator."""
    return sorted(TRUSTED.get(name, TRUSTED[name.partition(",")[0]]))


@pytest.fixture(scope="module", params=fingerprints.MODELS)
def fitted(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return request.param, fingerprints.fit(request.param)


def unplain(value, path, seen):
    """Places in a model that hold something else than plain data, as pickle sees the model."""
    if value is None or isinstance(value, bool | int | float | str | np.generic | np.dtype):
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # keeps it alive, so that its id stays its own
    kind = type(value)
    if kind is np.ndarray:
        parts = enumerate(value.ravel().tolist() if value.dtype == object else [])
    elif kind is dict:
        parts = [*enumerate(value), *value.items()]
    elif kind in (list, tuple) or (_is_of_craftc(kind) and isinstance(value, tuple)):
        parts = enumerate(value)
    elif _is_of_craftc(kind):
        make, arguments, *state = value.__reduce_ex__(4)
        if make is not copyreg.__newobj__ or arguments != (kind,) or type(state[0]) is not dict:
            yield f"{path}: {kind} cannot be restored from a dict"
            return
        parts = state[0].items()
    else:
        yield f"{path}: {kind}"
        return
    for name, part in parts:
        yield from unplain(part, f"{path}.{name}", seen)


def _is_of_craftc(kind):
    """Whether a class is written in Python, in craftc."""
    return kind.__module__.startswith("craftc.") and not kind.__module__.startswith("craftc._kernels.")


def test_a_fitted_model_holds_plain_data(fitted):
    name, model = fitted
    assert not list(unplain(model, type(model).__name__, {})), name


class _Holder:
    """Not of craftc."""


@pytest.mark.parametrize("foreign", [len, np.add, _Holder(), {"a": [abs]}, np.array([set()], dtype=object)])
def test_what_is_not_plain_is_found(foreign):
    model = clone(fingerprints.MODELS["k-features"][0])
    model.extra_ = foreign
    assert list(unplain(model, "model", {}))


def test_compiled_objects_are_found():
    model = fingerprints.fit("craft")
    model.extra_ = model._fitted.clusters.moments.grid
    assert len(list(unplain(model, "model", {}))) == 1


def test_skops_gives_the_same_results(fitted):
    name, model = fitted
    data = skops.dumps(model)
    assert skops.get_untrusted_types(data=data) == types_of(name)
    again = skops.loads(data, trusted=types_of(name))
    for values in (fingerprints.fitted_numbers, lambda model: fingerprints.answers(name, model)):
        assert fingerprints.digest(values(again)) == fingerprints.digest(values(model))
    if hasattr(model, "summary"):
        pd.testing.assert_frame_equal(again.summary(), model.summary(), check_exact=True)


def test_a_model_from_skops_gives_other_numbers_of_clusters():
    model = fingerprints.fit("craft")
    again = skops.loads(skops.dumps(model), trusted=types_of("craft"))
    for k in range(1, model.n_clusters_ + 1):
        assert (again.cut(k) == model.cut(k)).all()
        one, other = (each.at(k, fingerprints.TABLE) for each in (model, again))
        assert fingerprints.digest(fingerprints.fitted_numbers(one)) == fingerprints.digest(
            fingerprints.fitted_numbers(other)
        )


def test_a_model_of_a_dask_collection(tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    rows = pd.DataFrame(fingerprints.ROWS)
    model = clone(fingerprints.MODELS["craft"][0]).fit(dask.from_pandas(rows, npartitions=3))
    assert not list(unplain(model, "CRAFT", {}))
    stream = io.BytesIO()
    skops.dump(model, stream)
    again = skops.load(stream, trusted=types_of("craft, covariances"))
    assert (again.predict(rows) == model.predict(rows)).all()
    assert (again.at(2).predict(rows) == model.at(2).predict(rows)).all()
