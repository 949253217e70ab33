"""Whole numbers that are codes, such as 1 to 8 for regions.

A tilt describes a column by the order of its values. Codes have none, and a scale may be polarised, or have
another value for "does not apply". A few rows are therefore searched once more, with shares of their own for
the levels of all columns of few whole numbers. For the partition that is found, some of these columns have a
lower J as codes. They are codes, if J is lower with them than that of the clusters without codes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from craftc._common.random import CraftStream
from craftc._common.typing import Labels
from craftc.craft.clusters import Clusters
from craftc.craft.progress import ProgressMeter
from craftc.craft.rows import L, S
from craftc.craft.search import AutomaticResult, EncodedRows, FitConfig, LocalConfig
from craftc.craft.search.automatic import automatic_fit
from craftc.describe.structure import nearly
from craftc.table.categorical import name_of
from craftc.table.declared import KindsInput
from craftc.table.levels import LevelEncoding, NumberLevels

_ROWS = 1 << 12  # among which both are searched
_FEWEST_LEVELS, _MOST_LEVELS = 3, 12
_STARTS = 2


def codes_among(
    encoded: EncodedRows[L, S],
    config: FitConfig[L, S],
    objective: float,
    target: int | None,
    kinds: KindsInput = None,
) -> list[int]:
    """The numeric columns that are codes, as positions among these. `objective`: J of the clusters that have
    been found; `target`: their number, if it was given; `kinds`: what columns were declared to be.
    """
    encoding = encoded.encoding
    assert isinstance(encoding, LevelEncoding)
    schema = encoding.input_schema
    declared = {name_of(column, schema.named) for column in kinds or {}}
    each = zip(schema.numeric_names, encoding.numbers, strict=True)
    some = [d for d, (name, own) in enumerate(each) if name not in declared and _may_be_codes(own)]
    if not some or encoding.codes or encoding.null == "normal":
        return []
    positions, sample = config.sample(_ROWS, CraftStream.CODES_SAMPLE)
    sample = replace(sample, spec=replace(sample.spec, covariance="diagonal"))
    if len(positions) < len(config.rows):
        objective = _searched(sample, target).objective
    coded = encoded.with_codes(some)
    assert isinstance(coded.encoding, LevelEncoding)
    found = _searched(replace(sample, background=coded.background, encoding=coded.encoding), target)
    as_numbers = _objective(encoded, found)
    codes = [d for d in some if _objective(encoded.with_codes([d]), found) < as_numbers]
    shorter = _objective(encoded.with_codes(codes), found) < objective - nearly(sample.spec.price_factor)
    return codes if shorter else []


def _may_be_codes(own: NumberLevels) -> bool:
    """Whether a numeric column has few whole numbers."""
    few = _FEWEST_LEVELS <= len(own.values) <= _MOST_LEVELS
    return few and not own.period and bool((own.values == np.rint(own.values)).all())


def _searched(config: LocalConfig, target: int | None) -> AutomaticResult[Labels]:
    """The clusters of a few rows."""
    alone = replace(config, meter=ProgressMeter(), callback=None)
    return automatic_fit(alone, _STARTS, None, "auto", target)


def _objective(encoded: EncodedRows[L, S], found: AutomaticResult[Labels]) -> float:
    """J of the same partition of the sample, with the columns as they are encoded."""
    clusters = Clusters(found.moments, encoded.background, found.spec)
    return clusters.objective
