"""How DPMeans, KModes and KPrototypes score rows, from their centres and modes."""

from __future__ import annotations

import numpy as np

from craftc._common.estimator import column_names
from craftc._common.typing import Floats
from craftc._kernels import kprototypes as _kernel
from craftc.dpmeans import DPMeans
from craftc.export.clusters import Term, expected_types, refused_columns, texts_of, unseen_terms
from craftc.export.scoring import Block, LookUp, Polynomial, Scoring, title_of
from craftc.kprototypes import KModes, KPrototypes
from craftc.kprototypes.fitted import Prototypes
from craftc.kprototypes.problem import MATCHING, NG


def of_means(model: DPMeans) -> Scoring:
    """The scoring of a DPMeans: squared distances."""
    names, centers, K = tuple(column_names(model)), model.cluster_centers_, model.n_clusters_
    D = len(names)
    base, blocks, nothing = np.zeros(K), list[Block](), np.zeros(K)
    matrices = _matrices(model)
    if matrices is None:
        terms = [Polynomial(d, centers[:, d].copy(), np.ones(K), nothing, nothing) for d in range(D)]
    else:
        terms = [Polynomial(d, nothing, nothing, nothing, nothing) for d in range(D)]
        blocks = [Block(k, np.arange(D), centers[k], matrices[k], 1.0, 0.0) for k in range(K)]
        if hasattr(model, "covariances_"):
            shapes = model._shapes
            base = np.where(np.isfinite(shapes.log_det), 0.0, np.inf)
            if model._gaussian.sized:
                base = model._gaussian.penalty * shapes.log_det
    return Scoring(
        title_of(model, K),
        names,
        ("number",) * D,
        terms,
        base,
        model.cluster_sizes_,
        unit="squared distance",
        blocks=blocks,
        refused=tuple(range(D)),
    )


def _matrices(model: DPMeans) -> Floats | None:
    """(K, D, D) the covariances of the clusters; None: distances are Euclidean."""
    if hasattr(model, "covariances_"):
        return np.asarray(model._shapes.covariances)
    if model._shape is None:
        return None
    factor = model._shape[0]
    return np.repeat((factor @ factor.T)[None], model.n_clusters_, axis=0)


def of_prototypes(model: KModes | KPrototypes) -> Scoring:
    """The scoring of a KModes or KPrototypes: dissimilarities from the prototypes."""
    own, schema, K = model._prototypes, model.schema_, model.n_clusters_
    if own.kind not in (MATCHING, NG):
        raise ValueError(
            f"cat_dissim={_kernel.KINDS[own.kind]!r} compares sets of levels, which is no sum over columns "
            "and cannot be exported; fit with cat_dissim='matching' or 'ng', or score rows with predict."
        )
    nothing = np.zeros(K)
    terms: list[Term] = [
        Polynomial(j, own.means[:, d].copy(), np.ones(K), nothing, nothing, single=schema.dtype == np.float32)
        for d, j in enumerate(schema.numeric_index.tolist())
    ]
    for d, j in enumerate(schema.categorical_index.tolist()):
        terms.append(LookUp(j, texts_of(schema, d), own.gamma * _level_costs(own, d, len(schema.levels[d]))))
    return Scoring(
        title_of(model, K),
        tuple(map(str, schema.columns)),
        expected_types(schema),
        terms,
        np.zeros(K),
        model.cluster_sizes_,
        unit="dissimilarity",
        refused=refused_columns(schema),
        unseen=unseen_terms(terms, model.unknown),
        trims=bool(schema.reading),
    )


def _level_costs(own: Prototypes, d: int, n_levels: int) -> Floats:
    """(T, K) dissimilarities of the levels of a column and the modes; Ng's: that of a mode is 1 less its
    share.
    """
    K = len(own.modes)
    costs, every = np.ones((n_levels, K)), np.arange(K)
    costs[own.modes[:, d], every] = 0.0
    if own.members is not None:
        rows = own.members[:, 0]
        same = own.members[every, 1 + own.grid.level_start[d] + own.modes[:, d]]
        costs[own.modes[:, d], every] = np.where(rows > 0, 1.0 - same / np.maximum(rows, 1), 0.0)
    return costs
