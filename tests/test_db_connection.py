"""What is not a readable file gives one sentence; a replaced file is reopened; nothing gets out of the connection."""

import os
import shutil
import threading

import duckdb
import pytest

import db
from db import connection
from db.errors import UserError
from tests import small_file


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return small_file.write(tmp_path_factory.mktemp("file") / "small.duckdb")


@pytest.fixture
def path(written, tmp_path):
    return shutil.copy(written, tmp_path / "copy.duckdb")


def _refusal(path):
    with pytest.raises(UserError) as refused:
        db.open(path)
    return str(refused.value)


def test_a_missing_file_names_the_command_that_builds_one(tmp_path):
    path = tmp_path / "none.duckdb"
    assert _refusal(path) == f"No database at {path}. Build one: python -m precompute demo --output {path}"
    assert not path.exists()


def test_a_folder_is_no_file(tmp_path):
    assert _refusal(tmp_path) == f"{tmp_path} is a folder; name the .duckdb file in it."


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: b"hello" * 1000, lambda data: data[:5000], lambda data: data[:4096] + b"\xff" * len(data)])
def test_what_is_no_database_is_said_with_duckdbs_reason(path, spoil):
    path.write_bytes(spoil(path.read_bytes()))
    message = _refusal(path)
    assert message.startswith(f"{path} cannot be opened: ")
    assert message.endswith(f"Build it again: python -m precompute run … --output {path} --force")


def test_a_truncated_file_is_said_with_what_is_left_of_it(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"{path} is cut short: {len(whole) // 2:,} of {len(whole):,} bytes." in _refusal(path)


def test_damage_that_shows_only_when_a_block_is_read_is_said(path):
    data = bytearray(path.read_bytes())
    study = db.open(path)
    blocks = range(3 * 4096, len(data), 262144)
    for start in blocks:
        data[start + 300 : start + 400] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged|cannot be opened"):
        study = db.open(path)
        study.passage("expert-3", 0)
        study.deciles("expert-3", where="sequence >= 0")


def test_a_file_of_something_else_is_said(tmp_path):
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("create table orders (id integer)")
    assert _refusal(path).startswith(f"{path} is a DuckDB file of something else: it has no table meta.")


def test_another_schema_version_is_named_with_the_one_that_is_read(path):
    with duckdb.connect(str(path)) as con:
        con.execute("update meta set value = '7' where key = 'schema_version'")
    assert _refusal(path).startswith(f"{path} has schema version 7; this program reads version 1. Build it again: ")


def _asking_for_long(study) -> tuple[threading.Thread, list[str]]:
    """A thread that asks what takes minutes, in one query and no other, and the sentence that it will have got."""
    seen = []
    study.recursions("expert-3")  # is asked once, in a query of its own

    def ask():
        try:
            study.deciles("expert-3", where="(select count(*) from observations a, observations b, observations c where a.loss_router < b.loss_router + c.depth) > 0")
        except UserError as error:
            seen.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, seen


def test_a_closed_file_may_be_opened_in_another_way_and_answers_again(path):
    study = db.open(path)
    with pytest.raises(duckdb.ConnectionException, match="different configuration"):
        duckdb.connect(str(path), read_only=True)
    study.close()
    with duckdb.connect(str(path), read_only=True) as con:
        assert con.execute("select count(*) from sequences").fetchone() == (40,)
    assert study.counts["sequences"] == 40


def test_a_replaced_file_is_seen_by_the_next_open_and_refused_by_the_old_study(path, tmp_path):
    old = db.open(path)
    assert old.counts["sequences"] == 40
    small_file.write(tmp_path / "new.duckdb", small_file.Content(lengths=[33] * 12))
    os.replace(tmp_path / "new.duckdb", path)
    assert db.open(path).counts["sequences"] == 12
    with pytest.raises(UserError, match="copy.duckdb was replaced since it was opened; open it again."):
        old.passage("expert-3", 0)


def test_a_file_replaced_while_a_query_runs_stops_the_query(path, tmp_path):
    study = db.open(path)
    thread, seen = _asking_for_long(study)
    while not study.running:
        thread.join(0.01)
    shutil.copy(path, tmp_path / "new.duckdb")
    os.replace(tmp_path / "new.duckdb", path)
    assert db.open(path).counts["sequences"] == 40
    thread.join()
    assert seen == ["The query was stopped."]


def test_stop_interrupts_what_a_study_runs(path):
    study = db.open(path)
    thread, seen = _asking_for_long(study)
    while thread.is_alive():
        study.stop()
        thread.join(0.05)
    assert seen == ["The query was stopped."]
    assert len(study.deciles("expert-3")) == 10


def test_threads_never_get_each_others_answers(path):
    study, wrong = db.open(path), []

    def ask(sequence):
        for _ in range(25):
            frame = study.frame("scored_positions", where=f"sequence = {sequence}", checkpoint="expert-3", columns=["depth"])
            if set(frame["sequence"]) != {sequence}:
                wrong.append(sequence)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "attempt",
    [
        "copy (select 1) to '{folder}/out.csv'",
        "export database '{folder}/out'",
        "attach '{folder}/new.duckdb' as other",
        "select * from read_text('{folder}/secret.txt')",
        "select * from glob('{folder}/*')",
        "select * from read_csv('{folder}/secret.txt')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set threads = 1",
        "insert into meta values ('a', 'b')",
        "drop table meta",
        "select * from local_frame",
    ],
)
def test_a_cursor_reaches_nothing_but_the_file(path, tmp_path, attempt):
    (tmp_path / "secret.txt").write_text("secret")
    local_frame = db.open(path).checkpoints  # noqa: F841 — what a replacement scan would find
    database = connection.database(path)
    with database.cursor(database.signature()) as cursor, pytest.raises(duckdb.Error):
        cursor.execute(attempt.format(folder=tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.duckdb", "secret.txt"]
