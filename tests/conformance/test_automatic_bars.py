"""The tables and the measures of benches/replication/automatic_bars.py are what they claim to be; its items
run.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="the tables are pandas frames")

recipes = importlib.import_module("benches.replication.automatic_recipes")
bars = importlib.import_module("benches.replication.automatic_bars")

# shape, sum of the numbers, sum of the codes of seed 0, from the recipes with which other packages were
# measured
DRAWN = {
    "skewed": ((1000, 16), 34503.37511447656, 9086),
    "correlated": ((1500, 18), 3298.5741430322946, 12238),
    "depcat": ((1500, 19), 6078.46597319353, 27559),
    "missing": ((1000, 18), 4205.837254321231, 6532),
    "unbalanced": ((2500, 17), 19257.740772139845, 27984),
    "manynoise": ((500, 50), 8955.583136935715, 14383),
    "skew": ((500, 14), 4884.077801636774, 3576),
    "bounded": ((500, 14), 2506.0902234945543, 6189),
    "elongated": ((500, 11), None, 5070),  # an axis may change its sign with LAPACK
    "factor": ((500, 13), 3740.2685509163002, 6807),
}


def drawn(name, seed=0):
    return recipes.noise(name, seed) if name in recipes.NOISE_RECIPES else recipes.made(name, seed)


class TestTables:
    @pytest.mark.parametrize("name", DRAWN)
    def test_the_same_draws(self, name):
        shape, total, codes = DRAWN[name]
        table = drawn(name)
        assert table.frame.shape == shape
        if total is not None:
            assert np.nansum(table.frame[table.numeric]) == pytest.approx(total, rel=1e-9)
        assert (
            sum(int(level[1:]) for name in table.categorical for level in table.frame[name].dropna()) == codes
        )

    def test_every_recipe_is_pinned(self):
        assert set(DRAWN) == {*recipes.RECIPES, *recipes.NOISE_RECIPES}

    @pytest.mark.parametrize("name", ["skewed", "depcat", "factor"])
    def test_seed_decides(self, name):
        pd.testing.assert_frame_equal(drawn(name, 3).frame, drawn(name, 3).frame)
        assert not drawn(name, 1).frame.equals(drawn(name, 2).frame)

    def test_what_recipes_say(self):
        assert len(drawn("correlated", 4).frame) == 2 * len(drawn("correlated", 3).frame)
        missing = drawn("missing").frame
        assert not missing["n0"].isna().any()
        assert missing.drop(columns="n0").isna().mean().between(0.2, 0.4).all()
        assert np.bincount(drawn("unbalanced").truth)[3] >= 12
        inside = drawn("correlated")
        own = inside.frame.loc[inside.truth == 0, [f"x{j}" for j in range(8)]].corr().abs().to_numpy()
        assert own[np.triu_indices(8, 1)].min() > 0.4
        cloud = recipes.equally_correlated(0.9, 3000, 0).frame.corr().to_numpy()
        np.testing.assert_allclose(cloud[np.triu_indices(10, 1)], 0.9, atol=0.02)

    def test_weak_categories(self):
        table = recipes.weak_categories(3, 0)
        assert table.frame.shape == (600, 24)
        assert recipes.weak_categories(5, 0).frame.shape == (800, 24)
        shares = np.array(
            [
                [(table.frame[c][table.truth == k].value_counts(normalize=True)).max() for c in table.frame]
                for k in range(3)
            ]
        )
        np.testing.assert_array_equal((shares > 0.5).sum(axis=1), 6)  # 7 / 10 in own columns, 1 / 4 elsewhere

    def test_figures_come_with_their_masks(self):
        for layout, columns, kind in (("2a", 24, "categorical"), ("3a", 36, "numeric")):
            table, truth = recipes.subspaces(layout, 0)
            assert truth.shape == (3, columns)
            assert list(table.frame) == getattr(table, kind)

    def test_normal_clusters(self):
        blobs = recipes.round_blobs(12, 8, 0)
        within = blobs.frame - blobs.frame.groupby(blobs.truth).transform("mean")
        np.testing.assert_allclose(within.std(), 1.0, atol=0.1)
        table = recipes.random_covariances(4, 2, 0)
        assert table.frame.shape == (1200, 4)
        correlations = [
            table.frame[table.truth == k].corr().to_numpy()[np.triu_indices(4, 1)] for k in range(2)
        ]
        assert all(np.abs(own).max() > 0.3 for own in correlations)
        assert np.abs(np.subtract(*correlations)).max() > 0.3


class TestMeasures:
    def test_partners_share_most_rows(self):
        truth = np.repeat([0, 1, 2], [5, 3, 4])
        found = np.array([1, 1, 1, 1, 0, 0, 0, 1, 2, 2, 2, 3])
        assert sorted(bars.partners(truth, found)) == [(0, 1), (1, 0), (2, 2)]
        assert sorted(bars.partners(truth, np.zeros(12, int))) == [(0, 0)]

    def test_jaccard_of_masks(self):
        truth = np.array([[1, 1, 0, 0], [0, 0, 1, 0]], bool)
        found = np.array([[0, 0, 1, 0], [1, 1, 1, 1]], bool)
        assert bars.mask_jaccard(truth, found, [(0, 1), (1, 0)]) == pytest.approx((0.5 + 1.0) / 2)
        assert bars.mask_jaccard(truth, found, [(0, 1)]) == pytest.approx(
            0.25
        )  # a true cluster without a partner
        assert bars.mask_jaccard(truth, np.zeros((2, 4), bool), [(0, 0), (1, 1)]) == 0.0

    def test_numbers_and_names(self):
        assert bars.number_or_name("2.5") == 2.5
        assert bars.number_or_name("auto") == "auto"


class TestCommand:
    @pytest.mark.slow
    def test_items_run(self, capsys, tmp_path):
        out = tmp_path / "bars.txt"
        assert (
            bars.main(
                [
                    "--quick",
                    "--only",
                    "figures",
                    "weak",
                    "wide",
                    "--n-init",
                    "1",
                    "--n-threads",
                    "1",
                    "--out",
                    str(out),
                ]
            )
            == 0
        )
        text = capsys.readouterr().out
        assert text == out.read_text(encoding="utf-8")
        assert "CRAFT(n_init=1, n_threads=1)" in text
        assert "figure 2a: K, ARI, mask Jaccard" in text
        assert "0 of 0 bars met" in text  # --quick gives no verdict

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "item", sorted(set(bars.ITEMS) - {"figures", "weak", "wide", "speed", "real", "adult"})
    )
    def test_item_runs(self, item):
        options = bars.Options({"n_init": 1, "n_threads": 1}, None, quick=True)
        assert all(isinstance(line, bars.Line) for line in bars.ITEMS[item](options))

    def test_only_given_parameters_are_passed(self, monkeypatch):
        given = []

        class Model:
            n_clusters_, labels_ = 3, np.zeros(300, int)
            feature_mask_ = np.zeros((1, 24), bool)

            def __init__(self, **parameters):
                given.append(parameters)

            def fit(self, X):
                self.feature_mask_ = np.zeros((1, np.shape(X)[1]), bool)
                return self

        monkeypatch.setattr(bars, "CRAFT", Model)
        bars.main(["--quick", "--only", "figures", "--covariance", "auto", "--price-factor", "auto"])
        bars.main(["--quick", "--only", "figures", "--price-factor", "2"])
        bars.main(["--quick", "--only", "figures"])
        expected = [{"covariance": "auto", "price_factor": "auto"}, {"price_factor": 2.0}, {}]
        assert given == [{"random_state": 0, **each} for each in expected for _ in range(2)]

    @pytest.mark.parametrize("item", ["real", "adult"])
    def test_real_tables_that_are_not_there(self, item, tmp_path):
        lines = list(bars.ITEMS[item](bars.Options({}, tmp_path, quick=True)))
        assert lines
        assert all(line.met is None and "--data" in line.ours for line in lines)
