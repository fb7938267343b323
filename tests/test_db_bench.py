"""The bench asks every named question, and its two forms of one give the same answer."""

import numpy as np
import pytest

from db import bench, query
from db.command import main
from db.errors import UserError
from db.questions import QUESTIONS
from tests import small_file


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_file.write(tmp_path_factory.mktemp("file") / "small.duckdb", small_file.Content(lengths=[40] * 12))


@pytest.fixture(scope="module")
def sides(path):
    scene = bench.scene(path)
    return scene, bench.memory(path, scene)


def test_every_named_question_is_timed():
    asked = {name for question in QUESTIONS for name in question.queries}
    assert {name for name in query.named() if not name.startswith(("check_", "write_", "alive_"))} == asked


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question.pandas], ids=lambda question: question.name)
def test_both_forms_of_a_question_give_the_same_answer(sides, question):
    scene, memory = sides
    bench.compare(question.name, question.ask(scene), question.pandas(scene, memory))


def test_answers_that_differ_are_refused():
    with pytest.raises(UserError, match="The bench's two answers to 'deciles' differ."):
        bench.compare("deciles", np.array([1.0, 2.0]), np.array([1.0, 2.1]))


def test_the_command_prints_a_table_with_the_machine_threads_and_memory(path, capsys):
    assert main(["bench", str(path), "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| question | this, ms | pandas, ms | pandas ÷ this |" and len(lines) == len(QUESTIONS) + 4
    assert "cores; 1 threads of DuckDB. The report of every checkpoint with all intervals: " in lines[-1] and "Peak memory: the questions " in lines[-1]
