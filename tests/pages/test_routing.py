"""Routing: added losses are those of plain SQL, and what is said of the gate follows from intervals."""

import shutil

import duckdb
import pandas as pd
import pytest
from playwright.sync_api import expect

from pages.parts import routing
from tests import small_file
from tests.pages.studies import OTHERS
from tests.pages.test_shell import settled

PAGE = "pages/routing.py"
VIEWS = ("added loss", "the gate", "by depth or decile", "the router")
CHART = "[data-testid=stVegaLiteChart] svg.marks"


@pytest.fixture
def by_sql(study_file, tmp_path):
    """An expression over expert-3's scored observations, by a client of its own on a copy of the file; a row a group."""

    def ask(expression, condition="true", group="checkpoint"):
        query = f"select {expression} from observations where checkpoint = 'expert-3' and next_token_id is not null and {condition} group by {group} order by {group}"
        with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
            return [value for (value,) in con.execute(query).fetchall()]

    return ask


def value(cell):
    return float(cell.split(" ")[0].replace("−", "-"))


def small(tmp_path, **content):
    return small_file.write(tmp_path / "small.duckdb", small_file.Content(**content))


def difference(policy, baseline="router"):
    return f"avg(loss_{policy}::double) - avg(loss_{baseline}::double)"


@pytest.mark.parametrize(("query", "condition"), [({}, "true"), ({"depths": "3", "position_from": "9"}, "depth = 3 and position >= 9")])
def test_added_losses_and_gate_effects_are_plain_differences(app, study_file, by_sql, query, condition):
    table = app(PAGE, study_file, checkpoint="expert-3", **query).dataframe[0].value.set_index(["policy", "gate"])
    trained, opened = table.loc["random", "gate as trained"], table.loc["random", "gate held open"]
    assert value(trained["added loss, nats"]) == pytest.approx(by_sql(difference("random"), condition)[0], abs=6e-5)
    assert value(opened["added loss, nats"]) == pytest.approx(by_sql(difference("random_open", "router_open"), condition)[0], abs=6e-5)
    effect = by_sql(f"({difference('random_open', 'router_open')}) - ({difference('random')})", condition)[0]
    assert value(trained["gate effect, nats"]) == pytest.approx(effect, abs=6e-5)
    replayed = table.loc["router's depths again", "gate held open"]
    assert value(replayed["added loss, nats"]) == pytest.approx(by_sql(difference("router_depths_open"), condition)[0], abs=6e-5)
    assert trained["n"] == by_sql("count(*)", condition)[0]


def test_block_share_is_what_was_executed_at_every_position(app, study_file, tmp_path):
    table = app(PAGE, study_file, checkpoint="expert-3").dataframe[0].value.set_index(["policy", "gate"])
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        share = con.execute("select avg(depth) / 3 from observations where checkpoint = 'expert-3'").fetchone()[0]
    assert value(table.loc["router, as trained", "gate as trained"]["block share"]) == pytest.approx(share, abs=0.0006)
    assert value(table.loc["depth 3 everywhere", "gate as trained"]["block share"]) == 1


@pytest.mark.parametrize(("by", "column"), [("depth", "depth"), ("vanilla loss", "loss_decile"), ("vanilla entropy", "entropy_decile")])
def test_where_it_costs_is_told_by_depth_and_decile_for_both_gates(app, study_file, by_sql, by, column):
    table = app(PAGE, study_file, checkpoint="expert-3", routing="by depth or decile", where=by).dataframe[0].value
    assert [value(cell) for cell in table["random"]] == pytest.approx(by_sql(difference("random"), group=column), abs=6e-5)
    assert [value(cell) for cell in table["inverted, open"]] == pytest.approx(by_sql(difference("inverted_open", "router_open"), group=column), abs=6e-5)
    assert table["n"].tolist() == by_sql("count(*)", group=column)


@pytest.mark.parametrize("quantity", ["probability", "margin"])
def test_kept_and_dropped_tokens_have_their_own_means(app, study_file, by_sql, tmp_path, quantity):
    table = app(PAGE, study_file, checkpoint="expert-3", routing="the router", of_router=quantity).dataframe[0].value.set_index(["recursion", "tokens"])
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        expected = con.execute(
            f"select depth >= 2, avg({quantity}_2::double), count({quantity}_2) from observations where checkpoint = 'expert-3' and {quantity}_2 is not null group by 1 order by 1"
        ).fetchall()
        ties = con.execute("select sum(ties_2) from sequence_stats where checkpoint = 'expert-3'").fetchone()[0]
    for (_, mean, n), name in zip(expected, ("dropped", "kept")):
        assert value(table.loc[(2, name), "mean"]) == pytest.approx(mean, abs=6e-5)
        assert table.loc[(2, name), "n"] == n
    assert table.loc[(2, "kept"), "ties"] == f"{ties:,}"


def test_token_choice_tells_chosen_from_other_depths_and_shuffles(app, study_file):
    page = app(PAGE, study_file, checkpoint="token-3")
    assert page.markdown[1].value.startswith("Shuffled routing ")
    assert page.caption[0].value.endswith("Exploratory.")
    table = app(PAGE, study_file, checkpoint="token-3", routing="the router").dataframe[0].value
    assert set(table["tokens"]) == {"chosen depth", "other depths"}


