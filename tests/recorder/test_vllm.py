"""The plugin of vLLM, both runners: what is recorded is what the sampler decided, and the sampler decides the same."""

import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace as Bag
from typing import Any

import pytest
import torch

from specviz.events import Closing, Node, Verify, Warn
from specviz.runlog.fold import Run
from specviz_recorder import vllm
from specviz_recorder.device import OnItsWay
from support.recorder.fake_vllm import STEPS, VOCABULARY, fake_vllm
from support.recorder.reading import read

Install = Callable[[dict[str, ModuleType]], None]
TEMPERATURES = [0.8, 0.0, 1.0]
FIRST, SECOND = "vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner"


def runner_of(modules: dict[str, ModuleType], which: str) -> Any:
    """A worker's runner, as the engine makes it."""
    worker = modules["vllm.v1.worker.worker_base"].WorkerWrapperBase()
    type(worker).runner = modules[which].GPUModelRunner
    worker.init_device()
    return worker.worker.model_runner


def scheduled(names: list[str], finished: list[str] | None = None, most: int | None = None) -> Any:
    """What the scheduler says of requests that begin and end."""
    settings = [
        Bag(temperature=t, max_tokens=most, ignore_eos=False, all_stop_token_ids={99}, stop_token_ids=[])
        for t in TEMPERATURES
    ]
    new = [Bag(req_id=n, prompt_token_ids=[1, 2, 3], sampling_params=s) for n, s in zip(names, settings, strict=False)]
    return Bag(scheduled_new_reqs=new, finished_req_ids=finished or [])


def first_step(draw: torch.Generator, probabilities: bool) -> Any:
    """Metadata of a step of three requests, one of which is filled up with -1."""
    n = len(TEMPERATURES) * STEPS
    drafted = torch.randint(0, VOCABULARY, (n,), generator=draw)
    drafted[-1] = -1
    counts = [STEPS] * len(TEMPERATURES)
    meta = Bag(all_greedy=False, all_random=False, temperature=torch.tensor(TEMPERATURES))
    metadata = {
        "draft_token_ids": drafted,
        "num_draft_tokens": counts,
        "max_spec_len": STEPS,
        "cu_num_draft_tokens": torch.tensor(counts).cumsum(0),
        "draft_probs": torch.rand(n, VOCABULARY, generator=draw).softmax(-1) if probabilities else None,
        "target_logits": torch.randn(n, VOCABULARY, generator=draw),
        "bonus_token_ids": torch.randint(0, VOCABULARY, (len(counts), 1), generator=draw),
        "sampling_metadata": meta,
    }
    return Bag(num_draft_tokens=counts, given=metadata)


def decode_first(modules: dict[str, ModuleType], probabilities: bool, steps: int = 30) -> list[list[int]]:
    """Tokens by request, as the sampler returned them."""
    draw, runner, names = torch.Generator().manual_seed(1), runner_of(modules, FIRST), ["a", "b", "c"]
    runner.execute_model(scheduled(names))
    rows = [torch.randn(3, VOCABULARY, generator=draw) for _ in range(1)]
    texts = [[int(token)] for token in runner._sample(rows[0], None).sampled_token_ids[:, 0]]
    for _ in range(steps):
        runner.execute_model(scheduled([]))
        out = runner._sample(None, first_step(draw, probabilities)).sampled_token_ids
        for text, row in zip(texts, out.tolist(), strict=True):
            text += [token for token in row if token >= 0]
    runner.execute_model(scheduled([], names))
    return texts


def decode_second(modules: dict[str, ModuleType], probabilities: bool, steps: int = 30) -> list[list[int]]:
    """Tokens by request, as the sampler returned them; two chunks a step."""
    draw, runner, names = torch.Generator().manual_seed(1), runner_of(modules, SECOND), ["a", "b", "c"]
    runner.execute_model(scheduled(names))
    texts: list[list[int]] = [[], [], []]
    states = torch.tensor([2, 0, 1])
    temperature, seed = torch.tensor([0.0, 1.0, 0.8]), torch.tensor([7, -(2**40), 5])
    for step in range(steps):
        logits = torch.randn(3, STEPS, VOCABULARY, generator=draw) if probabilities else None
        runner.given = []
        for rows in ([0, 1], [2]):
            state, width = states[rows], STEPS + 1
            runner.given.append(
                {
                    "target_logits": torch.randn(len(rows) * width, VOCABULARY, generator=draw),
                    "draft_logits": logits,
                    "draft_sampled": torch.randint(-1, VOCABULARY, (len(rows) * width,), generator=draw),
                    "cu_num_logits": torch.arange(len(rows) + 1) * width,
                    "pos": torch.arange(len(rows) * width) + 100 * step,
                    "idx_mapping": state,
                    "expanded_idx_mapping": state.repeat_interleave(width),
                    "expanded_local_pos": torch.arange(width).repeat(len(rows)),
                    "temperature": temperature,
                    "seed": seed,
                    "num_speculative_steps": STEPS,
                }
            )
        out = runner.sample(None, Bag(req_ids=names, num_reqs=3), None)[0]
        for text, row, count in zip(texts, out.sampled_token_ids.tolist(), out.num_sampled.tolist(), strict=True):
            text += row[:count]
    runner.execute_model(scheduled([], names))
    return texts


DECODERS = [(decode_first, FIRST), (decode_second, SECOND)]


def recorded(path: Path) -> Run:
    """What was written, once it is."""
    for hooks in vllm._hooks.values():
        hooks.sink.close()
    return read(path)


