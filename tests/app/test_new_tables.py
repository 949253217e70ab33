"""New tables are read as the table of the fit was, whatever their cells look like."""

from __future__ import annotations

import io

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")

N = 300
GROUP = np.random.default_rng(0).integers(0, 2, N)
OTHER = np.random.default_rng(1).normal(8.0 * GROUP, 1.0).round(2)


def days(form):
    rng = np.random.default_rng(2)
    offsets = np.where(GROUP, rng.integers(0, 60, N), rng.integers(300, 360, N))
    return (pd.Timestamp("2022-01-01") + pd.to_timedelta(offsets, unit="D")).strftime(form)


@pytest.fixture
def scored(tmp_path, read):
    """Fit a file and read a new one; returns the new table as the model reads it, and notes."""

    def scored(first, new, **options):
        table, _ = read(first, "first.csv", **options)
        model = craftc.CRAFT(random_state=0).fit(table)
        craftc.save_model(model, tmp_path / "m.craftc")
        loaded = craftc.load_model(tmp_path / "m.craftc")
        assert loaded.schema_.reading == model.schema_.reading
        found, notes = read(new, "new.csv", like=loaded)
        loaded.predict(found)
        return found, notes

    return scored


def csv(mark=",", **columns):
    return pd.DataFrame(columns).to_csv(index=False, sep=mark)


@pytest.mark.parametrize(
    ("form", "cells", "iso"),
    [
        ("%d/%m/%Y", ["05/01/2023", "01/11/2022"], ["2023-01-05", "2022-11-01"]),
        ("%m/%d/%Y", ["05/01/2023", "01/11/2022"], ["2023-05-01", "2022-01-11"]),
        ("%d-%m-%y", ["05-01-23", "01-11-22"], ["2023-01-05", "2022-11-01"]),
        ("%d/%m/%Y %H:%M", ["05/01/2023 00:00", "01/11/2022 12:00"], ["2023-01-05", "2022-11-01T12:00"]),
        ("%d.%m.%Y", ["05/01/2023", "01/11/2022"], ["2023-01-05", "2022-11-01"]),
    ],
)
def test_the_order_of_dates(scored, form, cells, iso):
    found, notes = scored(csv(d=days(form), x=OTHER), csv(d=cells, x=[8.0, 0.0]))
    minutes = np.array(iso, "datetime64[m]").astype(int)
    np.testing.assert_allclose(found["d"], minutes / 1440)
    assert "which no cell contradicts" not in notes


def test_dates_in_another_order_are_an_error(scored):
    first = csv(d=days("%d/%m/%Y"), x=OTHER)
    with pytest.raises(ValueError, match=r"Column 'd': .* with the day first.*'11/25/2022'"):
        scored(first, csv(d=["11/05/2022", "11/25/2022"], x=[8.0, 0.0]))
    found, notes = scored(first, csv(d=["25/11/2022"] * 20 + ["11/25/2022"], x=[8.0] * 21))
    assert found["d"].isna().sum() == 1
    assert "'11/25/2022'" in notes


@pytest.mark.parametrize(
    ("cells", "new", "numbers"),
    [
        (["1.250,75", "3,5", "12.000,5"], ["1.250", "12.000", "3,5"], [1250, 12000, 3.5]),
        (["17,50", "9,95"], ["1.234", "12.300"], [1234, 12300]),
        (["1,250.75", "3.5"], ["1,250", "12,000"], [1250, 12000]),
        (["17.50", "9.95"], ["1,234", "2,500"], [1234, 2500]),
    ],
)
def test_decimal_marks(scored, cells, new, numbers):
    prices = [cells[i % len(cells)] for i in range(N)]
    found, _ = scored(csv(";", p=prices, x=OTHER), csv(";", p=new, x=[0.0] * len(new)))
    assert found["p"].tolist() == numbers


def test_years_of_two_digits(scored):
    births = [f"{1 + i % 12:02}/{13 + i % 15}/{40 + i % 50:02}" for i in range(N)]
    found, _ = scored(csv(born=births, x=OTHER), csv(born=["03/14/29", "03/14/45"], x=[0.0, 1.0]))
    assert (found["born"] < 0).all()


