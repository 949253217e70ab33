"""Durations, dates with words for no date, months with dots, and numbers and dates that stand for nothing."""

from __future__ import annotations

import numpy as np
import pytest

import craftc

pd = pytest.importorskip("pandas", reason="files are read with pandas")


def read(cells, name="x", **options):
    """A column of these cells next to another one: numbers of its rows, kind, and notes."""
    table = pd.DataFrame({name: cells, "y": [i * 7 % 31 for i in range(len(cells))]})
    table = craftc.read_table(table, **options)
    return table[name], table.attrs["kinds"].get(name), " | ".join(table.attrs["notes"])


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("{h}:{m:02d}", "x"),
        ("{h}:{m:02d}:00", "x"),
        ("{h} h {m} min", "x"),
        ("{h}h {m}m", "x"),
        ("{h} Std. {m} Min.", "x"),
        ("PT{h}H{m}M", "x"),
        ("{d} days {r:02d}:{m:02d}:00", "x"),
        ("{d}d {r}h {m}m", "x"),
    ],
)
def test_durations_go_on_after_24_hours(form, name):
    minutes = [i * 97 % 2903 for i in range(60)]
    cells = [form.format(h=t // 60, d=t // 1440, r=t // 60 % 24, m=t % 60) for t in minutes]
    hours, kind, notes = read(cells, name)
    np.testing.assert_allclose(hours, np.array(minutes) / 60)
    assert kind is None
    assert "'x' holds durations, which are used in hours" in notes


@pytest.mark.parametrize("name", ["Dauer", "call_duration", "elapsed time", "Lap", "durée", "delay"])
def test_hours_of_a_duration_are_not_periodic(name):
    cells = [f"{i % 24}:{i * 7 % 60:02d}" for i in range(60)]
    assert read(cells, name)[1] is None
    assert read(cells, "start")[1] == ("periodic", 24.0)
    assert "12 min" not in read([f"{i} min" for i in range(60)], name)[2]


def test_new_rows_are_read_as_durations():
    cells = [f"{i * 2 % 49}:{i * 7 % 60:02d}" for i in range(63)]
    table = pd.DataFrame({"x": cells, "y": [i * 11 % 13 for i in range(63)]})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(table))
    assert craftc.read_table(table[:3].assign(x="13:30"), like=model)["x"].tolist() == [13.5] * 3
    assert craftc.read_table(table[:3].assign(x="-0:30"), like=model)["x"].tolist() == [-0.5] * 3


@pytest.mark.slow_except(7)
@pytest.mark.parametrize("absent", ["offen", "0000-00-00", "00.00.0000", "k.A.", "31.02.2023", "tbd", "-"])
@pytest.mark.parametrize("form", ["%d.%m.%Y", "%Y-%m-%d %H:%M", "%H:%M"])
def test_a_word_for_no_date_leaves_a_column_of_dates(absent, form):
    days = pd.date_range("2023-01-03", periods=100, freq="31h7min").strftime(form)
    cells = [absent if i % 4 == 1 else day for i, day in enumerate(days)]
    values, kind, notes = read(cells)
    assert values.isna().sum() == 25
    assert kind == ("date" if "%Y" in form else ("periodic", 24.0))
    assert (f"25 cells that cannot be read became missing: {absent!r}" in notes) == (
        absent not in ("k.A.", "-")
    )


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("%Y-%m-%d %H:%M:%S CET", "x"),
        ("%d.%m.%Y %H:%M MESZ", "x"),
        ("[%d/%b/%Y:%H:%M:%S +0000]", "x"),
        ("%a %b %d %Y %H:%M:%S GMT+0100 (CET)", "x"),
        ("us", "time_us"),
        ("ns", "time_ns"),
    ],
)
def test_times_of_programs(form, name):
    days = pd.date_range("2023-01-03", periods=100, freq="31h7min")
    factor = {"us": 10**6, "ns": 10**9}.get(form)
    cells = days.strftime(form) if factor is None else [str(int(each.timestamp()) * factor) for each in days]
    table = craftc.read_table(pd.DataFrame({name: cells, "y": np.arange(100) % 7}))
    np.testing.assert_allclose(
        table[name], (days - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D"), atol=1e-6
    )


def test_long_numbers_without_the_name_of_a_time_stay_texts():
    cells = [str(1_700_000_000_000_000 + i * 7) for i in range(60)] * 2
    assert read(cells)[1] != "date"


def test_months_with_dots_are_no_numbers():
    months = pd.period_range("2021-03", periods=40, freq="M")
    values, kind, _ = read(months.strftime("%m.%Y"))
    assert kind == "date"
    assert (np.diff(values) > 0).all()
    assert read(["10.2023", "11.2024", "12.99", *map(str, range(30))])[1] is None


def test_clock_and_ordinals_in_dates():
    for cells in (
        ["16.10.2023 03:57 Uhr", "17.10.2023, 04:57 Uhr"],
        ["16.10.2023 um 03:57", "17.10.2023 um 04:57"],
    ):
        values, kind, _ = read(cells * 9)
        assert kind == "date"
        assert values[1] - values[0] == pytest.approx(25 / 24)
    values, kind, notes = read(["1er mai 2023", "2 mai 2023", "1er juin 2023"] * 9)
    assert (values[1] - values[0], values[2] - values[0]) == (1, 31)
    assert "missing" not in notes


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        ([1, 2, 3, 4, 5, 6, 7, -9, -8], ["-9", "-8"]),
        ([0, 1, 2, 3, 4, 5, -1, -8, -9], ["-9", "-8", "-1"]),
        ([1, 2, 3, 4, 5, 6, 7, 98, 99], ["98", "99"]),
        ([1, 2, 3, 4, 5, 9], ["9"]),
        ([1, 2, 3, 4, 99], ["99"]),
        ([*range(18, 71), *[99] * 6], ["99"]),
        ([*(i / 7 for i in range(40)), *[-999, -998, -997] * 4], ["-999", "-998", "-997"]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], []),
        ([*range(90, 100), *[99] * 6], []),
        ([-3, -2, -1, 0, 1, 2, 3], []),
        ([-9, -7, -4, -2, 0, 1, 5, 8, 12, 20], []),
        ([0, 10, 20, 50, 70, 99], []),
    ],
)
def test_codes_of_missing_answers_are_noted(cells, codes):
    notes = read(cells * 12)[2]
    if codes:
        assert f"has {', '.join(codes)} in " in notes
        assert f"na_values=[{', '.join(map(repr, codes))}]" in notes
        assert read(cells * 12, na_values=codes)[0].isna().sum() == 12 * sum(
            str(cell) in codes for cell in cells
        )
    else:
        assert "far from its other numbers" not in notes


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("day", ["9999-12-31", "1900-01-01", "1970-01-01", "2999-12-31", "0001-01-01"])
@pytest.mark.parametrize("form", ["{2}.{1}.{0}", "{0}-{1}-{2}", None])
def test_dates_that_stand_for_none_are_noted(day, form):
    cells = [day if i % 5 == 0 else f"20{21 + i % 4}-0{1 + i % 9}-1{i % 7}" for i in range(100)]
    if form is not None:
        cells = [form.format(*cell.split("-")) for cell in cells]
    else:
        cells = np.array(cells, "datetime64[s]")
    assert f"has {day} in 20 rows, far from its other dates; na_values=[{day!r}]" in read(cells)[2]
    assert read(cells, na_values=[day])[0].isna().sum() == 20
    assert "far from" not in read(cells, na_values=[day])[2]


