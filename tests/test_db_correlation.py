"""Rank correlation and two-way residuals against scipy and a dense least-squares fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from db.correlation import largest_rho, spearman_by_sequence, two_way_residuals

numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-50, 50, width=32))
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), numbers), min_size=1, max_size=120)


def _scipy(sequence, x, y, minimum):
    for number in np.unique(sequence):
        inside = sequence == number
        constant = len(set(x[inside])) == 1 or len(set(y[inside])) == 1
        yield np.nan if inside.sum() < minimum or constant else spearmanr(x[inside], y[inside]).statistic


@settings(deadline=None)
@given(rows, st.sampled_from([np.float32, np.float64]))
def test_spearman_is_scipys_in_every_sequence(drawn, kind):
    sequence, depth, loss = (np.array(column) for column in zip(*drawn))
    loss = loss.astype(kind)
    sequences, rho = spearman_by_sequence(sequence, depth, loss, minimum=3)
    assert sequences.tolist() == sorted(set(sequence.tolist()))
    np.testing.assert_allclose(rho, list(_scipy(sequence, depth, loss, 3)), atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_spearman_is_scipys_where_values_are_many(kind):
    random = np.random.default_rng(1)
    sequence = np.repeat([4, 7, 9], [500, 21, 1200])
    x, y = random.normal(size=(2, len(sequence))).astype(kind).round(2)
    np.testing.assert_allclose(spearman_by_sequence(sequence, x, y)[1], list(_scipy(sequence, x, y, 20)), atol=1e-12)


def test_spearman_does_not_depend_on_the_order_of_rows():
    random = np.random.default_rng(2)
    sequence, depth, loss = random.integers(0, 5, 400), random.integers(1, 4, 400), random.normal(size=400)
    shuffle = random.permutation(400)
    first = spearman_by_sequence(sequence, depth, loss)[1]
    second = spearman_by_sequence(sequence[shuffle], depth[shuffle], loss[shuffle])[1]
    assert first.tolist() == second.tolist()


def test_a_short_or_constant_sequence_has_no_correlation():
    sequence = np.repeat([0, 1, 2], [19, 20, 20])
    depth = np.r_[np.arange(19) % 2, np.arange(20) % 2, np.ones(20)]
    rho = spearman_by_sequence(sequence, depth, np.arange(59.0))[1]
    assert np.isnan(rho).tolist() == [True, False, True]


def test_no_rows_give_no_sequences():
    sequences, rho = spearman_by_sequence([], [], [])
    assert len(sequences) == len(rho) == 0
    assert len(two_way_residuals([], [], [])) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(-20, 20)), min_size=1, max_size=60))
def test_residuals_are_those_of_a_dense_fit(drawn):
    token, place, values = (np.array(column) for column in zip(*drawn))
    design = np.c_[token[:, None] == np.arange(7), place[:, None] == np.arange(5)].astype(float)
    expected = values - design @ np.linalg.lstsq(design, values.astype(float), rcond=None)[0]
    np.testing.assert_allclose(two_way_residuals(token, place, values), expected, atol=1e-6)


def test_a_token_that_occurs_once_has_no_residual():
    residuals = two_way_residuals([1, 1, 1, 2], [0, 1, 2, 1], [1.0, 2.0, 6.0, 40.0])
    assert residuals[3] == 0


def test_an_additive_table_leaves_nothing():
    token, place = np.repeat(np.arange(40), 16), np.tile(np.arange(16), 40)
    residuals = two_way_residuals(token, place, np.sqrt(token) + np.log1p(place))
    assert not residuals.any() and not np.signbit(residuals).any()


@pytest.mark.parametrize("depths, bound", [(2, 0.866), (3, 0.943), (4, 0.968)])
def test_the_largest_rho_of_equal_shares(depths, bound):
    assert largest_rho([1 / depths] * depths) == pytest.approx(bound, abs=5e-4)


def test_the_largest_rho_is_reached_by_the_sorted_order():
    depth = np.repeat([1, 2, 3], [10, 40, 50])
    reached = spearman_by_sequence(np.zeros(100), depth, np.arange(100.0))[1][0]
    assert largest_rho([0.1, 0.4, 0.5]) == pytest.approx(reached, abs=1e-4)