def test_units(scored):
    first = csv(dist=[f"{i} km" for i in range(N)], x=OTHER)
    found, notes = scored(first, csv(dist=["5", "7"], x=[0.0, 8.0]))
    assert found["dist"].tolist() == [5, 7]
    assert "taken as numbers with 'km', as in the fit" in notes
    found, notes = scored(first, csv(dist=["3 mi", "4 mi"], x=[0.0, 8.0]))
    assert found["dist"].tolist() == [4.828032, 6.437376]
    assert "'mi' converted to 'km'" in notes
    with pytest.raises(ValueError, match="with 'km', but the cells have 'kg', as in '3 kg'"):
        scored(first, csv(dist=["3 kg", "4 kg"], x=[0.0, 8.0]))
    model = craftc.CRAFT(1).fit(
        craftc.read_table(pd.DataFrame({"off": [f"{i} %" for i in range(N)], "x": OTHER}))
    )
    for off, shares in (([0.05, 0.5], True), ([5.0, 50.0], False), ([0.0, 0.0], False)):
        for cells in (off, list(map(str, off))):
            new = craftc.read_table(pd.DataFrame({"off": cells, "x": [0.0, 8.0]}), like=model)
            assert new["off"].tolist() == off
            assert "taken as numbers with '%', as in the fit" in new.attrs["notes"][0]
            assert ("although none exceeds 1" in new.attrs["notes"][0]) == shares


@pytest.mark.parametrize(
    ("first", "new", "found"),
    [
        (("Yes", "No"), ["TRUE", "False"], ["Yes", "No"]),
        (("True", "False"), ["yes", "N"], ["True", "False"]),
        (("TRUE", "FALSE"), ["1", "0"], ["TRUE", "FALSE"]),
        (("yes", "no"), ["t", "no"], ["t", "no"]),
        (("yes", "some"), ["True", "yes"], ["True", "yes"]),
        (("ja", "nein"), ["TRUE", "FALSE"], ["ja", "nein"]),
        (("1", "0"), ["TRUE", "FALSE"], ["1", "0"]),
        (("x", ""), ["TRUE", "FALSE"], ["x", "no"]),
        (("yes", "no"), ["1", "0"], ["yes", "no"]),
        (("yes", "no"), ["1.0", "0.0"], ["yes", "no"]),
        (("yes", "no"), ["Y", "N"], ["yes", "no"]),
        (("yes", "no"), ["Yes", "NO"], ["yes", "no"]),
        (("yes", "no"), ["ja", "nein"], ["yes", "no"]),
        (("yes", "no"), ["y"], ["yes"]),
        (("yes", "no"), ["ja", "nein", "weiß nicht"], ["yes", "no", "weiß nicht"]),
        (("yes", "no"), ["1", "0", "2"], ["1", "0", "2"]),  # codes
        (("yes", "no"), ["ja", "n"], ["ja", "n"]),  # of two languages
        (("yes", "some"), ["1", "0"], ["1", "0"]),
        (("1", "0"), ["oui", "non"], ["1", "0"]),
        (("Ja", "Nein"), ["j", "n"], ["Ja", "Nein"]),
    ],
)
@pytest.mark.filterwarnings("ignore:Column 'paid'. no value of these rows")
def test_words_and_truth_values(scored, first, new, found):
    table, _ = scored(csv(paid=np.where(GROUP, *first), x=OTHER), csv(paid=new, x=[0.5] * len(new)))
    assert table["paid"].tolist() == found


@pytest.mark.parametrize("as_fitted", [str, float, int])
@pytest.mark.parametrize("as_new", [str, float, "Int64"])
@pytest.mark.parametrize("is_read", [True, False])
def test_codes_as_texts_and_numbers(as_fitted, as_new, is_read):
    first = pd.DataFrame({"pain": GROUP + 1, "x": OTHER})
    model = craftc.CRAFT(categorical=["pain"], random_state=0).fit(first.astype({"pain": as_fitted}))
    new = first.astype({"pain": as_new})
    new.loc[3, "pain"] = None
    table = craftc.read_table(new, like=model) if is_read else new
    assert model.surprisal(table)["pain"].isna().tolist() == [i == 3 for i in range(N)]


