"""Ad-hoc SQL: one SELECT over the file, nothing else, and no more memory or time than it may use."""

import subprocess
import sys
import threading

import pyarrow.parquet as pq
import pytest

from db import sql
from db.command import main
from db.errors import UserError
from tests import small_file


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_file.write(tmp_path_factory.mktemp("file") / "small.duckdb")


def _refusal(path, statement, **limits):
    with pytest.raises(UserError) as refused:
        sql.run(path, statement, **limits)
    return str(refused.value)


def test_a_select_gives_its_rows(path):
    found = sql.run(path, "select checkpoint, count(*) as positions from observations group by checkpoint order by checkpoint")
    assert found.table.to_pylist() == [{"checkpoint": name, "positions": 1320} for name in ("expert-3", "token-2", "vanilla")]
    assert not found.is_truncated


def test_every_column_has_a_name_of_its_own(path):
    assert sql.run(path, "select 1 as a, 2 as a, 3 as a_1, 4 as a").table.to_pylist() == [{"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}]


@pytest.mark.parametrize("statement", ["explain select 1", "from meta", "values (1)", "with a as (select 1) from a", "describe observations", "summarize meta"])
def test_other_ways_to_ask_run_too(path, statement):
    assert sql.run(path, statement).table.num_rows > 0


@pytest.mark.parametrize(
    "statement, kind",
    [
        ("copy (select 1) to 'out.csv'", "COPY"),
        ("export database 'out'", "EXPORT"),
        ("attach 'other.duckdb' as other", "ATTACH"),
        ("install httpfs", "LOAD"),
        ("set threads = 1", "SET"),
        ("set variable a = 1", "SET"),
        ("pragma enable_logging", "PRAGMA"),
        ("create temp macro avg(x) as 1", "CREATE"),
        ("insert into meta values ('a', 'b')", "INSERT"),
        ("drop table meta", "DROP"),
        ("call enable_logging()", "CALL"),
        ("begin", "TRANSACTION"),
    ],
)
def test_whatever_is_no_question_is_refused_by_its_kind(path, statement, kind):
    assert _refusal(path, statement) == f"Only SELECT and EXPLAIN run here, not {kind}."


def test_one_statement_at_a_time(path):
    assert _refusal(path, "select 1; select 2") == "One statement at a time, not 2."
    assert _refusal(path, "") == _refusal(path, " -- nothing") == "There is no statement to run."
    assert _refusal(path, "selct 1").startswith('Parser Error: syntax error at or near "selct"')


@pytest.mark.parametrize(
    "reach",
    [
        "read_text('{secret}')",
        "read_csv('{secret}')",
        "'{secret}'",
        "glob('{folder}/*')",
        "read_csv('https://example.org/a.csv')",
        "local_frame",
    ],
)
def test_a_select_reads_nothing_but_the_file(path, tmp_path, reach):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    message = _refusal(path, f"select * from {reach.format(secret=secret, folder=tmp_path)}")
    assert message.startswith(("Permission Error", "Catalog Error")), message


def test_the_folder_of_the_file_is_not_given_away(path):
    found = sql.run(path, "select path from duckdb_databases() where path is not null").table.to_pylist()
    assert found == [{"path": "small.duckdb"}]
    settings = sql.run(path, "select value from duckdb_settings() where value is not null").table.column("value").to_pylist()
    assert not any(str(path.parent) in value for value in settings)
    assert str(path.parent) not in _refusal(path, f"select * from read_text('{path.parent}/other')")


@pytest.mark.parametrize(
    "bomb",
    [
        "select length(repeat('x', 2000000000))",
        "select len(list_transform(range(200000000), lambda x: x + 1))",
        "select repeat('x', 1000000) from range(10000)",
        "select range(1000000000)",
        "explain analyze select length(repeat('x', 2000000000))",
        "select list(loss_router + other) from observations, range(1000000) as many(other)",
    ],
)
def test_a_query_that_wants_gigabytes_is_ended(path, bomb):
    assert _refusal(path, bomb, seconds=60).startswith("The query needs more memory than it may use")


@pytest.mark.parametrize("bomb", ["select length(rpad('x', 2000000000, 'y'))", "select count(*) from range(100000) a, range(10000000) b where a.range < b.range"])
def test_a_query_that_runs_too_long_is_killed(path, bomb):
    message = _refusal(path, bomb, seconds=2)
    assert message in ("It ran longer than 2 s and was stopped.", "The query needs more memory than it may use.")


def test_a_range_of_a_billion_is_capped_while_it_streams(path):
    found = sql.run(path, "select * from range(1000000000)", rows=123)
    assert (found.table.num_rows, found.is_truncated) == (123, True)


def test_stop_ends_a_query_and_the_next_one_answers(path):
    statement, seen = sql.Statement(path, "select count(*) from range(100000) a, range(10000000) b where a.range < b.range"), []

    def wait():
        try:
            statement.answer()
        except UserError as error:
            seen.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    statement.stop()
    thread.join()
    assert seen == ["The query was stopped."]
    assert sql.run(path, "select 1 as one").table.to_pylist() == [{"one": 1}]


def test_a_temporary_macro_of_one_statement_never_reaches_the_next(path):
    _refusal(path, "create temp macro avg(x) as 42")
    assert sql.run(path, "select avg(depth) as mean from observations where checkpoint = 'expert-3'").table.to_pylist()[0]["mean"] < 3


def _run(*arguments):
    return subprocess.run([sys.executable, "-m", "db", "sql", *map(str, arguments)], capture_output=True, text=True)


def test_the_command_prints_a_table(path, capsys):
    assert main(["sql", str(path), "select 7 as seven, null as nothing, 'the' as token"]) == 0
    assert capsys.readouterr().out == "seven  nothing  token\n-----  -------  -----\n7         NULL    the\n(1 rows)\n"


def test_the_command_says_when_rows_were_left_out(path, capsys):
    assert main(["sql", str(path), "select * from range(10)", "--rows", "3"]) == 0
    assert capsys.readouterr().err == "Only the first 3 rows; --rows N gives more.\n"


def test_csv_goes_to_stdout(path):
    run = _run(path, "select 1 as a, 'x,y' as b", "--csv")
    assert (run.returncode, run.stdout) == (0, '"a","b"\n1,"x,y"\n')


def test_parquet_goes_to_a_file_whose_name_is_the_last_line(path, tmp_path, capsys):
    out = tmp_path / "rows.parquet"
    assert main(["sql", str(path), "select token_id, depth from tokens order by all limit 5", "--parquet", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert pq.read_table(out).column_names == ["token_id", "depth"]


def test_a_parquet_file_that_cannot_be_written_is_one_sentence(path, tmp_path, capsys):
    assert main(["sql", str(path), "select 1", "--parquet", str(tmp_path / "none" / "rows.parquet")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/none/rows.parquet cannot be written: No such file or directory.\n"


def test_a_missing_file_is_one_sentence(tmp_path, capsys):
    assert main(["sql", str(tmp_path / "none.duckdb"), "select 1"]) == 2
    assert capsys.readouterr().err.startswith(f"error: No database at {tmp_path}/none.duckdb. Build one: ")
