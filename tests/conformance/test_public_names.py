"""Public names, signatures, methods and fitted attributes, written out: a change here is a change for every
user.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib
from importlib import metadata

import numpy as np
import pytest

import craftc
from tests.common import ROOT

pd = pytest.importorskip("pandas", reason="names of columns come from frames")

SIGNATURES = {
    "BPMeans": (
        "(feature_penalty='auto', *, max_features=None, collapsed=False, assignment='auto', base='mean', "
        "init='greedy', n_init=10, "
        "exchanges=True, max_iter=1000, random_state=None, n_threads=None, verbose=0, n_trials=None, "
        "shuffle=False)"
    ),
    "CRAFT": (
        "(n_clusters=None, *, kinds=None, categorical='auto', column_weights=None, null='marginals', "
        "feature_sharing=0.0, covariance='auto', price_factor='auto', missing='ignore', unknown='ignore', "
        "unusable='error', max_clusters=100, min_cluster_size=None, max_cluster_size=None, "
        "outlier_price=None, init='auto', n_init=8, random_state=None, n_threads=None, verbose=0)"
    ),
    "PaperCRAFT": (
        "(n_clusters=None, *, cluster_price='farthest-first', price_factor=1.0, model='paper', "
        "selection='fixed', feature_fraction=0.5, feature_variance=None, feature_sharing=0.0, "
        "categorical_threshold=0.95, "
        "numeric_threshold=0.5, numeric='raw', categorical='auto', missing='ignore', unknown='ignore', "
        "max_clusters=100, init='auto', n_init=8, max_iter=100, random_state=None, n_threads=None, verbose=0)"
    ),
    "ConvexClustering": (
        "(fusion_penalty=None, *, n_clusters=None, weights='gaussian-knn', n_neighbors=8, "
        "solver='certified', tol=1e-06, "
        "max_iter=10000, n_threads=None, verbose=0)"
    ),
    "ConvexCovariateClustering": (
        "(fusion_penalty=None, *, similarity=None, ridge=0.1, sparsity=0.0, solver='certified', "
        "selection='evidence', missing='error', tol=1e-06, "
        "max_iter=10000, n_threads=None, verbose=0)"
    ),
    "DPMeans": (
        "(cluster_penalty='auto', *, n_clusters=None, max_clusters=None, mode='auto', polish='auto', "
        "covariance='spherical', "
        "init='auto', n_init=1, max_iter=300, random_state=None, n_threads=None, verbose=0, "
        "covariance_prior=None, "
        "covariance_price=None)"
    ),
    "FeatureSelectionMixture": (
        "(n_components=20, *, selection='local', component='gaussian', covariance='diagonal', "
        "noise='isotropic', feature_fraction=0.5, "
        "feature_variance=None, learn_fraction=False, fraction_prior=(1.0, 1.0), concentration=5.0, "
        "concentration_prior=(1.0, 1.0), mean_precision_prior=0.1, degrees_of_freedom_prior=2.0, "
        "covariance_prior=1.0, scale='auto', merge=True, "
        "init='kmeans', n_init=3, max_iter=500, tol=1e-06, random_state=None, n_threads=None, verbose=0)"
    ),
    "GraphSpectralFeatures": (
        "(n_components=5, *, graph=None, unary='free', grid_size=32, scaling='range', laplacian='signed', "
        "l2=0.1, l1=0.0, categorical='auto', normalized=True, skip_first=False, conditionals='codes', "
        "groups='softmax', beta=2.0, eps=None, factorization='hals', n_factors=None, indicator_weight=1.0, "
        "missing='ignore', unknown='ignore', tol=0.0001, max_iter=5000, random_state=None, n_threads=None, "
        "verbose=0)"
    ),
    "KFeatures": (
        "(n_features=None, *, feature_penalty=None, assignment='auto', base='mean', init='greedy', "
        "n_init=10, exchanges=True, "
        "max_iter=1000, random_state=None, n_threads=None, verbose=0, n_trials=None, empty='drop')"
    ),
    "KModes": (
        "(n_clusters=8, *, init='Cao', n_init=10, max_iter=100, cat_dissim='matching', update='online', "
        "categorical='auto', "
        "missing='ignore', unknown='ignore', random_state=None, n_threads=None, n_jobs=None, verbose=0)"
    ),
    "KPrototypes": (
        "(n_clusters=8, *, gamma=None, num_dissim='euclidean', init='Huang', n_init=10, max_iter=100, "
        "cat_dissim='matching', "
        "update='online', categorical='auto', missing='ignore', unknown='ignore', random_state=None, "
        "n_threads=None, n_jobs=None, "
        "verbose=0)"
    ),
    "MixedTable": "(numeric, codes, schema)",
    "MixedTable.from_data": "(X, *, categorical='auto', missing='ignore', dtype=None, kinds=None)",
    "get_include": "()",
    "load_model": "(path)",
    "to_onnx": "(model)",
    "to_sql": "(model, table='customers', *, key=('id',), dialect='duckdb', margin=True, "
    "probabilities=False)",
    "read_table": "(path_or_frame, *, na_values=(), header='infer', skip=0, delimiter='infer', "
    "encoding='infer', sheet=None, decimal='infer', blanks='auto', split='auto', all_lines=False, "
    "on_unusable='drop', dates='auto', labels=None, like=None)",
    "save_model": "(model, path)",
    "show_versions": "()",
    "cli.main": "(argv=None)",
    "compare": "(model, table, *, sample_weight=None)",
    "covariates.correlation_similarity": "(X, n_neighbors=8, sample_weight=None)",
    "covariates.knn_similarity": "(embedding, n_neighbors=8)",
    "craft.Comparison": "(names, then, now, sizes, columns, feature_drift, missing, cluster_drift, scores, "
    "score_drift, n_rows, labels, notes, _library=None)",
    "craft.Changes": "(segments, rows, notes=<factory>, former_numbers=<factory>, _library=None)",
    "craft.NullTest": "(saving, n_clusters, null_savings, null_n_clusters, n_rows, sampled, "
    "one_and_two=None, agreement=None)",
    "craft.Profile": "(columns, sizes, order, headings, notes, library)",
    "craft.Rules": "(columns, rules, root, sizes, order, headings, notes, schema, library)",
    "craft.Stability": "(overlap, n_clusters, agreement)",
    "craft.Progress": "(share, elapsed_s, remaining_s, stage, n_clusters, objective)",
    "craft.cluster_price": "(paper_lambda, n_features, *, feature_fraction=0.5, feature_variance=None)",
    "craft.price_terms": "(feature_fraction=0.5, feature_variance=None)",
    "datasets.load_heart": "()",
    "datasets.make_mixed": (
        "(n_samples=1000, n_clusters=3, n_numeric=8, n_categorical=8, n_irrelevant=8, *, n_own=6, "
        "shift=2.5, n_levels=4, "
        "proportions=None, missing=0.0, random_state=None)"
    ),
    "datasets.make_monks": "(problem=1)",
    "datasets.make_subspaces": (
        "(layout='2a', *, n_samples=300, own=None, proportions=None, elsewhere=None, shuffle=True, "
        "random_state=None)"
    ),
    "datasets.monk_rule": "(X, problem)",
    "distributed.Partitions": "(contents)",
    "distributed.spark_predict": "(model, *, output='cluster', columns=None)",
    "embed.CraftCosts": "(model)",
    "metrics.adjusted_rand_index": "(labels_true, labels_pred)",
    "metrics.chance_rand_index": "(labels_true, labels_pred)",
    "metrics.cluster_label_entropy": "(labels_true, labels_pred)",
    "metrics.contingency": "(labels_true, labels_pred)",
    "metrics.cost_silhouette": "(model, X, *, labels=None, sample_weight=None)",
    "metrics.eigen_diffusion": "(features)",
    "metrics.macro_f1": "(labels_true, labels_pred)",
    "metrics.nmi": "(labels_true, labels_pred)",
    "metrics.purity": "(labels_true, labels_pred)",
    "metrics.rand_index": "(labels_true, labels_pred)",
    "metrics.separability": "(features, labels)",
    "metrics.total_cluster_label_entropy": "(labels_true, labels_pred)",
    "plot.dependence_graph": "(model, *, top=30, names=None, ax=None)",
    "plot.distribution": "(model, feature, X=None, *, clusters=None, ax=None)",
    "plot.features": "(model, shape, *, names=None, columns=None, difference=None, figure=None, "
    "to_pixels=None)",
    "plot.fusion_tree": "(model, *, names=None, only=None, of_class=None, leaves=60, ax=None)",
    "plot.heatmap": "(model, *, n_features=30, ax=None)",
    "plot.map": "(model, X, *, ax=None)",
    "plot.merge_tree": "(model, *, n_clusters=None, ax=None)",
    "plot.null_test": "(result, *, ax=None)",
    "plot.path": "(model, null_test=None, *, ax=None)",
    "plot.stability": "(result, model=None, *, ax=None)",
    "plot.sizes": "(model, *, ax=None)",
    "plot.spectrum": "(model, *, ax=None)",
    "plot.tiles": "(model, X, *, order='given', ax=None)",
    "report.write": "(model, table, path, *, target=None, stability=None, null_test='auto', agreement=(), "
    "title=None)",
    "table.Schema": "(columns, named, numeric_index, categorical_index, levels, dtype, missing, ordered=(), "
    "dates=(), ignored=(), reading=<factory>)",
}
MODULES = {"cli", "datasets", "distributed", "embed", "metrics", "plot", "report", "table"}

#: Methods of a class other than those of scikit-learn's base classes.
METHODS = {
    "BPMeans": "fit inverse_transform predict reconstruct score summary transform",
    "CRAFT": (
        "at cut explain fit margins mask_path n_clusters_within null_test outlier_scores outliers "
        "partial_fit predict predict_proba profile refit rename_clusters representatives rules score "
        "score_samples similarity stability summary surprisal transform"
    ),
    "ConvexClustering": "fit rename_clusters summary",
    "ConvexCovariateClustering": "decision_function fit predict predict_proba transform",
    "DPMeans": "fit partial_fit penalty_path predict rename_clusters score summary transform",
    "FeatureSelectionMixture": (
        "fit predict predict_proba rename_clusters sample score score_samples summary transform"
    ),
    "GraphSpectralFeatures": "edges fit inverse_transform score transform",
    "KFeatures": "fit inverse_transform predict reconstruct score summary transform",
    "KModes": "centroids fit predict rename_clusters score summary transform",
    "KPrototypes": "centroids fit predict rename_clusters score summary transform",
    "MixedTable": "from_data from_parquet take",
    "PaperCRAFT": (
        "explain fit margins outliers predict predict_proba profile rename_clusters representatives score "
        "score_samples similarity stability summary transform"
    ),
}
ATTRIBUTES = {
    "BPMeans": (
        "assignments_ converged_ feature_names_in_ feature_penalty_ features_ inertia_ n_features_ "
        "n_features_in_ n_iter_ objective_ "
        "objective_path_ penalty_interval_"
    ),
    "CRAFT": (
        "aic_ assignment_entropy_ bic_ icl_ log_likelihood_ n_parameters_ soft_sizes_ "
        "centers_ cluster_margins_ cluster_names_ cluster_price_ cluster_sizes_ column_links_ converged_ "
        "dependence_ratio_ "
        "feature_gains_ feature_importances_ feature_mask_ feature_names_in_ labels_ level_probabilities_ "
        "margins_ merge_path_ n_clusters_ "
        "n_features_in_ n_iter_ objective_ objective_path_ price_factor_ variances_"
    ),
    "PaperCRAFT": (
        "centers_ cluster_margins_ cluster_names_ cluster_price_ cluster_sizes_ column_links_ converged_ "
        "dependence_ratio_ "
        "feature_gains_ feature_importances_ feature_mask_ feature_names_in_ labels_ level_probabilities_ "
        "margins_ merge_path_ n_clusters_ "
        "n_features_in_ n_iter_ objective_ objective_path_ price_factor_ variances_"
    ),
    "ConvexClustering": (
        "cluster_centers_ duality_gap_ feature_names_in_ fusion_penalty_ labels_ n_clusters_ n_features_in_ "
        "n_iter_ objective_ path_"
    ),
    "ConvexCovariateClustering": (
        "best_ classes_ coef_ covariate_labels_ duality_gap_ feature_names_in_ fusion_penalty_ intercept_ "
        "n_clusters_ n_features_in_ "
        "n_iter_ objective_ path_ sigma_"
    ),
    "DPMeans": (
        "cluster_centers_ cluster_penalty_ cluster_sizes_ converged_ covariances_ feature_names_in_ "
        "inertia_ labels_ n_clusters_ "
        "n_features_in_ n_iter_ objective_ objective_path_"
    ),
    "FeatureSelectionMixture": (
        "cluster_sizes_ concentration_ converged_ elbo_ elbo_path_ feature_fraction_ feature_gains_ "
        "feature_mask_ feature_names_in_ "
        "feature_probabilities_ labels_ means_ n_clusters_ n_features_in_ n_iter_ objective_ "
        "objective_path_ scale_ variances_ weights_"
    ),
    "GraphSpectralFeatures": (
        "codes_ components_ converged_ eigenvalues_ encoded_columns_ encoded_names_ feature_names_in_ "
        "graph_ n_features_in_ n_iter_ "
        "n_numeric_ objective_ objective_path_ spectrum_"
    ),
    "KFeatures": (
        "assignments_ converged_ feature_names_in_ features_ inertia_ n_features_ n_features_in_ n_iter_ "
        "objective_ objective_path_ "
        "penalty_interval_"
    ),
    "KModes": (
        "cluster_centroids_ cluster_sizes_ converged_ cost_ epoch_costs_ feature_names_in_ labels_ "
        "n_clusters_ n_features_in_ n_iter_ "
        "schema_"
    ),
    "KPrototypes": (
        "cluster_centroids_ cluster_sizes_ converged_ cost_ epoch_costs_ feature_names_in_ gamma_ labels_ "
        "n_clusters_ n_features_in_ "
        "n_iter_ schema_"
    ),
}


def found(name):
    """The object of a public name."""
    thing = craftc
    for part in name.split("."):
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(f"craftc.{part}")
    return thing


def signature_of(function):
    """Parameters and defaults, without annotations."""
    shown, keyword_only = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            shown.append("*")
            keyword_only = True
        shown.append(
            parameter.name
            if parameter.default is parameter.empty
            else f"{parameter.name}={parameter.default!r}"
        )
    return f"({', '.join(shown)})"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert signature_of(found(name)) == SIGNATURES[name]


def test_no_other_public_names():
    assert set(craftc.__all__) == {name for name in SIGNATURES if "." not in name} | MODULES
    for module in (
        "covariates",
        "craft",
        "datasets",
        "distributed",
        "embed",
        "metrics",
        "plot",
        "report",
        "table",
    ):
        exported = {f"{module}.{name}" for name in found(module).__all__ if name not in craftc.__all__}
        assert exported == {name for name in SIGNATURES if name.startswith(f"{module}.")}


def test_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert craftc.__version__ == project["version"] == metadata.version("craftc")


def test_versions_without_metadata():
    """Frozen applications, and bundles of other tools, have none."""
    code = (
        "import importlib.metadata as m\n"
        "def missing(name): raise m.PackageNotFoundError(name)\n"
        "m.version = missing\n"
        "import craftc, polars, pandas\n"
        "craftc.show_versions()\n"
        "from craftc.report import reproduce\n"
        "print(craftc.__version__, reproduce._versions())\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = dict(line.strip().split(": ", 1) for line in said.splitlines()[:-1])
    for name in ("numpy", "scipy", "scikit-learn", "pandas", "polars"):
        assert found[name] == metadata.version(name)
    assert found["narwhals"] == "unknown"  # it reads its own version from metadata
    assert f"NumPy {np.__version__}, scikit-learn {metadata.version('scikit-learn')}" in said
    assert said.splitlines()[-1].startswith(f"{craftc.__version__} craftc {craftc.__version__}, Python ")


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    own = [vars(each) for each in found(name).__mro__ if each.__module__.startswith("craftc")]
    public = {method for names in own for method in names if not method.startswith(("_", "set_"))}
    assert {method for method in public if callable(getattr(found(name), method))} == set(
        METHODS[name].split()
    )


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_fitted_attributes(name):
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    X = pd.DataFrame(rng.normal(size=(60, 4)) + 3.0 * classes[:, None], columns=list("abcd"))
    model = found(name)(**{"DPMeans": {"n_clusters": 2, "covariance": "full"}}.get(name, {})).fit(X, classes)
    missing = [attribute for attribute in ATTRIBUTES[name].split() if not hasattr(model, attribute)]
    assert missing == []
    documented = inspect.getdoc(type(model)).partition("Attributes\n")[2]
    assert [attribute for attribute in ATTRIBUTES[name].split() if attribute not in documented] == []
