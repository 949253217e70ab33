"""BP-means and K-features: rows that belong to several groups at once (MAD-Bayes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from craftc._common.messages import warn_user
from craftc._common.random import FeatureStream
from craftc._common.typing import Bits, RandomStateInput
from craftc._common.validation import Choice, Constraint, Flag, Number
from craftc._kernels import bpmeans as bpmeans_kernel
from craftc.bpmeans.base import COUNT, EXACT, FeatureModel
from craftc.bpmeans.growth import grown_starts
from craftc.bpmeans.model_order import shortest_description, stepwise
from craftc.bpmeans.restarts import (
    FeatureData,
    FeatureFit,
    best_restarts,
    from_memberships,
    improved_alone,
    pack,
)


class KFeatures(FeatureModel):
    """K-features: each row is approximated by the sum of some of K features, as k-means with several clusters
    per row.

    Minimises ``|X - Z A|^2`` over memberships Z of 0 and 1 and K features A (Eq. 14). Columns are not scaled.
    Features are added, not averaged: where the rows have an offset in common, one feature of every row (the
    `base`) represents it.

    Parameters
    ----------
    n_features : int, optional
        K, up to 64. None: stepwise search, K = 1, 2, ... until SSE + K `feature_penalty` no longer falls; K =
        0 is a candidate as well.
    feature_penalty : float, optional
        lambda^2 of the stepwise search: the reduction of the squared error that a feature must achieve. None
        (and no `n_features`): the K of least description length, which is the sum of the nats for residuals,
        features and memberships. Tables of more than 4 096 rows choose K from a sample of 4 096 rows.
    assignment : {"auto", "sweep", "exact"}, default="auto"
        "exact": each row compares all 2^K combinations (K up to 16). "sweep": each row switches one feature
        after the other (the paper). "auto": exact up to 10 features.
    base : {"mean", "none", "mixed"}, default="mean"
        Initial feature of every row: the mean of the table (the paper; no feature if the table is centred and
        K = 1), or none. "mixed": starts with odd numbers have none, which helps if there are many starts.
    init : {"greedy"} or array (n, K), default="greedy"
        "greedy": residuals of rows, drawn in proportion to their squares, become features (section 5 of the
        paper). An array gives the initial memberships, 0 and 1.
    n_init : int, default=10
        Number of starts (for each K in a stepwise search); the solution of lowest error is kept. More starts
        with the same seed never end with a higher error, or a higher sum of error and penalties where
        `feature_penalty` is given.
    exchanges : bool, default=True
        Improve the solutions that are the lowest so far when their start ends (not in the paper): each
        feature in turn is replaced by the residual of a drawn row, or by random memberships, where that
        lowers the error, and a search over K also adds a feature to solutions for K - 1. False: the best
        start as it ends; with ``assignment="sweep"`` this is the algorithm of the paper.
    max_iter : int, default=1000
        Maximum number of sweeps.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts. Results are bit-identical for the same seed and any number of threads.
    n_threads : int, optional
        Number of threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: print a line per start.
    n_trials : int, optional
        Rows drawn for each feature of a start, up to 8; the best becomes the feature. 1: as in the paper.
        None: starts alternate between 2 + log K and 1 (1 if `exchanges` is False).
    empty : {"drop", "reseed"}, default="drop"
        A feature without rows is dropped, or gets the row of largest residual.

    Attributes
    ----------
    features_ : ndarray (K, D) of float64
        A, the least squares features of the memberships.
    assignments_ : ndarray (n, K) of bool
        Z.
    n_features_ : int
        K; smaller than `n_features` if fewer features already reconstruct X to a relative error of 1e-14
        (subtract large offsets first), or if a feature lost all its rows.
    objective_ : float
        The squared error, plus ``K * feature_penalty`` if a `feature_penalty` is given; summed row by row.
    inertia_ : float
        The squared error.
    objective_path_ : ndarray of float64
        Squared error after every sweep of the best start, then after every accepted exchange of a feature.
    penalty_interval_ : (float, float)
        Values of lambda^2 between which K features are better than K + 1 and K - 1: from the stepwise search,
        otherwise estimated without another fit (the row of largest residual as a feature; the feature of
        least removal cost dropped).
    n_iter_ : int
        Sweeps of the best start and of the accepted exchanges.
    converged_ : bool
        Whether the last sweep changed no membership.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    T. Broderick, B. Kulis, M. I. Jordan: MAD-Bayes: MAP-based Asymptotic Derivations from Bayes. ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import KFeatures
    >>> X = np.array([[3.0, 0, 0], [0, 2.0, 2.0], [3.0, 2.0, 2.0], [3.0, 0, 0.1]])
    >>> model = KFeatures(2, random_state=0).fit(X)
    >>> int(model.predict([[3.1, 2, 2]]).sum())
    2
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **FeatureModel._constraints,
        "n_features": COUNT,
        "feature_penalty": Number(above=0, optional=True),
        "empty": Choice(("drop", "reseed")),
    }
    _limit, _inits = "n_features", ("greedy",)

    def __init__(
        self,
        n_features: int | None = None,
        *,
        feature_penalty: float | None = None,
        assignment: str = "auto",
        base: str = "mean",
        init: str | ArrayLike = "greedy",
        n_init: int = 10,
        exchanges: bool = True,
        max_iter: int = 1000,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
        n_trials: int | None = None,
        empty: str = "drop",
    ) -> None:
        self.n_features = n_features
        self.feature_penalty = feature_penalty
        self.assignment = assignment
        self.base = base
        self.init = init
        self.n_init = n_init
        self.exchanges = exchanges
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.n_trials = n_trials
        self.empty = empty

    def _search(self, data: FeatureData, given: Bits | None) -> None:
        K = self.n_features if given is None else given.shape[1]
        config = self._config(0.0, int(K or 0), int(K or bpmeans_kernel.MOST), reseed=self.empty == "reseed")
        if given is not None and self.n_features not in (None, given.shape[1]):
            raise ValueError(
                f"init has {given.shape[1]} features, but n_features={self.n_features}; omit n_features."
            )
        interval = None
        fit: FeatureFit | None
        if given is not None:
            fit = from_memberships(data, config, pack(given), given.shape[1])
        elif K is not None:
            fit = best_restarts(data, config)[-1].fit
        else:
            if self.feature_penalty is None:
                path, best = shortest_description(data, config)
            else:
                path, of_starts = stepwise(data, config, float(self.feature_penalty))
                best = int(of_starts[-1])
            fit, interval = path.best(best), path.interval(best)
            config = config.with_features(max(best, 1))
        self._set_state(data, config, fit, interval)
        self.objective_ += self.n_features_ * float(self.feature_penalty or 0.0)
        if given is None and K is None and self.feature_penalty is None:
            self._warn_of_exact_choice(data, "n_features or feature_penalty")
        if self.n_features_ < (self.n_features or 0):
            warn_user(
                f"KFeatures found {self.n_features_} feature(s), fewer than n_features={self.n_features}: "
                "they leave no residuals but rounding errors, or a feature lost all its rows."
            )