@pytest.mark.parametrize(
    ("tick", "new", "found", "noted"),
    [
        ("x", ["yes", ""], ["x", "no"], "'yes' as 'x'."),
        ("x", ["1", ""], ["x", "no"], "'1' as 'x'."),
        ("x", ["true"], ["x"], "'true' as 'x'."),
        ("x", ["•", ""], ["x", "no"], "'•' as 'x'."),
        ("x", ["✓", "X", ""], ["x", "x", "no"], ""),
        ("x", ["1", "0", ""], ["x", "no", "no"], "'0' as 'no', '1' as 'x'."),
        ("x", ["ja", "nein", ""], ["x", "no", "no"], "'ja' as 'x', 'nein' as 'no'."),
        ("x", ["no", ""], ["no", "no"], ""),
        ("1", ["x", ""], ["1", "0"], "'x' as '1'."),
        ("gold", ["x", ""], ["gold", "no"], "'x' as 'gold'."),
        ("gold", ["silver", ""], ["silver", "no"], ""),
        ("x", ["-", "x", ""], [None, "x", "no"], ""),
        ("x", ["1", "2", ""], ["1", "2", "no"], ""),
    ],
)
def test_marks_in_the_place_of_ticks(scored, tick, new, found, noted):
    first = csv(news=np.where(GROUP, tick, ""), x=OTHER)
    table, notes = scored(first, csv(news=new, x=[0.5] * len(new)))
    assert table["news"].astype(object).where(table["news"].notna(), None).tolist() == found
    assert ("'news': cells are taken as the words of the fit: " + noted in notes) == bool(noted)


def test_other_words_for_true_and_false_are_noted(tmp_path, capsys):
    path, new = tmp_path / "t.csv", tmp_path / "n.csv"
    path.write_text(csv(paid=np.where(GROUP, "yes", "no"), x=OTHER))
    assert main(["cluster", str(path), "--out", str(tmp_path / "o"), "--keep"]) == 0
    ids = []
    for words in (("yes", "no"), ("1", "0"), ("True", "False")):
        new.write_text(csv(paid=np.where(GROUP, *words), x=OTHER))
        capsys.readouterr()
        assert main(["predict", str(tmp_path / "o"), str(new)]) == 0
        out, said = capsys.readouterr()
        ids.append(out)
        note = "'paid': cells are taken as the words of the fit: '0' as 'no', '1' as 'yes'."
        assert (note in said) == (words[0] == "1")
    assert ids[0] == ids[1] == ids[2]


def test_codes_whose_zeros_a_program_dropped(scored):
    first = csv(zip=np.where(GROUP, "00501", "10001"), x=OTHER)
    found, notes = scored(first, csv(zip=["501", "10001", "1501"], x=[0.5, 1.5, 2.5]))
    assert found["zip"].tolist() == ["00501", "10001", "1501"]
    assert "'1501'" in notes or "personal" in notes


def test_serial_numbers_in_the_place_of_dates():
    days = pd.date_range("2022-03-01", periods=N)
    model = craftc.CRAFT(1).fit(craftc.read_table(pd.DataFrame({"day": days, "x": OTHER})))
    for start, noted in ((19052, False), (44621, True)):  # of a spreadsheet
        new = craftc.read_table(pd.DataFrame({"day": start + np.arange(N), "x": OTHER}), like=model)
        assert ("up to 2" in " ".join(new.attrs["notes"])) == noted


