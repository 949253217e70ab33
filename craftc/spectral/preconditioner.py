"""Preconditioner of a fit: diagonal Hessian scaling and centring, estimated from marginals."""

from __future__ import annotations

import numpy as np

from craftc._common.typing import Floats
from craftc.spectral.pseudo_likelihood import HatBasis, Objective, similarity
from craftc.table import MixedTable

_SAMPLE = 500  # rows from which the scales are estimated
_MIN_CURVATURE = 1e-8  # least curvature of a coordinate; without a ridge the sample may show none
_PSEUDO_COUNT = 0.5  # rows added to every node of a histogram
_PARTNERS = 50  # rows of the sample that represent a numeric neighbour


class GraphPreconditioner:
    """Diagonal Hessian scaling and centring, estimated from marginals: a linear map from z to a vector.

    Unary terms are centred at the means of the neighbours: rare indicators, nearly constant, would otherwise
    be collinear with them. A constant added to b of a softmax, or to free unary terms of a column, changes
    only the ridge penalty; it is removed. x^2 is centred at its regression on x, free terms at the histogram
    of the column. Then every coordinate is scaled by its second derivative.
    """

    def __init__(self, objective: Objective, table: MixedTable, eps: float, softmax: bool) -> None:
        self.objective = objective
        like = objective.likelihood
        e, unary = like.encoding, objective.unary
        self._p1 = e.p1
        sample = e.scaled(table.take(slice(None, None, max(1, table.n_rows // _SAMPLE))))
        x = np.nan_to_num(sample, nan=0.0)
        q = e.shares
        sizes = np.diff(e.first)
        self._together = (sizes > 1) & softmax  # variables whose indicators are normalised together
        # mean and mean square of what a neighbour adds to an indicator's energy
        mean, square = np.zeros((e.p2, e.p)), np.full((e.p2, e.p), 4.0)
        mean[:, e.p1 :] = 2.0 * (2.0 * q - 1.0)
        off, on = like.codes.T
        for t in range(e.p1):
            change = similarity(x[:, t, None], on, eps) - similarity(x[:, t, None], off, eps)
            mean[:, t], square[:, t] = change.mean(axis=0), (change**2).mean(axis=0)
        self._mean = mean * unary
        curvature = np.zeros((e.p, e.p))
        curvature[e.p1 :] = (q * (1.0 - q))[:, None] * (square - self._mean**2)
        # regression on the unary basis of what a neighbour adds to a numeric column's energy, a function of
        # the column's own number
        basis = like.unary_basis
        self._free = isinstance(basis, HatBasis)
        self._slope, n_terms = np.zeros((e.p1, e.p, basis.size)), like.n_terms()
        self._used = np.arange(basis.size) < n_terms[:, None]
        self._square_on_x = np.zeros(e.p1)  # slopes of the regressions of x^2 on x
        spread, origin = np.zeros((e.p1, basis.size)), np.zeros((e.p1, basis.size))
        partners = x[:: max(1, len(x) // _PARTNERS)]
        for s in range(e.p1):
            at, weight, terms_of = x[:, s], np.full(len(x), 1.0 / len(x)), slice(n_terms[s])
            if self._free:
                support, counts = like.support(s), like.basis_sums(s, sample[:, s]) + _PSEUDO_COUNT
                at, weight = support.nodes, counts / counts.sum()
                origin[s, terms_of] = np.log(weight / support.weights)
                spread[s, terms_of] = weight * (1.0 - weight)
                design = np.eye(len(at))
            else:
                values = basis(at)
                varies = at.var() > 0.0
                self._square_on_x[s] = np.cov(at, at**2, bias=True)[0, 1] / at.var() if varies else 0.0
                spread[s] = at.var(), (at**2 - self._square_on_x[s] * at).var()
                design = np.column_stack([np.ones(len(at)), values])
            terms = [similarity(at[:, None], partners[:, t], eps) for t in range(e.p1)]
            sides = similarity(at[:, None], off, eps), similarity(at[:, None], on, eps)
            means = [term.mean(axis=1) for term in terms]
            average = np.column_stack([*means, sides[0] + q * (sides[1] - sides[0])])
            if unary:
                fit = np.linalg.lstsq(design, average, rcond=None)[0]
                self._slope[s, :, terms_of], smooth = fit[-n_terms[s] :].T, design @ fit
            else:
                smooth = np.broadcast_to(weight @ average, average.shape)
            left = [term - smooth[:, t, None] for t, term in enumerate(terms)]
            curvature[s, : e.p1] = [(weight @ term**2).mean() for term in left]
            curvature[s, e.p1 :] = (1.0 - q) * (weight @ (sides[0] - smooth[:, e.p1 :]) ** 2)
            curvature[s, e.p1 :] += q * (weight @ (sides[1] - smooth[:, e.p1 :]) ** 2)
        curvature = curvature + curvature.T
        unaries = [q * (1.0 - q), spread.ravel()] if unary else []
        self._origin = self._level(origin)
        second = np.concatenate([curvature[objective.edges], *unaries]) + objective.ridge
        self.scale = np.sqrt(np.maximum(second, _MIN_CURVATURE))

    def vector(self, z: Floats) -> Floats:
        """The vector of the objective that z maps to."""
        o, x = self.objective, z / self.scale
        if not o.unary:
            return np.asarray(x)
        theta, b, terms = o.parameters(x)
        b = b - (theta[self._p1 :] * self._mean).sum(axis=1)
        c = terms - (theta[: self._p1, None] @ self._slope)[:, 0]
        c[:, 0] -= self._square_on_x * terms[:, 1]
        return np.concatenate([x[: o.n_edges], self._balanced(b), (self._origin + self._level(c)).ravel()])

    def gradient(self, gradient: Floats) -> Floats:
        """The gradient in z from that in the vector: the transpose of `vector`."""
        o = self.objective
        if not o.unary:
            return np.asarray(gradient / self.scale)
        edges, b, c = o.parts(gradient)
        b, c = self._balanced(b), self._level(c)
        shift = np.concatenate([(self._slope @ c[:, :, None])[:, :, 0], self._mean * b[:, None]])
        c[:, 1] -= self._square_on_x * c[:, 0]
        return np.asarray(np.concatenate([edges - o.on_edges(shift + shift.T), b, c.ravel()]) / self.scale)

    def _level(self, c: Floats) -> Floats:
        """c less the means over a basis that sums to a constant."""
        if not self._free:
            return c.copy()
        mean = np.where(self._used, c, 0.0).sum(axis=1, keepdims=True) / self._used.sum(axis=1, keepdims=True)
        return np.asarray(np.where(self._used, c - mean, 0.0))

    def _balanced(self, b: Floats) -> Floats:
        """b less its mean over every softmax."""
        if not self._together.any():
            return b.copy()
        e = self.objective.likelihood.encoding
        mean = np.add.reduceat(b, e.first[:-1]) / np.diff(e.first)
        return np.asarray(b - np.where(self._together, mean, 0.0)[e.owner])
