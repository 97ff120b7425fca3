"""Our arms and the library's on small weights: same work, same counts, nothing shared, nothing left behind."""

from functools import partial
from pathlib import Path

import pytest
import torch

from specviz.engine.run.local import Pair, load_pair
from specviz.errors import SpecvizError
from specviz_lab.bench import peers
from specviz_lab.bench.ours import OurArm
from specviz_lab.bench.peers import PeerArm, Peers
from specviz_lab.bench.settings import DEFAULT, OURS, BenchSettings, contestants
from specviz_lab.bench.speed import bench
from support.models import planted, tokenizer

PROMPT, N = "abcabc", 24
Folders = tuple[str, str]


def arms_of(pair: Folders, names: str, temperature: float = 0.0) -> tuple[list[OurArm | PeerArm], Pair, Peers]:
    settings = BenchSettings(
        contestants(names), gamma=3, max_new_tokens=N, temperature=temperature, target=pair[0], draft=pair[1]
    )
    loaded, loops = load_pair(*pair), Peers(settings, 64)
    arms = [PeerArm(a, settings, loops) if a.peer else OurArm(a, settings, loaded) for a in settings.arms]
    return arms, loaded, loops


def ids() -> list[int]:
    numbers: list[int] = tokenizer()(PROMPT)["input_ids"]
    return numbers


def test_all_arms_write_the_text_that_the_weights_hold(pair: Folders) -> None:
    _, successor = planted(seed=1)
    token, text = ids()[-1], []
    for _ in range(N):
        token = successor[token]
        text.append(token)
    for arm in arms_of(pair, DEFAULT)[0]:
        assert arm.ready(ids(), N, 0)() == text, arm.name


TRAINED = {
    "kangaroo",
    "draft_and_verify",
    "specblock",
    "eagle3",
    "static_tree",
    "medusa",
    "mtp",
    "dflash",
}  # a part each


@pytest.mark.parametrize("name", sorted(set(OURS) - {*DEFAULT.split(","), *TRAINED}))
def test_every_method_writes_it_too(name: str, pair: Folders) -> None:
    """By its name and its defaults; those that need a trained part are measured where there is one."""
    (arm,) = arms_of(pair, name)[0]
    _, successor = planted(seed=1)
    text = arm.ready(ids(), N, 0)()
    assert text == [successor[token] for token in [ids()[-1], *text[:-1]]]
    numbers = arm.split(ids(), N, 0)
    assert (numbers.n_tokens, len(numbers.rounds)) == (N, numbers.n_rounds - 1)
    assert 0 <= numbers.n_accepted <= max(numbers.n_drafted, 0)


def test_the_library_s_assisted_generation_does_the_work_our_chain_does(pair: Folders) -> None:
    """Same gamma, constant and unguarded: round for round the same drafts, so its pins hold."""
    ours, theirs = (arm.split(ids(), N, 0) for arm in arms_of(pair, "chain,hf-assisted")[0])
    assert (ours.n_tokens, ours.n_rounds, ours.n_drafted) == (N, theirs.n_rounds, theirs.n_drafted)
    assert ours.n_accepted == theirs.n_accepted
    assert 0 < ours.n_accepted < ours.n_drafted


@pytest.mark.parametrize("name", DEFAULT.split(","))
def test_a_run_taken_apart_adds_up(name: str, pair: Folders) -> None:
    (arm,) = arms_of(pair, name)[0]
    numbers = arm.split(ids(), N, 0)
    assert numbers.n_tokens == N
    assert len(numbers.rounds) == numbers.n_rounds - 1
    assert all(ms >= 0 for stages in numbers.rounds for ms in stages.values())
    assert all(stages["target"] > 0 for stages in numbers.rounds)
    assert (numbers.n_drafted > 0) == (name not in ("ar", "hf-generate"))
    assert any(stages["draft"] > 0 for stages in numbers.rounds) == (name not in ("ar", "hf-generate", "hf-lookup"))
    assert any(stages.get("probe", 0) > 0 for stages in numbers.rounds) == ("+" in name)


def test_peers_share_no_model_and_keep_their_own_attention(pair: Folders) -> None:
    (_, peer), loaded, peers = arms_of(pair, "chain,hf-assisted")
    assert loaded.draft is not None
    own = [loaded.target.adapter.model, loaded.draft.adapter.model]
    theirs = [peers.model("target"), peers.model("draft")]
    assert not {p.data_ptr() for m in own for p in m.parameters()} & {
        p.data_ptr() for m in theirs for p in m.parameters()
    }
    assert [m.config._attn_implementation for m in own] == ["specviz", "specviz"]
    assert [m.config._attn_implementation for m in theirs] == ["sdpa", "sdpa"]
    peer.split(ids(), N, 0)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in theirs)


