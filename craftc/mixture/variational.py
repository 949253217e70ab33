"""Variational inference of the mixture: starts, sweeps of updates, merges, switches and splits, until the
ELBO converges.

:class:`Ascent` holds the schedule. What depends on the covariance of the components is behind
:class:`ComponentModel`: :class:`DiagonalModel` is here and ``FullModel`` in ``full_covariance``;
:class:`MixtureFactors` is what both share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Event
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaln

from craftc._common.estimator import FitResult
from craftc._common.labels import renumber
from craftc._common.random import MixtureStream, spread, uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import mixture_moves, mixture_split, mixture_start, parallel
from craftc._kernels.mixture import Rows
from craftc._kernels.team import Team
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import LEAST_KAPPA, Priors, fraction_interval
from craftc.mixture.scaling import ScaledData

_SLACK = 1e-9  # share of the ELBO that a move must gain; rounding costs an update less
_SEED_ROWS = 256  # rows among which the first centres are drawn, at least
_TRIALS = 3  # rows drawn for each centre; the best is kept
_ROUGH = 3e-3  # gain of a sweep, nats per row, below which starts are compared
_SORTED_BYTES = 1 << 20  # bytes of rows that are sorted together, at least: they stay in a cache
_SORTED_ROWS = 128  # rows per component that are sorted together, at least
LLOYD = 6  # passes of k-means of a start


class MixtureConfig(NamedTuple):
    """When a start ends, whether it tries moves, and a flag to give up."""

    max_iter: int
    tol: float
    merge: bool
    stop: Event


class ComponentModel(Protocol):
    """A family of components with its E-step and its moves."""

    factors: MixtureFactors
    n_threads: int

    def start_from(self, responsibilities: Floats) -> None:
        """Start from responsibilities (n, K)."""

    def start_by_kmeans(self, seed: int, start: int, config: MixtureConfig, passes: int) -> None:
        """Start from k-means; one pass: from random rows as centres."""

    def elbo(self) -> float:
        """The evidence lower bound with all constants."""

    def sweeps(self, before: float, least: float, most: int) -> Floats:
        """The ELBO after every sweep: at most `most`, until one gains no more than `least`."""

    def pair_gains(self) -> Floats:
        """(K, K) estimated gain of the ELBO if two components are merged."""

    def merge(self, i: int, j: int) -> None:
        """Component i takes the rows of component j."""

    def switch(self, margin: float) -> bool:
        """Switch columns beyond the updates of a sweep where the ELBO gains more than `margin`."""

    def halves(self) -> Halves | None:
        """The two halves of every component, where one component is empty; None: components are not split."""

    def checkpoint(self) -> Callable[[], None]:
        """A function that returns to the present state."""

    def share(self, team: Team) -> None:
        """From now on a team helps the kernels; the model has no threads of its own."""

    def pause(self) -> None:
        """Free what only the next sweep needs, which makes it again."""

    def finish(self) -> Labels:
        """Fit all factors to the last responsibilities; returns the labels under these parameters."""

    def posterior(self, found: NDArray[np.intp]) -> Posterior:
        """The part of q that predictions need, of the components `found`."""


class Halves(NamedTuple):
    """Every component cut in two: gain of the ELBO (K,), sizes (K, 2), and sums (K, 3, 2, D)."""

    gain: Floats
    size: Floats
    sums: Floats


@dataclass
class MixtureResult(FitResult):
    """Result of one start: labels, and the parameters and ELBO (minus the objective) that belong to them."""

    label: Labels  # components
    model: ComponentModel


class AlphaPosterior(NamedTuple):
    """q(alpha) = Gamma(shape, rate): Blei & Jordan, Variational Inference for Dirichlet Process Mixtures,
    2006.
    """

    shape: float
    rate: float

    @classmethod
    def at(cls, priors: Priors) -> AlphaPosterior:
        """That of the start, whose mean is the concentration of the priors."""
        shape = priors.concentration_prior[0] + priors.K - 1
        return cls(shape, shape / priors.concentration)

    @classmethod
    def fitted(cls, priors: Priors, log_rest: Floats) -> AlphaPosterior:
        """From E ln(1 - v) of all sticks but the last."""
        shape, rate = priors.concentration_prior
        return cls(shape + len(log_rest), rate - float(log_rest.sum()))

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    def constant(self, priors: Priors) -> float:
        """E ln p(v, alpha) - E ln q(alpha), minus ln p(v) at alpha = E alpha."""
        shape, rate = priors.concentration_prior
        log_mean = digamma(self.shape) - np.log(self.rate)
        divergence = (
            (self.shape - shape) * digamma(self.shape)
            - gammaln(self.shape)
            + gammaln(shape)
            + shape * np.log(self.rate / rate)
            + self.mean * rate
            - self.shape
        )
        return float((priors.K - 1) * (log_mean - np.log(self.mean)) - divergence)


class MixtureFactors:
    """The factors of q that all covariances share: noise, lambda, v, the feature fraction m, and alpha."""

    def __init__(self, data: ScaledData, priors: Priors) -> None:
        self.data, self.scaling, self.priors = data, data.scaling, priors
        self.mixture, self.fraction = data.scaling.mixture(priors), priors.fraction
        self.q_alpha = AlphaPosterior.at(priors)

    def elbo(self) -> float:
        """The evidence lower bound with all constants; full covariances: without the components."""
        return float(self.mixture.elbo()) + self.constant

    @property
    def constant(self) -> float:
        """What the ELBO has beyond that of the kernel: constants of counts, priors of fitted m and alpha."""
        own = self.data.constant + self.priors.log_fraction_prior(self.fraction)
        return own + self.q_alpha.constant(self.priors) if self.priors.learn_concentration else own

    @property
    def updates_follow(self) -> bool:
        """Whether a sweep is followed by updates of m or alpha."""
        return self.priors.learn or self.priors.learn_concentration

    def follow(self) -> None:
        """m and q(alpha) after a sweep; q(v) and q(z) do not depend on lambda and m, so m may come last."""
        if self.priors.learn:
            self.update_fraction()
        self.update_concentration()

    def update(self) -> None:
        """q of the noise, q(lambda), m, q(v)."""
        self.mixture.update_noise()
        self.mixture.update_shares()
        if self.priors.learn:
            self.update_fraction()
        self.mixture.update_sticks()

    def update_fraction(self) -> None:
        """m that maximises the ELBO given E ln lambda (bounded Brent, equation (8) as prior)."""
        rich, poor = self.mixture.share[2].sum(), self.mixture.share[3].sum()
        columns = self.mixture.share.shape[1]

        def gain(m: float) -> float:
            a, b = self.priors.share_shapes(m)
            return float(a * rich + b * poor - columns * betaln(a, b)) + self.priors.log_fraction_prior(m)

        bounds = fraction_interval(self.priors.variance, LEAST_KAPPA)
        found = minimize_scalar(lambda m: -gain(m), bounds=bounds, method="bounded", options={"xatol": 1e-10})
        if gain(found.x) >= gain(self.fraction):
            self.fraction = float(found.x)
            self.mixture.share_prior = self.priors.share_shapes(self.fraction)

    def update_concentration(self) -> None:
        """q(alpha) given q(v), where alpha is fitted."""
        if self.priors.learn_concentration:
            self.q_alpha = AlphaPosterior.fitted(self.priors, self.mixture.stick[3, :-1])
            self.mixture.concentration = self.q_alpha.mean

    def fit_background(self) -> None:
        """Where every column is selected, the noise of the posterior, for the gains of the columns: one
        distribution of the whole table. Scores of rows do not depend on it.
        """
        if self.priors.all_selected:
            self.mixture.p[:] = 0.0
            self.mixture.update_noise()
            self.mixture.p[:] = 1.0

    def checkpoint(self) -> Callable[[], None]:
        """A function that returns to the present state."""
        fraction, q_alpha, state = self.fraction, self.q_alpha, self.mixture.state()

        def restore() -> None:
            self.fraction, self.q_alpha, self.mixture.concentration = fraction, q_alpha, q_alpha.mean
            self.mixture.restore(state)
            self.mixture.share_prior = self.priors.share_shapes(fraction)

        return restore


class DiagonalModel:
    """Components with independent columns, Gaussian or Poisson.

    `n_threads`: of passes over the rows that are long enough.
    """

    def __init__(self, data: ScaledData, priors: Priors, n_threads: int) -> None:
        self.factors = MixtureFactors(data, priors)
        self.mixture = self.factors.mixture
        self.data, self.scaling, self.priors, self.n_threads = data, data.scaling, priors, n_threads
        self.team: Team | None = None
        self.order: NDArray[np.int32] | None = None  # in which the rows are visited

    @cached_property
    def rows(self) -> Rows:
        rows = self.data.rows(self.priors.K)
        rows.team = self.team
        if self.order is not None:
            rows.visit(self.order)
        return rows

    def share(self, team: Team) -> None:
        self.team, self.n_threads = team, 1
        self.rows.team = team

    def _threads(self, passes: int = 1) -> int:
        """Threads for some passes over the rows, for which they are woken once; a team is awake."""
        return threads_for(self.n_threads, passes * self.data.visits(self.priors.K))

    def start_from(self, responsibilities: Floats) -> None:
        self.mixture.size[:] = 1.0
        self.rows.e_step(self.mixture, self._threads(), given=responsibilities)
        self._initialise()

    def start_by_kmeans(self, seed: int, start: int, config: MixtureConfig, passes: int) -> None:
        """k-means from rows drawn by squared distances; counts: by the likelihoods of rates."""
        self.rows.start(self.mixture, self._seeds(seed, start, passes > 1))
        most, (label, second) = self.data.passes(self.priors.K), np.empty((2, len(self.data)), np.int32)
        while passes > 0 and self.rows.kmeans(
            self.mixture, some := min(passes, most), self._threads(some), label, second
        ):
            passes -= some
        self.order = self._order(label, second)
        self.rows.visit(self.order)
        self._initialise()

    def _order(self, label: Labels, second: Labels) -> NDArray[np.int32]:
        """Rows of one component together, and those of near ones: a tile of rows then has few components."""
        q, X = self.mixture, self.data.X
        found, alive = np.flatnonzero(np.bincount(label)), np.flatnonzero(q.size > 0)
        centres = np.zeros((q.s1.shape[1], self.priors.K))
        centres[:, found] = (q.s1[alive] / np.maximum(q.reach[alive], 1e-300)).T
        row = max(1, X.shape[1] * X.itemsize)
        return mixture_start.visiting_order(
            label, second, centres, max(_SORTED_BYTES // row, _SORTED_ROWS * self.priors.K)
        )

    def _seeds(self, seed: int, start: int, spread_out: bool) -> NDArray[np.intp]:
        """Distinct rows of a sample: by k-means++ with trials and exchanges, or at random."""
        n, K = len(self.data), self.priors.K
        some = max(_SEED_ROWS, 8 * K, min(64 * K, n // 64))
        rows = spread(n, some, seed, MixtureStream.SEED_SAMPLE, start) if n > some else np.arange(n)
        cells = self.rows.cells(rows)
        if self.data.exposure is not None:
            expected = self.scaling.rate[:, None] * self.data.exposure[rows]
            cells = (cells - expected) / np.sqrt(np.maximum(expected, 1e-300))
        if self.data.missing:
            cells = np.nan_to_num(cells)
        weight = np.ones(len(rows)) if self.data.weight is None else self.data.weight[rows]
        trials, exchanges = (_TRIALS, K) if spread_out else (1, 0)
        draws = uniform(seed, MixtureStream.SEED, start, np.arange(1 + (K - 1) * trials + exchanges))
        found = mixture_start.seed_rows(cells, weight, draws, K, trials, exchanges, spread_out)
        return np.asarray(rows[found])

    def _initialise(self) -> None:
        """The first q from the sufficient statistics: every column is selected with its prior probability."""
        q, m = self.mixture, self.priors.fraction
        q.share_prior = self.priors.share_shapes(m)
        if self.priors.all_selected:
            q.p[:] = 1.0
        else:
            q.p[:] = m
            q.mask_entropy[: 1 if self.priors.tied else None] = (
                -(m * np.log(m) + (1 - m) * np.log(1 - m)) * q.p.shape[1]
            )
        q.update_components()
        q.update_noise()
        q.update_shares()
        q.update_sticks()

    def elbo(self) -> float:
        return self.factors.elbo()

    def sweeps(self, before: float, least: float, most: int) -> Floats:
        elbo = np.empty(1 if self.factors.updates_follow else most)
        made = self.rows.sweep(
            self.mixture,
            before - self.factors.constant,
            least,
            elbo,
            self.scaling.linear,
            self._threads(len(elbo)),
        )
        if self.factors.updates_follow:
            self.factors.follow()
            elbo[0] = self.mixture.elbo()
        return elbo[:made] + self.factors.constant

    def pair_gains(self) -> Floats:
        return mixture_moves.pair_gains(self.mixture, self.team)

    def merge(self, i: int, j: int) -> None:
        mixture_moves.merge(self.mixture, i, j)

    def switch(self, margin: float) -> bool:
        """Columns that all components select are deselected."""
        return not self.priors.all_selected and mixture_moves.deselect(self.mixture, margin) > 0

    def halves(self) -> Halves | None:
        q = self.mixture
        q.update_components()
        q.update_sticks()
        # short integers are sorted in linear time
        label = self._labels(gather=False).astype(np.min_scalar_type(self.priors.K))
        order = np.argsort(label, kind="stable")
        first = np.append(0, np.cumsum(np.bincount(label, minlength=self.priors.K)))
        return Halves(*mixture_split.split_gains(q, self.rows, order, first, self._threads(2)))

    def checkpoint(self) -> Callable[[], None]:
        return self.factors.checkpoint()

    def finish(self) -> Labels:
        self.mixture.update_components()
        self.mixture.update_masks()
        self.factors.update()
        self.factors.update_concentration()
        label = self._labels()
        self.pause()
        return label

    def _labels(self, gather: bool = True) -> Labels:
        """The best component of every row under the present parameters."""
        label, alive = np.empty(len(self.data), np.int32), np.flatnonzero(self.mixture.size > 0)
        self.rows.e_step(
            self.mixture, self._threads(), gather=gather, linear=self.scaling.linear, label=label
        )
        renumber(label, alive.astype(np.int32))
        return label

    def pause(self) -> None:
        self.__dict__.pop("rows", None)  # their partial sums are as large as everything that is kept

    def posterior(self, found: NDArray[np.intp]) -> Posterior:
        self.factors.fit_background()
        return Posterior.fitted(self.scaling, self.priors, self.mixture, found)


class Ascent:
    """The schedule of one start: sweeps, merges and switches until the ELBO converges roughly; splits; then
    to the tolerance.

    `model`: after a `start_...`. `callback`: called with (sweeps made, ELBO).
    `elbo`: the present ELBO.
    """

    def __init__(
        self,
        model: ComponentModel,
        config: MixtureConfig,
        callback: Callable[[int, float], None] | None = None,
    ) -> None:
        self.model, self.config, self.callback = model, config, callback
        self.path, self.converged = [model.elbo()], False

    @property
    def elbo(self) -> float:
        return self.path[-1]

    @property
    def n_iter(self) -> int:
        return len(self.path) - 1

    def rough(self) -> Iterator[None]:
        """Sweeps and moves while they raise the ELBO by more than the rough tolerance."""
        yield from self._ascend(max(_ROUGH, self.config.tol))

    def ending(self) -> Iterator[None]:
        """Splits while they raise the ELBO, then sweeps and moves until convergence, in short runs."""
        while self.config.merge and self._split():
            yield from self.rough()
        yield from self._ascend(self.config.tol)

    def result(self) -> MixtureResult:
        """The parameters for the last labels."""
        label = self.model.finish()
        return MixtureResult(
            -self.model.elbo(),
            [-elbo for elbo in self.path[1:]],
            self.n_iter,
            self.converged,
            label,
            self.model,
        )

    def finish(self) -> MixtureResult:
        """All of `ending`, and its result."""
        for _ in self.ending():
            pass
        return self.result()

    def run(self) -> MixtureResult:
        """All of one start."""
        for _ in self.rough():
            pass
        return self.finish()

    def _ascend(self, tol: float) -> Iterator[None]:
        """Sweeps until one gains at most `tol` nats per row, then moves; until neither gains."""
        max_iter, merge, path = self.config.max_iter, self.config.merge, self.path
        least = tol * self.model.factors.data.total
        self.converged = False
        while self.n_iter < max_iter and not self.converged:
            if self.config.stop.is_set():
                raise KeyboardInterrupt
            most = self.model.factors.data.passes(self.model.factors.priors.K) * self.model.n_threads
            path += self.model.sweeps(path[-1], least, min(most, max_iter - self.n_iter)).tolist()
            if path[-1] - path[-2] <= least:
                self.converged = not (merge and self._move())
            if self.callback is not None:
                self.callback(self.n_iter, self.elbo)
            if parallel.debug() and any(
                later < sooner - _SLACK * max(1.0, abs(sooner)) for sooner, later in pairwise(path)
            ):
                raise AssertionError(f"the ELBO decreased: {path}")
            yield

    def _move(self) -> bool:
        """Merges and switches of columns that raise the ELBO; whether there were any."""
        merged = self._merge()
        return self._switch() or merged

    def _switch(self) -> bool:
        """Switch columns, if that raises the ELBO; whether it did."""
        if self.n_iter >= self.config.max_iter:
            return False
        restore, least = self.model.checkpoint(), self.elbo + _SLACK * max(1.0, abs(self.elbo))
        if self.model.switch(least - self.elbo) and (after := self.model.elbo()) > least:
            self.path.append(after)
            return True
        restore()
        return False

    def _merge(self) -> bool:
        """Merge all promising pairs if that raises the ELBO, otherwise the first one that does; whether there
        was one.

        Pairs are taken in order of their estimated gain, each component once.
        """
        if self.n_iter >= self.config.max_iter:
            return False
        gains = self.model.pair_gains()
        promising = np.flatnonzero(gains > _SLACK * abs(self.elbo))
        falling = promising[np.argsort(-gains.flat[promising], kind="stable")].tolist()
        pairs = [divmod(place, len(gains)) for place in falling]
        apart: list[tuple[int, int]] = []
        taken: set[int] = set()
        for pair in pairs:
            if taken.isdisjoint(pair):
                apart.append(pair)
                taken.update(pair)
        return self._first_that_gains(
            [apart] * (len(apart) > 1) + [[pair] for pair in pairs], self.model.merge
        )

    def _split(self) -> bool:
        """Split all promising components if that raises the ELBO, otherwise the first one that does; whether
        there was one.

        Components are taken in order of their estimated gain while there are empty ones to take their second
        halves.
        """
        q = self.model.factors.mixture
        empty = np.flatnonzero(q.size == 0).tolist()
        if self.n_iter >= self.config.max_iter or not empty or (halves := self.model.halves()) is None:
            return False
        n_promising = np.count_nonzero(halves.gain > _SLACK * abs(self.elbo))
        promising = np.argsort(-halves.gain, kind="stable")[:n_promising].tolist()
        together = list(zip(promising, empty, strict=False))
        singly = [[(k, empty[0])] for k in promising]

        def split(k: int, to: int) -> None:
            mixture_split.split(q, k, to, halves.size[k], halves.sums[k])

        return self._first_that_gains([together] * (len(together) > 1) + singly, split)

    def _first_that_gains(
        self, attempts: Iterable[Iterable[tuple[int, int]]], move: Callable[[int, int], None]
    ) -> bool:
        """Make the first of several lists of moves that raises the ELBO; whether there was one."""
        for attempt in attempts:
            restore = self.model.checkpoint()
            for pair in attempt:
                move(*pair)
            after = float(self.model.sweeps(self.elbo, 0.0, 1)[0])
            if after > self.elbo + _SLACK * abs(self.elbo):
                self.path.append(after)
                return True
            restore()
        return False
