"""Deciles: the page's figures are those of plain SQL over the file, and its words follow from intervals."""

import re
import shutil

import duckdb
import pandas as pd
import pytest
from playwright.sync_api import expect

from pages.parts import charts, exhibit, words

CHART = "[data-testid=stVegaLiteChart]"
COLUMNS = ["checkpoint", "decile", "n", "sequences", "mean_depth", "mean_depth_low", "mean_depth_high", "benefit", "benefit_low", "benefit_high"]


@pytest.fixture
def by_sql(study_file, tmp_path):
    """An expression over expert-3's observations in each decile, by a client of its own on a copy of the file."""

    def ask(expression, decile="loss_decile"):
        query = f"select {expression} from observations where checkpoint = 'expert-3' and next_token_id is not null group by {decile} order by {decile}"
        with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
            return [value for (value,) in con.execute(query).fetchall()]

    return ask


def values(table, column):
    return [float(cell.split(" ")[0].replace("−", "-")) for cell in table[column]]


def frame(*rows):
    """Rows of checkpoint, decile and a figure with its interval, for depth and benefit alike."""
    made = [(checkpoint, decile, 100, 40, *figure, *figure) for checkpoint, decile, figure in rows]
    return pd.DataFrame(made, columns=COLUMNS)


def test_the_table_says_what_plain_sql_says(app, study_file, by_sql):
    depth = app("pages/deciles.py", study_file, checkpoint="expert-3").dataframe[0].value
    assert values(depth, "expert-3") == pytest.approx(by_sql("avg(depth)"), abs=0.005)
    assert list(depth["n"]) == by_sql("count(*)")


@pytest.mark.parametrize(("gate", "column"), [("as trained", "benefit"), ("held open", "benefit_open")])
def test_benefit_stands_by_loss_and_by_entropy_under_either_gate(app, study_file, by_sql, gate, column):
    page = app("pages/deciles.py", study_file, checkpoint="expert-3", view="benefit", gate=gate)
    by_loss, by_entropy = (found.value for found in page.dataframe)
    assert values(by_loss, "expert-3") == pytest.approx(by_sql(f"avg({column}::double)"), abs=0.0005)
    assert values(by_entropy, "expert-3") == pytest.approx(by_sql(f"avg({column}::double)", "entropy_decile"), abs=0.0005)


def test_all_checkpoints_stand_beside_each_other(app, study_file):
    page = app("pages/deciles.py", study_file)
    assert list(page.dataframe[0].value) == ["decile", "n", "expert-2", "expert-3", "expert-4", "token-3"]
    assert "n = 1,504 positions. 95% intervals: bootstrap over 30 to 32 sequences. Exploratory." in page.caption[0].value


def test_without_a_reference_the_page_says_what_to_do(app, alone_file):
    page = app("pages/deciles.py", alone_file)
    assert page.info[0].value == "This file has no reference model, so no position has a difficulty and there are no deciles. Run with --reference to have them."
    assert not page.dataframe


def test_without_a_router_the_page_says_so(app, vanilla_file):
    assert app("pages/deciles.py", vanilla_file).info[0].value == "No checkpoint in this file has a router, so no token has a depth of its own."


def test_a_direction_is_claimed_only_where_intervals_lie_apart():
    found = words.depth_by_decile(
        frame(
            ("up", 1, (1.2, 1.1, 1.3)), ("up", 10, (2.0, 1.9, 2.1)),
            ("down", 1, (2.0, 1.9, 2.1)), ("down", 10, (1.5, 1.4, 1.6)),
            ("same", 1, (1.5, 1.3, 1.7)), ("same", 10, (1.6, 1.4, 1.8)),
            ("few", 1, (1.0, None, None)), ("few", 10, (3.0, None, None)),
        )
    )  # fmt: skip
    assert found == (
        "**Deeper** in the hardest tenth than in the easiest: up (mean depth 1.20 → 2.00). "
        "**Shallower** in the hardest tenth than in the easiest: down (mean depth 2.00 → 1.50). "
        "**No clear difference** between the easiest tenth and the hardest: same (mean depth 1.50 → 1.60), few (mean depth 1.00 → 3.00)."
    )


