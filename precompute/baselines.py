"""What counting alone reaches on the held-out text: the losses that a trained model has to beat."""

from dataclasses import dataclass

import numpy as np

STRENGTHS = (1, 3, 10, 30, 100, 300, 1000, 3000)


@dataclass(frozen=True)
class Baselines:
    """Mean held-out losses in nats over `predictions`, and the bigram's chosen `strength`."""

    unigram: float
    bigram: float
    strength: int
    predictions: int


def measure(training: np.ndarray, held_out: np.ndarray, vocabulary: int) -> Baselines:
    """Unigram and bigram losses of the predictions within each row, counted on the training rows.

    training, held_out [sequences, T] of token ids. Unigram: add-one, p(b) = (n(b) + 1) / (n + V).
    Bigram: p(b | a) = (n(ab) + s p(b)) / (n(a) + s), with the strength s of `STRENGTHS` that suits the
    held-out text best, so that the bar is never too low.
    """
    single = np.bincount(training.ravel(), minlength=vocabulary)
    p = (single + 1) / (single.sum() + vocabulary)
    before, after = held_out[:, :-1].ravel(), held_out[:, 1:].ravel()
    together = _pair_counts(training, before, after, vocabulary)
    leading = np.bincount(training[:, :-1].ravel(), minlength=vocabulary)[before]
    bigram = {s: float(-np.log((together + s * p[after]) / (leading + s)).mean()) for s in STRENGTHS}
    best = min(bigram, key=bigram.__getitem__)
    return Baselines(float(-np.log(p[after]).mean()), bigram[best], best, len(after))


def _pair_counts(training: np.ndarray, before: np.ndarray, after: np.ndarray, vocabulary: int) -> np.ndarray:
    """How often each pair (before, after) stands in the training rows."""
    pairs, counts = np.unique(training[:, :-1].astype(np.int64) * vocabulary + training[:, 1:], return_counts=True)
    wanted = before.astype(np.int64) * vocabulary + after
    place = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    return np.where(pairs[place] == wanted, counts[place], 0)
