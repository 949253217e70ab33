"""The description-length price of CRAFT: what a cluster and its features must save to exist.

    cost_k = h + log(D + 1) + log C(D, q_k) + sum_{d in v_k} (p_d h - gain_kd) - S_k log(S_k / N),   h =
    factor * (1/2) log N

This is the integrated classification likelihood (ICL) with a price for every part of the description: the
cluster itself, the features it selects, their parameters, and the labels of its rows. Without the mixing cost
-S log(S / N) every split of a column at its mean would lower the objective, even in noise.
"""

from __future__ import annotations

import math

import numpy as np

from craftc._common.typing import Floats, Integers, Mask
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft_shared import Shared
from craftc.craft.background import Background
from craftc.craft.parameters import ModelSpec

NO_GROUPS: Integers = np.empty((0, 0), np.int64)


def feature_prices(background: Background, spec: ModelSpec) -> tuple[Floats, Floats]:
    """(D,) p_d h of every feature and (n_usable + 1,) log C(n_usable, q), nats."""
    return background.n_parameters * half_log(background, spec), background.log_choose


def half_log(background: Background, spec: ModelSpec) -> float:
    """h = price_factor * (1/2) log N."""
    return spec.price_factor * 0.5 * math.log(background.weight) if background.weight > 1 else 0.0


def pricing_of(
    background: Background,
    spec: ModelSpec,
    scale_up: float = 1.0,
    total_weight: float | None = None,
    room: int = 0,
) -> price_kernel.Pricing:
    """Prices of clusters and features, and selection of features, for the kernels.

    Parameters
    ----------
    background : Background
    spec : ModelSpec
    scale_up : float, default=1.0
        Weight of a row of a sample that represents the whole table.
    total_weight : float, optional
        Weight of the rows that are partitioned, if they are only some of the rows of the background.
    room : int, default=0
        Under the pooled background: most clusters whose masks are chosen together.
    """
    price, log_choose = np.zeros(background.usable.size), np.zeros(1)
    if spec.features_by_length:
        price, log_choose = feature_prices(background, spec)
    pricing = price_kernel.Pricing(
        background.grid,
        background.count_weight * scale_up,
        background.weight if total_weight is None else total_weight,
        half_log(background, spec) if spec.price is None else spec.price,
        0.0 if spec.features_by_length else spec.f_delta,
        spec.by_length,
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
        *background.budget(spec.fraction),
        (
            spec.categorical_threshold,
            spec.numeric_threshold * (background.grid.scale**2 if spec.absolute else background.variance),
        ),
    )
    if spec.pooled:
        pricing.shared = Shared(background.grid, room)
    return pricing


def same_prices(pricing: price_kernel.Pricing, room: int) -> price_kernel.Pricing:
    """The same prices, with shared distributions of their own for `room` clusters under the pooled
    background.
    """
    own = price_kernel.Pricing(*pricing.arguments)
    if pricing.shared is not None:
        own.shared = Shared(own.grid, room)
    return own


def choose_features(
    pricing: price_kernel.Pricing,
    selection: str,
    gains: Floats,
    groups: Integers = NO_GROUPS,
    shared: Mask | None = None,
) -> tuple[Mask, Floats]:
    """Features that groups of rows select.

    Parameters
    ----------
    pricing : Pricing
    selection : {"priced", "free", "fixed", "global", "threshold"}
    gains : ndarray (n, D)
        What every feature saves in every group; the paper's models give scores instead.
    groups : ndarray (n, width) of int64, optional
        Moments of the groups, for "threshold".
    shared : ndarray (D,) of uint8, optional
        The mask of all groups, for "global".

    Returns
    -------
    mask : ndarray (n, D) of uint8
    cost : ndarray (n,)
        Prices of the selected features and of the code of the mask, less the gains.
    """
    mask = np.zeros(gains.shape, np.uint8)
    if shared is not None:
        mask[:] = shared
    cost, work = np.empty(len(gains)), np.empty(price_kernel.parts_size(pricing))
    price_kernel.choose_features(gains, groups, pricing, price_kernel.SELECTIONS[selection], work, mask, cost)
    return mask, cost
