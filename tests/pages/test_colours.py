"""Colours keep their order without hue, and text reads on each of them."""

import pytest

from pages.parts import colours


@pytest.mark.parametrize("steps", range(2, 13))
@pytest.mark.parametrize("scale", [colours.ordinal, colours.diverging])
def test_ink_has_the_contrast_that_small_text_needs(scale, steps):
    for paint in scale(steps):
        assert colours.contrast(paint.light, paint.ink_light) >= 4.5
        assert colours.contrast(paint.dark, paint.ink_dark) >= 4.5


@pytest.mark.parametrize("steps", [2, 3, 4, 5])
def test_each_step_is_farther_from_the_page_in_lightness_alone(steps):
    paints = colours.ordinal(steps)
    from_white = [colours.contrast(paint.light, "#ffffff") for paint in paints]
    from_black = [colours.contrast(paint.dark, "#000000") for paint in paints]
    for ratios in (from_white, from_black):
        assert all(later > 1.15 * earlier for earlier, later in zip(ratios, ratios[1:]))


def test_lines_of_checkpoints_stand_out_from_both_pages():
    for theme, page in (("light", "#ffffff"), ("dark", "#171614")):
        assert all(colours.contrast(colour, page) >= 3 for colour in colours.CATEGORICAL[theme])


def test_contrast_of_known_pairs():
    assert colours.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert colours.contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)  # WCAG's familiar grey that just fails
