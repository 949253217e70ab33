"""CRAFT priced by description length: what a cluster and its features must save to exist.

    cost_k = h + log(D + 1) + log C(D, q_k) + sum_{d in v_k} (p_d h - gain_kd) - S_k log(S_k / N),   h = factor * (1/2) log N

the classification likelihood with prices (ICL): a cluster pays for its existence, for saying which features it uses, for
their parameters, and for the labels of its rows. The mixing cost - S log(S / N) is what keeps noise in one piece: without it,
cutting any column at its mean would pay.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from craftc._common.typing import Floats, Mask
from craftc._kernels import craft as _pass
from craftc._kernels import craft_price as _kernel
from craftc.craft.clusters import Background, Clusters, Rules, cost_tables
from craftc.table.moments import Moments


def feature_prices(background: Background, rules: Rules) -> tuple[Floats, Floats]:
    """(D,) p_d h of every feature and (n_usable + 1,) log C(n_usable, q), nats."""
    grid, n = background.grid, int(background.usable.sum())
    occurring = np.add.reduceat(background.frequency > 0, grid.level_start, dtype=np.intp) if grid.q else np.empty(0)
    parameters = np.concatenate([np.full(grid.p, 2.0), np.maximum(occurring - 1.0, 0.0)])
    q = np.arange(n + 1)
    return parameters * half_log(background, rules), gammaln(n + 1) - gammaln(q + 1) - gammaln(n - q + 1)


def half_log(background: Background, rules: Rules) -> float:
    """h = price_factor * (1/2) log N."""
    return rules.price_factor * 0.5 * math.log(background.weight) if background.weight > 1 else 0.0


def pricing_of(background: Background, rules: Rules, scale_up: float = 1.0, total: float | None = None) -> _kernel.Pricing:
    """What the kernels need to price a group of rows of this table.

    Parameters
    ----------
    background : Background
    rules : Rules
    scale_up : float, default=1.0
        How often each row counts: a sample that stands for all.
    total : float, optional
        Weight of the rows that are partitioned, where they are only some of the table's.
    """
    price, log_choose = feature_prices(background, rules)
    return _kernel.Pricing(
        background.grid,
        background.unit * scale_up,
        background.weight if total is None else total,
        half_log(background, rules) if rules.price is None else rules.price,
        rules.by_length,
        background.centre,
        background.scale,
        background.mean,
        background.variance,
        1.0 / np.sqrt(background.variance),
        background.frequency,
        background.usable,
        price,
        log_choose,
        background.entropy,
        *background.budget(rules.fraction),
        (rules.categorical_threshold, rules.numeric_threshold),
    )


class PricedClusters(Clusters):
    """Parameters, gains, masks and costs of a partition whose features (and clusters, unless given a number) pay by length.

    Parameters
    ----------
    moments : Moments
        Of K clusters, none empty.
    background : Background
    rules : Rules
    """

    def _select(self) -> Mask:
        """(K, D) the features of every cluster; what they cost follows from the same sums."""
        pricing, K = pricing_of(self.background, self.rules), self.moments.n_clusters
        mask, work = np.zeros(self.gains.shape, np.uint8), np.empty((K, _kernel.parts_size(pricing)))
        self._costs: Floats = np.empty(K)
        _kernel.price_groups(
            self.moments.groups, pricing, _kernel.SELECTIONS[self.rules.selection], True, work, mask, self._costs
        )
        return mask

    @property
    def price(self) -> float:
        """Nats a cluster pays for itself."""
        return half_log(self.background, self.rules) if self.rules.price is None else self.rules.price

    @property
    def costs(self) -> Floats:
        """(K,) what every cluster adds to the objective beyond the background, nats."""
        return self._costs

    def tables(self) -> _pass.Tables:
        """Cost tables of all clusters; the mixing cost -log(S_k / N) stands in every row's cost."""
        mixing = -np.log(self.moments.sizes / self.background.weight) * self.rules.by_length
        return cost_tables(
            self.moments.groups, self.moments.unit, self.background, self.rules, self.shift, self.precision, self.mask, mixing
        )


def clusters_of(moments: Moments, background: Background, rules: Rules) -> Clusters:
    """Clusters under the rules' price."""
    return (PricedClusters if rules.features_by_length else Clusters)(moments, background, rules)