class BPMeans(FeatureModel):
    """BP-means: each row is approximated by the sum of some features, whose number follows from the data.

    The method is to K-features what DP-means is to k-means. It minimises ``|X - Z A|^2 + K lambda^2`` over
    memberships Z of 0 and 1, features A and K (Eq. 6). The residual of a row that is further than lambda from
    the sum of its features becomes a new feature.

    Parameters
    ----------
    feature_penalty : float or "auto", default="auto"
        lambda^2, the reduction of the squared error that a feature must achieve. "auto": K is the number of
        features of least description length along the stepwise K-features path (see :class:`KFeatures`),
        lambda^2 a value for which this K is the best of the path; the solution of the path is a start as
        well.
    max_features : int, optional
        Largest number of features (Eq. 15), at most 64. None: 64.
    collapsed : bool, default=False
        Compare each row with the features fitted to all other rows (Eq. 10). The optima are the same, the
        search is different; starts run in parallel, each on one thread.
    assignment : {"auto", "sweep", "exact"}, default="auto"
        "exact": each row compares all 2^K combinations while there are at most 16 features, and switches one
        after the other if there are more (the paper's algorithm with `collapsed`, which minimises Eq. 10 in
        the memberships of a row jointly). "sweep": each row switches one feature after the other (the paper's
        algorithm without `collapsed`). "auto": exact up to 10 features.
    base : {"mean", "none", "mixed"}, default="mean"
        Initial feature of every row: the mean of the table (the paper; no feature if the table is centred),
        or none. "mixed": starts with odd numbers have none.
    init : {"greedy", "kfeatures"} or array (n, K), default="greedy"
        "greedy": residuals of rows, drawn in proportion to their squares, become features as long as J falls
        (section 5 of the paper). "kfeatures": the solution of the stepwise K-features search at lambda^2,
        with `n_init` starts for each K. An array gives the initial memberships, 0 and 1.
    n_init : int, default=10
        Number of starts; the solution of lowest J is kept. K = 0 is a candidate as well. More starts with the
        same seed never end with a higher J at a given `feature_penalty`.
    exchanges : bool, default=True
        Improve the solutions that are the lowest so far when their start ends (not in the paper): each
        feature in turn is replaced by the residual of a drawn row, or by random memberships, where that
        lowers J. With "auto" this is done for the best solution alone. At a given `feature_penalty` some
        starts grow: they fit and exchange K features before one more is added, as long as J falls.
        Features that depend linearly on
        others are dropped. False: the best start as it ends, and only unused and equal features are dropped;
        `collapsed` needs independent features and drops the others in either case. False is the algorithm of
        the paper with ``assignment="sweep"``, and ``assignment="exact"`` if `collapsed`.
    max_iter : int, default=1000
        Maximum number of sweeps.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts. Results are bit-identical for the same seed and any number of threads.
    n_threads : int, optional
        Number of threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: print a line per start.
    n_trials : int, optional
        Rows drawn for each feature of a start, up to 8; the best becomes the feature. 1: as in the paper.
        None: starts alternate between 2 + log K and 1 (1 if `exchanges` is False).
    shuffle : bool, default=False
        Visit the rows in a random order from the second start on. False: in the order of the table.

    Attributes
    ----------
    features_ : ndarray (K, D) of float64
        A, the least squares features of the memberships.
    assignments_ : ndarray (n, K) of bool
        Z.
    n_features_ : int
        K; 0 if no feature lowers J.
    feature_penalty_ : float
        The value of lambda^2 of this fit.
    objective_ : float
        J, summed row by row.
    inertia_ : float
        The squared error.
    objective_path_ : ndarray of float64
        J after every sweep of the best start, then after every accepted exchange of a feature.
    penalty_interval_ : (float, float)
        Values of lambda^2 between which K features are better than K + 1 and K - 1: from the stepwise path if
        there is one, otherwise estimated without another fit (the row of largest residual as a feature; the
        feature of least removal cost dropped).
    n_iter_ : int
        Sweeps of the best start and of the accepted exchanges.
    converged_ : bool
        Whether the last sweep changed no membership.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    T. Broderick, B. Kulis, M. I. Jordan: MAD-Bayes: MAP-based Asymptotic Derivations from Bayes. ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import BPMeans
    >>> X = np.array([[3.0, 0, 0], [0, 2.0, 2.0], [3.0, 2.0, 2.0], [3.0, 0, 0.1]])
    >>> BPMeans(feature_penalty=1.0, base="none", random_state=0).fit(X).n_features_
    2
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **FeatureModel._constraints,
        "feature_penalty": Choice(("auto",), "or a number > 0: lambda^2", Number(above=0)),
        "max_features": COUNT,
        "collapsed": Flag(),
        "shuffle": Flag(),
    }
    _limit, _inits = "max_features", ("greedy", "kfeatures")

    feature_penalty_: float

    def __init__(
        self,
        feature_penalty: float | str = "auto",
        *,
        max_features: int | None = None,
        collapsed: bool = False,
        assignment: str = "auto",
        base: str = "mean",
        init: str | ArrayLike = "greedy",
        n_init: int = 10,
        exchanges: bool = True,
        max_iter: int = 1000,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
        n_trials: int | None = None,
        shuffle: bool = False,
    ) -> None:
        self.feature_penalty = feature_penalty
        self.max_features = max_features
        self.collapsed = collapsed
        self.assignment = assignment
        self.base = base
        self.init = init
        self.n_init = n_init
        self.exchanges = exchanges
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.n_trials = n_trials
        self.shuffle = shuffle

    def _search(self, data: FeatureData, given: Bits | None) -> None:
        cap = int(self.max_features or bpmeans_kernel.MOST)
        path, K, penalty = None, 0, 0.0
        starts: list[FeatureFit | None] = []  # solutions of the path
        fixed = self._config(0.0, 0, cap, exact=max(EXACT[self.assignment], EXACT["auto"]))
        automatic = isinstance(self.feature_penalty, str)
        if automatic:
            path, K = shortest_description(data, fixed)
            penalty, starts = _penalty_within(*path.interval(K), data.scatter), [path.best(K)]
        else:
            penalty = float(self.feature_penalty)
            if isinstance(self.init, str) and self.init == "kfeatures":
                path, of_starts = stepwise(data, fixed, penalty)
                # with fewer starts the descent would have begun at these, and might have ended lower
                starts = [path.best_of_first(n, int(k)) for n, k in enumerate(of_starts, 1)]
                K = int(of_starts[-1])
        config = self._config(penalty, 0, cap, collapsed=bool(self.collapsed), shuffle=bool(self.shuffle))
        fits: list[FeatureFit] = []
        if given is not None:
            fits.append(from_memberships(data, config, pack(given), given.shape[1]))
        else:
            distinct = {id(start): start for start in reversed(starts) if start is not None}
            fits += [from_memberships(data, config, s.masks, s.n_features) for s in distinct.values()]
            if isinstance(self.init, str) and self.init == "greedy":
                known = min((fit.objective for fit in fits if automatic), default=np.inf)
                fits.append(best_restarts(data, config, improve=not automatic, target=known)[-1].fit)
                if config.exchanges and not automatic and config.max_iter > 1:
                    fits += grown_starts(data, config)
        best: FeatureFit | None = None
        for fit in fits:
            if best is None or fit.objective < best.objective - data.rounding:
                best = fit
        # the path has had exchanges of its own: one search is enough
        if automatic and given is None and best is not None and config.exchanges:
            best = improved_alone(data, config, best, (FeatureStream.EXCHANGE, 0))
        if given is None and (best is None or data.scatter < best.objective - data.rounding):
            best = None
        interval = (
            path.interval(K) if path is not None and best is not None and best.n_features == K else None
        )
        self.feature_penalty_ = penalty
        self._set_state(data, config, best, interval)
        if given is None and automatic:
            self._warn_of_exact_choice(data, "feature_penalty or max_features")
        if self.n_features_ == bpmeans_kernel.MOST and cap == bpmeans_kernel.MOST:
            warn_user(
                f"BPMeans found {bpmeans_kernel.MOST} features, its maximum: feature_penalty = "
                f"{penalty:.4g} is of the order of the noise. Raise feature_penalty, or set max_features.",
            )


def _penalty_within(low: float, high: float, scatter: float) -> float:
    """A lambda^2 inside an interval: its geometric mean, or twice the lower end if there is no upper one."""
    least = max(low, 1e-12 * scatter, np.finfo(float).tiny)
    return 2.0 * least if not np.isfinite(high) or high <= least else float(np.sqrt(least) * np.sqrt(high))
