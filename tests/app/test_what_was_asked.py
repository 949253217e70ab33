"""What page and report say where parameters, and not the table, decide."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import CRAFT
from craftc.cli import main


@pytest.fixture(scope="module")
def frame():
    """Two plain groups, dates of birth, postal codes, households with blank cells, and an id."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 120)
    return pd.DataFrame(
        {
            "no": [f"K{1000 + 7 * i}" for i in range(120)],
            "birthday": rng.normal(9000.0 * group, 900.0).round(),
            "spent": rng.normal(4.0 * group, 1.0).round(2),
            "plan": np.array(["basic", "plus"])[(rng.random(120) < 0.05 + 0.9 * group).astype(int)],
            "plz": rng.choice(["04109", "70173", "70174", "70599", "71032"], 120),
            "home": [f"h{i // 2}" if i >= 3 else None for i in range(120)],
        }
    )


@pytest.fixture(scope="module")
def table(frame):
    return frame.drop(columns=["no", "home"])


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("asked") / "t.csv"
    frame.to_csv(path, index=False)
    return str(path)


def read(model, table, folder, **options):
    path = folder / "r.html"
    craftc.report.write(model, table, path, null_test=None, **options)
    page = path.read_text(encoding="utf-8").replace("\u00a0", " ")
    return page, re.search("<h1>(.*?)</h1>", page, re.DOTALL)[1]