def test_ticks_and_answers(scored):
    names = ["Python", "SQL", "R", "Java"]
    picked = np.random.default_rng(3).random((N, 4)) < np.where(
        GROUP[:, None] == (np.arange(4) < 2), 0.85, 0.15
    )
    cells = [";".join(name for name, each in zip(names, row, strict=True) if each) for row in picked]
    first = csv(lang=cells, news=np.where(GROUP, "x", ""), x=OTHER)
    new = "lang,news,x\nPython;Go,,1.5\n,x,2.5\nR,,3.5\n"
    found, notes = scored(first, new)
    assert found["lang: Python"].tolist() == ["yes", "no", "no"]
    assert found["lang: R"].tolist() == ["no", "no", "yes"]
    assert found["news"].tolist() == ["no", "x", "no"]
    assert "unknown answers are left out: 'Go'" in notes
    found, _ = scored(first, "lang,news,x\n,,1.5\n,,2.5\n")
    assert found["news"].tolist() == ["no", "no"]
    assert (found["lang: SQL"] == "no").all()
    assert scored(first, "lang,news,x\nSQL,x,1.5\n")[0]["news"].tolist() == ["x"]


def test_options_of_the_fit_hold_for_new_files(scored):
    first = csv("^", p=np.where(np.arange(N) % 9, OTHER, -999), x=OTHER)
    found, _ = scored(
        "note\n" + first, "note\n" + csv("^", p=[-999, 5], x=[0.5, 1.5]), skip=1, na_values=[-999]
    )
    assert found["p"].isna().tolist() == [True, False]


def test_frames_and_the_index(scored, read):
    frame = pd.DataFrame({"d": days("%d/%m/%Y"), "x": OTHER})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(frame))
    new = pd.DataFrame({"x": [8.0, 0.0], "d": ["05/01/2023", "01/11/2022"], "note": ["a", "b"]}, index=[7, 3])
    table = craftc.read_table(new, like=model)
    assert (table.index.tolist(), list(table.columns)) == ([7, 3], list(model.schema_.columns))
    assert any("not in the model" in note for note in table.attrs["notes"])
    with pytest.warns(UserWarning, match="Columns differ in scale: .*'d'"):
        model = craftc.KPrototypes(2).fit(craftc.read_table(frame))
    assert model.predict(table).shape == (2,)


def test_the_command_line_reads_as_the_fit(tmp_path, capsys):
    path, new = tmp_path / "t.csv", tmp_path / "n.csv"
    path.write_text(csv(d=days("%d/%m/%Y"), x=OTHER))
    new.write_text("d,x\n05/01/2022,8\n01/11/2022,0\n")
    assert main(["cluster", str(path), "--out", str(tmp_path / "o"), "--keep"]) == 0
    labels = pd.read_csv(tmp_path / "o" / "labels.csv")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "o"), str(new)]) == 0
    out = capsys.readouterr()
    found = pd.read_csv(io.StringIO(out.out))["cluster"].tolist()
    assert found == [labels["cluster"][GROUP == 1].mode()[0], labels["cluster"][GROUP == 0].mode()[0]]
    assert "no cell contradicts" not in out.err
    new.write_text("d,x\n01/25/2022,8\n01/11/2022,0\n")
    assert main(["predict", str(tmp_path / "o"), str(new)]) == 2
    assert "'01/25/2022'" in capsys.readouterr().err


def test_columns_that_are_made_can_be_ignored(tmp_path, capsys):
    path = tmp_path / "t.csv"
    cells = [["Python;SQL", "SQL;R", "R", "Python"][i % 4] for i in range(N)]
    path.write_text(csv(d=days("%Y-%m-%d %H:%M"), lang=cells, x=OTHER))
    options = [
        "--dates",
        "parts",
        "--ignore",
        "d weekday",
        "lang: SQL",
        "--json",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main(["cluster", str(path), *options]) == 0
    columns = craftc.load_model(tmp_path / "o" / "model.craftc").schema_.columns
    assert "lang: R" in columns
    assert not {"d weekday", "lang: SQL"} & {*columns}
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "o"), str(path)]) == 0
    for name in ("d week", "lang: Java"):
        capsys.readouterr()
        assert main(["cluster", str(path), "--dates", "parts", "--ignore", name]) == 2
        assert f"--ignore: the table has no column {name!r}" in capsys.readouterr().err


