"""Operations are planned and counted as they are, the bench prints them, and a batch is found by trying."""

import resource

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from precompute import bench, head, machine, members, operations
from precompute import model as models
from precompute.command import main
from precompute.machine import Machine
from precompute.passes import Trace, run
from precompute.policies import available, chosen
from precompute.request import Request
from precompute.settings import SMOLLM_360M, Settings
from tests import processes
from tests.checkpoints import make
from tests.conftest import GOLDEN

SIX = ["router", "random", "inverted", "depth_1", "depth_2", "depth_3"]
IDS = torch.from_numpy(np.stack([np.random.default_rng(3).permutation(67)[:37] for _ in range(2)]))
CPU = Machine(torch.device("cpu"), "fp32", 1)


def done(model, names):
    """What two sequences of 37 tokens take, counted, and each policy's depths."""
    policies = chosen(available(model.settings), names)
    depths = {}
    with torch.inference_mode(), operations.counted(model) as found:
        for leaf in run(model, IDS, policies, range(2), 0, Trace()):
            found.head += 2 * operations.head(model.config, 37)
            depths |= {name: leaf.depth for name in leaf.policies}
    return found, depths


def test_operations_of_a_layer_and_of_the_head_worked_by_hand():
    """Hidden 4, 2 heads of 2, 1 key/value head, 3 inside: q and o 16 each, k and v 8 each, MLP 36, in all 84 weights.

    Three tokens: 2 x 3 x 84 = 504, and 6 pairs of 4 products for scores and 4 for values, doubled: 96.
    """
    config = LlamaConfig(hidden_size=4, num_attention_heads=2, num_key_value_heads=1, intermediate_size=3, vocab_size=10)
    assert operations.layer(config, 3) == 504 + 96
    assert operations.head(config, 3) == 2 * 2 * 4 * 10


@pytest.mark.parametrize("made", [
    dict(recursions=2, block=2, options={"alpha": 2.0}),
    dict(recursions=3, block=2, options={"alpha": 2.0}),
    dict(recursions=4, options={"alpha": 2.0}),
    dict(recursions=3, sharing="cycle", options={"router_func": "tanh", "alpha": 2.0}),
    dict(recursions=3, options={"gating": "none"}),
    dict(recursions=3, mor={"capacity": "0.8,0.31,0.31"}, options={"alpha": 2.0}),
])
def test_the_shared_plan_is_what_is_done(tmp_path, made):
    """With gates so large that no two rules keep the same tokens by accident."""
    model, _ = models.load(make(tmp_path, **made).folder)
    everything = [policy.name for policy in available(model.settings)]
    for names in (everything, ["router"], [name for name in everything if name in SIX], ["router", everything[1], everything[-1]]):
        found, _ = done(model, names)
        plan = operations.shared(model, names, 37)
        assert (found.body, found.head) == (2 * plan.body, 2 * plan.head), names


def test_the_plan_without_sharing_adds_up_what_each_policy_runs(tmp_path):
    model, _ = models.load(make(tmp_path, recursions=3, block=2).folder)
    names = [policy.name for policy in available(model.settings)]
    _, depths = done(model, names)
    plan = operations.alone(model, names, 37)
    kept = [int((depths[name][0] > r).sum()) for name in names for r in range(3)]
    assert plan.body == 2 * len(names) * operations.layer(model.config, 37) + 2 * sum(operations.layer(model.config, count) for count in kept)
    assert plan.head == len(names) * operations.head(model.config, 37)


def test_operations_of_six_policies_in_the_released_shapes():
    """Shared, 4,289 GFLOP a sequence; one by one, 7,430."""
    settings = Settings(kind="expert", recursions=3, router_function="sigmoid", alpha=0.1, capacities=(1.0, 2 / 3, 1 / 3))
    model = models.build(LlamaConfig.from_dict(SMOLLM_360M), settings)
    assert round(operations.shared(model, SIX, 2_048).all / 1e9) == 4_289
    assert round(operations.alone(model, SIX, 2_048).all / 1e9) == 7_430


