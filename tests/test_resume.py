"""A run that is killed, damaged or crowded: the same command continues, and the file is the same value for value."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from db.errors import UserError
from precompute.work import Work, changes
from tests.conftest import GOLDEN
from tests.processes import SHARD_POSITIONS, start, until

LENGTH, SEQUENCES, BATCH = 32, 48, 4
SHARDS = 3 * SEQUENCES * LENGTH // SHARD_POSITIONS
KILLS = 20


@dataclass(frozen=True)
class Job:
    """One run of three golden checkpoints over text, in a folder of its own."""

    folder: Path
    arguments: list[str]

    @property
    def output(self) -> Path:
        return self.folder / "out" / "study.duckdb"

    @property
    def work(self) -> Path:
        return self.folder / "out" / "study.duckdb.work"

    @property
    def building(self) -> Path:
        return self.folder / "out" / ".study.duckdb.building"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, *more: str, rank: int | None = None):
        return start([*self.arguments, "--output", str(self.output), *more], self.log, rank)

    def run(self, *more: str) -> tuple[int, str]:
        """Exit code and what was printed."""
        self.log.unlink(missing_ok=True)
        process = self.start(*more)
        process.join()
        return process.exitcode, self.log.read_text()

    def shards(self) -> dict[str, int]:
        """The finished shards, with the time each was written. A command that is done removes them while this looks."""
        found = {}
        for path in self.work.glob("shards/*/*.sha256"):
            with contextlib.suppress(FileNotFoundError):
                found[str(path)] = path.with_suffix(".parquet").stat().st_mtime_ns
        return found

    def killed_once(self, when) -> None:
        process = self.start()
        assert until(when, process)
        process.kill()
        process.join()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> list[str]:
    """Arguments for a run over text that a tokenizer of the golden vocabulary can read."""
    folder = tmp_path_factory.mktemp("data")
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(["<|endoftext|>", *(f"w{i}" for i in range(210))])}, "<|endoftext|>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.save(str(folder / "tokenizer.json"))
    draw = np.random.default_rng(0)
    documents = (" ".join(f"w{i}" for i in draw.integers(0, 210, 40)) for _ in range(60))
    (folder / "text.txt").write_text("\n<|endoftext|>\n".join(documents))
    places = ["--reference", str(GOLDEN / "vanilla"), "--checkpoint", f"expert-3={GOLDEN / 'expert_rec3'}", f"token-3={GOLDEN / 'token_rec3'}"]
    sizes = ["--length", str(LENGTH), "--sequences", str(SEQUENCES), "--batch-size", str(BATCH)]
    places += ["--policies", "random_open", "shuffled", "depth_1", "depth_3"]
    return ["run", *places, "--text", str(folder / "text.txt"), "--tokenizer", str(folder / "tokenizer.json"), *sizes]


@pytest.fixture
def job(tmp_path, data) -> Job:
    (tmp_path / "out").mkdir()
    return Job(tmp_path, data)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data) -> tuple[dict, float]:
    """Every value of a file that nothing disturbed, and the seconds that its building took."""
    job = Job(tmp_path_factory.mktemp("undisturbed"), data)
    job.output.parent.mkdir()
    process = job.start()
    assert until(job.building.exists, process)
    began = time.monotonic()
    assert until(job.output.exists, process)
    seconds = time.monotonic() - began
    process.join()
    assert process.exitcode == 0
    return values(job.output), seconds


def values(path: Path) -> dict[str, list[tuple]]:
    """Every row of every table and view, but for when the file was made and how long that took."""
    with duckdb.connect(str(path), read_only=True) as con:
        tables = [name for (name,) in con.execute("select table_name from information_schema.tables order by all").fetchall()]
        found = {table: con.execute(f"from {table} order by all").fetchall() for table in tables}
    found["meta"] = [row for row in found["meta"] if row[0] not in ("created_at", "seconds")]
    found["digests"] = [row for row in found["digests"] if row[0] != "meta"]
    return found


def assert_finished(job: Job, due: dict[str, list[tuple]]) -> None:
    found = values(job.output)
    assert found.keys() == due.keys()
    for table, rows in due.items():
        assert found[table] == rows, table
    assert [path.name for path in job.output.parent.iterdir()] == [job.output.name]


def test_killed_at_twenty_random_moments_the_file_is_the_same(job, undisturbed):
    """Rounds of five kills: in preparing, packing, running (twice), building and checking; what was finished is not run again."""
    due, seconds = undisturbed
    draw, kills = random.Random(0), 0
    while kills < KILLS:
        stages = [
            ("preparing", lambda: True, 0.5),
            ("packing", (job.work / "tokens").exists, 0.02),
            *(("running", lambda least=least: len(job.shards()) >= least, 0.2) for least in sorted(draw.sample(range(SHARDS), 2))),
            ("building", job.building.exists, 1.1 * seconds),
        ]
        for _, begins, longest in stages:
            before, process = job.shards(), job.start()
            if until(begins, process):
                time.sleep(draw.random() * longest)
            process.kill()
            process.join()
            kills += process.exitcode == -signal.SIGKILL
            if not job.work.exists():
                break
            assert before.items() <= job.shards().items() or job.output.exists()
        if not job.output.exists() or job.work.exists():
            code, said = job.run()
            assert code == 0 and said.splitlines()[-1] == str(job.output), said
        assert_finished(job, due)
        job.output.unlink()


def test_a_damaged_shard_is_run_again_aloud(job, undisturbed):
    job.killed_once(lambda: len(job.shards()) >= 4)
    shard = sorted(job.work.glob("shards/*/*.parquet"))[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    code, said = job.run()
    assert code == 0 and f"Continuing the unfinished run in {job.work}." in said
    assert f"Shard {shard} is damaged; its sequences are run again." in said and said.count("is damaged;") == 1
    assert_finished(job, undisturbed[0])


def test_another_configuration_is_refused_by_name_and_what_was_finished_stays(job, undisturbed):
    job.killed_once(lambda: len(job.shards()) >= 2)
    before = job.shards()
    code, said = Job(job.folder, [value for value in job.arguments if value not in ("random_open", "shuffled", "depth_3")]).run("--seed", "7")
    assert code == 2 and said.splitlines()[-1] == (
        f"error: {job.work} holds an unfinished run with another "
        "checkpoints expert-3 policies (['router', 'random_open', 'depth_1', 'depth_3'], now ['router', 'depth_1']); "
        "checkpoints token-3 policies (['router', 'shuffled', 'depth_1', 'depth_3'], now ['router', 'depth_1']); "
        "seed (0, now 7). Repeat that command to finish it, or delete the folder to start anew."
    )
    assert job.shards() == before
    assert job.run()[0] == 0
    assert_finished(job, undisturbed[0])


def test_another_configuration_takes_the_place_of_a_run_that_has_finished_nothing(tmp_path):
    work = Work(tmp_path)
    work.open({"seed": 0})
    work.open({"seed": 7})
    assert work.configuration() == {"seed": 7}
    work.write("expert-3", range(2), {"depth": np.ones((2, 4), np.uint8)})
    with pytest.raises(UserError, match=r"another seed \(7, now 0\)\. Repeat that command"):
        work.open({"seed": 0})


def test_ranges_are_whole_batches_and_claimed_by_one(tmp_path):
    """65 sequences of 2,048 in batches of 3: 6 a shard, since 9 would be more than 16,384 positions."""
    work = Work(tmp_path)
    ranges = work.missing("expert-3", 65, 2048, 3)
    assert [(reach.start, reach.stop) for reach in ranges] == [(start, min(start + 6, 65)) for start in range(0, 65, 6)]
    with work.claim("expert-3", ranges[0], wait=False) as mine, work.claim("expert-3", ranges[0], wait=False) as theirs:
        assert mine and not theirs
    work.write("expert-3", ranges[0], {"depth": np.ones((6, 4), np.uint8)})
    assert work.missing("expert-3", 65, 2048, 3) == ranges[1:]
    with work.claim("expert-3", ranges[0], wait=True) as mine:
        assert not mine


def test_what_changed_is_said_with_both_values():
    earlier = {"seed": 0, "data": {"dataset": None, "texts": [["a.txt", "1f"]]}, "checkpoints": {"old": {"weights": "00"}}}
    now = {"seed": 0, "data": {"dataset": "name", "texts": [["a.txt", "2e"]]}, "checkpoints": {"new": {"weights": "00"}}}
    assert list(changes(earlier, now)) == [
        "checkpoints new (none, now one)",
        "checkpoints old (one, now none)",
        "data dataset (none, now name)",
        "data texts ([['a.txt', '1f']], now [['a.txt', '2e']])",
    ]
    assert list(changes(now, now)) == []


def test_a_batch_size_is_kept_when_it_is_not_given_again(job, undisturbed):
    job.killed_once(lambda: len(job.shards()) >= 2)
    at = job.arguments.index("--batch-size")
    assert Job(job.folder, job.arguments[:at]).run()[0] == 0
    assert_finished(job, undisturbed[0])


def test_a_second_run_at_once_is_refused(job, undisturbed):
    first = job.start()
    assert until(lambda: len(job.shards()) >= 1, first)
    second = job.start()
    second.join()
    assert second.exitcode == 2
    assert f"error: Another run is writing into {job.work}; wait for its end, or name another --output.\n" in job.log.read_text()
    first.join()
    assert first.exitcode == 0
    assert_finished(job, undisturbed[0])


def test_a_run_killed_before_it_had_cleared_up_is_found_finished(job, undisturbed):
    job.killed_once(lambda: len(job.shards()) >= 1)
    shutil.copytree(job.work, job.folder / "left")
    assert job.run()[0] == 0
    written = job.output.stat()
    shutil.copytree(job.folder / "left", job.work)
    code, said = job.run("--seed", "7")
    assert code == 2 and said.endswith(f"error: The output {job.output} exists; add --force to replace it, or name another.\n")
    code, said = job.run()
    assert code == 0 and said.endswith(f"skipped.\n{job.output}\n")
    assert job.output.stat().st_mtime_ns == written.st_mtime_ns
    assert_finished(job, undisturbed[0])


def test_a_half_written_file_is_written_anew(job, undisturbed):
    for name in (job.building.name, f"{job.building.name}.wal"):
        (job.building.parent / name).write_bytes(b"half")
    assert job.run()[0] == 0
    assert_finished(job, undisturbed[0])


def test_a_folder_of_that_name_that_is_no_run_is_left_alone(job):
    job.work.mkdir()
    (job.work / "thesis.tex").write_text("kept")
    code, said = job.run()
    assert (code, said) == (2, f"error: {job.work} holds thesis.tex and no run; the run needs a folder of that name, so move it away.\n")
    assert (job.work / "thesis.tex").read_text() == "kept"


def test_a_read_only_folder_is_one_sentence(data, tmp_path):
    """/sys takes no file, not even root's."""
    process = start([*data, "--output", "/sys/study.duckdb"], tmp_path / "log")
    process.join()
    assert process.exitcode == 2
    assert (tmp_path / "log").read_text() in [f"error: The folder /sys cannot be written to: {os.strerror(number)}.\n" for number in (1, 13, 30)]


