"""Exhibits: what is taken away is what is shown, safe in a spreadsheet, and says where it is from."""

import csv
import hashlib
import io
import shutil

import altair as alt
import duckdb
import pandas as pd
import pytest

import db
from pages.parts import exhibit


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@sum(a1)", "\t=1", "\r=1", " =1", "|x"])
def test_text_that_a_spreadsheet_would_run_is_made_harmless(cell):
    made = exhibit.csv(pd.DataFrame({"token": [cell], "=n": [-0.5]})).decode("utf-8-sig")
    (name, number), (text, value) = csv.reader(io.StringIO(made, newline=""))
    assert (name, number, text, value) == ("token", "'=n", f"'{cell}", "-0.5")


def test_a_filter_makes_everything_exploratory():
    assert exhibit.standing("pre-set", None) == "pre-set"
    assert exhibit.standing("pre-set", "depth = 1") == "exploratory"


def test_a_figure_carries_its_caption():
    chart = alt.Chart(pd.DataFrame({"x": [1], "y": [2]})).mark_point().encode(x="x:Q", y="y:Q")
    for figure in (chart, [chart, chart]):
        drawn = exhibit.svg(figure, "Positions with depth 1. n = 3 & more").decode()
        assert drawn.startswith("<svg") and "Positions with depth 1. n = 3 &amp; more" in drawn


def test_the_sql_of_an_exhibit_gives_its_figures_in_any_client(study_file, tmp_path):
    study = db.open(study_file)
    sql = study.statement("shown_deciles", "depth >= 2", within=True, scale="entropy", checkpoints=["expert-3"])
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        rows = con.execute(sql).df()
    due = study.deciles("expert-3", "entropy", "depth >= 2", within=True)
    for name in ("n", "mean_depth", "benefit", "benefit_open"):
        assert rows[name].to_list() == pytest.approx(due[name].to_list())


def test_data_and_figure_are_downloaded(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/deciles?checkpoint=expert-3&depths=2", ready="svg.marks")
    page.get_by_role("button", name="Take away").click()
    with page.expect_download() as data:
        page.get_by_role("button", name="Data as CSV").click()
    frame = pd.read_csv(data.value.path())
    assert frame["n"].tolist() == db.open(study_file).deciles("expert-3", "loss", "depth in (2)")["n"].tolist()
    with page.expect_download() as figure:
        page.get_by_role("button", name="Figure as SVG").click()
    drawn = figure.value.path().read_text()
    assert "Positions with depth 2." in drawn and f"n = {frame['n'].sum():,} positions." in drawn
    assert hashlib.sha256(study_file.read_bytes()).hexdigest() in drawn
