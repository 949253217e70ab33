"""Columns that say what other columns say: products of others, copies on another scale, one-hot groups."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import craftc
from craftc import CRAFT
from craftc.table.derived import derived_columns, follow_from, is_valley, products_of_others
from craftc.table.tick_groups import tick_groups

pd = pytest.importorskip("pandas")

N = 400
RNG = np.random.default_rng(0)
HEIGHT, WEIGHT = RNG.normal(172, 9, N).round(), RNG.normal(72, 12, N).round(1)
QUANTITY, PRICE = RNG.integers(1, 9, N).astype(float), RNG.lognormal(2, 0.6, N).round(2)
SOME = np.where(RNG.random(N) < 0.2, 0.0, QUANTITY)
INCOME = RNG.lognormal(8, 0.5, N).round()
COLOUR = RNG.choice(["red", "blue", "green", "grey"], N, p=[0.4, 0.3, 0.2, 0.1])
DUMMIES = {f"colour_{level}": (level == COLOUR).astype(int) for level in ("red", "blue", "green", "grey")}
OTHERS = {"income": INCOME, "visits": RNG.poisson(3, N), "region": RNG.choice(list("NSW"), N)}

PRODUCTS = {
    "bmi": (
        {"h": HEIGHT, "w": WEIGHT, "bmi": (1e4 * WEIGHT / HEIGHT**2).round(1)},
        "proportional to 'w' / 'h'²",
    ),
    "total": ({"q": QUANTITY, "p": PRICE, "t": (QUANTITY * PRICE).round(2)}, "'q' times 'p'"),
    "no sale": ({"q": SOME, "p": PRICE, "t": (SOME * PRICE).round(2)}, "'q' times 'p'"),
    "per head": ({"i": INCOME, "q": QUANTITY, "per": (INCOME / QUANTITY).round(2)}, "'i' / 'q'"),
    "percent": ({"p": PRICE, "i": INCOME, "%": (100 * PRICE / INCOME).round(3)}, "proportional to 'p' / 'i'"),
    "volume": (
        {"h": HEIGHT, "w": WEIGHT, "p": PRICE, "v": (HEIGHT * WEIGHT * PRICE).round()},
        "'h' times 'w' times 'p'",
    ),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_products_are_set_aside(case):
    columns, reason = PRODUCTS[case]
    name = list(columns)[-1]
    table = craftc.read_table(pd.DataFrame({"visits": OTHERS["visits"], **columns}))
    assert table.attrs["unusable"] == {name: reason}
    assert products_of_others(columns, [name]).keys() != {name}


@pytest.mark.slow
def test_a_product_is_no_cluster():
    table = pd.DataFrame({**OTHERS, **PRODUCTS["bmi"][0]})
    assert CRAFT(random_state=0).fit(craftc.read_table(table)).n_clusters_ == 1
    with pytest.warns(UserWarning, match="Column 'bmi' is proportional to 'w' / 'h'² in every row"):
        CRAFT(random_state=0).fit(table)


def test_other_columns_are_no_products():
    rng = np.random.default_rng(1)
    noisy = QUANTITY * PRICE * rng.lognormal(0, 0.02, N)
    for columns in (
        {"q": QUANTITY, "p": PRICE, "i": INCOME},
        {"q": QUANTITY, "p": PRICE, "t": noisy},
        {"q": QUANTITY[:20], "p": PRICE[:20], "t": (QUANTITY * PRICE)[:20]},
        {"d": PRICE - 5.0, "q": QUANTITY, "t": (PRICE - 5.0) * QUANTITY},
        {"y": 1990.0 + QUANTITY, "q": QUANTITY * 1.0, "i": INCOME},
    ):
        assert products_of_others(columns) == {}
    one_wrong = (QUANTITY * PRICE).round(2)
    one_wrong[7] += 3.0
    assert products_of_others({"q": QUANTITY, "p": PRICE, "t": one_wrong}) == {}


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("copy", [np.log, lambda x: 1e5 / x, np.cumsum])
def test_copies_on_another_scale_are_named(copy):
    other = np.sort(INCOME) if copy is np.cumsum else INCOME
    table = pd.DataFrame({"a": other, "b": copy(other), "visits": OTHERS["visits"]})
    with pytest.warns(UserWarning, match="Columns 'a' and 'b' are near-duplicates"):
        CRAFT(random_state=0).fit(table)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize(
    ("form", "first"), [(float, 0), (int, 1), (bool, 1), (lambda flags: np.where(flags, "yes", "no"), 0)]
)
def test_a_one_hot_group_is_no_group_of_rows(form, first):
    names = list(DUMMIES)[first:]
    convert = form if not isinstance(form, type) else lambda flags: flags.astype(form)
    columns = {name: convert(DUMMIES[name]) for name in names}
    which = "Exactly" if first == 0 else "At most"
    with pytest.warns(UserWarning, match=f"{which} one of 'colour_"):
        model = CRAFT(random_state=0).fit(pd.DataFrame({**OTHERS, **columns}))
    assert model.dependence_ratio_ > 1.0
    assert "Pieces of a gradual pattern" in str(model.summary().attrs["structure"])
    of_group = [(a, b) for a, b, _ in model.column_links_ if {a, b} <= set(names)]
    assert len(of_group) == len(names) - 1


def test_links_of_a_group_save_its_total_correlation():
    with pytest.warns(UserWarning, match="Exactly one of"):
        model = CRAFT(random_state=0).fit(pd.DataFrame({**OTHERS, **DUMMIES}))
    share = np.array([flags.mean() for flags in DUMMIES.values()])
    total = -(share * np.log(share) + (1 - share) * np.log1p(-share)).sum() + (share * np.log(share)).sum()
    price = 3 * (0.5 * np.log(N) + np.log(7 * 6 / 2 + 1))
    saved = sum(nats for a, b, nats in model.column_links_ if {a, b} <= set(DUMMIES))
    assert saved == pytest.approx(N * total - price)


def test_groups_of_ticks():
    rng = np.random.default_rng(1)
    two = np.array([rng.permutation(6) < 2 for _ in range(N)])
    names = [f"top: {letter}" for letter in "abcdef"]
    (found,) = tick_groups(names, two)
    assert (found.columns, found.count, found.exactly) == (tuple(range(6)), 2, True)
    assert found.said(names) == "Exactly 2 of 'top: a', 'top: b', 'top: c' and 3 others are set in every row"
    ticks = np.column_stack(list(DUMMIES.values())).astype(bool)
    (found,) = tick_groups(["other", *"rbgy"], np.column_stack([rng.random(N) < 0.5, ticks]))
    assert found.columns == (1, 2, 3, 4)
    assert tick_groups(list("abcd"), rng.random((N, 4)) < 0.4) == []
    assert tick_groups(list("abcd"), rng.random((N, 4)) < 0.003) == []
    flipped = ticks.copy()
    flipped[:5] = ~flipped[:5]
    assert tick_groups(list("rbgy"), flipped) == []


AGE = RNG.integers(18, 90, N)


def flag(x):
    return np.where(x >= 65, "yes", "no")


def band(x):
    return np.array(["young", "middle", "old", "older"])[np.searchsorted([30, 45, 60], x, "right")]


@pytest.mark.slow_except(2)
@pytest.mark.parametrize(
    ("number", "copy"),
    [(AGE, flag), (AGE, band), (AGE, lambda x: 10.0 * (x // 10)), (RNG.lognormal(3.7, 0.4, N), band)],
)
def test_coarser_copies_are_no_groups(number, copy):
    table = pd.DataFrame({**OTHERS, "age": number, "band": copy(number)})
    with pytest.warns(UserWarning, match="Column 'band' is a coarser copy of 'age'"):
        model = CRAFT(random_state=0).fit(table)
    assert model.n_clusters_ == 1 or model.dependence_ratio_ > 1.0


def test_groups_that_are_apart_are_no_coarser_copies():
    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, N)
    letters, near = np.array(list("abc"))[group], np.where(rng.random(N) < 0.9, AGE > 50, AGE < 50)
    apart = pd.DataFrame({"x": rng.normal(12 * group), "k": letters, "y": rng.normal(9 * group)})
    x = np.sort(rng.normal(np.repeat([0.0, 4.0], N // 2)))
    touching = pd.DataFrame({"x": x, "k": np.where(x < 2.0, "a", "b"), "y": OTHERS["income"]})
    mixed = pd.DataFrame({"x": AGE, "k": near, "y": OTHERS["income"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CRAFT(random_state=0).fit(apart).dependence_ratio_ < 1.0
        CRAFT(random_state=0).fit(mixed)
        CRAFT(random_state=0).fit(touching)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize(
    ("part", "of"),
    [
        ("year", lambda d: d.year),
        ("month", lambda d: d.month),
        ("month", lambda d: d.month_name()),
        ("month", lambda d: d.strftime("%b")),
        ("month", lambda d: d.strftime("%Y-%m")),
        ("month", lambda d: 100 * d.year + d.month),
        ("quarter", lambda d: d.quarter),
        ("quarter", lambda d: [f"Q{q}" for q in d.quarter]),
        ("week", lambda d: d.isocalendar().week.to_numpy()),
        ("week", lambda d: d.strftime("%G-W%V")),
    ],
)
def test_parts_of_dates_are_set_aside(part, of):
    rng = np.random.default_rng(1)
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")
    table = pd.DataFrame({"day": day.strftime("%d.%m.%Y"), "part": of(day), **OTHERS})
    assert craftc.read_table(table).attrs["unusable"] == {"part": f"the {part} of 'day'"}
    other = table.assign(part=table["part"].to_numpy()[::-1])
    assert craftc.read_table(other).attrs["unusable"] == {}
    long = pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 11_000, N), "D")
    kept = craftc.read_table(pd.DataFrame({"day": long, "month": long.month, **OTHERS}))
    assert "month" in kept  # repeats often enough to say something else than the date


@pytest.mark.parametrize(
    ("again", "of"),
    [
        ("serial", lambda d: (d - pd.Timestamp("1899-12-30")).days),
        ("seconds", lambda d: (d - pd.Timestamp("1970-01-01")).total_seconds()),
        ("left", lambda d: (pd.Timestamp("2025-01-01") - d).days),
        ("due", lambda d: (d + pd.Timedelta(days=30)).strftime("%Y-%m-%d")),
        ("iso", lambda d: d.strftime("%Y-%m-%dT00:00:00Z")),
    ],
)
def test_dates_that_are_there_again(again, of):
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(np.random.default_rng(1).integers(0, 700, N), "D")
    table = pd.DataFrame({"day": day.strftime("%d.%m.%Y"), again: of(day), **OTHERS})
    assert craftc.read_table(table).attrs["unusable"] == {again: "'day' again, in the same or another unit"}
    other = table.assign(**{again: table[again].to_numpy()[::-1]})
    assert craftc.read_table(other).attrs["unusable"] == {}
    sent = day + pd.to_timedelta(np.arange(N) % 2, "D")  # on the same or the next day
    assert "sent" in craftc.read_table(pd.DataFrame({"day": day, "sent": sent, **OTHERS}))
    minute = (day + pd.to_timedelta(np.arange(N) * 7, "s")).floor("min")
    times = {
        "at": minute,
        "seconds": (minute - pd.Timestamp("1970-01-01")).total_seconds() + np.arange(N) % 60,
    }
    assert set(craftc.read_table(pd.DataFrame({**times, **OTHERS})).attrs["unusable"]) == {"seconds"}


def test_one_value_for_each_month_weekday_or_hour():
    rng = np.random.default_rng(1)
    at = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700 * 24, N), "h")
    season = np.array(["winter", "spring", "summer", "autumn"])[at.month % 12 // 3]
    weekend = np.where(at.day_of_week > 4, "yes", "no")
    shift = np.array(["night", "day", "late"])[at.hour // 8]
    week, stage = at.isocalendar().week.to_numpy(), np.where(at.month < 5, "a", "b")
    fiscal = [f"FY{year}" for year in at.year + (at.month > 6)]
    tables = {
        ("season", "the season of 'day'"): {"day": at.date, "season": season},
        ("season", "the season of 'day_of_year'"): {"day_of_year": at.day_of_year, "season": season},
        ("season", "the season of 'month'"): {"month": at.month_name(), "season": season},
        ("month", "the month of 'week'"): {"week": week, "month": at.month},
        ("week", "the week of 'yearmonth'"): {"yearmonth": at.strftime("%Y-%m"), "week": week},
        ("q", "the quarter of 'month'"): {"month": at.month_name(), "q": [f"Q{q}" for q in at.quarter]},
        ("doy", "the day of the year of 'day'"): {"day": at.date, "doy": at.day_of_year},
        ("half", "the half of the year of 'day'"): {"day": at.date, "half": (at.month > 6) + 1},
        ("fy", "the year of 'day'"): {"day": at.date, "fy": fiscal},
        ("stage", "one value for each month of 'day'"): {"day": at.date, "stage": stage},
        ("stage", "one value for each month of 'month'"): {"month": at.month, "stage": stage},
        ("weekend", "one value for each weekday of 'day'"): {
            "day": at.date, "weekday": at.day_name(), "weekend": weekend,
        },
        ("weekend", "one value for each value of 'weekday'"): {"weekday": at.day_name(), "weekend": weekend},
        ("hour", "one value for each hour of 'time'"): {"time": at.strftime("%H:%M"), "hour": at.hour},
        ("shift", "one value for each hour of 'at'"): {"at": at, "hour_": at.hour, "shift": shift},
    }  # fmt: skip
    for (name, reason), columns in tables.items():
        table = pd.DataFrame({**columns, **OTHERS})
        assert craftc.read_table(table).attrs["unusable"] == {name: reason}
        assert name in craftc.read_table(table, on_unusable="keep")
        changed = table.assign(**{name: table[name].to_numpy()[rng.permutation(N)]})
        assert craftc.read_table(changed).attrs["unusable"] == {}
    spring = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 150, N), "D")
    site = np.where(spring.month > 3, "south", "north")  # of one year: a site may follow another
    assert "site" in craftc.read_table(pd.DataFrame({"day": spring.date, "site": site, **OTHERS}))
    turns = pd.DataFrame({"at": at, "hour": at.hour, "turn": at.hour % 3, **OTHERS})  # no range of hours
    assert "turn" in craftc.read_table(turns)
    rare = (np.arange(N) == 7).astype(int)
    assert "rare" in craftc.read_table(pd.DataFrame({"at": at.sort_values(), "rare": rare, **OTHERS}))


def test_codes_of_other_columns():
    shop = np.random.default_rng(1).integers(0, 14, N)
    table = pd.DataFrame({"shop_id": 100 + 3 * shop, "shop": [f"Shop {i}" for i in shop], **OTHERS})
    read = craftc.read_table(table)
    assert read.attrs["unusable"] == {"shop_id": "a code of 'shop'"}
    assert "'shop_id'" not in " ".join(read.attrs["notes"][:-1])
    assert craftc.CRAFT(random_state=0).fit(read).n_clusters_ == 1
    assert "shop_id" in craftc.read_table(table.assign(shop_id=table["shop_id"].to_numpy()[::-1]))
    many = np.random.default_rng(2).integers(0, 90, N)
    direct = pd.DataFrame({"id": many, "customer": [f"C{i}" for i in many], **OTHERS})
    with pytest.warns(UserWarning, match="Columns 'customer' and 'id' are near-duplicates"):
        craftc.CRAFT(random_state=0).fit(direct)
    few = table.assign(shop_id=100 + shop % 3, shop=shop % 3)
    assert "shop_id" in craftc.read_table(few)


def test_what_a_sum_says_holds_in_every_row():
    start = pd.Timestamp("2022-01-01") + pd.to_timedelta(np.random.default_rng(1).integers(0, 10**7, N), "s")
    minutes = np.random.default_rng(2).integers(5, 600, N)
    times = {"start": start, "minutes": minutes, "end": start + pd.to_timedelta(minutes, "m")}
    (reason,) = craftc.read_table(pd.DataFrame({**times, **OTHERS})).attrs["unusable"].values()
    assert reason in {
        f"a weighted sum of {parts}" for parts in ("'start' and 'minutes'", "'minutes' and 'end'")
    }


def test_days_of_few_months_and_seconds_of_minutes():
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(np.random.default_rng(1).integers(0, 700, N), "D")
    assert "number" in craftc.read_table(pd.DataFrame({"day": day, "number": day.day, **OTHERS}))
    few = pd.Timestamp("2022-01-01") + pd.to_timedelta(np.arange(N) % 80, "D")
    found = craftc.read_table(pd.DataFrame({"day": few, "number": few.day, **OTHERS}))
    assert found.attrs["unusable"] == {"number": "the day of the month of 'day'"}
    at = (day + pd.to_timedelta(np.arange(N) * 7, "s")).floor("min")
    unix = (at - pd.Timestamp("1970-01-01")).total_seconds().astype(int) + np.arange(N) % 60
    found = craftc.read_table(pd.DataFrame({"at": at, "unix": unix, **OTHERS}))
    assert found.attrs["unusable"] == {"unix": "'at' again, in the same or another unit"}


def test_groups_of_a_sum_are_no_ranges_of_it():
    """A category goes with the groups, whose sums are apart; ranges of one group of sums leave no gap."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 300)
    food, rent = (
        np.array(means)[group] + rng.normal(0.0, 3.0, 300).round(1) for means in ([20, 60, 99], [30, 90, 150])
    )
    total = food + rent
    codes = {"tier": group}
    numbers = {"food": food, "rent": rent, "total": total}
    derived = derived_columns(numbers, codes)
    assert list(derived) == ["total"]
    assert follow_from(derived, numbers, codes) == {}
    alike = {"food": rng.normal(50.0, 9.0, 300).round(1), "rent": rng.normal(90.0, 9.0, 300).round(1)}
    alike["total"] = alike["food"] + alike["rent"]
    ranges = {"tier": np.searchsorted([130.0, 150.0], alike["total"])}
    derived = derived_columns(alike, ranges)
    assert follow_from(derived, alike, ranges) == {"tier": "ranges of 'total'"}


def test_whole_numbers_in_intervals_have_no_valley_between_ranges():
    """Ages of more than 64 values are coded by intervals, and a third of a range holds one more or less."""
    for seed in range(20):
        age = np.sort(np.random.default_rng(seed).integers(18, 90, 1500)).astype(float)
        age = np.repeat([part.mean() for part in np.array_split(age, 60)], 25)
        assert not any(is_valley(age, cut) for cut in (30.5, 50.5, 70.5))
    humps = np.random.default_rng(0).normal(np.repeat([30.0, 60.0], 750), 6.0).round()
    assert is_valley(humps, 45.0)
