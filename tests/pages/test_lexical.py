"""Lexical: figures are those of pandas over the file, verdicts follow from them, and every way to split is there."""

import shutil

import duckdb
import pandas as pd
import pytest
from playwright.sync_api import expect

import db
from pages.parts import lexical
from tests import small_file
from tests.pages.studies import OTHERS
from tests.pages.test_shell import settled

PAGE = "pages/lexical.py"
CHART = "[data-testid=stVegaLiteChart] svg.marks"


@pytest.fixture(scope="module")
def rows(study_file, tmp_path_factory):
    """expert-3's scored observations, read by a client of its own from a copy of the file."""
    with duckdb.connect(shutil.copy(study_file, tmp_path_factory.mktemp("copy") / "copy.duckdb"), read_only=True) as con:
        return con.execute("select * from observations where checkpoint = 'expert-3' and next_token_id is not null").df()


def in_pandas(rows):
    """R² and modal accuracy, learnt on even and scored on odd sequences."""
    learnt, held = rows[rows["sequence"] % 2 == 0], rows[rows["sequence"] % 2 == 1]
    by_token = learnt.groupby("token_id")["depth"]
    expected = held["token_id"].map(by_token.mean()).fillna(learnt["depth"].mean())
    modal = held["token_id"].map(by_token.agg(lambda depths: depths.mode().min())).fillna(learnt["depth"].mode().min())
    return 1 - ((held["depth"] - expected) ** 2).sum() / ((held["depth"] - held["depth"].mean()) ** 2).sum(), (held["depth"] == modal).mean()


def value(cell):
    return float(cell.split(" ")[0].replace("−", "-"))


@pytest.mark.parametrize(("query", "keep"), [({}, "True"), ({"position_from": "9"}, "position >= 9")])
def test_the_table_says_what_pandas_says(app, study_file, rows, query, keep):
    page = app(PAGE, study_file, **query)
    row = page.dataframe[0].value.set_index("checkpoint").loc["expert-3"]
    r2, modal = in_pandas(rows if keep == "True" else rows.query(keep))
    assert (value(row["R²"]), value(row["the token's commonest depth"])) == pytest.approx((r2, modal), abs=0.0006)
    assert ("Exploratory" if query else "Pre-set for expert-choice") in page.caption[-1].value


def test_every_router_has_its_verdict_and_its_baselines(app, study_file):
    page = app(PAGE, study_file, lexical="commonest depth")
    said = page.markdown[1].value.splitlines()
    assert [line.split(":")[0] for line in said] == [f"- **{name}" for name in ("expert-2", "expert-3", "expert-4", "token-3")]
    table = page.dataframe[0].value
    assert table.groupby("checkpoint")["guess"].apply(list).iloc[0] == list(lexical.ACCURACIES.values())
    assert table["low"].notna().all() and (table["low"] <= table["value"]).all()


def test_other_splits_stand_beside_the_first_when_asked_for(app, study_file):
    table = app(PAGE, study_file, others="true").dataframe[0].value
    assert table.query("checkpoint == 'expert-3'")["split"].tolist() == ["even → odd", "first half → second half", "random halves"]


def test_the_worst_explained_tokens_lead_and_open_in_context(app, study_file):
    table = app(PAGE, study_file, lexical="tokens explained worst", checkpoint="expert-3", minimum="12", depths="2").dataframe[0].value
    found = db.open(study_file).lexical_tokens("expert-3", 12, "depth in (2)")
    assert table["token_id"].tolist() == found["token_id"].tolist()
    assert table["squared_error"].is_monotonic_decreasing
    assert table["occurrences"][0].startswith("tokens?") and f"token_id={table['token_id'][0]}" in table["occurrences"][0]
    assert "depths=2" in table["occurrences"][0]


@pytest.mark.parametrize(("r2", "low", "begins"), [(0.6, 0.5, "**a: mainly lexical.** "), (0.4, 0.3, "**a: not mainly lexical.** "), (0.4, None, "**a: not mainly lexical.** ")])
def test_a_verdict_follows_from_its_figure(r2, low, begins):
    figures = [("r2", r2, low, low and 0.7), ("modal_accuracy", 0.8, 0.7, 0.9), ("commonest_accuracy", 0.4, 0.3, 0.5)]
    frame = pd.DataFrame([(lexical.EVEN, *row, 100) for row in figures], columns=["split", "figure", "value", "low", "high", "n"])
    said = lexical.verdict(frame.astype({"low": float, "high": float}), "a")
    assert said.startswith(begins)
    assert "80.0% \\[70.0%, 90.0%\\] of positions, against 40.0%" in said


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"lengths": [33]}, "No position is held out: none passes the filter, or it is a single sequence, which cannot be split."),
        ({"kinds": {"expert-1": ("expert", 1)}}, "Depth does not vary on the held-out sequences, so there is nothing to explain."),
    ],
    ids=["one sequence", "one depth"],
)
def test_where_nothing_can_be_explained_the_reason_is_said(app, tmp_path, content, why):
    page = app(PAGE, small_file.write(tmp_path / "small.duckdb", small_file.Content(**content)))
    assert not page.exception
    assert why in page.markdown[1].value


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_have_their_figures(app, other_file, name):
    for view in ("variance explained", "tokens explained worst"):
        page = app(PAGE, other_file(name), lexical=view)
        assert not page.exception
        assert page.dataframe or page.info


def test_an_empty_filter_says_so(app, study_file):
    for view in ("variance explained", "commonest depth", "tokens explained worst"):
        page = app(PAGE, study_file, lexical=view, sequence_from="900")
        assert not page.exception
        assert page.info[0].value == "Nothing to show: no position passes the filter. Widen it, or clear it, in the sidebar."


def test_without_a_router_the_page_says_so(app, vanilla_file):
    assert app(PAGE, vanilla_file).info[0].value == "No checkpoint in this file has a router, so no token has a depth of its own."


def test_the_chart_is_drawn_described_and_taken_away(visit, serve, study_file):
    page = settled(visit(f"{serve(study_file)}/lexical?others=true&position_from=9", ready=CHART))
    page.get_by_label("R² of depth from the token: expert-2").first.wait_for(state="attached")
    said = page.locator("[data-testid=stMain] li").all_inner_texts()
    page.get_by_role("button", name="Take away").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Figure as SVG").click()
    drawn = download.value.path().read_text(encoding="utf-8")
    assert "position from 9" in drawn and "SHA-256" in drawn and "held-out positions" in drawn
    again = settled(visit(page.url, ready=CHART))
    expect(again.locator("[data-testid=stMain] li")).to_have_text(said, use_inner_text=True)
