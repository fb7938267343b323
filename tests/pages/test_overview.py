"""Overview: the answer for each checkpoint with its figures, the drawing of the routers, the facts of the file."""

import dataclasses

import pytest
from playwright.sync_api import expect

import db
from db.rules import THRESHOLDS
from pages.parts import exhibit, routers, words


def test_every_router_has_its_answer_in_one_line(app, study_file):
    page = app("pages/overview.py", study_file)
    answers = page.markdown[1].value.splitlines()
    assert [line.split(":")[0] for line in answers] == [f"- **{words.literal(name)}" for name in ("expert-2", "expert-3", "expert-4", "token-3")]


def test_the_answer_carries_the_figures_of_the_study(app, study_file):
    line = app("pages/overview.py", study_file).markdown[1].value.splitlines()[1]
    found = db.open(study_file).correlations("expert-3").set_index("measure").loc["spearman_loss"]
    assert f"ρ = {words.interval(found.value, found.low, found.high, 3)} with the vanilla loss" in line
    assert "random routing adds " in line


@pytest.mark.parametrize(("limit", "verdict"), [(-1.0, "yes, depth tracks difficulty"), (1.0, "no, depth does not track difficulty")])
def test_the_verdict_is_that_of_the_reading_rules(study_file, limit, verdict):
    checks = db.open(study_file).checks("expert-3")
    thresholds = {**THRESHOLDS, "spearman_loss": limit, "partial_spearman_loss": -1.0}
    assert words.verdict(checks, thresholds).startswith(f"**{words.literal('expert-3')}: {verdict}.**")


def test_a_routing_that_beats_the_router_is_no_proof_that_routing_does_not_matter(study_file):
    checks = db.open(study_file).checks("expert-3")
    added = checks.figures["routing_added_loss"]
    better = dataclasses.replace(added, value=added.value - 9, low=added.low - 9, high=added.high - 9)
    said = words.verdict(dataclasses.replace(checks, figures=checks.figures | {"routing_added_loss": better}), THRESHOLDS)
    assert "another choice of tokens does better here (random routing adds −" in said


def test_the_rules_stand_with_threshold_distance_and_origin(app, study_file):
    table = app("pages/overview.py", study_file).dataframe[0].value
    assert list(table) == ["checkpoint", "rule", "verdict", "figure", "value", "threshold", "distance", "n", "origin"]
    assert len(table) == 4 * 4
    assert set(table.loc[table["checkpoint"] == "token-3", "origin"]) == {"exploratory"}
    assert set(table.loc[table["checkpoint"] == "expert-3", "origin"]) == {"pre-set"}


def test_the_file_is_described(app, study_file):
    page = app("pages/overview.py", study_file)
    said = next(text.value for text in page.markdown if "scored positions" in text.value)
    assert said == (
        "**4 checkpoints** over **32 sequences** of up to 48 tokens from 40 documents of text.txt: "
        "1,504 scored positions for each. Difficulty is that of vanilla."
    )
    checkpoints, policies, facts = (found.value for found in page.dataframe[1:])
    assert list(checkpoints["checkpoint"]) == ["vanilla", "expert-2", "expert-3", "expert-4", "token-3"]
    assert set(policies.loc[policies["policy"] == "shuffled", "token-3"]) == {"✓"}
    assert dict(facts.to_numpy())["precision"] == "fp32"


def test_a_moved_threshold_is_marked_and_makes_its_rule_exploratory(app, study_file):
    page = app("pages/overview.py", study_file, lexical_r2="0.05")
    lines = page.markdown[1].value.splitlines()
    assert all("thresholds moved" in line and words.MEASURES["lexical_r2"] + " 0.05 in place of 0.5" in line for line in lines)
    table = page.dataframe[0].value.query("checkpoint == 'expert-3'").set_index("figure")
    assert table.loc[words.MEASURES["lexical_r2"], ["threshold", "origin"]].tolist() == ["0.050, moved", "exploratory"]
    assert table.loc[words.MEASURES["spearman_loss"], ["threshold", "origin"]].tolist() == ["0.200", "pre-set"]


def test_a_filter_changes_the_answer_to_that_of_the_rest(app, study_file):
    page = app("pages/overview.py", study_file, position_from="10")
    found = db.open(study_file).correlations("expert-3", "position >= 10").set_index("measure").loc["spearman_loss"]
    table = page.dataframe[0].value.query("checkpoint == 'expert-3'").set_index("figure")
    assert table.loc[words.MEASURES["spearman_loss"], "value"] == words.interval(found.value, found.low, found.high, 3)
    assert set(page.dataframe[0].value["origin"]) == {"exploratory"}


def test_a_filter_that_keeps_nothing_says_what_to_do(app, study_file):
    page = app("pages/overview.py", study_file, token="no such token")
    assert page.info[0].value == exhibit.FILTERED
    assert not page.exception


def test_published_numbers_are_compared_only_where_they_apply(app, study_file):
    said = [caption.value for caption in app("pages/overview.py", study_file).caption]
    assert "No comparison with published numbers: none of the file's checkpoints is one that numbers were published for." in said


def test_without_a_reference_nothing_is_decided(app, alone_file):
    page = app("pages/overview.py", alone_file)
    assert page.markdown[1].value.startswith(f"- **{words.literal('expert-3')}: undecided.** No correlation with difficulty can be had here.")
    assert any("It has no reference model, so nothing in it has a difficulty." in text.value for text in page.markdown)


def test_without_a_router_there_is_nothing_to_answer(app, vanilla_file):
    assert app("pages/overview.py", vanilla_file).info[0].value == "No checkpoint in this file has a router, so no token has a depth of its own."


def test_the_drawing_obeys_the_rules_it_explains():
    kept = [[depth >= recursion for depth in routers.EXPERT] for recursion in (1, 2, 3)]
    assert [sum(row) for row in kept] == [9, 6, 3]  # capacities 1, 2/3 and 1/3 of nine tokens
    assert len(routers.TOKENS) == len(routers.EXPERT) == len(routers.TOKEN) == 9


def test_the_drawing_is_a_table_that_can_be_read_aloud(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/overview", ready=".routers table")
    expect(page.locator(".routers table")).to_have_count(2)
    expect(page.locator(".expert [aria-label=processed]")).to_have_count(sum(routers.EXPERT))


def test_signs_in_names_stay_signs():
    escaped = words.literal("a*b_c [d](e) :red[f] $g$ <h> &amp;")
    assert escaped == r"a\*b\_c \[d\](e) \:red\[f\] \$g\$ \<h\> \&amp;"
    assert words.plain(f"**{escaped}**") == "a*b_c [d](e) :red[f] $g$ <h> &amp;"
