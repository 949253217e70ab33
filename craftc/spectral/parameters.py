"""Checks of the parameters that the estimator and `observed_graph` share."""

from __future__ import annotations

from collections.abc import Mapping

from craftc._common.validation import Choice, Constraint, Number, check_number

SHARED: Mapping[str, Constraint] = {
    "scaling": Choice(("range", "normal")),
    "factorization": Choice(("hals", "svd")),
    "beta": Number(above=0),
    "indicator_weight": Number(above=0),
    "n_factors": Number(least=1, whole=True, optional=True),
}
_EPS = 0.1  # default of eps, times beta
_SMALLEST_EPS = 1e-100  # times beta


def eps_of(eps: float | None, beta: float) -> float:
    """The half-width eps of numbers that are treated as equal, 0.1 beta by default; raise unless possible."""
    if eps is None:
        return _EPS * float(beta)
    check_number("eps", eps, above=0, below=float(beta), hint="beta")
    if float(eps) < _SMALLEST_EPS * float(beta):
        raise ValueError(
            f"eps={eps!r} is less than {_SMALLEST_EPS:g} of beta={beta!r}; their ratio overflows."
        )
    return float(eps)
