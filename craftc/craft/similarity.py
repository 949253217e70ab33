"""Similarity of clusters: the Bhattacharyya coefficient of their distributions."""

from __future__ import annotations

import numpy as np

from craftc._common.typing import Floats
from craftc.craft.clusters import Clusters


def bhattacharyya(clusters: Clusters) -> Floats:
    """(K, K) integral of sqrt(f_i f_j) over rows, with f_k the distribution of cluster k as the model has it.

    Columns are independent except in a covariance, so that the coefficient is a product over columns: of two
    normal densities

        log BC = -(m_i - m_j)' S^-1 (m_i - m_j) / 8 - (log |S| - (log |S_i| + log |S_j|) / 2) / 2,   S = (S_i
        + S_j) / 2,

    and of two categorical distributions sum_t sqrt(p_it p_jt). The parts of a column that the encoding
    separates count as columns.
    """
    mean, variance, probability = distributions_of(clusters)
    usable, grid, K = clusters.background.usable.astype(bool), clusters.moments.grid, len(clusters.mask)
    held = clusters.covariances
    blocks = np.empty(0, np.intp) if held is None else held.cross.columns
    single = np.setdiff1d(np.flatnonzero(usable[: grid.p]), blocks)
    ends = np.append(grid.level_start, grid.n_levels)
    categorical = [slice(ends[c], ends[c + 1]) for c in range(grid.q) if usable[grid.p + c]]
    matrices = np.zeros((K, len(blocks), len(blocks)))
    matrices[:, range(len(blocks)), range(len(blocks))] = variance[:, blocks]
    if held is not None:
        for k, block in enumerate(held.block.astype(bool)):
            matrices[k][np.ix_(block, block)] = held.matrix[k][np.ix_(block, block)]
    log_det = np.linalg.slogdet(matrices)[1]
    out = np.eye(K)
    for i in range(K):
        for j in range(i):
            between = 0.5 * (variance[i, single] + variance[j, single])
            apart = mean[i, single] - mean[j, single]
            log = (
                -(apart**2 / between).sum() / 8
                - 0.5 * (np.log(between) - 0.5 * np.log(variance[i, single] * variance[j, single])).sum()
            )
            middle, apart = 0.5 * (matrices[i] + matrices[j]), mean[i, blocks] - mean[j, blocks]
            log -= apart @ np.linalg.solve(middle, apart) / 8 + 0.5 * (
                np.linalg.slogdet(middle)[1] - 0.5 * (log_det[i] + log_det[j])
            )
            shared = [np.sqrt(probability[i, at] * probability[j, at]).sum() for at in categorical]
            out[i, j] = out[j, i] = min(np.exp(log) * np.prod(shared), 1.0)
    return out


def distributions_of(clusters: Clusters) -> tuple[Floats, Floats, Floats]:
    """(K, p) means and variances in units of the table, and (K, n_levels) level probabilities; where not
    selected, those shared.
    """
    moments, background, shared = clusters.moments, clusters.background, clusters.pricing.shared
    p, selected = moments.grid.p, clusters.mask.astype(bool)
    probability = clusters.level_probabilities()
    if shared is None:
        mean, precision, rest = np.zeros(p), np.ones(p), background.frequency
    else:
        mean, precision = shared.shift[:p], shared.precision[:p]
        counts = shared.group[1 : moments.grid.first_numeric] * moments.unit
        seen = np.repeat(background.level_present(counts[None]), background.level_widths, axis=1)[0]
        alpha = clusters.spec.prior
        rest = (counts + alpha * background.frequency) / (seen + alpha)
    of_level = np.repeat(selected[:, p:], background.level_widths, axis=1)
    return (
        np.where(selected[:, :p], clusters.shift, mean),
        1.0 / np.where(selected[:, :p], clusters.precision, precision),
        np.where(of_level, probability, rest * (background.frequency > 0)),
    )
