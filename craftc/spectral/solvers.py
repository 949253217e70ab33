"""The weights of a graph: L-BFGS with ridge penalties, FISTA with an l1 penalty."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from craftc._common.typing import Floats
from craftc.spectral.pseudo_likelihood import Hats, Parameters, PseudoLikelihood, similarity

UNARY_RIDGE = 1e-4
MEMORY = 10
_SAMPLE = 500  # rows that the scales of a search are taken from
_FLAT = 1e-8  # second derivatives that are taken at least: without a ridge the sample may show none
_PSEUDO_COUNT = 0.5  # of a node in a histogram
_PARTNERS = 50  # of them that stand for a numeric neighbour
_SAMPLED, _SHARE = 1e-3, 0.1  # gradients at which the search in a sample ends: at first, and of that over all rows
_DESCENT, _HALVINGS, _TURN = 1e-4, 5, 0.7  # Armijo's share; halvings of a way; of the gradient that a turn leaves at most


class Found(NamedTuple):
    """Where a search ended."""

    parameters: Parameters
    objective: float
    path: Floats  # the objective after every step
    gradient: float  # its largest entry
    converged: bool


class Objective:
    """-PL / n + l2 / 2 sum of squared weights of the edges + 1e-4 / 2 of the unary terms, as a function of one vector.

    The vector holds the weights of the edges s < t and, with unary terms, b and c.
    """

    def __init__(self, likelihood: PseudoLikelihood, l2: float, unary: bool) -> None:
        self.likelihood, self.unary = likelihood, unary
        e = likelihood.encoding
        self.edges = e.edges()
        self.n_shapes = likelihood.shapes.size
        self.n_edges, self.n_b, self.n_c = len(self.edges[0]), e.p2 * unary, self.n_shapes * e.p1 * unary
        self.ridge = np.concatenate([np.full(self.n_edges, l2), np.full(self.n_b + self.n_c, UNARY_RIDGE)])

    def __len__(self) -> int:
        return len(self.ridge)

    def parameters(self, vector: Floats) -> Parameters:
        """What a vector holds."""
        e = self.likelihood.encoding
        theta, b, c = np.zeros((e.p, e.p)), np.zeros(e.p2), np.zeros((e.p1, self.n_shapes))
        theta[self.edges] = vector[: self.n_edges]
        if self.unary:
            b[:], c[:] = vector[self.n_edges : self.n_edges + self.n_b], vector[self.n_edges + self.n_b :].reshape(-1, self.n_shapes)
        return Parameters(theta + theta.T, b, c)

    def vector(self, at: Parameters) -> Floats:
        """The vector that holds these."""
        return np.concatenate([at.theta[self.edges], *([at.b, at.c.ravel()] if self.unary else [])])

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        value, gradient = self.likelihood(self.parameters(vector))
        return -value + float((self.ridge * vector**2).sum()) / 2.0, self.ridge * vector - self.vector(gradient)


class Coordinates:
    """Coordinates in which an objective bends alike in all directions, as far as the marginals tell.

    Unary terms are measured where the neighbours are at their means: rare indicators, nearly constant, would otherwise be collinear with
    them. A constant that is added to b of a softmax, or to free unary terms of a column, changes nothing but their ridge; it is left out,
    so that they sum to zero. x^2 is measured beyond its regression on x, free terms from the histogram of the column. Then every
    coordinate is scaled by its second derivative. On Adult L-BFGS needs a tenth of the steps that it needs without.
    """

    def __init__(self, objective: Objective, scaled: Floats, eps: float, softmax: bool) -> None:
        self.objective = objective
        like = objective.likelihood
        e, unary = like.encoding, objective.unary
        self._p1 = e.p1
        x = np.nan_to_num(scaled[:: max(1, len(scaled) // _SAMPLE)], nan=0.0)
        q = e.shares
        sizes = np.diff(e.first)
        self._groups = [slice(e.first[v], e.first[v + 1]) for v in np.flatnonzero(sizes > 1)] if softmax else []
        # what a neighbour adds to an indicator's energy, and how much it varies
        mean, square = np.zeros((e.p2, e.p)), np.full((e.p2, e.p), 4.0)
        mean[:, e.p1 :] = 2.0 * (2.0 * q - 1.0)
        off, on = like.codes.T
        for t in range(e.p1):
            lift = similarity(x[:, t, None], on, eps) - similarity(x[:, t, None], off, eps)
            mean[:, t], square[:, t] = lift.mean(axis=0), (lift**2).mean(axis=0)
        self._mean = mean * unary
        curvature = np.zeros((e.p, e.p))
        curvature[e.p1 :] = (q * (1.0 - q))[:, None] * (square - self._mean**2)
        # what a neighbour adds to a numeric column's energy, as a function of the column's own number
        shapes = like.shapes
        self._free = isinstance(shapes, Hats)
        self._slope = np.zeros((e.p1, e.p, shapes.size))
        self._bend = np.zeros(e.p1)
        spread, origin = np.empty((e.p1, shapes.size)), np.zeros((e.p1, shapes.size))
        partners = x[:: max(1, len(x) // _PARTNERS)]
        for s in range(e.p1):
            at, weight = x[:, s], np.full(len(x), 1.0 / len(x))
            values = shapes(at)
            if self._free:
                at, weight = like.grid.nodes, (values.sum(axis=0) + _PSEUDO_COUNT) / (len(x) + _PSEUDO_COUNT * shapes.size)
                origin[s], spread[s] = np.log(weight / like.grid.weights), weight * (1.0 - weight)
                base = np.eye(len(at))
            else:
                varies = at.var() > 0.0
                self._bend[s] = np.cov(at, at**2, bias=True)[0, 1] / at.var() if varies else 0.0
                spread[s] = at.var(), (at**2 - self._bend[s] * at).var()
                base = np.column_stack([np.ones(len(at)), values])
            terms = [similarity(at[:, None], partners[:, t], eps) for t in range(e.p1)]
            sides = similarity(at[:, None], off, eps), similarity(at[:, None], on, eps)
            average = np.column_stack([term.mean(axis=1) for term in terms] + [sides[0] + q * (sides[1] - sides[0])])
            if unary:
                fit = np.linalg.lstsq(base, average, rcond=None)[0]
                self._slope[s], smooth = fit[-shapes.size :].T, base @ fit
            else:
                smooth = np.broadcast_to(weight @ average, average.shape)
            curvature[s, : e.p1] = [(weight @ (term - smooth[:, t, None]) ** 2).mean() for t, term in enumerate(terms)]
            curvature[s, e.p1 :] = (1.0 - q) * (weight @ (sides[0] - smooth[:, e.p1 :]) ** 2)
            curvature[s, e.p1 :] += q * (weight @ (sides[1] - smooth[:, e.p1 :]) ** 2)
        curvature = curvature + curvature.T
        unaries = [q * (1.0 - q), spread.ravel()] if unary else []
        self._origin = self._level(origin)
        self._scale = np.sqrt(np.maximum(np.concatenate([curvature[objective.edges], *unaries]) + objective.ridge, _FLAT))

    @property
    def metric(self) -> Floats:
        """Second derivatives."""
        return np.asarray(self._scale**2)

    def vector(self, z: Floats) -> Floats:
        """The vector of the objective at z."""
        o = self.objective
        at = o.parameters(z / self._scale)
        c = at.c.copy()
        c[:, 0] -= self._bend * at.c[:, 1]
        c -= np.einsum("st,stk->sk", at.theta[: self._p1], self._slope)
        b = at.b - (at.theta[self._p1 :] * self._mean).sum(axis=1)
        return o.vector(Parameters(at.theta, self._balanced(b), self._origin + self._level(c)))

    def gradient(self, gradient: Floats) -> Floats:
        """The gradient in z of a gradient of the objective: the transpose of `vector`."""
        o = self.objective
        g = o.parameters(gradient)
        b, c = self._balanced(g.b), self._level(g.c)
        shift = np.zeros_like(g.theta)
        shift[self._p1 :] = self._mean * b[:, None]
        shift[: self._p1] = np.einsum("stk,sk->st", self._slope, c)
        c[:, 1] -= self._bend * c[:, 0]
        return np.asarray(o.vector(Parameters(g.theta - shift - shift.T, b, c)) / self._scale)

    def _level(self, c: Floats) -> Floats:
        """c less the means over shapes that sum to a constant."""
        return c - c.mean(axis=1, keepdims=True) if self._free else c.copy()

    def _balanced(self, b: Floats) -> Floats:
        """b less its mean in every softmax."""
        b = b.copy()
        for group in self._groups:
            b[group] -= b[group].mean()
        return b


def ridge_fit(
    objective: Objective,
    coordinates: Coordinates,
    sample: Objective | None,
    *,
    tol: float,
    max_iter: int,
    told: Callable[[int, float, float], None],
) -> Found:
    """From 0 until no entry of the gradient exceeds tol: by way of a sample of the rows where there is one, then by L-BFGS.

    Parameters
    ----------
    objective : Objective
    coordinates : Coordinates
        In which the steps are taken; the gradient that ends them is that of the objective itself.
    sample : Objective or None
        The same of some of the rows.
    tol : float
    max_iter : int
        Steps of L-BFGS at most.
    told : callable
        Told of every step over all rows: its number, the objective, the largest entry of the gradient.
    """
    path: list[float] = []

    def step(value: float, largest: float) -> None:
        path.append(value)
        told(len(path), value, largest)

    def value(z: Floats) -> tuple[float, Floats, float]:
        f, gradient = objective(coordinates.vector(z))
        return f, coordinates.gradient(gradient), _largest(gradient)

    if sample is not None:
        z, largest = _by_sample(value, sample, coordinates, tol, max_iter, step)
    else:
        z = np.zeros(len(objective))
        largest = value(z)[2]
    if len(path) < max_iter and largest > tol:
        z = _lbfgs(value, z, tol, max_iter - len(path), step)
    vector = coordinates.vector(z)
    f, gradient = objective(vector)
    return Found(objective.parameters(vector), f, np.array(path), _largest(gradient), _largest(gradient) <= tol)


Value = Callable[[Floats], tuple[float, Floats, float]]  # value, gradient, and the size by which a search ends


def _by_sample(
    value: Value, sample: Objective, coordinates: Coordinates, tol: float, max_iter: int, step: Callable[[float, float], None]
) -> tuple[Floats, float]:
    """Minimise the objective of a sample, tilted so that its gradient is that of all rows; go there, tilt anew, and so on.

    The sample bends nearly as all rows do, so that each turn leaves a fraction of the gradient for one pass over all rows (Shamir, Srebro
    & Zhang, ICML 2014). Ends at tol, or where a turn gains too little; returns where, and the size of the gradient there.
    """

    def tilted(tilt: Floats) -> Value:
        def of_sample(z: Floats) -> tuple[float, Floats, float]:
            f, gradient = sample(coordinates.vector(z))
            g = coordinates.gradient(gradient) + tilt
            return f + float(tilt @ z), g, _largest(g)

        return of_sample

    flat = np.zeros(len(sample))
    z = _lbfgs(tilted(flat), flat, _SAMPLED, max_iter)
    f, g, largest = value(z)
    step(f, largest)
    for _ in range(max_iter - 1):
        if largest <= tol:
            break
        tilt = g - tilted(flat)(z)[1]
        way = _lbfgs(tilted(tilt), z, _SHARE * _largest(g), max_iter) - z
        for _ in range(_HALVINGS):
            f_new, g_new, new = value(z + way)
            if f_new <= f + _DESCENT * float(g @ way):
                break
            way = way / 2.0
        else:
            break
        slow = new > _TURN * largest
        z, f, g, largest = z + way, f_new, g_new, new
        step(f, largest)
        if slow:
            break
    return z, largest


def _lbfgs(value: Value, z: Floats, tol: float, max_iter: int, step: Callable[[float, float], None] | None = None) -> Floats:
    """L-BFGS until the size that `value` tells of is at most tol."""
    last: list[float] = []

    def plain(z: Floats) -> tuple[float, Floats]:
        f, gradient, size = value(z)
        last[:] = f, size
        return f, gradient

    def stop(z: Floats) -> None:
        if step is not None:
            step(last[0], last[1])
        if last[1] <= tol:
            raise StopIteration

    options = {"maxcor": MEMORY, "gtol": 0.0, "ftol": 0.0, "maxiter": max_iter, "maxfun": 20 * max_iter}
    return np.asarray(minimize(plain, z, jac=True, method="L-BFGS-B", callback=stop, options=options).x)


def _largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def lasso_fit(
    objective: Objective, coordinates: Coordinates, l1: float, *, tol: float, max_iter: int, told: Callable[[int, float, float], None]
) -> Found:
    """FISTA on the objective + l1 sum over edges of |theta|, from 0, until no entry of the proximal gradient exceeds tol.

    Steps are measured in the scales of the coordinates and halved where the objective bends more than these say; the momentum starts
    anew where it points uphill.
    """
    metric = coordinates.metric
    thresholds = np.where(np.arange(len(objective)) < objective.n_edges, l1, 0.0)
    old = y = new = coordinates.vector(np.zeros(len(objective)))
    f, gradient = objective(y)
    momentum, bend, largest = 1.0, 1.0, np.inf
    path: list[float] = []
    while len(path) < max_iter:
        while True:
            moved = y - gradient / (bend * metric)
            new = np.sign(moved) * np.maximum(np.abs(moved) - thresholds / (bend * metric), 0.0)
            step = new - y
            f_new, gradient_new = objective(new)
            if f_new <= f + gradient @ step + bend / 2.0 * (metric * step) @ step + 1e-13 * abs(f):
                break
            bend *= 2.0
        path.append(f_new + float((thresholds * np.abs(new)).sum()))
        largest = _largest(bend * metric * step)
        told(len(path), path[-1], largest)
        if largest <= tol:
            break
        if (metric * (y - new)) @ (new - old) > 0.0:
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        pull = (momentum - 1.0) / following
        old, y, momentum = new, new + pull * (new - old), following
        f, gradient = (f_new, gradient_new) if pull == 0.0 else objective(y)
    value = objective(new)[0] + float((thresholds * np.abs(new)).sum())
    return Found(objective.parameters(new), value, np.array(path), largest, largest <= tol)