def test_where_depth_pays_is_said_with_its_sign():
    rows = frame(("a", 1, (0.1, 0.0, 0.2)), ("a", 7, (0.29, 0.2, 0.3)), ("a", 10, (-0.02, -0.1, 0.1)))
    assert words.benefit_by_decile(rows, "benefit", "loss") == "By loss, depth pays most at: a +0.29 nats in decile 7, −0.02 nats in decile 10."


def test_the_depth_axis_runs_from_1_to_r():
    rows = frame(("a", 1, (1.2, 1.1, 1.3)), ("a", 10, (2.0, 1.9, 2.1)))
    layers = charts.depth_by_decile(rows, ["a"], 3).to_dict()["layer"]
    assert all(layer["encoding"]["y"]["scale"]["domain"] == [1, 3] for layer in layers)


def test_a_checkpoint_keeps_its_colour_when_it_is_shown_alone():
    rows = frame(("b", 1, (1.2, 1.1, 1.3)))
    scale = charts.depth_by_decile(rows, ["a", "b"], 3).to_dict()["layer"][0]["encoding"]["color"]["scale"]
    both = charts.depth_by_decile(frame(("a", 1, (1, 1, 1)), ("b", 1, (1, 1, 1))), ["a", "b"], 3)
    assert scale["range"] == both.to_dict()["layer"][0]["encoding"]["color"]["scale"]["range"][1:]


@pytest.mark.parametrize(("view", "charts_shown"), [("depth", 1), ("benefit", 2)])
def test_charts_are_drawn_and_described(visit, serve, study_file, view, charts_shown):
    page = visit(f"{serve(study_file)}/deciles?view={view}", ready=f"{CHART} svg.marks")
    page.wait_for_function(f"document.querySelectorAll('{CHART} svg.marks').length === {charts_shown}")
    for chart in page.locator(CHART).all():
        expect(chart).to_have_attribute("aria-label", re.compile(r"expert-3 (\(mean depth |\+)"))


def test_shares_of_depths_are_those_of_plain_sql(app, study_file, tmp_path):
    table = app("pages/deciles.py", study_file, checkpoint="expert-3", view="share of each depth").dataframe[0].value
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        rows = con.execute(
            "select loss_decile, depth, count(*) from observations where checkpoint = 'expert-3' and next_token_id is not null group by all order by all"
        ).fetchall()
    assert list(table[["decile", "depth", "n"]].itertuples(index=False, name=None)) == rows
    totals = table.groupby("decile")["n"].transform("sum")
    assert values(table, "expert-3") == pytest.approx((table["n"] / totals).tolist(), abs=0.0005)


def test_loss_by_depth_is_that_of_plain_sql(app, study_file, tmp_path):
    table = app("pages/deciles.py", study_file, checkpoint="expert-3", view="loss by depth").dataframe[0].value
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        rows = con.execute("select avg(vanilla_loss::double) from observations where checkpoint = 'expert-3' and next_token_id is not null group by depth order by depth")
        assert values(table, "expert-3") == pytest.approx([value for (value,) in rows.fetchall()], abs=0.0005)


@pytest.mark.parametrize("gate", ["as trained", "both"])
def test_benefit_by_depth_shows_each_gate_asked_for(app, study_file, gate):
    page = app("pages/deciles.py", study_file, view="benefit by depth", gate=gate)
    assert not page.exception
    assert len(page.dataframe) == (2 if gate == "both" else 1)
    assert set(page.dataframe[0].value["depth"]) == {1, 2, 3, 4}


def test_deciles_within_the_filter_are_tenths_of_what_it_keeps(app, study_file):
    table = app("pages/deciles.py", study_file, checkpoint="expert-3", depths="3", of="the filter").dataframe[0].value
    assert table["n"].max() - table["n"].min() <= 1 and len(table) == 10


@pytest.mark.parametrize("view", ["depth", "share of each depth", "loss by depth", "benefit", "benefit by depth"])
def test_a_filter_that_keeps_nothing_says_what_to_do(app, study_file, view):
    page = app("pages/deciles.py", study_file, view=view, token="no such token")
    assert not page.exception
    assert {info.value for info in page.info} == {exhibit.FILTERED}


def test_apart_each_checkpoint_has_a_figure_of_its_own():
    rows = frame(("a", 1, (1.2, 1.1, 1.3)), ("b", 1, (1.2, 1.1, 1.3)))
    assert [figure.to_dict()["title"] for figure in charts.depth_by_decile(rows, ["a", "b"], 3, apart=True)] == ["a", "b"]
