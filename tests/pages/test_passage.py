"""Passage: what is written in the file is what the reader sees, by eye, by pointer and by keyboard."""

import pytest
from playwright.sync_api import expect

import db
from tests.pages.conftest import opened
from tests.pages.studies import LENGTH, MARKUP

CARD = ".card"
INSIDE = "[data-testid=stBidiComponentIsolated]"


def token(page, index):
    return page.locator(f'.token[data-index="{index}"]')


def holds_focus(page, index):
    """The token with this data-index has the focus; None: no token has it."""
    due = "null" if index is None else f"'{index}'"
    page.wait_for_function(f"(document.querySelector('{INSIDE}').shadowRoot.activeElement?.dataset.index ?? null) === {due}")


def stands_at(page, index):
    """The chosen token is this one."""
    expect(page.locator('.token[aria-selected="true"]')).to_have_attribute("data-index", str(index))


def says(page, text):
    """The card holds this text."""
    expect(page.locator(CARD)).to_contain_text(text)


@pytest.fixture(scope="module")
def first(window, serve, study_file):
    """The page as it opens, for tests that leave its view as it is."""
    with opened(window, serve(study_file) + "/passage", ready=".token") as page:
        yield page


def test_it_opens_on_sequence_0_of_expert_3(app, study_file):
    page = app("pages/passage.py", study_file)
    assert not page.exception
    assert page.selectbox(key="checkpoint").value == "expert-3"
    assert page.number_input(key="sequence").value == 0


def test_a_second_run_and_the_way_through_app_show_the_same(app, study_file):
    through = app("app.py", study_file)
    through.switch_page("pages/passage.py").run()
    alone = app("pages/passage.py", study_file)
    alone.run()
    for page in (through, alone):
        assert not page.exception
        assert [box.label for box in page.selectbox] == ["Checkpoint", "File"]


@pytest.mark.parametrize("quantity", ["depth", "loss", "entropy", "benefit", "probability"])
def test_every_quantity_is_said_in_words(app, study_file, quantity):
    page = app("pages/passage.py", study_file, quantity=quantity)
    assert not page.exception
    assert page.caption[0].value.startswith(quantity.capitalize())


@pytest.mark.parametrize("quantity", ["loss", "entropy"])
def test_without_a_reference_the_page_says_so(app, alone_file, quantity):
    page = app("pages/passage.py", alone_file, quantity=quantity)
    assert page.info[0].value == f"Nothing to show for {quantity}: this file has no reference model, so no vanilla losses or entropies. Run with --reference to have them."


def test_a_model_without_a_router_has_no_depth_to_show(app, vanilla_file):
    page = app("pages/passage.py", vanilla_file)
    assert page.info[0].value.startswith("Nothing to show for depth: vanilla has no router")


