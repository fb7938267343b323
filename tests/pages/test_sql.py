"""SQL: a reader's own query is answered as plain DuckDB answers it, is refused in plain words, and can be stopped."""

import datetime
import hashlib
import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from db.connection import CONFIGURATION
from db.query import examples
from pages.parts import exhibit, plot, sql
from pages.parts.words import literal

ENDLESS = "select count(*) from range(100000) a, range(10000000) b where a.range < b.range"
DEPTHS = "select checkpoint, depth, count(*) as n from observations where depth is not null group by checkpoint, depth order by checkpoint, depth"


def plainly(path, statement):
    """The rows by a plain connection of this process, which may not be configured otherwise than those it has."""
    with duckdb.connect(str(path), read_only=True, config=CONFIGURATION) as con:
        return con.execute(statement).fetchall()


def answered(page):
    """The page once its query has ended."""
    while any(button.key == "stop" for button in page.button):
        page.run()
    assert not page.exception
    return page


def ask(app, path, statement, **query):
    return answered(app("pages/sql.py", path, query=statement, **query))


def rows(table):
    return [tuple(row) for row in table.itertuples(index=False)]


def texts(page):
    """Everything the page says."""
    kinds = (page.markdown, page.caption, page.error, page.info, page.code, page.text_area)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def test_without_a_query_the_page_offers_questions_and_states_its_limits(app, study_file):
    page = app("pages/sql.py", study_file)
    assert not page.exception and not page.dataframe and not page.error
    assert [button.label for button in page.button if button.key and button.key.startswith("example_")] == [example.row for example in examples()]
    assert page.caption[0].value == (
        "One SELECT or EXPLAIN over this file and nothing else, in a process of its own: at most 30 seconds, 2 GB of memory, the first 10,000 rows and 64 MB of them."
    )


def test_a_link_is_answered_as_plain_sql_answers_it(app, study_file):
    page = ask(app, study_file, DEPTHS)
    assert rows(page.dataframe[0].value) == plainly(study_file, DEPTHS)
    assert page.caption[1].value.startswith("12 rows in ") and page.caption[1].value.endswith(" s. Exploratory.")


def test_what_is_run_in_the_editor_is_answered(app, study_file):
    page = app("pages/sql.py", study_file)
    page.text_area(key="query").set_value("select 6 * 7 as answer")
    run = next(button for button in page.button if button.label == "Run")
    assert rows(answered(run.click().run()).dataframe[0].value) == [(42,)]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_example_runs_on_every_kind_of_file(example, study_file, alone_file, vanilla_file):
    assert example.row.endswith("?")
    assert plainly(study_file, example.sql)
    for path in (alone_file, vanilla_file):
        plainly(path, example.sql)


def test_an_example_answers_at_one_click_and_moves_the_last_query_into_the_history(app, study_file):
    page = ask(app, study_file, DEPTHS)
    page = answered(page.button(key="example_depth_by_decile").click().run())
    example = next(example for example in examples() if example.name == "depth_by_decile")
    assert page.text_area(key="query").value == example.sql
    assert rows(page.dataframe[0].value) == plainly(study_file, example.sql)
    assert page.button(key="history_0").label.startswith("12 rows in ")
    assert rows(answered(page.button(key="history_0").click().run()).dataframe[0].value) == plainly(study_file, DEPTHS)


@pytest.mark.parametrize(
    "statement, said",
    [
        ("selct 1", 'Parser Error: syntax error at or near "selct"'),
        ("select * from nothing", "Catalog Error: Table with name nothing does not exist!"),
        ("select dept from observations", 'Binder Error: Referenced column "dept" not found in FROM clause!'),
        ("select depth::date from observations", "Conversion Error: Unimplemented type for cast (UTINYINT -> DATE)"),
        ("drop table meta", "Only SELECT and EXPLAIN run here, not DROP."),
        ("select 1; select 2", "One statement at a time, not 2."),
        ("select * from read_csv('/etc/passwd')", "Permission Error: "),
    ],
)
def test_what_does_not_run_is_said_in_duckdbs_words(app, study_file, statement, said):
    page = ask(app, study_file, statement)
    assert page.error[0].value.startswith(literal(said))
    assert not page.dataframe


