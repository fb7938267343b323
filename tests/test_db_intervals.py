"""Intervals against a bootstrap by gathering, and where none is given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db import intervals
from tests import recomputed


def _columns(sequences, seed=0):
    random = np.random.default_rng(seed)
    n = random.integers(1, 50, sequences)
    return random.normal(2, 1, sequences) * n, n


@pytest.mark.parametrize("sequences", [10, 37, 200])
def test_an_interval_is_that_of_a_bootstrap_by_gathering(sequences):
    numerator, n = _columns(sequences)
    found = intervals.ratio(numerator, n)
    assert found.value == pytest.approx(numerator.sum() / n.sum(), abs=1e-12)
    np.testing.assert_allclose([found.low, found.high], recomputed.interval(numerator, n), atol=1e-9)
    assert (found.n, found.sequences) == (n.sum(), sequences)


def test_a_mean_of_values_leaves_out_the_sequences_without_one():
    values, n = _columns(40)
    values[[3, 8]] = np.nan
    found = intervals.mean(values, n)
    kept = ~np.isnan(values)
    assert found.value == pytest.approx(values[kept].mean())
    np.testing.assert_allclose([found.low, found.high], recomputed.interval(values[kept], np.ones(38)), atol=1e-9)
    assert (found.n, found.sequences) == (n[kept].sum(), 38)


@pytest.mark.parametrize("sequences, is_given, is_reliable", [(1, False, False), (9, False, False), (10, True, False), (29, True, False), (30, True, True)])
def test_no_interval_under_ten_sequences_and_none_to_rely_on_under_thirty(sequences, is_given, is_reliable):
    found = intervals.ratio(*_columns(sequences))
    assert not np.isnan(found.value)
    assert (not np.isnan(found.low), bool(found.reliable)) == (is_given, is_reliable)


def test_nothing_at_all_gives_nothing():
    found = intervals.ratio(np.zeros((0, 3)), np.zeros((0, 3)))
    assert np.isnan(found.value).all() and np.isnan(found.low).all() and found.n.tolist() == [0, 0, 0]


def test_a_figure_that_some_resamples_cannot_have_uses_the_others():
    n = np.r_[np.ones(10), np.zeros(30)]
    found = intervals.ratio(np.arange(40.0) * n, n)
    assert found.sequences == 10 and 0 <= found.low < found.value < found.high <= 9


def test_every_resample_draws_as_many_sequences_as_there_are():
    counts = intervals.resample_counts(57)
    assert counts.shape == (10_000, 57) and (counts.sum(axis=1) == 57).all()
    assert abs(counts.mean(axis=0) - 1).max() < 0.05


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6), min_size=10, max_size=40), st.permutations(range(40)))
def test_sums_are_exact_in_any_order(drawn, shuffled):
    numerator = np.array(drawn)
    exact = intervals._exact(numerator)
    order = [place for place in shuffled if place < len(exact)]
    assert exact.sum() == exact[order].sum() == sum(exact.tolist())
    assert exact.sum() == pytest.approx(numerator.sum(), abs=1e-12 * np.abs(numerator).sum())


def test_figures_of_many_shapes_come_in_one_call():
    numerator, n = _columns(30)
    both = intervals.ratio(np.stack([numerator, 2 * numerator], axis=1), np.stack([n, n], axis=1))
    assert both.value.tolist() == [intervals.ratio(numerator, n).value, intervals.ratio(2 * numerator, n).value]
    assert both[1].high == intervals.ratio(2 * numerator, n).high
