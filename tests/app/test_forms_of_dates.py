"""Dates, months, quarters, weeks and times of day in the forms in which programs write them."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import craftc
from craftc.cli import main
from craftc.reading.dates import parse_dates, parse_times

pd = pytest.importorskip("pandas", reason="files are read with pandas")

EPOCH = datetime.datetime(1970, 1, 1)
START = datetime.datetime(2014, 1, 1, 3)
MOMENTS = [START + datetime.timedelta(days=37 * i, hours=5 * i, minutes=7 * i) for i in range(60)]


def days_of(texts, name=""):
    found = parse_dates(texts, np.ones(len(texts), np.intp), name=name)
    return None if found is None else found.days.tolist()


def first(year, month=1, day=1):
    return (datetime.date(year, month, day) - EPOCH.date()).days


@pytest.mark.parametrize(
    "form",
    [
        *("%d.%m.%y", "%m.%d.%Y", "%y-%m-%d", "%d-%b-%y", "%d%b%Y", "%B %d, %Y", "%d. %B %Y", "%Y. %m. %d."),
        *("%Y年%m月%d日", "%A, %d.%m.%Y", "%d of %B %Y", "%b %d %Y", "%Y %m %d"),
        *("%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%d%H%M%S", "%Y%m%d %H%M", "%Y:%m:%d %H:%M:%S"),
        *("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S UTC %Y", "%a, %d %b %Y %H:%M:%S +0000"),
        *("%d/%b/%Y:%H:%M:%S +0000", "%b %d %Y %I:%M%p", "%d-%b-%y %I.%M.%S.000000 %p", "%d%b%Y:%H:%M:%S"),
        *("%Y-%m-%dT%H:%M:%S.000+0000", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y, %H:%M", "%d.%m.%Y - %H:%M"),
        *("%a %b %d %Y %H:%M:%S GMT+0100 (Central European Time)", "%Y-%m-%d %H:%M:%S UTC+02:00"),
    ],
)
def test_dates_of_programs(form):
    if form == "%Y %m %d":  # three numbers are no date
        assert days_of([moment.strftime(form) for moment in MOMENTS]) is None
        return
    timed = "%H" in form or "%I" in form
    expected = [(moment - EPOCH) / datetime.timedelta(days=1) for moment in MOMENTS]
    found = days_of([moment.strftime(form) for moment in MOMENTS])
    np.testing.assert_allclose(found, expected if timed else np.floor(expected), atol=1e-9)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["Jan-23", "Feb-23", "Mar-24"], [first(2023, 1), first(2023, 2), first(2024, 3)]),
        (["Jan 2023", "Sept. 2023", "December 2023"], [first(2023, 1), first(2023, 9), first(2023, 12)]),
        (["2023 Jan", "2023-Feb"], [first(2023, 1), first(2023, 2)]),
        (["Mai 2023", "Okt 2023", "März 2023"], [first(2023, 5), first(2023, 10), first(2023, 3)]),
        (["janv. 2023", "juin 2023", "juil. 2023"], [first(2023, 1), first(2023, 6), first(2023, 7)]),
        (["ene 2023", "ago 2023", "dic 2023"], [first(2023, 1), first(2023, 8), first(2023, 12)]),
        (["01/2023", "12/2023"], [first(2023, 1), first(2023, 12)]),
        (["2023M01", "2023M12"], [first(2023, 1), first(2023, 12)]),
        (["2023-Q1", "2023-Q4"], [first(2023, 1), first(2023, 10)]),
        (["2023Q1", "2024 Q2"], [first(2023, 1), first(2024, 4)]),
        (["Q1 2023", "Q3/23", "q2'24"], [first(2023, 1), first(2023, 7), first(2024, 4)]),
        (["1Q23", "3Q24", "4. Quartal 2024"], [first(2023, 1), first(2024, 7), first(2024, 10)]),
        (["FY23Q1", "FY2024 Q2"], [first(2023, 1), first(2024, 4)]),
        (["2023-H1", "H2 2023"], None),
        (["2023-H1", "2023-H2"], [first(2023, 1), first(2023, 7)]),
        (["2023-W05", "2023-W06"], [first(2023, 1, 30), first(2023, 2, 6)]),
        (["KW 5/2023", "KW 52/2023"], [first(2023, 1, 30), first(2023, 12, 25)]),
        (["13 de octubre de 2014", "1 de mayo de 2015"], [first(2014, 10, 13), first(2015, 5, 1)]),
    ],
)
def test_months_quarters_and_weeks(texts, days):
    assert days_of(texts) == days


@pytest.mark.parametrize(
    "texts",
    [
        ["May 4 ever", "May 5 ever"],
        ["Version 1.2.2014", "Version 1.3.2014"],
        ["A-12", "B-13"],
        ["Q1", "Q2"],
        ["5 apples 12", "3 pears 14"],
        ["1-5", "6-10", "11-20"],
        ["2010-2011", "2011-2012"],
        ["10.0.0.1", "10.0.0.2"],
        ["T1 3000", "T2 3000"],
        ["65-74", "75-84"],
        ["Mon", "Tue"],
        [f"{['Jan', 'Mar', 'Dec'][i % 3]} {1 + i:02d}" for i in range(28)],
    ],
)
def test_texts_that_are_no_dates(texts):
    assert days_of(texts) is None


@pytest.mark.parametrize(
    ("texts", "name", "hours"),
    [
        (["13.45.30", "07.30.00", "23.59.06"], "", [13 + 45.5 / 60, 7.5, 23 + 59.1 / 60]),
        (["01.02.00", "04.05.00"], "start time", [1 + 2 / 60, 4 + 5 / 60]),
        (["24.12.14", "01.02.15"], "", None),
        (
            ["13.05", "07.30", "23.59", "08.15", "09.45"],
            "Uhrzeit",
            [13 + 5 / 60, 7.5, 23 + 59 / 60, 8.25, 9.75],
        ),
        (["13.05", "07.30", "23.59", "08.15", "09.45"], "price", None),
        (["13.30 Uhr", "7.00 Uhr"], "", [13.5, 7.0]),
        (["13h30", "7 h 15"], "", [13.5, 7.25]),
        (["1:30 p.m.", "7:30 a.m."], "", [13.5, 7.5]),
        (["13:75", "12:00"], "", None),
    ],
)
def test_times_of_day(texts, name, hours):
    found = parse_times(texts, np.ones(len(texts), np.intp), name)
    assert (found is None) == (hours is None)
    if hours is not None:
        np.testing.assert_allclose(found.values, hours)


def column(cells, name):
    return f"{name};y\n" + "".join(f"{cell};{i / 7:.3f}\n" for i, cell in enumerate(cells))


def test_new_tables_have_the_dates_of_the_fit(read):
    times = [f"{i % 24:02d}.{7 * i % 60:02d}.{11 * i % 60:02d}" for i in range(90)]
    model = craftc.CRAFT(random_state=0).fit(read(column(times, "start"))[0])
    assert read(column(["01.02.03", "02.03.00"], "start"), like=model)[0]["start"][1] == 2.05
    years = [f"{20 + i % 4}-{1 + i % 12:02d}-{13 + i % 15}" for i in range(90)]
    table, notes = read(column(years, "day"))
    assert table["day"][0] == first(2020, 1, 13)
    assert "the year first" in notes
    model = craftc.CRAFT(random_state=0).fit(table)
    assert read(column(["21-02-03"], "day"), like=model)[0]["day"][0] == first(2021, 2, 3)


def test_whole_numbers_that_are_dates():
    y = np.arange(60) / 7
    moments = [int(moment.strftime("%Y%m%d%H%M%S")) for moment in MOMENTS]
    table = craftc.read_table(pd.DataFrame({"when": moments, "y": y}))
    assert table["when"][0] == first(2014) + 0.125
    months = [202001 + i % 12 for i in range(60)]
    table = craftc.read_table(pd.DataFrame({"month": months, "zone": months[::-1], "y": y}))
    assert table["month"][1] == first(2020, 2)
    assert table["zone"][1] == 202011
    assert table.attrs["kinds"] == {"month": "date"}


# ---- periodic columns ----

CYCLES = {
    "wind_dir": (360.0, lambda g, n: g.normal(0.0, 20.0, n).round(1) % 360),
    "Bearing (deg)": (360.0, lambda g, n: g.uniform(0.0, 360.0, n)),
    "hr": (24.0, lambda g, n: g.integers(0, 24, n)),
    "hour_of_day": (24.0, lambda g, n: g.integers(1, 25, n)),
    "weekday": (7.0, lambda g, n: g.integers(1, 8, n)),
    "month": (12.0, lambda g, n: g.integers(1, 13, n)),
    "day of year": (365.2425, lambda g, n: g.integers(1, 366, n)),
}


@pytest.mark.parametrize("name", CYCLES)
def test_columns_that_are_periodic_by_name_and_range(name):
    g = np.random.default_rng(0)
    period, draw = CYCLES[name]
    frame = pd.DataFrame({name: draw(g, 300), "x": g.normal(size=300), "y": g.normal(size=300)})
    table = craftc.read_table(frame)
    assert table.attrs["kinds"] == {name: ("periodic", period)}
    assert f"kinds={{'{name}': 'number'}} makes it a plain number." in table.attrs["notes"][0]
    assert craftc.CRAFT(random_state=0).fit(table).n_clusters_ == 1
    assert craftc.CRAFT(random_state=0, kinds={name: "number"}).fit(table).schema_.numeric_names[0] == name


def test_columns_that_are_not_periodic(tmp_path, capsys):
    g = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "direction": g.normal(90.0, 5.0, 300),
            "hours": g.integers(0, 24, 300),
            "month": g.integers(1, 7, 300),
            "months": g.integers(1, 13, 300),
            "hour": g.normal(12.0, 3.0, 300),
            "temperature": g.uniform(0.0, 360.0, 300),
            "wind_dir": g.uniform(-500.0, 360.0, 300),
        }
    )
    assert craftc.read_table(frame).attrs["kinds"] == {}
    path = tmp_path / "t.csv"
    pd.DataFrame({"hr": g.integers(0, 24, 300), "x": g.normal(size=300)}).to_csv(path, index=False)
    assert main(["cluster", str(path)]) == 0
    assert "24 next to 0; --numeric 'hr' makes it a plain number" in " ".join(capsys.readouterr().out.split())
    assert main(["cluster", str(path), "--numeric", "hr"]) == 0
    assert "next to 0" not in capsys.readouterr().out


def test_cycles_and_noise_have_one_cluster():
    for seed in range(4):
        g = np.random.default_rng(seed)
        frame = pd.DataFrame({name: draw(g, 500) for name, (_, draw) in CYCLES.items()})
        assert craftc.CRAFT(random_state=0).fit(craftc.read_table(frame)).n_clusters_ == 1