def test_the_form_of_a_file_of_the_fit_does_not_hide_columns_of_another(tmp_path):
    table = pd.DataFrame({"x": OTHER, "c": np.where(GROUP, "a", "b")})
    titled, plain, wrong = tmp_path / "titled.csv", tmp_path / "plain.csv", tmp_path / "wrong.csv"
    titled.write_text("A title, and\nanother line\n" + table.to_csv(index=False), encoding="utf-8")
    table.to_csv(plain, index=False)
    table.rename(columns=str.upper).to_csv(wrong, index=False)
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(titled, skip=2))
    read = craftc.read_table(plain, like=model)
    assert len(read) == N
    note = "Read without skip=2 of the fit: with skip=2 the file has no column of the model."
    assert note in read.attrs["notes"]
    with pytest.raises(ValueError, match="lacks column"):
        craftc.read_table(wrong, like=model)
    books = {month: tmp_path / f"{month}.xlsx" for month in ("Jan", "Feb")}
    for month, book in books.items():
        table.to_excel(book, sheet_name=month, index=False)
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(books["Jan"], sheet="Jan"))
    read = craftc.read_table(books["Feb"], like=model)
    assert len(read) == N
    assert any("Read without sheet='Jan' of the fit: " in note for note in read.attrs["notes"])
    table.rename(columns=str.upper).to_excel(books["Feb"], sheet_name="Feb", index=False)
    with pytest.raises(ValueError, match="has no sheet 'Jan'; its sheets are 'Feb'"):
        craftc.read_table(books["Feb"], like=model)


MINUTES = (OTHER - OTHER.min()).round().astype(int) % 50 + 5


@pytest.mark.parametrize(
    ("form", "cells", "minutes"),
    [
        ("{} min", ["1 h 20 min", "40 min", "0"], [80, 40, 0]),
        ("{} min", ["1:20", "0:40", "0"], [80, 40, 0]),
        ("{} min", ["1.5 h", "40 min", "0"], [90, 40, 0]),
        ("{} Minuten", ["40 min", "55 min", "1 h"], [40, 55, 60]),
        ("1 h {} min", ["90 min", "0", "45 min"], [90, 0, 45]),
        ("1 h {} min", ["1.5 Std", "0.75 Std"], [90, 45]),
        ("1 h {} min", ["1.5 days", "12 h"], [2160, 720]),
        ("1 h {} min", ["PT1H20M", "PT20M"], [80, 20]),
    ],
)
def test_durations_have_the_unit_of_the_fit(scored, form, cells, minutes):
    found, _ = scored(
        csv(wait=[form.format(i) for i in MINUTES], x=OTHER), csv(wait=cells, x=OTHER[: len(cells)])
    )
    unit = 60.0 if "h" in form else 1.0
    np.testing.assert_allclose(found["wait"], np.array(minutes) / unit, atol=1e-9)


def test_short_durations_keep_their_digits():
    seconds = np.arange(1, 61) * 1e-3
    table = pd.DataFrame({"wait": pd.to_timedelta(seconds, unit="s"), "x": np.arange(60) * 7 % 31})
    read = craftc.read_table(table)
    np.testing.assert_allclose(read["wait"], seconds / 86400.0, rtol=1e-12)


def test_numbers_in_the_place_of_durations_and_dates(scored):
    waits = csv(wait=[f"1 h {i} min" for i in MINUTES], x=OTHER)
    found, notes = scored(waits, csv(wait=["80", "45"], x=[0.0, 8.0]))
    assert found["wait"].tolist() == [80.0, 45.0]
    assert "taken as numbers with 'hours', as in the fit" in notes
    with pytest.raises(ValueError, match="fitted on numbers with 'hours', but the cells have 'kg'"):
        scored(waits, csv(wait=["80 kg", "45 kg"], x=[0.0, 8.0]))
    weights = csv(wait=[f"{i} kg" for i in MINUTES], x=OTHER)
    for cells, shown in ((["1:20", "0:40"], "1:20"), (["1 h 20 min", "40 min"], "1 h 20 min")):
        with pytest.raises(ValueError, match=f"'kg', but the cells have .*, as in '{shown}'"):
            scored(weights, csv(wait=cells, x=[0.0, 8.0]))
    dates = csv(day=[f"{1 + i % 28}.{1 + i % 12}.2023" for i in MINUTES], x=OTHER)
    with pytest.raises(ValueError, match="fitted on dates, but the cells are years, such as 2024"):
        scored(dates, csv(day=["2024", "2023"], x=[0.0, 8.0]))


