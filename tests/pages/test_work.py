"""Work beside a page: it goes on while somebody looks, and is stopped when nobody does."""

import threading

import pytest

from db.errors import UserError
from pages.parts.work import LOOKS, Work


def patient(patience=60.0):
    """Work that goes on until it is stopped, and the event that its stop sets."""
    stopped = threading.Event()

    def do():
        if not stopped.wait(60):
            return "never stopped"
        raise UserError("It was stopped.")

    return Work(do, stopped.set, patience), stopped


def test_what_it_returns_is_its_result():
    work = Work(lambda: 42, lambda: None)
    assert work.wait(10) and not work.running
    assert work.result() == 42


def test_what_it_raises_is_raised_where_the_result_is_asked_for():
    work, _ = patient()
    work.stop()
    assert work.wait(10)
    with pytest.raises(UserError, match="It was stopped."):
        work.result()


def test_it_is_stopped_when_nobody_looks():
    work, stopped = patient(patience=LOOKS)
    assert stopped.wait(10) and work.wait(10)


def test_it_goes_on_while_somebody_looks():
    work, stopped = patient(patience=4 * LOOKS)
    for _ in range(16):
        work.look()
        assert not stopped.wait(LOOKS / 2)
    work.stop()


def test_stopping_what_has_ended_does_nothing():
    ended = threading.Event()
    work = Work(lambda: 42, ended.set)
    assert work.wait(10)
    work.stop()
    assert not ended.is_set()