def test_two_ranks_write_the_same_file(job, undisturbed):
    ranks = [job.start(rank=rank) for rank in (1, 0)]
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
    ran = int(job.log.read_text().split("Rank 1 ran ")[1].split()[0])
    assert 0 < ran < 3 * SEQUENCES
    assert_finished(job, undisturbed[0])


def test_a_rank_that_dies_leaves_its_ranges_to_the_others(job, undisturbed):
    lead, other = job.start(rank=0), job.start(rank=1)
    assert until(lambda: len(job.shards()) >= 3 and any(job.work.glob("shards/expert-3/*.claim")), other)
    other.kill()
    lead.join()
    assert lead.exitcode == 0
    assert_finished(job, undisturbed[0])


def test_when_rank_0_dies_the_others_end_and_the_same_command_continues(job, undisturbed):
    lead, other = job.start(rank=0), job.start(rank=1)
    assert until(lambda: len(job.shards()) >= 3, lead)
    lead.kill()
    other.join()
    assert other.exitcode == 0
    assert not job.output.exists() and len(job.shards()) >= 3
    assert job.run()[0] == 0
    assert_finished(job, undisturbed[0])


def test_a_rank_without_rank_0_does_not_wait_for_ever(job):
    other = job.start(rank=1)
    other.join()
    assert other.exitcode == 2
    assert job.log.read_text() == f"error: No rank 0 runs into {job.work}; start every rank with the same command, as torchrun does.\n"
    assert list(job.output.parent.iterdir()) == []


def test_torchrun_starts_the_ranks(job, undisturbed):
    """With the real torchrun; one shard a checkpoint here, since nothing makes them smaller."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "precompute"]
    done = subprocess.run(
        [*command, *job.arguments, "--output", str(job.output)], capture_output=True, text=True, cwd=GOLDEN.parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(job.output) and "Rank 1 ran " in done.stderr
    assert_finished(job, undisturbed[0])
