"""Full covariances in the reference implementation of the mixture: every evidence is taken from scratch."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import betaln

from tests.reference.mixture import ReferenceMixture, standardised
from tests.reference.mixture_densities import NormalWishart


class ReferenceFullMixture(ReferenceMixture):
    """Gaussian components with a full covariance on the selected columns; y is 0 or 1, no cell is missing.

    Parameters
    ----------
    y0 : array (K, columns), optional
        Masks of the start, in all columns of X; nothing selected if not given. Equal rows for "shared".

    The other parameters and the attributes are those of `ReferenceMixture`.
    """

    def __init__(self, X, R0, *, y0=None, **parameters):
        if np.isnan(X).any():
            raise ValueError("no cell may be missing")
        self.y0 = y0
        super().__init__(X, R0, **parameters)

    def densities(self, X, component, noise, scale):
        if component != "gaussian":
            raise ValueError("full covariances are Gaussian")
        z = standardised(X, scale, self.weight)
        return NormalWishart(z, *self.wishart), super().densities(X, component, noise, scale)[1]

    def start_masks(self):
        y0 = (
            np.full((self.K, len(self.columns)), float(self.all))
            if self.y0 is None
            else np.asarray(self.y0, dtype=np.float64)
        )
        return np.array(np.broadcast_to(y0, (self.K, len(self.columns)))[:, self.columns])

    def cluster_densities(self):
        """E ln N(x_nS | mu_k, Sigma_k), S = the columns of component k, (n, K)."""
        return np.stack([self.density.expected(q) for q in self.q], axis=1)

    def cluster_kl(self):
        return sum(self.density.kl(q) for q in self.q)

    def theta(self):
        """q(mu_k, Sigma_k) for the present columns."""
        self.q = [self.density.posterior(self.W[:, k], self.p[k] > 0.5) for k in range(self.K)]

    def toggle_gain(self, components, d):
        """Rise of the bound if y_kd of these components flips and theta follows; they share one y_d if there
        are many.
        """
        log_in, log_out = self.log_shares()
        noise = self.noise_likelihoods()[:, d]
        gain = 0.0
        for k in components:
            without, with_d = self.p[k] > 0.5, self.p[k] > 0.5
            without[d], with_d[d] = False, True
            gain += (
                self.density.evidence(self.W[:, k], with_d)
                - self.density.evidence(self.W[:, k], without)
                - noise[k]
            )
        gain += log_in[d] - log_out[d]
        return -gain if self.p[components[0], d] > 0.5 else gain

    def pair_gain(self, components, pair):
        """Rise of the bound if two entries of these components, both 0 or both 1, flip."""
        log_in, log_out = self.log_shares()
        noise = self.noise_likelihoods()[:, pair].sum(axis=1)
        selected = self.p[components[0], pair[0]] > 0.5
        gain = 0.0
        for k in components:
            without, with_pair = self.p[k] > 0.5, self.p[k] > 0.5
            without[pair], with_pair[pair] = False, True
            gain += (
                self.density.evidence(self.W[:, k], with_pair)
                - self.density.evidence(self.W[:, k], without)
                - noise[k]
            )
        gain += (log_in - log_out)[pair].sum()
        return -gain if selected else gain

    def flip_pairs(self, components, least):
        """Flip the pair of equal entries that raises the bound most, at most D times."""
        for _ in range(self.D):
            on = self.p[components[0]] > 0.5
            pairs = [[i, j] for i, j in combinations(range(self.D), 2) if on[i] == on[j]]
            gains = [self.pair_gain(components, pair) for pair in pairs]
            if max(gains, default=0.0) <= least:
                return
            p, pair = self.p.copy(), pairs[int(np.argmax(gains))]
            p[np.ix_(components, pair)] = 1 - p[np.ix_(components, pair)]
            self.p = p

    def masks(self):
        """Flip pairs, then y_kd one by one, components outside, columns inside, wherever the bound rises."""
        if self.all:
            self.theta()
            return
        least = 1e-12 * abs(self.bound())
        for components in [list(range(self.K))] if self.shared else [[k] for k in range(self.K)]:
            self.flip_pairs(components, least)
        for components in [list(range(self.K))] if self.shared else [[k] for k in range(self.K)]:
            for d in range(self.D):
                if self.toggle_gain(components, d) > least:
                    p = self.p.copy()
                    p[components, d] = 1 - p[components, d]
                    self.p = p
        self.theta()

    def collapsed(self, p):
        """The part of the bound that masks change, with theta, the noise and lambda at their optimum."""
        q = self.noise_density.posterior(self.W @ (1 - p))
        noise = ((self.W @ (1 - p)) * self.noise_density.expected(q)).sum() - np.sum(self.noise_density.kl(q))
        own = sum(self.density.evidence(self.W[:, k], p[k] > 0.5) for k in range(self.K))
        y, (a, b) = p[:1] if self.shared else p, self.share_prior()
        return noise + own + betaln(a + y.sum(axis=0), b + (1 - y).sum(axis=0)).sum()

    def flipped(self, group, columns):
        """Masks after switches of columns in a group of components; those without rows follow the others."""
        p = self.p.copy()
        filled = [k for k in group if self.N[k] > 0.0]
        p[np.ix_(group, columns)] = 1 - p[filled[0], columns]
        return p

    def best_path(self, group, patience=8):
        """(gain, columns) of the best beginning of all paths of switches, the best column first."""
        filled, before = [k for k in group if self.N[k] > 0.0], self.collapsed(self.p)
        same = [d for d in range(self.D) if len(set(self.p[filled, d])) == 1]
        best = (0.0, [])
        for start in same:
            path, found = [start], (-np.inf, [])
            while True:
                gain = self.collapsed(self.flipped(group, path)) - before
                if gain > found[0]:
                    found = gain, list(path)
                rest = [d for d in same if d not in path]
                if not rest or len(path) - len(found[1]) >= patience:
                    break
                path.append(max(rest, key=lambda d: self.collapsed(self.flipped(group, [*path, d]))))
            best = max(best, found, key=lambda one: one[0])
        return best

    def switch(self, least):
        """Blocks of columns of each component, then of all together; whether there were any."""
        groups = [] if self.shared else [[k] for k in np.flatnonzero(self.N > 0.0)]
        switched = False
        for group in [*groups, list(range(self.K))]:
            gain, columns = self.best_path(group)
            if gain > least:
                self.p, switched = self.flipped(group, columns), True
        for factor in (self.theta, self.noise, self.shares):
            factor()
        return switched

    def fit(self, tol, max_iter, merge=False, learn_fraction=False):
        if merge:
            raise ValueError("merging is not part of the full model")
        return super().fit(tol, max_iter, False, learn_fraction)
