"""Splits of components in the reference implementation of the mixture: every sum over the rows is taken from
scratch.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, expit

from tests.reference.mixture_densities import PoissonGamma

TURNS, SWEEPS = 3, 4


def split_axis(model, k, rows):
    """Deviations of the rows from the mean of component k, each column times its probability of selection,
    along their principal axis.

    Power iteration from the column of largest variance; counts in standard deviations. None if no selected
    column varies.
    """
    density, w, counts = model.density, model.W[:, k : k + 1], isinstance(model.density, PoissonGamma)
    amount = density.e if counts else density.present
    reach = (w * amount).sum(axis=0)
    safe = np.where(reach > 0.0, reach, 1.0)
    mean = (w * density.x).sum(axis=0) / safe
    variance = (w * density.x**2).sum(axis=0) / safe - mean**2
    spread = np.where(reach > 0.0, model.p[k], 0.0)
    if counts:
        spread = np.where(mean > 0.0, spread / np.sqrt(np.where(mean > 0.0, mean, 1.0)), 0.0)
    if not (spread**2 * variance > 0.0).any():
        return None
    away = (spread * (density.x - amount * mean))[rows]
    axis = np.eye(model.D)[np.argmax(spread**2 * variance)]
    for _ in range(TURNS):
        turned = (model.weight[rows] * (away @ axis)) @ away
        if turned.any():
            axis = turned / np.abs(turned).max()
    return away @ axis


def find_halves(model, k, rows):
    """(2, n) weights of the rows of component k in its halves, after sweeps under the model's noise and
    lambda; None if one is empty.
    """
    place = split_axis(model, k, rows)
    if place is None:
        return None
    second = np.zeros(len(rows), dtype=bool)
    second[rows] = place > 0.0
    log_in, log_out = (np.broadcast_to(part, model.p.shape)[k] for part in model.log_shares())
    noise = model.noise_density.expected(model.q_noise)
    for _ in range(SWEEPS):
        halves = model.weight * rows * np.stack([~second, second])
        sizes, scores = halves.sum(axis=1), []
        if not sizes.all():
            return None
        for r in halves:
            q = model.density.posterior(r[:, None])
            own = model.density.expected(q)
            p = (
                model.p[k]
                if model.shared
                else expit(r @ (own - noise) - model.density.kl(q) + log_in - log_out)
            )
            scores.append((own - noise) @ p)
        odds = digamma(model.alpha + sizes[1]) - digamma(1 + sizes[0]) + scores[1] - scores[0]
        moved = rows & ((odds > 0.0) != second)
        second ^= moved
        if not moved.any():
            break
    halves = model.weight * rows * np.stack([~second, second])
    return halves if halves.sum(axis=1).all() else None


def split_gain(model, k, halves):
    """Estimated rise of the bound if component k becomes its halves; lambda, noise and m are held, theta and
    y at their optimum.
    """
    log_in, log_out = (np.broadcast_to(part, model.p.shape)[k] for part in model.log_shares())
    noise = model.noise_density.expected(model.q_noise)

    def score(r):
        evidence = model.density.evidence(r[:, None])
        return (
            model.p[k] @ evidence
            if model.shared
            else np.logaddexp(evidence + log_in, r @ noise + log_out).sum()
        )

    first, second = halves
    gain = score(first) + score(second) - score(first + second) - score(0 * first)
    part = model.N[k] * second.sum() / halves.sum()
    sizes = np.append(model.N, part)
    sizes[k] -= part
    return gain + model.stick_term(-np.sort(-sizes)[:-1]) - model.stick_term(model.N)


def all_halves(model):
    """The halves of every component that has some, and their gains: {k: (gain, halves)}."""
    alive = model.N > 0.0
    model.theta()
    model.sticks()
    label = np.where(alive, model.log_joint(), -np.inf).argmax(axis=1)
    halves = {k: find_halves(model, k, label == k) for k in np.flatnonzero(alive)}
    return {k: (split_gain(model, k, found), found) for k, found in halves.items() if found is not None}


def split(model, learn_fraction):
    """Split all promising components that find an empty one, otherwise the first that raises the bound after
    a sweep; whether one did.
    """
    before, empty, kept = model.bound(), np.flatnonzero(model.N == 0.0), model.kept()
    if not len(empty):
        return False
    halves = all_halves(model)
    promising = sorted((k for k in halves if halves[k][0] > 1e-9 * abs(before)), key=lambda k: -halves[k][0])
    together = list(zip(promising, empty, strict=False))

    def halve(k, to):
        model.R[:, k], model.R[:, to] = halves[k][1] / model.weight
        model.p[to] = model.p[k]
        if model.own_fractions:
            model.A[to], model.B[to] = model.A[k], model.B[k]

    attempts = [together] * (len(together) > 1) + [[(k, empty[0])] for k in promising]
    return model.first_that_gains(attempts, halve, before, kept, learn_fraction)