def test_sampled_runs_repeat_under_their_seed(pair: Folders) -> None:
    with torch.random.fork_rng():
        for arm in arms_of(pair, "ar,chain,hf-generate,hf-assisted", temperature=40.0)[0]:
            first, again, other = (arm.ready(ids(), N, seed)() for seed in (1, 1, 2))
            assert len(first) == N
            assert first == again != other, arm.name


def settings_of(pair: Folders, names: str, prompts: Path | None = None, temperature: float = 0.0) -> BenchSettings:
    return BenchSettings(
        contestants(names),
        max_new_tokens=12,
        repeats=2,
        temperature=temperature,
        target=pair[0],
        draft=pair[1],
        threads=1,
        prompts=prompts,
        limit=2,
    )


def test_a_report_compares_everything_that_was_measured(pair: Folders) -> None:
    before = torch.random.get_rng_state()
    report = bench(settings_of(pair, DEFAULT), "specviz lab bench", lambda _: None)
    assert torch.equal(before, torch.random.get_rng_state())
    names = DEFAULT.split(",")
    assert [arm.name for arm in report.arms] == names
    assert all(arm.n_runs == 4 and arm.tokens_per_second.median > 0 for arm in report.arms)
    assert [(e.arm, e.reference, e.n_equal, e.n) for e in report.equality] == [
        (n, "ar", 4, 4) for n in names if n != "ar"
    ]
    assert {(r.arm, r.base) for r in report.ratios} >= {
        ("ar", "hf-generate"),
        ("chain+full", "chain+none"),
        ("chain+none", "chain"),
    }
    assert len(report.bars) == 4
    assert not any(bar.applies for bar in report.bars)  # these are not the embedded models
    assert report.prompts.n_used == 2


def test_sampled_reports_promise_what_the_verifiers_promise(pair: Folders) -> None:
    report = bench(
        settings_of(pair, "ar,chain,tree,ngram,chain+full,hf-generate", temperature=30.0), "", lambda _: None
    )
    assert {e.arm: e.reference for e in report.equality} == {"tree": "ar", "ngram": "ar", "chain+full": "chain"}
    assert all(e.n_equal == e.n for e in report.equality)


def test_long_prompts_are_left_out_and_a_file_of_them_is_refused(pair: Folders, tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "ab"}\n{"prompt": "' + "x" * 400 + '"}\n')
    report = bench(settings_of(pair, "ar", file), "", lambda _: None)
    assert (report.prompts.n_found, report.prompts.n_used, report.prompts.n_left_out) == (2, 1, 1)
    file.write_text('{"prompt": "' + "x" * 400 + '"}\n')
    with pytest.raises(SpecvizError, match=r"no prompt of 'p\.jsonl' fits: the shortest has 400 tokens"):
        bench(settings_of(pair, "ar", file), "", lambda _: None)


def test_the_compiled_loop_compiles_once_and_writes_the_same(pair: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a backend that only traces, which takes no compiler of C++."""
    traced = []

    def tracing(graph: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
        traced.append(graph)
        return graph

    monkeypatch.setattr(peers, "CompileConfig", partial(peers.CompileConfig, backend=tracing))
    (plain, arm), _, _ = arms_of(pair, "hf-generate,hf-compiled")
    text = plain.ready(ids(), N, 0)()
    assert arm.ready(ids(), N, 0)() == text
    once = len(traced)
    assert once
    assert arm.ready(ids()[1:], N, 0)() == plain.ready(ids()[1:], N, 0)()  # another length, over the same cache
    assert arm.split(ids(), N, 0).n_rounds == N
    assert len(traced) == once


def test_without_a_compiler_of_c_plus_plus_its_row_says_so(pair: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.shutil, "which", lambda _: None)
    settings = BenchSettings(contestants("ar,hf-compiled"), 3, 4, 1, target=pair[0], draft=pair[1], threads=1, limit=1)
    report = bench(settings, "", lambda _: None)
    assert [arm.name for arm in report.arms] == ["ar"]
    assert any(note.startswith("hf-compiled was not measured: the library's compiler") for note in report.notes)
