"""About: the dictionary is the file's own, the check runs when it is asked for and names what it finds, the citation identifies the file."""

import hashlib
import json
import os
import shutil

import duckdb
import pytest
from playwright.sync_api import expect

import db
from pages.parts import about, dictionary
from pages.parts.words import literal
from precompute.command import main

WHOLE = "The file keeps its contract, and nothing in it was altered after it was written."


@pytest.fixture
def altered_file(study_file, tmp_path):
    """A copy in which somebody has changed one depth."""
    path = shutil.copy(study_file, tmp_path / "altered.duckdb")
    with duckdb.connect(str(path)) as con:
        con.execute("update observations set depth = 1 where checkpoint = 'expert-3' and sequence = 7 and depth = 3")
    return path


def checked(app, path):
    """The page once the check that was asked for has ended."""
    page = app("pages/about.py", path)
    page = next(button for button in page.button if button.label == "Check the file").click().run()
    while any(button.key == "stop" for button in page.button):
        page.run()
    assert not page.exception
    return page


def test_every_column_stands_there_with_its_comment(app, study_file, tmp_path):
    page = app("pages/about.py", study_file)
    assert not page.exception
    said = next(text.value for text in page.markdown if "##### tokens" in text.value)
    with duckdb.connect(shutil.copy(study_file, tmp_path / "copy.duckdb"), read_only=True) as con:
        columns = con.execute("select column_name, comment from duckdb_columns() where not internal").fetchall()
    assert [column for column, comment in columns if f"- `{column}`" not in said or literal(comment) not in said] == []


def test_the_dictionary_finds_words_and_keeps_the_table_they_stand_in(study_file):
    found = dictionary.entries(db.open(study_file).dictionary, "PROBABILITY candidate")
    assert set(found["table_name"]) == {"tokens", "observations"}
    assert list(found["table_name"])[0] == "tokens"
    assert list(found["column_name"])[:3] == ["", "probability_1", "probability_2"]


def test_nothing_found_is_said(app, study_file):
    page = app("pages/about.py", study_file, find="[unheard] of")
    assert page.info[0].value == f"No table, column or meaning holds “{literal('[unheard] of')}”. Try another word, or clear the field."


def test_the_check_waits_until_it_is_asked_for(app, study_file):
    page = app("pages/about.py", study_file)
    assert not page.success and not page.error
    assert any(button.label == "Check the file" for button in page.button)


def test_a_whole_file_passes(app, study_file):
    page = checked(app, study_file)
    assert page.success[0].value == WHOLE
    assert any(button.label == "Check it again" for button in page.button)


def test_an_altered_value_is_named_by_its_place(app, altered_file):
    page = checked(app, altered_file)
    assert not page.success
    assert page.error[0].value.startswith(literal("table observations, checkpoint expert-3, sequence 7"))


def test_a_file_that_was_replaced_has_not_been_checked(app, study_file, alone_file, tmp_path):
    path = shutil.copy(study_file, tmp_path / "study.duckdb")
    page = checked(app, path)
    os.replace(shutil.copy(alone_file, tmp_path / "new.duckdb"), path)
    assert not page.run().success


def test_the_citation_tells_the_file_from_any_other(app, study_file):
    said = [code.value for code in app("pages/about.py", study_file).code]
    assert f"file: SHA-256 {hashlib.sha256(study_file.read_bytes()).hexdigest()}" in said[0].splitlines()
    assert "32 sequences, 1,504 scored positions" in said[0]
    assert [line.split(":")[0] for line in said[0].splitlines()[4:]] == ["vanilla", "expert-2", "expert-3", "expert-4", "token-3"]
    assert said[1] == about.PAPER and "arXiv:2507.10524" in said[1]


def test_the_configuration_of_the_run_is_shown_whole(app, study_file):
    page = app("pages/about.py", study_file)
    assert json.loads(page.json[0].value) == json.loads(db.open(study_file).meta["configuration"])
    assert dict(page.dataframe[0].value.to_numpy())["precision"] == "fp32"


@pytest.mark.parametrize("name", ["alone", "vanilla", "long"])
def test_a_file_without_reference_router_or_text_has_its_page_too(app, request, name):
    page = app("pages/about.py", request.getfixturevalue(f"{name}_file"))
    assert not page.exception and len(page.code) == 2


def test_a_file_that_says_little_of_its_making_has_its_page_too(app, tmp_path):
    path = tmp_path / "planted.duckdb"
    arguments = "--sequences 10 --length 32 --checkpoints 1 --truth noise --output".split()
    assert main(["plant", *arguments, str(path)]) == 0
    page = app("pages/about.py", path)
    assert not page.exception and not page.json
    assert "weights SHA-256 unknown" in page.code[0].value


def test_a_check_runs_in_the_browser_and_a_link_keeps_the_search(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/about?find=margin")
    expect(page.get_by_label("Find a column")).to_have_value("margin")
    page.get_by_role("button", name="Check the file").click()
    page.get_by_text(WHOLE).wait_for()
