"""The plugin of SGLang: trees, chains, greedy trees and blocks, as its kernels decide them."""

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace as Bag
from typing import Any

import pytest
import torch

from specviz.events import Node, Verify
from specviz.runlog.fold import Run
from specviz_recorder import sglang
from support.recorder.fake_sglang import CHILD, SLOTS, VOCABULARY, fake_sglang
from support.recorder.reading import read

Install = Callable[[dict[str, ModuleType]], None]
NAMES = ["a", "b", "c"]


def batch_of(texts: dict[str, list[int]], greedy: bool) -> Any:
    """A batch of all requests, each behind a prompt of three tokens; what it gave is not known yet."""
    settings = Bag(
        temperature=0.7, top_k=1 if greedy else 40, max_new_tokens=None, ignore_eos=True, stop_token_ids=None
    )
    requests = [
        Bag(rid=name, origin_input_ids=[1, 2, 3], output_ids=[], sampling_params=settings, eos_token_ids=None)
        for name in texts
    ]
    return Bag(
        reqs=requests,
        sampling_info=Bag(is_all_greedy=greedy),
        forward_mode=Bag(is_idle=lambda: False),
    )


def decode_tree(modules: dict[str, ModuleType], kind: str, limits: tuple[float, float] = (1.0, 1.0)) -> dict[str, Any]:
    """Texts by request, as `eagle_sample` returned them, the first token from the prompt's pass."""
    draw, texts = torch.Generator().manual_seed(3), {name: [4] for name in NAMES}
    n = len(NAMES)
    for _ in range(15):
        drafted = torch.randint(0, VOCABULARY, (n, SLOTS), generator=draw)
        drafted[:, 0] = torch.tensor([text[-1] for text in texts.values()])
        drafted[:, 2] = (drafted[:, 1] + 1) % VOCABULARY  # siblings differ
        drafted[:, 4] = (drafted[:, 3] + 1) % VOCABULARY
        logits = 2 * torch.randn(n, SLOTS, VOCABULARY, generator=draw)
        q = torch.rand(n, SLOTS - 1, VOCABULARY, generator=draw).softmax(-1) if kind == "chain" else None
        settings = Bag(draft_token=drafted, draft_probs=q, coins=torch.rand(n, SLOTS, generator=draw), limits=limits)
        sample = modules["sglang.srt.speculative.eagle_utils"].eagle_sample
        predict, count, index = sample(settings, batch_of(texts, kind == "greedy"), Bag(next_token_logits=logits))
        for row, text in enumerate(texts.values()):
            text += predict[index[row, : count[row]].long()].tolist()
    return texts


def decode_block(modules: dict[str, ModuleType]) -> dict[str, Any]:
    """Texts by request, as the worker of block drafters returned them."""
    draw, texts = torch.Generator().manual_seed(4), {name: [4] for name in NAMES}
    worker = modules["sglang.srt.speculative.dflash_worker_v2"].DFlashWorkerV2()
    for _ in range(15):
        logits = torch.randn(len(NAMES), SLOTS, VOCABULARY, generator=draw)
        candidates = logits.argmax(-1).roll(1, dims=-1)
        wrong = torch.rand(candidates.shape, generator=draw) < 0.3
        candidates = torch.where(wrong, (candidates + 1) % VOCABULARY, candidates)
        candidates[:, 0] = torch.tensor([text[-1] for text in texts.values()])
        worker.step = Bag(candidates=candidates, logits=logits)
        _, count, _, out, _ = worker.forward_batch_generation(batch_of(texts, True))
        for row, text in enumerate(texts.values()):
            text += out[row, : count[row]].tolist()
    return texts


def recorded(path: Path, modules: dict[str, ModuleType], decode: Callable[..., Any], *settings: Any) -> tuple[Run, Any]:
    """The run and the texts."""
    sglang.load()
    sglang.load()  # again: hooked once
    texts = decode(modules, *settings)
    sglang._loaded[0].close()
    return read(path), texts


def decided(run: Run) -> list[Verify]:
    """Verdicts of tokens that were tested."""
    verdicts = [v for record in run.rounds for v in record.every(Verify) if v.status != "untested"]
    assert {v.status for v in verdicts} == {"accepted", "rejected"}
    return verdicts


def texts_of(run: Run) -> list[list[int]]:
    """Committed tokens by request."""
    return [
        [token for record in run.rounds if record.q == q for token in record.commit.tokens] for q in range(len(NAMES))
    ]


def rule_of(run: Run) -> tuple[str, str]:
    """The verifier and the promise of the header."""
    assert run.header is not None
    assert run.header.outside is not None
    return run.header.verifier, run.header.outside.promise


