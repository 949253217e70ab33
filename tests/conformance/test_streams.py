"""The registry of random streams: one number for each purpose of a method, and no draw without one."""

from __future__ import annotations

import ast
from enum import IntEnum

import numpy as np

from craftc._common import random
from tests.common import ROOT


def streams():
    return [
        kind
        for kind in vars(random).values()
        if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
    ]


def test_numbers_in_use_do_not_change():
    """Results depend on them; a new stream gets a new number."""
    assert {kind.__name__: {one.name: int(one) for one in kind} for kind in streams()} == {
        "CraftStream": {
            "MASK": 1,
            "MASK_REPAIR": 2,
            "ROW": 3,
            "LABEL": 4,
            "SEED": 11,
            "SEED_SAMPLE": 12,
            "SPLIT_SAMPLE": 13,
            "STAGE_SAMPLE": 14,
            "SCREENING_SAMPLE": 15,
            "KMEANS_SEED": 16,
            "COVARIANCE_SAMPLE": 17,
            "STABILITY_SAMPLE": 18,
            "PERMUTATION": 19,
            "NULL_SAMPLE": 20,
            "MAP_SAMPLE": 21,
            "CODES_SAMPLE": 22,
        },
        "DPMeansStream": {
            "ORDER": 21,
            "LABEL": 22,
            "PENALTY_SAMPLE": 23,
            "SEED": 24,
            "ROW": 25,
            "MODE_SAMPLE": 26,
        },
        "FeatureStream": {
            "FEATURE": 31,
            "EXCHANGE": 32,
            "CHOICE_SAMPLE": 33,
            "GROWTH": 34,
            "GROWN_EXCHANGE": 35,
        },
        "MixtureStream": {"SEED": 41, "SEED_SAMPLE": 42},
        "SpectralStream": {"SCORES": 41, "LOADINGS": 42},
        "TableStream": {"QUANTILE_SAMPLE": 62, "TALLY_SAMPLE": 61},
    }


def test_every_stream_is_used():
    used = {
        (node.value.id, node.attr)
        for path in (ROOT / "craftc").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id.endswith("Stream")
    }
    assert used == {(kind.__name__, one.name) for kind in streams() for one in kind}


def test_draws_in_proportion():
    running = np.cumsum([0.0, 0.5, 0.0, 1.5, 0.0])
    assert [random.drawn(running, draw) for draw in (0.0, 0.24, 0.25, 0.99)] == [1, 1, 3, 3]
    assert (
        random.drawn(np.cumsum([0.1, 0.2, 0.0]), np.nextafter(1.0, 0.0)) == 1
    )  # never an index without a chance