@pytest.mark.parametrize("typed", [True, False])
def test_durations_of_another_kind_of_file_have_the_unit_of_the_fit(tmp_path, typed):
    wait = pd.to_timedelta(600.0 + 60.0 * (OTHER - OTHER.min()).round(), unit="s")
    table = pd.DataFrame({"wait": wait, "c": np.where(GROUP, "a", "b")})
    text, arrow = tmp_path / "t.csv", tmp_path / "t.parquet"
    table.to_csv(text, index=False)
    table.to_parquet(arrow)
    first, other = (arrow, text) if typed else (text, arrow)
    read = craftc.read_table(first)
    model = craftc.CRAFT(random_state=0).fit(read)
    again = craftc.read_table(other, like=model)
    np.testing.assert_allclose(again["wait"], read["wait"], rtol=1e-8)
    unit = "days" if typed else "hours"
    assert f"'wait' holds durations, which are used in {unit}." in again.attrs["notes"]


def test_numbers_in_another_unit_and_later_dates_are_warned_of(scored):
    first = csv(d=days("%Y-%m-%d"), x=OTHER + 20.0)
    known = {"d": ["2022-03-01"] * 9, "x": [20.0] * 9}
    scored(first, csv(**known))
    scored(first, csv(**known | {"x": [2000.0] * 4 + [20.0] * 5}))
    scored(first, csv(**known | {"x": [2000.0] * 4 + [None] * 5}))  # too few to be sure
    with pytest.warns(
        UserWarning, match=r"Column 'x': most numbers .* outside the range of the fit \(\S+ to "
    ):
        scored(first, csv(**known | {"x": [2000.0] * 5 + [20.0] * 4}))
    with pytest.warns(UserWarning, match=r"Column 'd': most dates .* \(2022-01-0\d to 2022-12-2\d\), and"):
        scored(first, csv(**known | {"d": ["2023-03-01"] * 9}))


def test_rows_of_another_unit_are_a_note_of_predict_and_a_warning_of_partial_fit(tmp_path, capsys):
    table = pd.DataFrame({"x": OTHER + 20.0, "c": np.where(GROUP, "a", "b")})
    model, saved, out = craftc.CRAFT(random_state=0).fit(table), tmp_path / "m.craftc", tmp_path / "out.csv"
    craftc.save_model(model, saved)
    for ending in ("csv", "parquet"):
        file = tmp_path / f"new.{ending}"
        other = table.assign(x=100.0 * table.x)
        other.to_csv(file, index=False) if ending == "csv" else other.to_parquet(file)
        assert not main(["predict", str(saved), str(file), "--out", str(out)])
        assert "note: Column 'x': most numbers of these rows lie outside" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="Column 'x': most numbers"):
        model.partial_fit(table.assign(x=100.0 * table.x))
    with pytest.warns(UserWarning, match="Column 'x': most numbers"):
        model.refit(pd.concat([table, *[table.assign(x=100.0 * table.x)] * 2]), keep="clusters")


