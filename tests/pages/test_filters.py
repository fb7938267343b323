"""The filter: what it keeps is what SQL of one's own keeps, a link restores it, and what is typed stays text."""

import shutil

import duckdb
import pytest
from playwright.sync_api import expect

import db
from db import conditions
from db.errors import UserError
from pages.parts import filters

SETTLED = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
KEPT = "[data-testid=stSidebarContent] [data-testid=stMarkdownContainer]:has-text('Filter.')"


def count(path, tmp_path, condition):
    """Scored positions of expert-3 that meet a condition, by a client of its own on a copy of the file."""
    with duckdb.connect(shutil.copy(path, tmp_path / "copy.duckdb"), read_only=True) as con:
        return con.execute(f"select count(*) from tokens where checkpoint = 'expert-3' and next_token_id is not null and ({condition})").fetchone()[0]


@pytest.mark.parametrize(
    ("query", "condition", "sentence"),
    [
        ({"depths": "2"}, "depth = 2", "Positions with depth 2"),
        ({"loss_from": "5", "loss_to": "6"}, "vanilla_loss between 5 and 6", "vanilla loss 5 to 6 nats"),
        ({"entropy_decile_to": "3"}, "entropy_decile <= 3", "decile of vanilla entropy up to 3"),
        ({"occurrences_from": "40"}, "(select occurrences from vocab where vocab.token_id = tokens.token_id) >= 40", "occurrences of the token from 40 times"),
        ({"position_from": "10", "sequence_to": "4"}, "position >= 10 and sequence <= 4", "position from 10, sequence up to 4"),
        ({"token": "w1"}, "token like '%w1%'", "a token that contains “w1”"),
        ({"token": "w1", "match": "is"}, "token = ' w1'", "a token that is “w1”"),
        ({"token": "w[0-3]$", "match": "matches"}, "token in (' w0', ' w1', ' w2', ' w3')", "matches"),
        ({"token": "9, 10", "match": "has id"}, "token_id in (9, 10)", "has id"),
        ({"plain": "true"}, "token <> '<|endoftext|>'", "no special tokens"),
    ],
)
def test_a_filter_keeps_what_sql_of_ones_own_keeps(app, study_file, tmp_path, query, condition, sentence):
    page = app("pages/deciles.py", study_file, checkpoint="expert-3", **query)
    assert not page.exception
    assert sentence in next(text.value for text in page.sidebar.markdown if text.value.startswith("**Filter.**"))
    shown = page.dataframe[0].value
    assert shown["n"].sum() == count(study_file, tmp_path, condition)
    stated = page.sidebar.get("code")[0].value.removeprefix("select count(*) from observations\nwhere ")
    with duckdb.connect(str(tmp_path / "copy.duckdb"), read_only=True) as con:
        assert con.execute(f"select count(*) from observations where checkpoint = 'expert-3' and {stated}").fetchone()[0] == shown["n"].sum()


def test_what_is_typed_never_becomes_sql(study_file):
    study = db.open(study_file)
    for text in ("'; drop table vocab; --", "' or true or '", "\\'", "%"):
        for match in ("contains", "word"):
            assert study.kept(conditions.token(match, text))["scored"].sum() == 0


def test_a_regex_that_backtracks_elsewhere_ends_at_once_and_a_bad_one_is_said(study_file):
    study = db.open(study_file)
    assert study.kept(conditions.token("regex", "^(a+)+$"))["scored"].sum() == 0
    with pytest.raises(UserError, match="does not run: Invalid Input Error"):
        study.kept(conditions.token("regex", "(w"))


def test_ids_are_numbers_and_texts_have_an_end():
    with pytest.raises(UserError, match="^Token ids are whole numbers with commas between them, not '9, w'.$"):
        conditions.token("id", "9, w")
    with pytest.raises(UserError, match="at most 200 characters, not 201"):
        conditions.token("contains", "x" * 201)


def test_ends_left_open():
    assert conditions.between("position", None, None) is None
    assert conditions.between("position", 3, None) == "position >= 3"
    assert conditions.between("position", None, 5) == "position <= 5"
    assert conditions.all_of([None, "depth = 1", None, "position >= 3"]) == "depth = 1 and position >= 3"
    assert conditions.all_of([None]) is None


def test_without_text_only_ids_can_be_asked_for(app, long_file):
    page = app("pages/deciles.py", long_file)
    assert page.radio(key="match").options == [filters.MATCHES["id"]]


def test_without_a_reference_nothing_asks_for_difficulty(app, alone_file):
    keys = {box.key for box in app("pages/passage.py", alone_file).number_input}
    assert "position_from" in keys and not keys & {"loss_from", "entropy_to", "loss_decile_from"}


def test_checkpoints_of_the_filter_are_those_shown(app, study_file):
    page = app("pages/deciles.py", study_file, checkpoints="expert-4")
    assert list(page.dataframe[0].value) == ["decile", "n", "expert-4"]
    assert "Exploratory." in page.caption[0].value


def test_a_click_becomes_the_filter_a_link_restores_it_and_one_click_clears_it(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/deciles?view=share of each depth&checkpoint=expert-3", ready="svg.marks path[aria-roledescription=bar]")
    page.wait_for_function(SETTLED)
    page.locator("svg.marks path[aria-roledescription=bar]").first.click()
    page.wait_for_function("location.search.includes('loss_decile_from=')")
    page.wait_for_function(SETTLED)
    expect(page.locator(KEPT)).to_contain_text("decile of vanilla loss")
    expect(page.locator(KEPT)).to_contain_text("depth")
    told = page.locator(KEPT).inner_text()
    again = visit(page.url.split("?")[0] + page.evaluate("location.search"), ready=KEPT)
    again.wait_for_function(SETTLED)
    expect(again.locator(KEPT)).to_have_text(told)
    again.get_by_role("button", name="Clear the filter").click()
    again.get_by_text("All positions.").wait_for()
    again.wait_for_function("!location.search.includes('decile_from')")