def test_a_tree_is_kept_by_coins_in_sums_of_p(path: Path, installed: Install) -> None:
    modules = fake_sglang()
    plain = decode_tree(fake_sglang(), "tree")
    installed(modules)
    run, texts = recorded(path, modules, decode_tree, "tree")
    assert texts == plain
    assert texts_of(run) == list(texts.values())
    assert rule_of(run) == ("walk", "same law")
    for verdict in decided(run):
        assert verdict.u is not None
        assert verdict.interval is not None
        assert verdict.logp is not None
        low, high = verdict.interval
        assert (low <= verdict.u < high) == (verdict.status == "accepted")
        assert high - low == pytest.approx(math.exp(verdict.logp), abs=1e-5)
    nodes = run.rounds[1].every(Node)
    assert [node.depth for node in nodes] == [1, 2, 3, 2, 1]  # of the tree that `CHILD` and `SIBLING` say
    assert CHILD[1] == 3


def test_thresholds_below_one_are_lossy_and_said(path: Path, installed: Install) -> None:
    limits = {"speculative_accept_threshold_single": 0.4, "speculative_accept_threshold_acc": 0.6}
    modules = fake_sglang(**limits)
    installed(modules)
    run, texts = recorded(path, modules, decode_tree, "tree", (0.4, 0.6))
    assert texts_of(run) == list(texts.values())
    assert rule_of(run) == ("thresholds", "lossy")
    for verdict in decided(run):
        assert verdict.u is not None
        assert verdict.thr is not None
        assert (verdict.u < verdict.thr) == (verdict.status == "accepted")


def test_a_chain_is_tested_by_p_over_q(path: Path, installed: Install) -> None:
    modules = fake_sglang(speculative_use_rejection_sampling=True)
    installed(modules)
    run, texts = recorded(path, modules, decode_tree, "chain")
    assert texts_of(run) == list(texts.values())
    assert rule_of(run) == ("tokenwise", "same law")
    for verdict in decided(run):
        assert None not in (verdict.u, verdict.logp, verdict.logq)
        ratio = math.exp(min(0.0, (verdict.logp or 0) - (verdict.logq or 0)))
        assert ((verdict.u or 0) < ratio) == (verdict.status == "accepted")


@pytest.mark.parametrize("decode", [lambda modules: decode_tree(modules, "greedy"), decode_block])
def test_greedy_keeps_what_is_likeliest(path: Path, installed: Install, decode: Callable[..., Any]) -> None:
    modules = fake_sglang()
    installed(modules)
    run, texts = recorded(path, modules, decode)
    assert texts_of(run) == list(texts.values())
    for verdict in decided(run):
        assert verdict.logp is not None
        assert (verdict.logp == 0) == (verdict.status == "accepted")
    assert run.header is not None
    assert run.header.sampling == {"temperature": 0.0}


@pytest.mark.parametrize(
    ("platform", "settings", "environment", "rule"),
    [
        ("_is_cpu", {}, None, "argmax"),
        ("_is_hip", {}, None, "argmax"),
        ("_is_hip", {"speculative_use_rejection_sampling": True}, None, "p/q"),
        (
            None,
            {"speculative_use_rejection_sampling": True, "speculative_use_block_verification": True},
            None,
            "block",
        ),
        (None, {}, "2.5", "coin"),
    ],
)
def test_the_rule_is_told_from_settings_and_platform(
    installed: Install,
    monkeypatch: pytest.MonkeyPatch,
    platform: str | None,
    settings: dict[str, Any],
    environment: str | None,
    rule: str,
) -> None:
    modules = fake_sglang(**settings)
    if platform is not None:
        setattr(modules["sglang.srt.speculative.eagle_utils"], platform, True)
    if environment is not None:
        monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", environment)
    installed(modules)
    assert sglang.card().rule == rule


def test_a_hook_that_fails_leaves_the_tokens_alone(
    path: Path, installed: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = fake_sglang()
    installed(modules)
    monkeypatch.setattr("specviz_recorder.sglang.tree._probabilities", lambda verified, settings: 1 / 0)
    sglang.load()
    assert decode_tree(modules, "tree") == decode_tree(fake_sglang(), "tree")
    assert capsys.readouterr().err.count("turned off: ZeroDivisionError") == 1


def test_a_changed_signature_is_named(path: Path, installed: Install, capsys: pytest.CaptureFixture[str]) -> None:
    modules = fake_sglang()
    modules["sglang.srt.speculative.eagle_utils"].eagle_sample = lambda verify_input, batch: None
    installed(modules)
    sglang.load()
    assert "eagle_utils:eagle_sample takes (verify_input, batch), not (" in capsys.readouterr().err
    assert not sglang._loaded
