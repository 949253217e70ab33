"""scikit-learn's own checks of the estimator contract."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from craftc import CRAFT

#: Checks that fail for a reason (none known as of 2026-11).
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [CRAFT(n_init=2), CRAFT(n_clusters=3, model="paper-fixed", n_init=2), CRAFT(missing="error", n_init=2)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_estimator_contract(estimator, check):
    check(estimator)
