"""Tokens: lists and cards are those of plain SQL, and every occurrence leads to its passage."""

import shutil

import duckdb
import pandas as pd
import pytest
from playwright.sync_api import expect

from pages.parts import tokens
from tests.pages.studies import MARKUP, OTHERS
from tests.pages.test_shell import settled

PAGE = "pages/tokens.py"


@pytest.fixture
def by_sql(study_file, tmp_path):
    """Rows of a statement, by a client of its own on a copy of the file."""

    def ask(statement, *parameters):
        with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
            return con.execute(statement, parameters).fetchall()

    return ask


@pytest.mark.parametrize(("order", "column"), [("deepest", "mean_depth desc"), ("shallowest", "mean_depth"), ("most common", "n desc"), ("hardest", "loss desc")])
def test_the_list_says_what_plain_sql_says(app, study_file, by_sql, order, column):
    page = app(PAGE, study_file, checkpoint="expert-3", minimum="12", order=order)
    table = page.dataframe[0].value
    expected = by_sql(
        "select token_id, count(*) as n, avg(depth) as mean_depth, avg(vanilla_loss::double) as loss from observations "
        f"where checkpoint = 'expert-3' and next_token_id is not null group by token_id having n >= 12 order by {column}, token_id"
    )
    assert table["token_id"].tolist() == [row[0] for row in expected]
    assert table["n"].tolist() == [row[1] for row in expected]
    assert table["mean_depth"].tolist() == pytest.approx([row[2] for row in expected])
    assert table["mean_vanilla_loss"].tolist() == pytest.approx([row[3] for row in expected], abs=1e-6)


def test_a_filter_narrows_the_list_and_makes_it_say_so(app, study_file, by_sql):
    page = app(PAGE, study_file, checkpoint="expert-3", minimum="5", depths="1")
    expected = by_sql("select count(*) from observations where checkpoint = 'expert-3' and next_token_id is not null and depth = 1 group by token_id having count(*) >= 5")
    assert sorted(page.dataframe[0].value["n"]) == sorted(n for (n,) in expected)
    assert set(page.dataframe[0].value["mean_depth"]) == {1.0}


def test_a_search_keeps_tokens_that_hold_it_whatever_its_case(app, study_file):
    shown = app(PAGE, study_file, minimum="1", search="W1").dataframe[0].value["shown"]
    assert len(shown) > 5 and all("w1" in text for text in shown)


def test_a_card_spreads_one_token_over_its_depths(app, study_file, by_sql):
    page = app(PAGE, study_file, checkpoint="expert-3", token_id="9")
    rows = by_sql("select depth, count(*) from observations where checkpoint = 'expert-3' and next_token_id is not null and token_id = 9 group by depth order by depth")
    assert list(zip(page.dataframe[1].value["depth"], page.dataframe[1].value["n"])) == rows
    total = sum(n for _, n in rows)
    assert page.markdown[2].value.startswith(f"Of {total:,} occurrences of “␣w0”, {rows[0][1] / total:.0%} go to depth 1, ")


def test_a_card_of_a_token_outside_the_list_opens_from_its_link(app, study_file):
    page = app(PAGE, study_file, minimum="500", token_id="9")
    assert page.info[0].value.startswith("No token type fits: none occurs 500 times")
    assert page.selectbox(key="token_id").value == 9
    assert len(page.dataframe[0].value) > 0


def test_nothing_found_says_why_and_what_to_change(app, study_file):
    page = app(PAGE, study_file, search="no such token")
    assert page.info[0].value == "No token type fits: none occurs 1 times within the filter or holds what you search. Ask for fewer occurrences, or clear the search or the filter."
    assert not page.exception and not page.dataframe


def test_without_a_reference_lists_and_cards_do_without_a_loss(app, alone_file):
    page = app(PAGE, alone_file)
    assert not page.exception
    assert page.dataframe[0].value["mean_vanilla_loss"].isna().all()
    assert set(page.dataframe[1].value["mean vanilla loss, nats"]) == {"–"}


def test_without_a_router_the_page_says_so(app, vanilla_file):
    assert app(PAGE, vanilla_file).info[0].value == "No checkpoint in this file has a router, so no token has a depth of its own."


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_have_their_list_and_card(app, other_file, name):
    page = app(PAGE, other_file(name))
    assert not page.exception
    assert len(page.dataframe) == 3 and page.dataframe[0].value["n"].sum() > 0


def test_a_token_is_shown_with_its_spaces_and_line_ends():
    assert tokens.shown("  the", 5) == "␣␣the"
    assert tokens.shown(" ", 5) == "␣"
    assert tokens.shown("\n\t\r", 5) == "↵⇥␍"
    assert tokens.shown(None, 5) == "id 5"


def test_a_token_that_is_markup_stays_text_in_its_lines():
    row = {"depth": 1, "sequence": 0, "position": 4, "before": MARKUP[0], "token": MARKUP[1], "after": "&\n", "vanilla_loss": 1.0, "at_depth": 1}
    html = tokens.lines(tokens.with_links(pd.DataFrame([row]), "a'b", {}))
    assert "<script>document" not in html and "<img" not in html
    assert "&lt;img/src=x" in html and "&amp;↵" in html
    assert "href='passage?checkpoint=a%27b&amp;sequence=0&amp;position=4'" in html


def test_an_occurrence_opens_in_its_passage_and_the_link_shows_the_same_again(visit, serve, study_file):
    address = f"{serve(study_file)}/tokens?checkpoint=expert-3&token_id=9&each=2"
    page = settled(visit(address, ready=".occurrences a"))
    line = page.locator(".occurrences a").first
    told, text = line.get_attribute("title"), page.locator(".occurrences").inner_text()
    sequence, position = (int(part.split(" ")[1]) for part in told.split(", ")[:2])
    line.click()
    page.wait_for_selector(".card")
    page.wait_for_function("document.querySelector('h1').innerText === 'Which tokens go deep?'")
    expect(page.locator(".card")).to_contain_text(f"position {position} of sequence {sequence}")
    again = settled(visit(address, ready=".occurrences a"))
    expect(again.locator(".occurrences")).to_have_text(text, use_inner_text=True)


def test_a_point_of_the_scatter_opens_its_card(visit, serve, study_file):
    points = "[data-testid=stVegaLiteChart] .mark-symbol.role-mark path"
    page = settled(visit(f"{serve(study_file)}/tokens?checkpoint=expert-3&minimum=30&token_id=9", ready=points))
    point = f"[...document.querySelectorAll('{points}')].find(point => point.__data__.datum.token_id !== 9)"
    expected = page.evaluate(f"{point}.__data__.datum.token_id")
    page.evaluate(f"{point}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    page.wait_for_function(f"new URLSearchParams(location.search).get('token_id') === '{expected}'")


def test_a_row_of_the_list_opens_its_card_and_its_data_can_be_taken_away(visit, serve, study_file):
    page = settled(visit(f"{serve(study_file)}/tokens?checkpoint=expert-3&minimum=12&order=most+common", ready=".occurrences a"))
    table = page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 15, box["y"] + 35 * 3 + 17)  # the box before the third row
    page.wait_for_url("**token_id=*")
    settled(page)
    page.get_by_role("button", name="Take away").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Data as CSV").click()
    frame = pd.read_csv(download.value.path())
    chosen = int(page.url.split("token_id=")[1].split("&")[0])
    assert chosen == frame["token_id"][2]
    assert "=" not in str(frame["shown"].str[0].unique())