def test_the_bench_prints_what_was_planned_and_done(capsys):
    arguments = ["bench", "--device", "cpu", "--shapes", "tiny", "--length", "128", "--policies", *SIX]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("expert-3, shapes tiny, random weights; cpu (") and lines[1] == f"policies: {', '.join(SIX)}"
    rows = {cells[1]: cells[2:-1] for line in lines if line.startswith("|") for cells in [[cell.strip() for cell in line.split("|")]]}
    assert list(rows) == ["operations", "---", "planned, each policy alone", "planned, sharing what is the same", "done: layers", "done: head", "done"]
    assert rows["done"][0] == rows["planned, sharing what is the same"][0] != rows["planned, each policy alone"][0]
    assert all(rows[name][1] and rows[name][3].endswith("%") for name in ("done: layers", "done: head", "done"))
    assert "GB are weights." in lines[-1]


def test_what_cannot_be_benched_is_refused(capsys):
    assert main(["bench", "--shapes", "tiny", "--policies", "shuffled"]) == 2
    assert "error: There is no policy 'shuffled' here; there are router, router_open, " in capsys.readouterr().err
    assert main(["bench", "--shapes", "tiny", "--length", "4096"]) == 2
    assert capsys.readouterr().err == "error: --sequences and --repeats should be 1 or more, and --length from 2 to 2048.\n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_alone_has_the_same_bits_and_tiles_change_rounding_only(dtype):
    draw = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(rows, 16, generator=draw).to(dtype) for rows in (50, 301))
    targets = torch.randint(0, 301, (50,), generator=draw)
    loss, entropy = head.loss_and_entropy(hidden, weight, targets, (7, 64))
    assert torch.equal(loss, head.loss(hidden, weight, targets, (7, 64)))
    logs = torch.log_softmax((hidden @ weight.T).double(), dim=1)
    assert (loss + logs.gather(1, targets.unsqueeze(1)).squeeze(1)).abs().max() < 1e-5
    assert (entropy + (logs * logs.exp()).sum(1)).abs().max() < 1e-5
    for tile in ((64, 512), None):
        assert (head.loss(hidden, weight, targets, tile) - loss).abs().max() < 1e-5
    assert head.loss(hidden[:0], weight, targets[:0]).shape == (0,)


def test_a_batch_is_doubled_until_memory_is_out_and_taken_back_one_step():
    def attempt(fits):
        tried.clear()
        return lambda batch: (tried.append(batch), torch.empty(1 if batch <= fits else 2**60, dtype=torch.uint8))

    tried = []
    assert machine.largest(attempt(11), 64) == 8 and tried == [1, 2, 4, 8, 16]
    assert machine.largest(attempt(64), 64) == 64
    assert machine.largest(attempt(64), 37) == 32
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        machine.largest(attempt(0), 64)
    with pytest.raises(ZeroDivisionError):
        machine.largest(lambda batch: 1 / 0, 64)


def _fitting(room, queue):
    """The batch of a golden checkpoint that fits into `room` bytes more than are used."""
    torch.set_num_threads(1)
    request = Request(output=None, checkpoints=[(None, GOLDEN / "expert_rec3")], policies=["router"])
    member = members.gather(request, {})[0]
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    queue.put(machine._fitting(member, CPU, 64, 4096, 0))


def test_the_batch_found_depends_on_the_memory_there_is():
    found = []
    for room in (120_000_000, 480_000_000):
        queue = processes.server.SimpleQueue()
        process = processes.server.Process(target=_fitting, args=(room, queue))
        process.start()
        process.join(120)
        assert process.exitcode == 0
        found.append(queue.get())
    assert 1 <= found[0] < found[1] <= 4096


def test_a_cpu_runs_few_sequences_at_once():
    assert [machine.batch_size(CPU, [], length, 1000, 0) for length in (2048, 512, 4096)] == [1, 4, 1]


@pytest.mark.parametrize(("small", "threads"), [(512, 1), (16, 3)])
def test_batches_of_a_small_model_run_side_by_side_on_one_thread_each(monkeypatch, small, threads):
    monkeypatch.setattr(machine, "SMALL", small)
    model, _ = models.load(GOLDEN / "expert_rec3")
    torch.set_num_threads(3)
    try:
        with machine.side_by_side(CPU, model) as each:
            assert torch.get_num_threads() == threads
            alone = [model.embed(torch.full((1, 8), token)) for token in range(20)]
            assert all(map(torch.equal, each(lambda token: model.embed(torch.full((1, 8), token)), range(20)), alone))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
