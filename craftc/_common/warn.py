"""Warnings of estimators."""

from __future__ import annotations

import sys
import warnings

_INSIDE = ("craftc", "sklearn")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code: the innermost caller outside craftc and scikit-learn, whose
    `fit_predict` calls `fit`.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