@pytest.mark.parametrize(
    ("parameters", "groups", "words"),
    [
        ({"n_clusters": 1}, None, "are one group, as asked for."),
        ({"min_cluster_size": 70}, None, "are one group, within the bounds asked for."),
        ({"max_clusters": 1}, None, "are one group, within the bounds asked for."),
        ({}, np.arange(120) // 40, "are one group, within the bounds asked for."),
    ],
)
def test_one_group_that_was_asked_for_is_no_finding(table, tmp_path, parameters, groups, words):
    model = CRAFT(**parameters, random_state=0).fit(table, groups=groups)
    page, headline = read(model, table, tmp_path)
    assert words in headline
    assert ("without these bounds was not tried" in page) == ("within the bounds" in words)
    assert "No division of the rows" not in page
    test = model.null_test(table, n=1)
    assert test.one_and_two is None
    assert "no clusters found" not in repr(test)


def test_a_table_without_groups_says_so(table, tmp_path):
    rng = np.random.default_rng(1)
    noise = table.apply(lambda column: rng.permutation(column.to_numpy()))
    model = CRAFT(random_state=0).fit(noise)
    page, headline = read(model, noise, tmp_path)
    assert "do not fall into groups" in headline
    assert "No division of the rows" in page
    assert "was not tried" not in page
    assert model.null_test(noise, n=1).one_and_two is not None


def test_the_page_says_that_bounds_leave_one_cluster(file, capsys):
    assert main(["cluster", file, "--ignore", "home", "--min-cluster-size", "70"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "One cluster, within the bounds asked for" in page
    assert "Whether there are more groups without these bounds was not tried." in page


def test_fewer_clusters_may_break_the_largest_size(file, capsys):
    assert main(["cluster", file, "--ignore", "home", "--max-cluster-size", "70"]) == 0
    assert "Fewer clusters may exceed --max-cluster-size: 1 costs" in capsys.readouterr().out


def test_columns_of_weight_zero_are_not_counted_as_used(file, table, capsys, tmp_path):
    assert main(["cluster", file, "--ignore", "home", "--column-weight", "plz=0"]) == 0
    page = capsys.readouterr().out
    assert "2 numeric columns, 1 categorical column," in page
    assert "  shown, not used (--column-weight 0): plz\n" in page
    model = CRAFT(column_weights={"plz": 0}, random_state=0).fit(table)
    report, headline = read(model, table, tmp_path)
    assert "fall into 2 clear groups" in headline
    assert "Columns used</dt><dd>3 <small>2 numbers, 1 category</small>" in report
    assert "3 columns used" in report
    assert "categories: plan</dd>" in report


def test_a_mean_is_hidden_neither_in_clusters_nor_in_the_table(table, tmp_path):
    model = CRAFT(kinds={"birthday": "date"}, random_state=0).fit(table)
    mean = str(np.datetime64(round(table["birthday"].mean()), "D"))
    report, _ = read(model, table, tmp_path)
    features = report[report.index('id="features"') : report.index('id="rules"')]
    assert mean in features
    assert features.count("values not shown") == 1  # postal codes
    one, _ = read(CRAFT(1, kinds={"birthday": "date"}, random_state=0).fit(table), table, tmp_path)
    assert f"mean {mean}" in one


@pytest.mark.parametrize(
    ("option", "column", "reason"),
    [
        ([], "no", "a different text in every row"),
        (["--ignore", "plan"], "plan", "--ignore"),
        (["--target", "plan"], "plan", "the target"),
        (["--groups", "home"], "home", "the groups"),
    ],
)
def test_weights_of_columns_that_are_not_used(file, capsys, option, column, reason):
    assert main(["cluster", file, *option, "--column-weight", f"{column}=2"]) == 2
    said = capsys.readouterr().err
    assert f"--column-weight: column '{column}' is not used ({reason}); leave out its weight." in said


def test_rows_without_a_group_are_alone(frame, capsys, tmp_path):
    """Blank cells, marks of missing cells and those of --na are no common group."""
    table = frame.drop(columns="no")
    homes = [plan + str(i // 6) if i >= 3 else None for i, plan in enumerate(table["plan"])]
    table = table.assign(home=homes)
    for place, cell in enumerate(["?", " ", "none at all", "none at all"], 100):
        table.loc[place, "home"] = cell
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    alone = [0, 1, 2, *range(100, 104)]
    labels = table["home"].astype(object).where(~np.isin(np.arange(120), alone), None)
    own = CRAFT(random_state=0).fit(craftc.read_table(table.drop(columns="home")), groups=labels)
    assert own.n_clusters_ == 2
    given = ["--groups", "home", "--na", "none at all", "--details", "--out", str(tmp_path)]
    assert main(["cluster", str(tmp_path / "t.csv"), *given]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "Note: 7 rows have no 'home' and are each a group of their own (--groups)." in page
    found = pd.read_csv(tmp_path / "labels.csv")["cluster"]
    assert len({*zip(found, own.labels_, strict=True)}) == 2
    assert main(["cluster", str(tmp_path / "t.parquet"), "--groups", "home", "--out-of-core"]) == 0
    assert "Note: 5 rows have no 'home'" in capsys.readouterr().out


def test_info_shows_what_was_asked_for(table, capsys, tmp_path):
    path = tmp_path / "m.craftc"
    model = CRAFT(column_weights={"plz": 0}, outlier_price=1.5, min_cluster_size=0.2, random_state=0).fit(
        table
    )
    craftc.save_model(model, path)
    assert main(["info", str(path)]) == 0
    said = capsys.readouterr().out
    asked = "  column_weights: {'plz': 0}\n  min_cluster_size: 0.2\n  outlier_price: 1.5\n  random_state: 0\n"
    assert f"Parameters that are not the defaults:\n{asked}\n" in said


def test_prices_of_outliers_that_are_none(file, table, capsys):
    assert main(["cluster", file, "--outlier-price", "nan"]) == 2
    assert "--outlier-price must be a finite number, got nan." in capsys.readouterr().err
    with pytest.raises(ValueError, match="outlier_price must be a finite number, got inf"):
        CRAFT(outlier_price=np.inf).fit(table)
    with pytest.raises(TypeError, match="outlier_price must be a number, got '3'"):
        CRAFT(outlier_price="3").fit(table)


@pytest.mark.parametrize("wrong", ["auto", "3-6", 3.0, True, range(3, 6)])
def test_numbers_of_clusters_that_are_none_name_the_forms(table, wrong):
    with pytest.raises(TypeError, match=r"whole number >= 1, got .*; None finds it, \(low, high\) bounds it"):
        CRAFT(wrong).fit(table)


@pytest.mark.parametrize(("name", "problem"), [("", "is empty"), (" ", "is empty"), ("b ", "is there twice")])
def test_names_of_descriptions_are_checked_before_the_fit(table, name, problem):
    model = CRAFT(init={name: {"spent": ("<", 2)}, "b": {"spent": (">", 2)}})
    with pytest.raises(ValueError, match=f"init: a name of .* {problem}"):
        model.fit(table)
    assert not hasattr(model, "labels_")


def test_names_of_ones_own_serve_every_option(file, capsys, tmp_path):
    names = tmp_path / "names.csv"
    names.write_text("plz,area\nspent,revenue\nhome,household\n", encoding="utf-8")
    given = ["cluster", file, "--labels", str(names)]
    assert main([*given, "--column-weight", "area=0", "--groups", "household", "--details"]) == 0
    page = capsys.readouterr().out
    assert "(--column-weight 0): plz\n" in page
    assert "no 'home' and are each" in " ".join(page.split())
    assert main([*given, "--weight", "revenue", "--ignore", "household"]) == 2
    assert "--weight: column 'spent' has -" in capsys.readouterr().err


def test_two_clusters_of_one_name_have_the_numbers_of_the_page(file, capsys, tmp_path):
    names = tmp_path / "names.csv"
    names.write_text("cluster 1,A\ncluster 2,A \n", encoding="utf-8")
    assert main(["cluster", file, "--ignore", "home", "--labels", str(names)]) == 2
    assert "--labels: clusters 1 and 2 would both be named 'A'" in capsys.readouterr().err


def test_a_refit_says_that_groups_are_not_kept(table):
    model = CRAFT(2, random_state=0).fit(table, groups=(table["plan"] == "plus").to_numpy())
    said = "Groups of rows that fit kept together are not kept together by a refit."
    assert said in model.refit(table.iloc[:100]).changes_.notes
    assert said not in model.refit(table.iloc[:90]).changes_.notes  # the former fit had none


def test_predict_says_how_many_rows_fit_no_cluster(table, capsys, tmp_path):
    model = CRAFT(outlier_price=1.5, random_state=0).fit(table)
    craftc.save_model(model, tmp_path / "m.craftc")
    table.to_parquet(tmp_path / "t.parquet")
    n = int((model.labels_ == -1).sum())
    assert 0 < n < 120
    said = f"craftc: note: {n} of 120 rows fit no cluster and have the cluster -1.\n"
    asked = ["predict", str(tmp_path / "m.craftc"), str(tmp_path / "t.parquet")]
    to_file = ["--out", str(tmp_path / "found.csv")]
    for more in ([], ["--out-of-core"], to_file):
        assert main([*asked, *more]) == 0
        assert said in capsys.readouterr().err
    craftc.save_model(model.set_params(outlier_price=None), tmp_path / "m.craftc")
    assert main([*asked, *to_file]) == 0
    assert "fit no cluster" not in capsys.readouterr().err


def test_codes_are_no_weights(file, capsys):
    assert main(["cluster", file, "--ignore", "home", "--weight", "plz"]) == 2
    assert "--weight: column 'plz' holds codes with leading zeros" in capsys.readouterr().err