def test_minutes_and_seconds_with_fractions_are_durations():
    hours, kind, notes = read([f"{1 + i % 4}:{i * 7 % 60:02d}.{i % 10}{i % 7}" for i in range(60)])
    assert kind is None
    assert hours[1] == pytest.approx(2 / 60 + 7.11 / 3600)
    assert "durations" in notes


@pytest.mark.parametrize(
    ("form", "clock"),
    [
        ("%Y/%m/%d %I:%M:%S %p GMT+2", True),
        ("%Y/%m/%d %I:%M:%S %p GMT-11", True),
        ("%Y/%m/%d %I:%M:%S %p GMT+5:30", True),
        ("%d/%m/%Y %Hh%M", True),
        ("%d.%m.%Y %H h %M", True),
        ("0%m.%Y", False),
    ],
)
def test_dates_of_forms_accounts_and_french_hours(form, clock):
    times = pd.date_range("2022-12-17 02:05", periods=40, freq="17D7h13min")
    days, kind, notes = read(times.strftime(form).tolist())
    assert kind == "date"
    expected = times.floor("s") if clock else times.to_period("M").to_timestamp()
    np.testing.assert_allclose(days, (expected - pd.Timestamp(0)) / pd.Timedelta(days=1), atol=1e-9)
    assert "twelfth" not in notes


def test_periods_after_the_twelfth_are_in_the_last_month():
    days, kind, notes = read([f"{1 + i % 16:03d}.{2010 + i % 3}" for i in range(96)], "Periode")
    assert kind == "date"
    assert days[15] == days[60] == (pd.Timestamp("2010-12-01") - pd.Timestamp(0)).days  # 016.2010, 013.2010
    assert "periods after the twelfth are taken as the twelfth" in notes


