"""Short fits of every estimator, and hashes of what they find."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.conformance.fingerprints import digest, fitted_numbers
from tests.registry import fit, modes, name_of, reads_categories, suited, takes_seed, takes_weights

MODES = list(modes().values())
KINDS = len(MODES)


def hash_of_fit(number: int, n_threads: int = 1) -> str:
    """Hash of the fitted numbers of one fit: the number decides the estimator, its mode and its table."""
    rng = np.random.default_rng(number)
    n, d, model = int(rng.integers(10, 60)), int(rng.integers(2, 6)), clone(MODES[number % KINDS])
    X = rng.normal(size=(n, d)) + 5.0 * rng.integers(0, 3, (n, 1)) * rng.integers(0, 2, (1, d))
    name, turn = name_of(model), number // KINDS
    model.set_params(n_threads=n_threads, **({"random_state": number} if takes_seed(name) else {}))
    weights = {"sample_weight": rng.random(n) + 0.1} if takes_weights(name) and turn % 2 else {}
    return digest(fitted_numbers(fit(model, _table(rng, model, X, turn), **weights)))


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of fits. Around all threads: filters belong to the process, and a thread that restored them
    would take them from the others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "craftc uses one thread", RuntimeWarning)  # in a forked child
        warnings.filterwarnings("ignore", category=UserWarning)
        yield


def _table(rng: np.random.Generator, model: object, X: np.ndarray, turn: int) -> np.ndarray | pd.DataFrame:
    """The rows as the model takes them: with categories and missing cells, as counts, in float32 by turns."""
    if reads_categories(name_of(model)) and name_of(model) != "KModes":
        return _frame(rng, X)
    return suited(model, X.astype(np.float32) if turn % 2 else X)


def _frame(rng: np.random.Generator, X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame["group"] = np.array(["a", "b", "c"], dtype=object)[rng.integers(0, 3, len(X))]
    frame.loc[rng.random(len(X)) < 0.1, "x0"] = np.nan
    return frame