def test_an_error_points_at_its_place(app, study_file):
    assert ask(app, study_file, "selct 1").code[0].value == "LINE 1: selct 1\n        ^^^^^"


def test_the_folder_of_the_file_is_nowhere_on_the_page(app, study_file):
    page = ask(app, study_file, "select path from duckdb_databases() where path is not null")
    assert rows(page.dataframe[0].value) == [("study.duckdb",)]
    page = ask(app, study_file, f"select * from '{study_file.parent}/other.csv'")
    said = [element for element in texts(page).splitlines() if str(study_file.parent) in element and "other.csv" not in element]
    assert page.error and not said


def test_more_rows_than_are_given_is_said(app, study_file):
    page = ask(app, study_file, "select range from range(20000)")
    assert page.caption[1].value.startswith("Only the first 10,000 rows in ")
    assert "; narrow the query to see all." in page.caption[1].value
    assert len(page.dataframe[0].value) == 10_000


def test_a_browser_is_not_sent_more_than_it_can_hold():
    table = pa.table({"text": ["x" * 1_000_000] * 20})
    assert sql.shown(table).num_rows == 8
    assert sql.shown(pa.table({"text": ["x"] * 20})).num_rows == 20


def test_no_row_is_an_answer_with_advice(app, study_file):
    page = ask(app, study_file, "select token from tokens where depth = 200")
    assert page.info[0].value.startswith("No row answers this query. Loosen its conditions")
    assert not page.dataframe


def test_a_plan_is_shown_as_it_is_drawn(app, study_file):
    assert "│ Projections: depth" in ask(app, study_file, "explain select depth from observations").code[0].value


def test_every_kind_of_value_can_be_shown_and_taken_away(app, study_file):
    page = ask(app, study_file, "select 1 as a, 2 as a, [1, 2] as l, {'x': 1} as s, 'a'::blob as b, 1.5::decimal(9, 2) as d, null as n, date '2020-01-01' as t")
    assert list(page.dataframe[0].value)[:2] == ["a", "a_1"]


def test_csv_is_harmless_in_a_spreadsheet_and_whole_numbers_stay_whole():
    table = pa.table({"formula": ["=1+1", "plain"], "n": pa.array([1, None], pa.int64()), "d": [Decimal("1.50"), None]})
    assert exhibit.csv(sql.frame(table)).decode("utf-8-sig") == "formula,n,d\r\n'=1+1,1,1.50\r\nplain,,\r\n"


def test_parquet_keeps_rows_and_types():
    table = pa.table({"depth": pa.array([1, 2], pa.uint8()), "list": [[1], []]})
    assert pq.read_table(pa.BufferReader(sql.parquet(table))).equals(table)


# --- the quick chart ---------------------------------------------------------------------------


def test_numbers_go_up_and_whatever_has_an_order_goes_across():
    table = pa.table({"a": [1], "t": ["x"], "l": [[1]], "d": [datetime.date(2020, 1, 1)], "f": [0.5]})
    assert plot.columns(table) == (["a", "f"], ["a", "t", "d", "f"])


def test_a_chart_takes_any_column_name_as_it_stands():
    table = pa.table({"x.y[0]:Q": ["b", "a"], "mean depth": [Decimal("1.5"), Decimal("2")]})
    data = plot.frame(table, "x.y[0]:Q", "mean depth", None)
    drawn = plot.plot(data, "bars", "x.y[0]:Q", "mean depth", None).to_dict()
    assert data.to_dict("list") == {"x": ["b", "a"], "y": [1.5, 2.0]}
    assert (drawn["mark"]["type"], drawn["encoding"]["x"]["title"], drawn["encoding"]["x"]["type"]) == ("bar", "x.y[0]:Q", "nominal")
    assert drawn["encoding"]["y"] == {"field": "y", "title": "mean depth", "type": "quantitative"}