@pytest.mark.parametrize("name", ["x", "c"])
def test_a_column_without_values_is_a_note_of_predict_and_an_error_of_refit_with_a_way_on(
    tmp_path, capsys, name
):
    table = pd.DataFrame({"x": OTHER, "y": OTHER[::-1], "c": np.where(GROUP, "a", "b")})
    first, empty, out = tmp_path / "first.csv", tmp_path / "empty.csv", tmp_path / "out"
    table.to_csv(first, index=False)
    table.assign(**{name: None}).to_csv(empty, index=False)
    assert main(["cluster", str(first), "--quiet", "--out", str(out)]) == 0
    assert main(["predict", str(out), str(first), "--out", str(tmp_path / "p.csv")]) == 0
    assert "has no value" not in capsys.readouterr().err
    assert main(["predict", str(out), str(empty), "--out", str(tmp_path / "p.csv")]) == 0
    note = f"craftc: note: Column '{name}' has no value in any of these rows, and counts as missing in all"
    assert capsys.readouterr().err.count(note) == 1
    assert main(["refit", str(out), str(empty)]) == 2
    problem = capsys.readouterr().err
    assert f"Column '{name}' has no value in any of its {N} row(s); --keep-clusters counts" in problem
    assert "drop it" not in problem
    assert main(["refit", str(out), str(empty), "--keep-clusters"]) == 0
    assert note in capsys.readouterr().err


def test_few_rows_without_a_value_are_no_surprise():
    model = craftc.CRAFT(random_state=0).fit(pd.DataFrame({"x": OTHER, "c": np.where(GROUP, "a", "b")}))
    rows = pd.DataFrame({"x": [np.nan] * 5, "c": ["a"] * 5})
    model.predict(rows[:4])
    with pytest.warns(UserWarning, match="Column 'x' has no value in any of these rows"):
        model.predict(rows)


def test_many_rows_show_the_unit_of_a_column_by_some_of_them():
    model = craftc.CRAFT(random_state=0).fit(pd.DataFrame({"x": OTHER + 20.0, "y": OTHER[::-1]}))
    cells = np.resize(OTHER + 20.0, 20_000)
    for share in (0.4, 0.6):  # of the last rows
        other = np.where(np.arange(20_000) >= (1.0 - share) * 20_000, 100.0 * cells, cells)
        rows = pd.DataFrame({"x": other, "y": np.resize(OTHER, 20_000)})
        if share < 0.5:
            model.predict(rows)  # a warning is an error
            continue
        with pytest.warns(UserWarning, match="Column 'x': most numbers of these rows lie outside"):
            model.predict(rows)


def test_the_sheet_of_the_fit_is_noted_where_a_workbook_has_others(tmp_path, capsys):
    book, alone, out = tmp_path / "book.xlsx", tmp_path / "alone.xlsx", tmp_path / "out"
    table = pd.DataFrame({"x": OTHER, "c": np.where(GROUP, "a", "b")})
    with pd.ExcelWriter(book) as writer:
        for month in ("Jan", "Feb"):
            table.to_excel(writer, sheet_name=month, index=False)
    table.to_excel(alone, sheet_name="Jan", index=False)
    assert main(["cluster", str(book), "--sheet", "Jan", "--quiet", "--out", str(out)]) == 0
    found = {}
    for name, options in (("fit", [book]), ("other", [book, "--sheet", "Feb"]), ("alone", [alone])):
        capsys.readouterr()
        assert main(["predict", str(out), *map(str, options), "--out", str(tmp_path / "p.csv")]) == 0
        found[name] = capsys.readouterr().err
    assert "The file has 2 sheets; that of the fit, 'Jan', was read; --sheet '...' names" in found["fit"]
    assert not found["other"]
    assert not found["alone"]


def test_numbers_in_another_unit_are_warned_of_by_refit_and_later_dates_are_not():
    day = pd.Series(pd.to_datetime(days("%Y-%m-%d")))
    table = pd.DataFrame({"d": day, "x": OTHER + 20.0, "c": np.where(GROUP, "a", "b")})
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(table))
    model.refit(table.assign(d=day + pd.Timedelta(days=360)))
    cents = table.assign(x=100.0 * table["x"])
    with pytest.warns(
        UserWarning, match=r"Column 'x': most numbers .* \([\d.]+ to [\d.]+\); check their unit"
    ):
        model.refit(cents)