def row(**figures):
    """A row of Study.swaps with its intervals: each figure is (value, low, high)."""
    cells = {"policy": "random", "swap": "random"}
    for name, figure in figures.items():
        if isinstance(figure, str):
            cells[name] = figure
        else:
            cells |= dict(zip((name, f"{name}_low", f"{name}_high"), figure))
    return pd.Series(cells)


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ((0.02, 0.01, 0.03), "It **hurts**: +0.0200 nats \\[+0.0100, +0.0300\\]."),
        ((-0.02, -0.03, -0.01), "It **helps**: −0.0200 nats \\[−0.0300, −0.0100\\]."),
        ((0.02, -0.01, 0.05), "It makes **no clear difference**: +0.0200 nats \\[−0.0100, +0.0500\\], an interval that holds zero."),
        ((0.02, None, None), "It adds +0.0200 nats, with too few sequences for an interval."),
    ],
)
def test_what_a_swap_costs_is_said_only_as_far_as_its_interval_goes(figure, said):
    assert routing.cost(row(added_loss=figure), "It") == said


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ((0.03, 0.02, 0.04), "the trained gate **softens** it. With gates held open it adds more loss"),
        ((-0.03, -0.04, -0.02), "the trained gate **worsens** it. With gates held open it adds less loss"),
        ((0.03, -0.02, 0.08), "**no clear effect** of the gate"),
        ((0.03, None, None), "with too few sequences for an interval"),
    ],
)
def test_what_the_gate_does_is_said_only_as_far_as_its_interval_goes(figure, said):
    assert said in routing.gate_effect(row(gate_effect=figure))


@pytest.mark.parametrize(
    ("added", "effect", "said"),
    [
        ((0.08, 0.07, 0.09), (-0.04, -0.05, -0.03), "So **50%** of what it costs is the gate's doing."),
        ((0.08, 0.07, 0.09), (-0.1, -0.12, -0.08), "So all of what it costs is the gate's doing."),
        ((0.08, 0.07, 0.09), (0.03, 0.02, 0.04), "So it is **not the gate's doing**: the gate hides +0.0300 nats more."),
        ((0.08, 0.07, 0.09), (0.01, -0.01, 0.03), "So it is **not the gate's doing**."),
        ((0.08, -0.07, 0.09), (0.03, 0.02, 0.04), ""),
        ((0.08, 0.07, 0.09), (0.03, None, None), ""),
    ],
)
def test_whether_a_cost_is_the_gates_doing(added, effect, said):
    assert routing.gate_part(row(added_loss=added, gate_effect=effect)) == said


def test_the_replay_is_told_apart_from_swaps():
    said = routing.gate_effect(row(policy="router_depths_open", gate_effect=(0.004, 0.003, 0.005)))
    assert said == "Opening the gate on the very tokens that the router chose costs loss: gate effect +0.0040 nats \\[+0.0030, +0.0050\\]."


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_have_every_view(app, other_file, name):
    for view in VIEWS:
        page = app(PAGE, other_file(name), routing=view)
        assert not page.exception
        assert len(page.dataframe) == 1 and len(page.dataframe[0].value) > 0


def test_where_only_the_router_ran_there_is_nothing_to_compare(app, tmp_path):
    path = small(tmp_path, kinds={"expert-2": ("expert", 2)}, without=("random", "inverted", "depth_1", "depth_2", "router_depths"))
    assert app(PAGE, path).info[0].value == "No other routing was run for expert-2, so there is nothing to compare with its router."
    assert len(app(PAGE, path, routing="the router").dataframe) == 1


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_filter_says_so(app, study_file, view):
    page = app(PAGE, study_file, routing=view, sequence_from="900")
    assert not page.exception
    assert page.info[0].value == "Nothing to show: no position passes the filter. Widen it, or clear it, in the sidebar."


def test_without_a_router_the_page_says_so(app, vanilla_file):
    assert app(PAGE, vanilla_file).info[0].value == "No checkpoint in this file has a router, so no token has a depth of its own."


def test_views_follow_each_other_in_the_browser_and_the_link_shows_the_same_again(visit, serve, study_file, by_sql):
    page = settled(visit(f"{serve(study_file)}/routing?checkpoint=expert-3&depths=3", ready=CHART))
    expected = by_sql(difference("random"), "depth = 3")[0]
    expect(page.locator("[data-testid=stMain]")).to_contain_text(f"{expected:+.4f} nats".replace("-", "−"))
    page.get_by_role("radio", name="by depth or decile").click()
    page.wait_for_url("**routing=by**")
    page.wait_for_function(f"document.querySelectorAll('{CHART}').length === 2")
    page.get_by_role("button", name="Take away").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Data as CSV").click()
    assert set(pd.read_csv(download.value.path())["depth"]) == {1, 2, 3} - {1, 2}
    again = settled(visit(page.url, ready=CHART))
    again.wait_for_function(f"document.querySelectorAll('{CHART}').length === 2")
