"""Columns that are sums of others are left out, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc import CRAFT
from craftc.table.sums import numbers_of, sums_of_others

pd = pytest.importorskip("pandas")

N = 400
RNG = np.random.default_rng(0)
A, B = RNG.gamma(2.0, 10.0, N), RNG.lognormal(3.0, 0.8, N)
C, K = RNG.normal(size=N), RNG.integers(0, 5, N)
LETTERS = np.array(list("edcba"))[K]
NET, RATE = B.round(2), RNG.choice([0.07, 0.19], N)
SHARES = RNG.dirichlet(np.ones(4), N)
START, DAYS = RNG.integers(0, 3000, N), RNG.integers(0, 30, N)
SCORES = RNG.integers(1, 6, (N, 6))
FLAGS = (RNG.random((N, 4)) < [0.5, 0.3, 0.2, 0.4]).astype(int)
WORDS = {
    name: np.where(own, "yes", "no")
    for name, own in zip(["fever", "cough", "rash", "pain"], FLAGS.T, strict=True)
}
SYMPTOMS = "'fever', 'cough', 'rash' and 'pain'"
FACTOR = RNG.choice([1.0, 0.9, 0.75], N)
SEASONS = RNG.normal(100, 10, (N, 4)) + np.outer(200 * (K > 2), [1, -1, 1, -1])

DETERMINED = {
    "total": ({"a": A, "b": B, "c": C, "t": A + B + C}, {"t": "the sum of 'a', 'b' and 'c'"}),
    "total first": ({"t": A + B, "a": A, "b": B}, {"t": "the sum of 'a' and 'b'"}),
    "profit": ({"revenue": A + B, "cost": A, "profit": B}, {"revenue": "the sum of 'cost' and 'profit'"}),
    "difference": ({"a": A, "b": B, "d": A - B}, {"d": "'a' less 'b'"}),
    "with a constant": ({"a": A, "b": B, "d": 5 + A - B}, {"d": "the sum of 5 and 'a' less 'b'"}),
    "mean": (
        {"a": A, "b": B, "c": C, "mean": (A + B + C) / 3},
        {"mean": "the mean of 'a', 'b' and 'c'"},
    ),
    "rounded mean": (
        {"mean": ((NET + START) / 2).round(1), "a": NET, "b": START, "c": C},
        {"mean": "the mean of 'a' and 'b'"},
    ),
    "weighted mean": ({"a": A, "b": B, "m": 0.4 * A + 0.6 * B}, {"m": "a weighted sum of 'a' and 'b'"}),
    "cents": (
        {"net": NET, "tax": (NET * RATE).round(2), "gross": (NET + NET * RATE).round(2)},
        {"gross": "the sum of 'net' and 'tax'"},
    ),
    "rounded once": (
        {"plan": (100 * A).round(2), "more": (100 * B).round(0), "spent": (100 * (A + B)).round(2)},
        {"spent": "the sum of 'plan' and 'more'"},
    ),
    "two totals": (
        {"a": A, "b": B, "ab": A + B, "c": C, "d": A[::-1], "all": A + B + C + A[::-1]},
        {"ab": "the sum of 'a' and 'b'", "all": "the sum of 'a', 'b', 'c' and 'd'"},
    ),
    "scores": (
        {**{f"q{j}": SCORES[:, j] for j in range(6)}, "score": SCORES.sum(axis=1)},
        {"score": "the sum of 'q0', 'q1', 'q2', 'q3' and 2 others"},
    ),
    "total that depends less on its parts than these on each other": (
        {**{f"q{j}": SEASONS[:, j] for j in range(4)}, "year": SEASONS.sum(axis=1)},
        {"year": "the sum of 'q0', 'q1', 'q2' and 'q3'"},
    ),
    "end": ({"start": START, "days": DAYS, "end": START + DAYS}, {"end": "the sum of 'start' and 'days'"}),
    "number of symptoms": ({**WORDS, "n": FLAGS.sum(axis=1)}, {"n": f"the sum of {SYMPTOMS}"}),
    "score of symptoms": ({**WORDS, "risk": FLAGS @ [1, 2, 1, 3]}, {"risk": f"a weighted sum of {SYMPTOMS}"}),
    "any symptom": ({**WORDS, "any": FLAGS.max(axis=1)}, {"any": f"any or all of {SYMPTOMS}"}),
    "best of two": ({"a": A, "b": B, "best": np.maximum(A, B)}, {"best": "the largest of 'a' and 'b'"}),
    "worst of two": ({"worst": np.minimum(A, B), "a": A, "b": B}, {"worst": "the smallest of 'a' and 'b'"}),
    "discount": (
        {"price": NET, "less": 1 - FACTOR, "paid": (NET * FACTOR).round(2)},
        {"paid": "'price' times a number for each 'less'"},
    ),
    "tax of two rates": (
        {"net": NET, "rate": 100 * RATE, "tax": (NET * RATE).round(2)},
        {"tax": "'net' times a number for each 'rate'"},
    ),
    "fee of a kind": (
        {"net": NET, "kind": LETTERS, "due": (NET + K).round(2)},
        {"due": "'net' plus a number for each 'kind'"},
    ),
    "class of a ratio": (
        {"weight": NET, "height": 1 + A, "bmi": NET / (1 + A) ** 2, "obese": NET / (1 + A) ** 2 > 0.1},
        {"bmi": "'weight' / 'height'²", "obese": "ranges of 'bmi'"},
    ),
    "mean next to the total": (
        {
            **{f"q{j}": SCORES[:, j] for j in range(6)},
            "sum": SCORES.sum(axis=1),
            "m": SCORES.mean(axis=1).round(2),
        },
        {
            "sum": "the sum of 'q0', 'q1', 'q2', 'q3' and 2 others",
            "m": "the mean of 'q0', 'q1', 'q2', 'q3' and 2 others",
        },
    ),
    "gaps in a part": ({"a": np.where(K, A, np.nan), "b": B, "t": A + B}, {"t": "the sum of 'a' and 'b'"}),
}
NOT_DETERMINED = {
    "repeated": {"kg": A, "lb": 2.2046 * A, "b": B, "minus": -B, "k": LETTERS, "K": np.char.upper(LETTERS)},
    "indicators": {**{f"is {k}": 1.0 * (k == K) for k in range(5)}, "a": A},
    "independent": {"a": A, "b": B, "c": C, "k": LETTERS},
    "counts": {f"n{j}": RNG.poisson(j + 1, N) for j in range(4)},
    "close": {"start": START, "end": START + DAYS, "a": A},
    "late by a day": {"start": START, "planned": DAYS, "end": START + DAYS + RNG.integers(-1, 2, N)},
    "coarser": {"a": A, "band": np.where(A > 20, "high", "low"), "b": B},
    "noisy sum": {"a": A, "b": B, "t": A + B + 0.1 * C},
    "noisy mean": {"a": A, "b": B, "m": ((A + B) / 2 + 0.1 * C).round(2)},
    "symptoms": {**WORDS, "n": RNG.integers(0, 5, N), "any": RNG.random(N) < 0.7},
    "nearly any": {**WORDS, "any": FLAGS.max(axis=1) ^ (np.arange(N) == 7)},
    "nearly the best": {"a": A, "b": B, "best": np.maximum(A, B) + (np.arange(N) == 7)},
    "constant for each kind": {"price": K * 1.5 + 1, "kind": LETTERS, "weight": K**2 + 2.0, "c": C},
    "one rate": {"net": NET, "gross": (1.19 * NET).round(2), "kind": LETTERS},
    "few rows": {"a": A[:20], "t": A[:20] + B[:20], "b": B[:20]},
}


@pytest.mark.parametrize("case", DETERMINED)
def test_determined_columns_are_set_aside_with_the_reason(case):
    columns, reasons = DETERMINED[case]
    table = craftc.read_table(pd.DataFrame(columns))
    assert table.attrs["unusable"] == reasons
    assert list(table) == [name for name in columns if name not in reasons]


@pytest.mark.parametrize("digits", [None, 1, 2])
def test_shares_of_a_whole(digits):
    shares = 100 * SHARES if digits is None else (100 * SHARES).round(digits)
    unusable = craftc.read_table(pd.DataFrame(shares, columns=list("abcd"))).attrs["unusable"]
    [(name, reason)] = unusable.items()
    others = [f"'{each}'" for each in "abcd" if each != name]
    assert reason == f"100 less {others[0]}, {others[1]} and {others[2]}"


@pytest.mark.parametrize("n", [5, 6, 9])
@pytest.mark.parametrize("whole", [1, 100])
def test_shares_in_whole_percent(n, whole):
    """They add up to 98 to 102."""
    shares = (100 * RNG.dirichlet(np.full(n, 2.0), N)).round() * (whole / 100)
    [(name, reason)] = sums_of_others({f"s{j}": own for j, own in enumerate(shares.T)}).items()
    assert reason.startswith(f"{whole} less 's{int(name == 's0')}', ")
    independent = RNG.integers(0, 101, (N, n)) * (whole / 100)
    assert sums_of_others({f"s{j}": own for j, own in enumerate(independent.T)}) == {}
    shares[7, :2] += 0.05 * whole
    assert sums_of_others({f"s{j}": own for j, own in enumerate(shares.T)}) == {}


@pytest.mark.parametrize("case", NOT_DETERMINED)
def test_other_columns_stay(case):
    assert craftc.read_table(pd.DataFrame(NOT_DETERMINED[case])).attrs["unusable"] == {}


@pytest.mark.parametrize("columns", [{"a": A, "b": B, "t": A + B}, dict(zip("abcd", SHARES.T, strict=True))])
def test_independent_columns_and_their_sum_are_one_cluster(columns):
    frame = pd.DataFrame(columns)
    assert CRAFT(random_state=0).fit(craftc.read_table(frame)).n_clusters_ == 1
    with pytest.warns(UserWarning, match="Columns that cannot define clusters are not used: '[a-d, t]': "):
        model = CRAFT(random_state=0, unusable="drop").fit(frame)
    assert model.n_clusters_ == 1
    assert (model.predict(frame) == 0).all()


def test_columns_that_are_asked_for_stay():
    columns = {"a": A, "b": B, "t": A + B}
    assert sums_of_others(columns, ["t"]) == {"b": "'t' less 'a'"}
    assert sums_of_others(columns, ["a", "b", "t"]) == {}
    kept = craftc.read_table(pd.DataFrame(columns), on_unusable="keep")
    assert list(kept) == list(columns)


def test_a_direct_fit_warns_of_sums():
    with pytest.warns(UserWarning, match="Column 't' is the sum of 'a' and 'b' in every row") as caught:
        CRAFT(random_state=0).fit(pd.DataFrame({"a": A, "b": B, "t": A + B}))
    assert sum("is the sum of" in str(each.message) for each in caught) == 1


def test_a_direct_fit_warns_of_the_number_of_symptoms():
    with pytest.warns(UserWarning, match=f"Column 'n' is the sum of {SYMPTOMS} in every row"):
        CRAFT(random_state=0).fit(pd.DataFrame({**WORDS, "n": FLAGS.sum(axis=1), "age": A.round()}))


def test_relations_hold_in_all_rows():
    """Not only in the rows in which they are looked for."""
    a, b = RNG.normal(size=(2, 9001))
    total = a + b
    assert sums_of_others({"a": a, "b": b, "total": total}) == {"total": "the sum of 'a' and 'b'"}
    total[35] += 0.5
    assert sums_of_others({"a": a, "b": b, "total": total}) == {}


def test_numbers_of_levels():
    codes = np.array([0, 1, -1, 2])
    np.testing.assert_array_equal(numbers_of(codes, ["1", "2", None]), [1.0, 2.0, np.nan, np.nan])
    assert numbers_of(codes, ["x", "2", None]) is None