@pytest.mark.parametrize("code", [-999, 9999])
def test_codes_of_missing_cells_that_the_fit_has_not_seen(scored, code):
    rng = np.random.default_rng(3)
    spend = np.where(GROUP, rng.normal(1500, 90, N), rng.normal(500, 90, N)).round(2)
    frame = pd.DataFrame({"spend": spend, "other": OTHER})
    new = frame.assign(spend=frame["spend"].where(np.arange(N) % 7 > 0, code))
    with pytest.warns(UserWarning, match=f"Column 'spend': cells of {code} lie outside the range of the fit"):
        scored(frame.to_csv(index=False), new.to_csv(index=False))
    scored(new.to_csv(index=False), new.to_csv(index=False))  # the fit has named them


NEGATIVE = np.where(GROUP, [f"({i}.25)" for i in range(1, N + 1)], [f"{i}.25" for i in range(1, N + 1)])


@pytest.mark.parametrize(
    ("first", "new", "numbers"),
    [
        (NEGATIVE, ["(448.32)", "(1.00)"], [-448.32, -1]),
        (NEGATIVE, ["(448.32)"], [-448.32]),
        (NEGATIVE, ["(448.32)", "7.5"], [-448.32, 7.5]),
        ([f"$ {each}" for each in NEGATIVE], ["$ (253.08)", "$(12)"], [-253.08, -12]),
        ([f"{i}.25" for i in range(N)], ["(448.32)"], [-448.32]),  # no number of the fit is negative
        ([f"({i}.25)" for i in range(N)], ["(448.32)", "7.5"], [448.32, 7.5]),  # nor is any of these
        (["-.50", *(f"{i}.-" for i in range(1, N))], ["-.50", "-.75"], [0.5, 0.75]),
    ],
)
def test_signs_are_those_of_the_fit(scored, tmp_path, capsys, first, new, numbers):
    first, rest = csv(paid=first, x=OTHER), np.zeros(len(new))
    found, _ = scored(first, csv(paid=new, x=rest))
    assert found["paid"].tolist() == numbers
    model = craftc.load_model(tmp_path / "m.craftc")
    frame = craftc.read_table(pd.DataFrame({"paid": new, "x": rest}), like=model)
    assert frame["paid"].tolist() == numbers
    (tmp_path / "plain.csv").write_text(csv(paid=numbers, x=rest))
    ids = []
    for name in ("new.csv", "plain.csv"):
        assert main(["predict", str(tmp_path / "m.craftc"), str(tmp_path / name)]) == 0
        ids.append(capsys.readouterr().out)
    assert ids[0] == ids[1]


@pytest.mark.parametrize("n", [20, 1])
def test_boxes_that_nobody_ticks(tmp_path, n):
    pytest.importorskip("openpyxl", reason="sheets are read with openpyxl")
    first = pd.DataFrame(
        {"news": np.where(GROUP, "x", ""), "mail": np.where(np.arange(N) % 3, "", "1"), "x": OTHER}
    )
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(first))
    blank = pd.DataFrame({"news": [""] * n, "mail": None, "x": OTHER[:n]})
    blank.to_excel(tmp_path / "new.xlsx", index=False)
    blank.to_csv(tmp_path / "new.csv", index=False)
    blank.to_parquet(tmp_path / "new.parquet")
    files = [tmp_path / f"new.{suffix}" for suffix in ("xlsx", "csv", "parquet")]
    for table in (*files, blank, blank.assign(news=None, mail=np.nan)):
        found = craftc.read_table(table, like=model)
        assert found["news"].tolist() == ["no"] * n
        assert found["mail"].tolist() == ["0"] * n


def test_ticks_in_another_spelling_do_not_stay_apart(tmp_path):
    rng = np.random.default_rng(0)
    ticked = rng.random(N) < 0.2 + 0.6 * GROUP
    fitted = craftc.CRAFT(random_state=0).fit(
        craftc.read_table(pd.DataFrame({"news": np.where(ticked, "x", ""), "other": OTHER}))
    )
    new = pd.DataFrame({"news": ["x", "X", ""] * 4, "other": 1.5})
    rows = craftc.read_table(new, like=fitted)
    assert rows["news"].tolist() == ["x", "x", "no"] * 4
    assert rows.attrs["notes"] == []
