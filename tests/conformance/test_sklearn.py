"""scikit-learn's own checks of the estimator contract."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from craftc import CRAFT

AUTOMATIC = CRAFT(n_init=2)
PRICED = CRAFT(n_clusters=3, cluster_price=0.0, selection="fixed", numeric="raw", n_init=2)
STRICT = CRAFT(missing="error", n_init=2)


def expected_failures(estimator):
    """Checks that fail for a reason (2026-11)."""
    if estimator.cluster_price == "auto":
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "the check reorders the rows, and random starts belong to row numbers. From the same start partition weights equal "
            "repeated rows to the last bit: test_craft_properties.py"
        ),
    }


@pytest.mark.filterwarnings("ignore:Columns .* say:UserWarning")  # some checks round their columns into each other
@parametrize_with_checks([AUTOMATIC, PRICED, STRICT], expected_failed_checks=expected_failures)
def test_estimator_contract(estimator, check):
    check(estimator)
