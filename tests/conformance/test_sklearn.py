"""scikit-learn's own checks of the estimator contract."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from craftc import CRAFT

#: Checks that fail for a reason (2026-11).
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "the check reorders the rows, and labels are numbered by first appearance; random starts belong to row numbers. From the same "
        "start partition weights equal repeated rows to the last bit: test_craft_properties.py"
    ),
}


@parametrize_with_checks(
    [CRAFT(n_init=2), CRAFT(n_clusters=3, model="paper-fixed", n_init=2), CRAFT(missing="error", n_init=2)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_estimator_contract(estimator, check):
    check(estimator)