def test_an_unknown_checkpoint_in_the_address_falls_back(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?checkpoint=expert-9&sequence=99&quantity=speed&position=900", ready=".token")
    page.wait_for_function("location.search === '?position=900'")
    stands_at(page, 0)


def test_tokens_that_are_markup_are_shown_as_text(first):
    for index, markup in enumerate(MARKUP, 1):
        expect(token(first, index)).to_have_text(markup)
        token(first, index).hover()
        expect(first.locator(".card h3 code").first).to_have_text(markup)
    expect(first.locator(".text script, .text img, .text b, .card script, .card img")).to_have_count(0)


def test_newlines_tabs_and_document_ends_are_visible(first, study_file):
    end = db.open(study_file).passage("expert-3", 0).query("is_special").index[0]
    expect(token(first, len(MARKUP) + 1)).to_have_text("⇥", use_inner_text=True)
    expect(token(first, len(MARKUP) + 2)).to_have_text("↵", use_inner_text=True)
    expect(token(first, end)).to_have_text("<|endoftext|>")
    assert token(first, end).evaluate("token => token.nextSibling.textContent") == "document ends"
    assert token(first, end + 1).bounding_box()["y"] > token(first, end).bounding_box()["y"]


def test_the_card_says_what_the_file_says(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?checkpoint=expert-3&sequence=2&position=17", ready=".token")
    row = db.open(study_file).passage("expert-3", 2).iloc[17]
    says(page, "position 17 of sequence 2")
    said = page.locator(CARD).inner_text()
    assert f"position 17 of sequence 2, token id {row.token_id}" in said
    assert f"{row.depth} of 3" in said
    for figure in (row.vanilla_loss, row.vanilla_entropy, row.loss_router, row.loss_random, row.loss_inverted_open, row.loss_depth_3, row.loss_router_depths_open, row.probability_1):
        assert f"{figure:.3f}" in said
    assert f"{row.loss_percentile:.1f}% of the file" in said
    expect(page.locator(".card h3 code")).to_have_text([row.token, row.next_token])
    assert said.count("not a candidate") == 3 - row.depth if row.depth < 3 else True


def test_the_last_token_predicts_nothing(visit, serve, study_file):
    page = visit(serve(study_file) + f"/passage?position={LENGTH - 1}", ready=".token")
    says(page, "nothing: the sequence ends here")


def test_hover_shows_a_token_and_leaving_returns_to_the_chosen_one(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?position=3", ready=".token")
    token(page, 20).hover()
    says(page, "position 20 of")
    page.locator("h1").hover()
    says(page, "position 3 of")
    page.wait_for_url("**position=3")


def test_keys_walk_the_text_and_one_tab_leaves_it(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage", ready=".token")
    page.get_by_role("radio", name="probability").focus()
    page.keyboard.press("Tab")
    holds_focus(page, 0)
    says(page, "position 0 of")
    steps = {"ArrowRight": 1, "End": LENGTH - 1, "ArrowLeft": LENGTH - 2, "Home": 0}
    for key, index in steps.items():
        page.keyboard.press(key)
        holds_focus(page, index)
        stands_at(page, index)
        says(page, f"position {index} of")
    page.keyboard.press("ArrowDown")
    expect(token(page, 0)).to_have_attribute("aria-selected", "false")
    below = int(page.locator('.token[aria-selected="true"]').get_attribute("data-index"))
    assert token(page, below).bounding_box()["y"] > token(page, 0).bounding_box()["y"]
    page.wait_for_url(f"**position={below}")
    page.keyboard.press("ArrowUp")
    stands_at(page, 0)
    page.keyboard.press("Tab")
    holds_focus(page, None)
    page.keyboard.press("Shift+Tab")
    holds_focus(page, 0)
    page.keyboard.press("Shift+Tab")
    holds_focus(page, None)


def test_keys_of_the_app_stay_out_of_the_text(first):
    token(first, 4).focus()
    first.evaluate("window.heard = []; document.addEventListener('keydown', (event) => window.heard.push(event.key))")
    for key in ("r", "c", "ArrowRight", "Home"):
        first.keyboard.press(key)
    assert first.evaluate("window.heard") == []
    assert first.locator("[role=dialog]").count() == 0


def test_a_link_restores_the_view_in_a_fresh_browser(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage", ready=".token")
    page.get_by_test_id("stNumberInputStepUp").click()
    page.wait_for_function(f"document.querySelector('{INSIDE}').shadowRoot.querySelector('.card').textContent.includes('sequence 1')")
    page.get_by_role("radio", name="entropy").click()
    page.locator(".legend").get_by_text("most certain fifth of the file").wait_for()
    token(page, 29).click()
    page.wait_for_url("**/passage?quantity=entropy&sequence=1&position=29")
    again = visit(page.url, ready=".token")
    again.locator(".legend").get_by_text("most certain fifth of the file").wait_for()
    stands_at(again, 29)
    expect(again.locator(CARD)).to_have_text(page.locator(CARD).inner_text(), use_inner_text=True)
    expect(again.locator(".text")).to_have_text(page.locator(".text").inner_text(), use_inner_text=True)


def test_another_sequence_starts_at_its_first_token(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?position=29", ready=".token")
    page.get_by_test_id("stNumberInputStepUp").click()
    page.wait_for_function("location.search === '?sequence=1'")
    stands_at(page, 0)


def test_depth_is_told_without_colour(first, study_file):
    depth = db.open(study_file).passage("expert-3", 0)["depth"]
    lines = first.locator(".text .token").evaluate_all("tokens => tokens.map((token) => Number(getComputedStyle(token).getPropertyValue('--lines')))")
    assert lines == [value - 1 for value in depth]
    labels = first.locator(".text .token").evaluate_all("tokens => tokens.map((token) => token.getAttribute('aria-label'))")
    assert all(f"{value} recursion" in label for value, label in zip(depth, labels))


@pytest.mark.parametrize("dark", [False, True])
def test_text_reads_on_every_colour(visit, serve, study_file, dark):
    page = visit(serve(study_file) + "/passage?checkpoint=expert-4", ready=".token.level-0", dark=dark)
    for quantity, word in (("depth", "4 recursions"), ("benefit", "gains over 0.5 nats"), ("probability", "to 0.8")):
        page.get_by_role("radio", name=quantity).click()
        expect(page.locator(".legend")).to_contain_text(word)
        ratios = page.evaluate(CONTRASTS)
        assert len(ratios) >= 3 and min(ratios) >= 4.5


def test_ids_stand_where_there_is_no_tokenizer(visit, serve, long_file):
    page = visit(serve(long_file) + "/passage?position=5", ready=".token")
    ids = db.open(long_file).passage("expert-3", 0)["token_id"]
    expect(page.locator(".text .token")).to_have_text([str(id) for id in ids], use_inner_text=True)
    expect(page.locator(".card h3 code")).to_have_text([str(ids[5]), str(ids[6])])


def test_2048_tokens_are_all_there_and_can_be_reached(visit, serve, long_file):
    page = visit(serve(long_file) + "/passage?sequence=2&position=2047", ready='.token[data-index="2047"]')
    expect(page.locator(".text .token")).to_have_count(2048)
    expect(token(page, 2047)).to_be_in_viewport()  # a link scrolls to its token
    expect(page.locator(CARD)).to_be_in_viewport()


def test_a_narrow_window_shows_text_and_card_without_scrolling_sideways(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?position=20", ready=".token", width=390, height=844)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    box = page.locator(CARD).bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


CONTRASTS = """() => {
  const channel = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
  return [...root.querySelectorAll('.text .token:not(.plain)')].map((token) => {
    const style = getComputedStyle(token);
    const fill = style.backgroundImage.match(/linear-gradient\\((rgb\\([^)]*\\)), /g).at(-1);
    const [low, high] = [light(rgb(style.color)), light(rgb(fill))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}"""


def test_five_checkpoints_stand_in_rows_aligned_with_their_tokens(visit, serve, study_file):
    others = ["expert-2", "expert-4", "token-3"]
    page = visit(serve(study_file) + "/passage?" + "&".join(f"beside={other}" for other in others), ready=".rows")
    study = db.open(study_file)
    for row, other in enumerate(others):
        marks = page.locator(f".token .rows i:nth-child({row + 1})")
        shown = marks.evaluate_all("marks => marks.map((mark) => Number(mark.dataset.step))")
        assert shown == study.passage(other, 0)["depth"].tolist()
    mark, word = token(page, 12).locator("i").first.bounding_box(), token(page, 12).bounding_box()
    assert word["x"] <= mark["x"] and mark["x"] + mark["width"] <= word["x"] + word["width"] and mark["y"] > word["y"]
    expect(page.locator(".legend")).to_contain_text("Rows: expert-3 (text), expert-2, expert-4, token-3")
    assert page.locator(".card tr", has_text="expert-4").first.inner_text().split("\t")[1].startswith(str(study.passage("expert-4", 0)["depth"][0]))


def test_a_word_is_found_pointed_out_and_walked_through(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?find=w1%20w", ready=".token.found")
    words = db.open(study_file).passage("expert-3", 0)["token"].tolist()
    firsts = [at for at in range(len(words) - 1) if words[at].endswith("w1") and words[at + 1].startswith(" w")]
    found = page.locator(".token.found").evaluate_all("tokens => tokens.map((token) => Number(token.dataset.index))")
    assert found == sorted({at for first in firsts for at in (first, first + 1)})
    expect(page.locator(".finds")).to_contain_text(f"{len(firsts)} place")
    stands_at(page, firsts[0])
    page.get_by_role("button", name="previous").click()
    stands_at(page, firsts[-1])


def test_what_is_not_there_is_said(app, study_file):
    page = app("pages/passage.py", study_file, find="no such word")
    assert "Not in this sequence." in [caption.value for caption in page.caption]


def test_tokens_outside_the_filter_are_faded(visit, serve, study_file):
    page = visit(serve(study_file) + "/passage?depths=2", ready=".token.faded")
    faded = page.locator(".text .token").evaluate_all("tokens => tokens.map((token) => token.classList.contains('faded'))")
    assert faded == [depth != 2 for depth in db.open(study_file).passage("expert-3", 0)["depth"]]


def test_the_legend_is_the_distribution(first, study_file):
    depths = db.open(study_file).passage("expert-3", 0)["depth"]
    widths = first.locator(".legend .meter i").evaluate_all("bars => bars.map((bar) => parseFloat(bar.style.width))")
    assert widths == pytest.approx([100 * (depths == depth).mean() for depth in (1, 2, 3)])