def decided_again(run: Run, point_mass: bool) -> int:
    """Every test by u < min(1, p / q), from the logs on record; how many were decided."""
    n = 0
    for record in run.rounds:
        for verdict in record.every(Verify):
            if verdict.u is None or verdict.logp is None or verdict.status == "untested":
                continue
            assert (verdict.logq is None) == point_mass
            ratio = math.exp(min(0.0, verdict.logp - (verdict.logq or 0.0)))
            assert (verdict.u < ratio) == (verdict.status == "accepted")
            n += 1
    return n


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize(("decode", "which"), DECODERS)
def test_verdicts_follow_from_p_q_and_u_and_the_tokens_are_the_engines(
    path: Path, installed: Install, decode: Any, which: str, probabilities: bool
) -> None:
    modules = fake_vllm(sample="probabilistic" if probabilities else "greedy")
    plain = decode(fake_vllm(), probabilities)
    installed(modules)
    vllm.load()
    texts = decode(modules, probabilities)
    assert texts == plain  # the same numbers were drawn
    run = recorded(path)
    assert run.header is not None
    assert run.header.outside is not None
    assert (run.header.verifier, run.header.outside.version) == ("tokenwise", "0.32.0")
    assert decided_again(run, point_mass=not probabilities) > 20
    assert not run.warnings
    by_request = [[token for record in run.rounds if record.q == q for token in record.commit.tokens] for q in range(3)]
    assert sorted(by_request) == sorted(texts)
    statuses = {v.status for record in run.rounds for v in record.every(Verify)}
    assert statuses == {"accepted", "rejected", "untested"}
    closed = [c for record in run.rounds for c in record.every(Closing) if c.kind == "recovered"]
    assert any(c.logp is not None for c in closed)


@pytest.mark.parametrize(("decode", "which"), DECODERS)
def test_a_hook_that_fails_turns_itself_off_and_the_tokens_are_the_same(
    path: Path,
    installed: Install,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    decode: Any,
    which: str,
) -> None:
    modules = fake_vllm()
    installed(modules)
    vllm.load()
    taken, take = [0], OnItsWay.take

    def lost(self: OnItsWay, name: str, tensor: Any) -> None:
        taken[0] += 1
        if taken[0] == 40:
            raise RuntimeError("the device is lost")
        take(self, name, tensor)

    monkeypatch.setattr(OnItsWay, "take", lost)
    texts = decode(modules, True)
    assert texts == decode(fake_vllm(), True)
    assert taken == [40]
    assert capsys.readouterr().err.count("turned off: RuntimeError: the device is lost") == 1
    assert 0 < len(recorded(path).rounds) < sum(map(len, texts))  # what was there stays


def test_a_changed_signature_is_named_and_nothing_is_recorded(
    path: Path, installed: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = fake_vllm()
    sampler = modules["vllm.v1.sample.rejection_sampler"]
    sampler.generate_uniform_probs = lambda num_tokens, device: None
    installed(modules)
    vllm.load()
    runner_of(modules, FIRST)
    err = capsys.readouterr().err
    assert "vllm.v1.sample.rejection_sampler:generate_uniform_probs takes (num_tokens, device), not (" in err
    assert err.count("\n") == 1
    assert not vllm._hooks


def test_loading_again_hooks_once_and_without_the_variable_not_at_all(
    path: Path, installed: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = fake_vllm()
    installed(modules)
    monkeypatch.delenv("SPECVIZ_RECORD")
    wrapper = modules["vllm.v1.worker.worker_base"].WorkerWrapperBase
    before = wrapper.init_device
    vllm.load()
    assert wrapper.init_device is before
    monkeypatch.setenv("SPECVIZ_RECORD", str(path))
    vllm.load()
    vllm.load()
    texts = decode_first(modules, True)
    run = recorded(path)
    assert sum(len(record.commit.tokens) for record in run.rounds) == sum(map(len, texts))


def test_requests_stand_together_and_end_where_the_engine_ends_them(path: Path, installed: Install) -> None:
    """Decoded in turn, by several threads; the sampler keeps tokens behind the end, the engine does not."""
    modules = fake_vllm(sample="greedy")
    installed(modules)
    vllm.load()
    runner, draw = runner_of(modules, FIRST), torch.Generator().manual_seed(2)
    runner.execute_model(scheduled(["a", "b", "c"], most=7))
    for _ in range(8):
        step = first_step(draw, False)
        thread = threading.Thread(target=lambda step=step: runner._sample(None, step))
        thread.start()
        thread.join()
    runner.execute_model(scheduled([], ["a", "b", "c"]))
    run = recorded(path)
    assert [query.n_rounds > 0 for query in run.queries] == [True] * 3
    for q in range(3):
        rounds = [record for record in run.rounds if record.q == q]
        assert sum(len(record.commit.tokens) for record in rounds) == 7
        assert rounds[-1].commit.finish == "length"


def test_numbers_that_are_none_are_said(path: Path, installed: Install) -> None:
    modules = fake_vllm(sample="greedy")
    installed(modules)
    vllm.load()
    runner, step = runner_of(modules, FIRST), first_step(torch.Generator().manual_seed(3), False)
    runner.execute_model(scheduled(["a", "b", "c"]))
    step.given["target_logits"][0] = math.nan
    runner._sample(None, step)
    run = recorded(path)
    assert any("not finite" in warning.message for warning in run.warnings if isinstance(warning, Warn))
    assert next(node for record in run.rounds for node in record.every(Node)).pos == 3
