"""BP-means and K-features: rows that belong to several groups at once (MAD-Bayes)."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from craftc._common.threads import effective_n_threads
from craftc._common.validation import check_choice, check_flag, check_number
from craftc._kernels import bpmeans as _kernel
from craftc.bpmeans import restarts as search
from craftc.bpmeans.base import EXACT, FeatureModel
from craftc.bpmeans.restarts import Outcome, Rows

_WORTH = 1e-12  # of the sum of squares: a start must be so much better to take the place of another


class KFeatures(FeatureModel):
    """K features whose sums make the rows: k-means for rows that belong to several groups at once.

    Minimises ``|X - Z A|^2`` over memberships Z of 0 and 1 and K features A (Eq. 14). Columns are taken as they are, and the features
    are sums, not means: where the rows have an offset in common, one feature (the `base`) carries it.

    Parameters
    ----------
    n_features : int, optional
        K, up to 64. None: stepwise, K = 1, 2, ... until SSE + K `feature_penalty` no longer falls (no features compete as well).
    feature_penalty : float, optional
        lambda^2 of the stepwise search: what a feature must win, in squared units of the table. None (and no `n_features`): the
        K of least description length: what is left, the numbers of the features and their memberships, in nats (tables above 4 096
        rows choose K by a sample of so many).
    assignment : {"auto", "sweep", "exact"}, default="auto"
        "exact": a row compares all 2^K combinations (K up to 16). "sweep": it flips feature after feature (the paper).
        "auto": exact up to 10 features.
    base : {"mean", "none", "mixed"}, default="mean"
        What a start gives to every row: the mean of the table (the paper; nothing where the table is centred and K = 1), or no
        feature. "mixed": odd starts none, which is worth its time where there are many starts.
    init : {"greedy"} or array (n, K), default="greedy"
        Start: residuals of rows drawn by their squares become features (section 5 of the paper), or memberships of 0 and 1.
    n_init : int, default=10
        Starts (of every K in a stepwise search); the lowest error is kept.
    max_iter : int, default=1000
        Sweeps at most.
    random_state : int, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start.
    n_trials : int, optional
        Rows drawn for every feature of a start, of which the best is taken, up to 8; 1 is the paper's. None: 2 + log K and 1 in turn.
    empty : {"drop", "reseed"}, default="drop"
        What becomes of a feature that no row has any more: it goes, or gets the row that is fitted worst.

    Attributes
    ----------
    features_ : ndarray (K, D) of float64
        A, the least squares features of the memberships.
    assignments_ : ndarray (n, K) of bool
        Z.
    n_features_ : int
        K; fewer than asked for where the table is told without error before (to 1e-14 of its squares: take a huge offset off
        first), or a feature lost all its rows.
    objective_ : float
        The squared error, with a `feature_penalty` that of all features added; worked out row by row.
    inertia_ : float
        Squared error alone.
    objective_path_ : ndarray of float64
        Squared error after every sweep of the best start, then after every exchange of a feature that won.
    penalty_interval_ : (float, float)
        lambda^2 between which K features are better than one less and one more: of the stepwise search, else judged without
        fitting again (the worst fitted row as a feature; the cheapest feature dropped).
    n_iter_ : int
        Sweeps of the best start and of the exchanges that won.
    converged_ : bool
        Whether its last sweep changed nothing.
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

    def __init__(
        self,
        n_features: int | None = None,
        *,
        feature_penalty: float | None = None,
        assignment: str = "auto",
        base: str = "mean",
        init: str | ArrayLike = "greedy",
        n_init: int = 10,
        max_iter: int = 1000,
        random_state: Any = None,
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
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.n_trials = n_trials
        self.empty = empty

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find the features.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
            float32 stays float32; missing cells and infinities are refused.
        y : ignored

        Returns
        -------
        KFeatures
            Itself.

        Raises
        ------
        ValueError
            A parameter or the input cannot be used; the sentence says why.
        """
        self._check_parameters()
        table = self._read(X, reset=True)
        given = self._given_memberships(len(table), "greedy")
        rows = Rows(table, effective_n_threads(self.n_threads))
        K = self.n_features if given is None else given.shape[1]
        plan = self._plan(0.0, int(K or 0), int(K or _kernel.MOST), reseed=self.empty == "reseed")
        if given is not None and self.n_features not in (None, given.shape[1]):
            raise ValueError(f"init has {given.shape[1]} features, but n_features={self.n_features}: leave n_features out.")
        interval = None
        outcome: Outcome | None
        if given is not None:
            outcome = search.from_memberships(rows, plan, search.pack(given), given.shape[1])
        elif K is not None:
            outcome = search.best_restart(rows, plan)
        else:
            if self.feature_penalty is None:
                path, best = search.shortest(rows, plan)
            else:
                path, best = search.stepwise(rows, plan, float(self.feature_penalty))
            outcome, interval = path.outcomes[best], path.interval(best)
            plan = plan.with_features(max(best, 1))
        self._set_state(rows, plan, outcome, interval)
        self.objective_ += self.n_features_ * (self.feature_penalty or 0.0)
        return self

    def _check_parameters(self) -> None:
        self._check_common()
        check_choice("empty", self.empty, ("drop", "reseed"))
        if self.n_features is not None:
            self._check_count("n_features", self.n_features)
        if self.feature_penalty is not None:
            check_number("feature_penalty", self.feature_penalty, above=0)


class BPMeans(FeatureModel):
    """Features whose sums make the rows, and how many there are: DP-means for rows that belong to several groups at once.

    Minimises ``|X - Z A|^2 + K lambda^2`` over memberships Z of 0 and 1, features A and K (Eq. 6). A row that stays further than lambda
    from the sum of its features becomes a feature itself: its residual.

    Parameters
    ----------
    feature_penalty : float or "auto", default="auto"
        lambda^2, what a feature must win, in squared units of the table. "auto": a value at which the number of features of least
        description length along the stepwise K-features path (see :class:`KFeatures`) is the best of that path; that solution is a
        start as well.
    max_features : int, optional
        No feature is born once there are so many (Eq. 15); 64 in any case.
    collapsed : bool, default=False
        Rows choose with the features fitted to all other rows (Eq. 10): the same optima, other ways to them, one thread.
    assignment : {"sweep", "exact", "auto"}, default="sweep"
        "sweep": a row flips feature after feature (the paper). "exact": it compares all combinations while there are at most 16
        features (10 with "auto"), and sweeps beyond.
    base : {"mean", "none", "mixed"}, default="mean"
        What a start gives to every row: the mean of the table (the paper; nothing where the table is centred), or no feature.
        "mixed": odd starts none.
    init : {"greedy", "kfeatures"} or array (n, K), default="greedy"
        Start: residuals of rows drawn by their squares become features as long as J falls (section 5 of the paper); the solution of
        the stepwise K-features search at lambda^2, `n_init` starts for each K; or memberships of 0 and 1.
    n_init : int, default=10
        Starts; the lowest J is kept. No feature at all competes.
    max_iter : int, default=1000
        Sweeps at most.
    random_state : int, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start.
    n_trials : int, optional
        Rows drawn for every feature of a start, of which the best is taken, up to 8; 1 is the paper's. None: 2 + log K and 1 in turn.
    shuffle : bool, default=False
        Visit the rows in a random order from the second start on, in place of the order of the table.

    Attributes
    ----------
    features_ : ndarray (K, D) of float64
        A, the least squares features of the memberships.
    assignments_ : ndarray (n, K) of bool
        Z.
    n_features_ : int
        K; 0 where no feature pays.
    feature_penalty_ : float
        lambda^2 in use.
    objective_ : float
        J, worked out row by row.
    inertia_ : float
        Squared error alone.
    objective_path_ : ndarray of float64
        J after every sweep of the best start, then after every exchange of a feature that won.
    penalty_interval_ : (float, float)
        lambda^2 between which K features are better than one less and one more: of the stepwise path where there is one, else
        judged without fitting again (the worst fitted row as a feature; the cheapest feature dropped).
    n_iter_ : int
        Sweeps of the best start and of the exchanges that won.
    converged_ : bool
        Whether its last sweep changed nothing.
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

    def __init__(
        self,
        feature_penalty: float | str = "auto",
        *,
        max_features: int | None = None,
        collapsed: bool = False,
        assignment: str = "sweep",
        base: str = "mean",
        init: str | ArrayLike = "greedy",
        n_init: int = 10,
        max_iter: int = 1000,
        random_state: Any = None,
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
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.n_trials = n_trials
        self.shuffle = shuffle

    feature_penalty_: float

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find the features.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
            float32 stays float32; missing cells and infinities are refused.
        y : ignored

        Returns
        -------
        BPMeans
            Itself.

        Raises
        ------
        ValueError
            A parameter or the input cannot be used; the sentence says why.
        """
        self._check_parameters()
        table = self._read(X, reset=True)
        cap = int(self.max_features or _kernel.MOST)
        given = self._given_memberships(len(table), "greedy", "kfeatures")
        rows = Rows(table, effective_n_threads(self.n_threads))
        path, K, penalty = None, 0, 0.0
        steps = self._plan(0.0, 0, cap, exact=max(EXACT[self.assignment], EXACT["auto"]))
        if isinstance(self.feature_penalty, str):
            path, K = search.shortest(rows, steps)
            penalty = _within(*path.interval(K), rows)
        else:
            penalty = float(self.feature_penalty)
            if isinstance(self.init, str) and self.init == "kfeatures":
                path, K = search.stepwise(rows, steps, penalty)
        plan = self._plan(penalty, 0, cap, collapsed=bool(self.collapsed), shuffle=bool(self.shuffle))
        starts: list[Outcome] = []
        if given is not None:
            starts.append(search.from_memberships(rows, plan, search.pack(given), given.shape[1]))
        elif isinstance(self.init, str) and self.init == "greedy":
            starts.append(search.best_restart(rows, plan))
        stepped = path.outcomes[K] if path is not None and given is None else None
        if stepped is not None:
            starts.insert(0, search.from_memberships(rows, plan, stepped.masks, stepped.n_features))
        best: Outcome | None = None
        for outcome in starts:
            if best is None or outcome.objective < best.objective - _WORTH * rows.scatter:
                best = outcome
        if given is None and (best is None or rows.scatter < best.objective - _WORTH * rows.scatter):
            best = None
        interval = path.interval(K) if path is not None and best is not None and best.n_features == K else None
        self.feature_penalty_ = penalty
        self._set_state(rows, plan, best, interval)
        if self.n_features_ == _kernel.MOST and cap == _kernel.MOST:
            warnings.warn(
                f"BPMeans found {_kernel.MOST} features, the most that it holds: feature_penalty = {penalty:.4g} is of the size of the "
                "noise. Raise it, or set max_features.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        self._check_common()
        if isinstance(self.feature_penalty, str):
            check_choice("feature_penalty", self.feature_penalty, ("auto",), "or a number > 0: lambda^2")
        else:
            check_number("feature_penalty", self.feature_penalty, above=0)
        if self.max_features is not None:
            self._check_count("max_features", self.max_features)
        for name in ("collapsed", "shuffle"):
            check_flag(name, getattr(self, name))


def _within(low: float, high: float, rows: Rows) -> float:
    """A lambda^2 inside an interval: its geometric middle, twice the lower end where there is no upper one."""
    least = max(low, 1e-12 * rows.scatter, np.finfo(float).tiny)
    return 2.0 * least if not np.isfinite(high) or high <= least else float(np.sqrt(least) * np.sqrt(high))
