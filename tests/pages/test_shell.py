"""What all pages share: the window, the choice of a file, and what stands there without one."""

import json
import os
import shutil

import pytest
from playwright.sync_api import expect

from pages.parts import shell
from pages.parts.words import literal
from precompute.recipe import LENGTH

TITLES = {
    "overview": "Is depth spent on difficult tokens?", "passage": "Which tokens go deep?", "deciles": "Do harder tokens go deeper?",
    "tokens": "Which words go deep?", "lexical": "Is depth decided by the token alone?", "routing": "Does it matter which tokens go deep?",
    "sql": "What else does the file say?", "about": "What is in this file, and can it be trusted?",
}  # fmt: skip
SETTLED = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"


def settled(page):
    page.wait_for_function(SETTLED)
    return page


@pytest.mark.parametrize("name", TITLES)
def test_a_page_runs_alone_and_through_app(app, study_file, name):
    alone = app(f"pages/{name}.py", study_file)
    through = app("app.py", study_file)
    through.switch_page(f"pages/{name}.py").run()
    for page in (alone, through, alone.run(), through.run()):
        assert not page.exception
        assert page.title[0].value == TITLES[name]
        assert page.sidebar.selectbox[0].label == "File"


@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits_both_widths_and_complains_of_nothing(visit, serve, study_file, dark):
    page = settled(visit(f"{serve(study_file)}/about", dark=dark))
    for name, title in TITLES.items():
        page.locator(f'[data-testid=stSidebarNavLink][href$="/{name}"]').click()
        expect(page.locator("h1")).to_have_text(title)
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            settled(page).wait_for_function(f"document.querySelector('[data-testid=stMain]').scrollWidth <= {width}")
            assert page.get_by_test_id("stException").count() == 0


def test_the_first_link_into_a_fresh_server_finds_its_page(visit, start, study_file):
    page = settled(visit(start("--db", str(study_file)) + "/passage?position=7", ready=".token"))
    expect(page.get_by_test_id("stSidebarNavLink")).to_have_count(len(shell.NAMES))
    assert page.locator("[role=dialog]").count() == 0
    expect(page.locator(".card")).to_contain_text("position 7 of")


def test_the_bare_address_leads_to_the_overview_and_keeps_its_query(visit, serve, study_file):
    page = visit(f"{serve(study_file)}/?checkpoint=expert-4")
    page.wait_for_url("**/overview?checkpoint=expert-4")


def test_a_checkpoint_stays_chosen_from_page_to_page(visit, serve, study_file):
    page = settled(visit(f"{serve(study_file)}/passage?checkpoint=expert-4", ready=".token"))
    page.get_by_test_id("stSidebarNavLink").get_by_text("Deciles").click()
    page.wait_for_url("**/deciles?checkpoint=expert-4")


def test_a_missing_file_is_one_sentence(app, tmp_path):
    page = app("pages/overview.py", tmp_path / "none.duckdb")
    assert not page.exception
    assert page.error[0].value.startswith(literal(f"No database at {tmp_path / 'none.duckdb'}. Build one:"))


def test_a_file_of_something_else_is_one_sentence(app, tmp_path):
    (tmp_path / "notes.duckdb").write_text("not a database")
    page = app("pages/passage.py", tmp_path / "notes.duckdb")
    assert not page.exception
    assert page.error[0].value.startswith(literal(f"{tmp_path / 'notes.duckdb'} cannot be opened:"))


def test_a_rebuilt_file_is_seen_without_a_restart(app, alone_file, study_file, tmp_path):
    path = tmp_path / "study.duckdb"
    shutil.copy(alone_file, path)
    page = app("pages/passage.py", path)
    assert page.selectbox(key="checkpoint").options == ["expert-3"]
    shutil.copy(study_file, tmp_path / "new")
    os.replace(tmp_path / "new", path)
    assert page.run().selectbox(key="checkpoint").options == ["expert-2", "expert-3", "expert-4", "token-3"]
    assert not page.exception


def test_files_in_db_can_be_chosen_and_linked_the_newest_first(visit, start, tree, alone_file, study_file):
    shutil.copy(alone_file, tree / "db" / "alone.duckdb")
    shutil.copy(study_file, tree / "db" / "study.duckdb")
    os.utime(tree / "db" / "alone.duckdb", (1, 1))
    address = start(root=tree)
    page = settled(visit(f"{address}/passage", ready=".token"))
    box = page.get_by_test_id("stSidebarContent").get_by_test_id("stSelectbox")
    expect(box.locator("input")).to_have_value("study")
    box.click()
    expect(page.get_by_role("option")).to_have_text(["study", "alone"])
    page.get_by_role("option", name="alone").click()
    page.wait_for_url("**/passage?file=alone")
    again = settled(visit(f"{address}/passage?file=alone&quantity=loss", ready="[data-testid=stAlert]"))
    expect(again.get_by_test_id("stAlert")).to_contain_text("no reference model")


def test_without_a_file_the_app_explains_itself_builds_the_demo_and_opens_it(visit, start, tree):
    facts = tree / "precompute" / "suite" / "baselines.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "predictions": 4 * (LENGTH - 1)}))
    address = start(root=tree)
    page = settled(visit(f"{address}/passage"))
    expect(page.locator("[data-testid=stMain]")).to_contain_text("There is no such file in the folder db yet.")
    page.get_by_role("button", name="Build the demo").click()
    page.get_by_test_id("stProgress").wait_for()
    page.get_by_text("building the file").wait_for(timeout=120_000)
    page.wait_for_selector(".token", timeout=60_000)
    expect(page.locator("h1")).to_have_text(TITLES["passage"])
    assert (tree / "db" / "demo.duckdb").exists()


def test_a_demo_that_cannot_be_built_says_why_and_is_offered_again(visit, start, tree):
    (tree / "precompute" / "__main__.py").unlink()
    page = settled(visit(start(root=tree)))
    page.get_by_role("button", name="Build the demo").click()
    page.get_by_test_id("stAlert").wait_for()
    expect(page.get_by_test_id("stAlert")).to_contain_text("No module named precompute.__main__")
    expect(page.get_by_role("button", name="Build the demo")).to_be_visible()