@pytest.mark.parametrize("form", ["{}/{:02}", "{}-{:02}", "{}/20{:02}"])
def test_seasons_are_no_months(form):
    seasons = [form.format(2002 + i % 10, 3 + i % 10) for i in range(60)]
    years, kind, notes = read(seasons)
    assert (years.tolist(), kind) == ([2002 + i % 10 for i in range(60)], None)
    assert "years with the next one taken as the first of the two" in notes
    model = craftc.CRAFT(random_state=0).fit(
        craftc.read_table(pd.DataFrame({"x": seasons, "y": np.arange(60) * 7 % 31}))
    )
    new = pd.DataFrame({"x": ["2010/11", "2011/12"], "y": [1, 2]})
    assert craftc.read_table(new, like=model)["x"].tolist() == [2010, 2011]
    few = [form.format(2009 + i % 4, 10 + i % 4) for i in range(60)]
    assert read(few)[0].tolist() == few
    months = [f"{2009 + i % 4}/{10 + i % 3}" for i in range(60)]
    assert read(months)[1] == "date"
    assert read([*months, "2010/1", "2010/2"])[1] == "date"


@pytest.mark.parametrize("form", ["{} Uhr", "{}:00 Uhr", "{}.00 Uhr"])
def test_full_hours_of_the_day(form):
    hours, kind, _ = read([form.format(i * 5 % 24) if i % 3 else f"{i * 5 % 24} Uhr" for i in range(60)])
    assert (hours.tolist(), kind) == ([i * 5 % 24 for i in range(60)], ("periodic", 24.0))
    assert read([f"{i} Uhr" for i in range(60)])[1] is None
    assert read([f"{i % 24} h" for i in range(60)])[1] is None


HOURS = [0.2 + i * 37 % 60 / 60 if i % 2 else 22.8 + i * 7 % 60 / 60 for i in range(60)]
CLOCK = [f"{int(h):02d}:{int(h * 60) % 60:02d}:{i * 7 % 60:02d}" for i, h in enumerate(HOURS)]


@pytest.mark.parametrize(
    "name",
    [
        *("Downtime", "Uptime", "up_time", "Talk time", "avgTalkTime", "Handle time", "AHT", "Response time"),
        *("Processing time", "Delivery time", "Flight time", "Moving Time", "Total time", "Chip time"),
        *("Sleep", "Sleep hours", "Stay", "Battery life", "Time in bed", "Time on site", "Setup time"),
        *("Anrufdauer", "Laufzeit", "Wartezeit", "Bearbeitungszeit", "Standzeit", "Fahrzeit", "Rüstzeit"),
    ],
)
def test_hours_with_seconds_under_an_activity_are_durations(name):
    hours, kind, notes = read(CLOCK, name)
    assert kind is None
    assert hours[0] == pytest.approx(HOURS[0], abs=1 / 60)
    assert (
        f"holds durations, which are used in hours; kinds={{'{name}': ('periodic', 24)}} makes them" in notes
    )


@pytest.mark.parametrize(
    "name",
    [
        *("Start time", "End time", "Arrival time", "Departure time", "Order time", "Time", "Login time"),
        *("Uhrzeit", "Ankunftszeit", "Startzeit", "Pick-up time", "pickUpTime", "Opening time", "Time in"),
        *("Boarding time", "Call time", "Bedtime", "Morning time", "created", "at"),
    ],
)
def test_hours_of_events_are_times_of_day(name):
    for cells in (CLOCK, [cell[:5] for cell in CLOCK]):
        _, kind, notes = read(cells, name)
        assert kind == ("periodic", 24.0)
        assert (
            f"holds times of day, which are used in hours; kinds={{'{name}': 'number'}} makes them" in notes
        )


def test_seconds_and_size_tell_durations_from_times_of_day():
    assert read([cell[:5] for cell in CLOCK], "Flight time")[1] == ("periodic", 24.0)
    assert read([f"{cell[:5]}:00" for cell in CLOCK], "Flight time")[1] == ("periodic", 24.0)
    short = [f"0{i % 6}:{i * 7 % 60:02d}:{i * 11 % 60:02d}" for i in range(60)]
    assert read(short, "result")[1] is None
    assert read(short, "Time")[1] == ("periodic", 24.0)
    assert read([cell[:5] for cell in short], "result")[1] == ("periodic", 24.0)


def test_the_option_of_the_note_changes_what_hours_are():
    table = pd.DataFrame({"Sleep": CLOCK, "Time": [cell[:5] for cell in CLOCK]})
    table = craftc.read_table(table)
    kinds = {"Sleep": ("periodic", 24), "Time": "number"}
    with pytest.warns(UserWarning, match="near-duplicates"):
        model = craftc.CRAFT(random_state=0, kinds=kinds).fit(table)
    whole = dict(zip(*(model.summary()[part] for part in ("feature", "in the whole table")), strict=False))
    assert ":" in whole["Sleep"]
    assert ":" not in whole["Time"]
    assert "('periodic', 24)" not in read([f"{i} h {i % 7} min" for i in range(60)])[2]