def test_few_numbers_are_bars_side_by_side_and_many_are_a_scale():
    few, many = pd.DataFrame({"x": range(10), "y": range(10)}), pd.DataFrame({"x": range(100), "y": range(100)})
    kinds = [plot.plot(data, mark, "x", "y", None).to_dict()["encoding"]["x"]["type"] for data in (few, many) for mark in ("bars", "lines")]
    assert kinds == ["ordinal", "quantitative", "quantitative", "quantitative"]


def test_coloured_bars_stand_side_by_side():
    data = pd.DataFrame({"x": [1, 1], "y": [2, 3], "colour": ["a", "b"]})
    encoding = plot.plot(data, "bars", "x", "y", "who").to_dict()["encoding"]
    assert encoding["color"]["title"] == "who" and encoding["xOffset"]["field"] == "colour"


# --- in a browser ------------------------------------------------------------------------------


def test_a_link_shows_rows_and_chart_in_a_fresh_browser_and_the_files_open(visit, serve, study_file, tmp_path):
    page = visit(f"{serve(study_file)}/sql?chart=bars&y=n&x=depth&by=checkpoint&query={DEPTHS.replace(' ', '+')}", ready="[data-testid=stVegaLiteChart]")
    page.get_by_test_id("stVegaLiteChart").scroll_into_view_if_needed()
    page.wait_for_selector("[data-testid=stVegaLiteChart] svg")
    expect(page.locator("textarea")).to_have_value(DEPTHS)
    page.get_by_label("Bars: n by depth, coloured by checkpoint, 12 rows.").first.wait_for(state="attached")
    with page.expect_download() as csv:
        page.get_by_role("button", name="CSV", exact=True).click()
    with page.expect_download() as parquet:
        page.get_by_role("button", name="Parquet").click()
    with page.expect_download() as svg:
        page.get_by_role("button", name="Figure as SVG").click()
    assert hashlib.sha256(study_file.read_bytes()).hexdigest() in "".join(Path(svg.value.path()).read_text().split())
    parquet.value.save_as(tmp_path / "query.parquet")
    assert rows(pd.read_csv(csv.value.path())) == plainly(study_file, DEPTHS)
    assert [tuple(row.values()) for row in pq.read_table(tmp_path / "query.parquet").to_pylist()] == plainly(study_file, DEPTHS)


def test_stop_ends_a_query_and_the_next_one_is_answered(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/sql", ready="textarea")
    page.fill("textarea", ENDLESS)
    page.keyboard.press("Control+Enter")
    page.get_by_text("of at most 30 s").wait_for()
    page.get_by_role("button", name="Stop").last.click()
    page.get_by_text("The query was stopped.").first.wait_for()
    page.fill("textarea", "select 42 as answer")
    page.keyboard.press("Control+Enter")
    page.get_by_text("1 row in").wait_for()
    page.wait_for_url("**/sql?query=select+42+as+answer")


def test_a_query_whose_page_is_left_is_stopped_and_still_stands_there(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/sql?query={ENDLESS.replace(' ', '+').replace('<', '%3C')}", ready="[data-testid=stProgress]")
    page.get_by_test_id("stSidebarNavLink").get_by_text("Passage").click()
    page.wait_for_selector(".token")
    page.get_by_test_id("stSidebarNavLink").get_by_text("SQL").click()
    page.get_by_text("The query was stopped.").first.wait_for()
    expect(page.locator("textarea")).to_have_value(ENDLESS)


def test_text_of_the_file_and_of_errors_is_never_markup(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/sql?query=select+'<b>**x**</b>'::int", ready="[data-testid=stAlert]")
    expect(page.get_by_test_id("stAlert")).to_contain_text("<b>**x**</b>")
    assert page.get_by_test_id("stAlert").locator("b, strong").count() == 0


def test_the_sql_behind_a_figure_opens_here_and_replaces_what_stood_here(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/sql?query=select+42+as+answer", ready="[data-testid=stDataFrame]")
    page.get_by_test_id("stSidebarNavLink").get_by_text("Deciles").click()
    page.get_by_role("button", name="Take away").first.click()
    page.get_by_role("link", name="Open on the SQL page").first.click()
    page.get_by_text("rows in").first.wait_for()
    expect(page.locator("textarea")).to_have_value(re.compile("^with"))
    page.wait_for_url("**query=with*")
