"""The library's own assisted generation, recorded: its output is the trace's text, its tests can be decided again."""

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from specviz import trace
from specviz.errors import TraceError
from specviz.events import Verify
from specviz.runlog.fold import Run, fold
from specviz.trace.check import Checker
from support.models import CONFIGS

PROMPT = torch.tensor([[5, 9, 5, 9, 12, 5, 9]])


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return _pair()


@pytest.fixture(autouse=True)
def own_generator() -> Iterator[None]:
    """The library's loop draws from torch's global generator; nothing of that is seen outside."""
    with torch.random.fork_rng():
        yield


def _pair() -> tuple[Any, Any]:
    target = hf.LlamaForCausalLM(CONFIGS["llama"]()).eval()
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return target, draft


def _read(path: Path) -> Run:
    events, checker = list(trace.read_events(path)), Checker(path)
    for line, event in enumerate(events, 1):
        checker.take(event, line)
    return fold(events)


def _committed(run: Run) -> list[list[int]]:
    return [[token for r in query.rounds if r.commit for token in r.commit.tokens] for query in run.queries]


@pytest.mark.parametrize("settings", [{"do_sample": False}, {"do_sample": True, "temperature": 0.8}])
def test_the_output_is_the_same_with_and_without_and_is_the_text(
    tmp_path: Path, pair: tuple[Any, Any], settings: dict[str, Any]
) -> None:
    target, draft = pair
    options = {"assistant_model": draft, "max_new_tokens": 40, "pad_token_id": 258, "eos_token_id": 257, **settings}
    outputs = []
    torch.manual_seed(11)
    alone = [target.generate(PROMPT, **options)[0, 7:].tolist() for _ in range(2)]
    torch.manual_seed(11)
    with trace.transformers(target, tmp_path / "a", text=lambda token: f" {token}"):
        outputs = [target.generate(PROMPT, **options)[0, 7:].tolist() for _ in range(2)]
    run = _read(tmp_path / "a")
    assert outputs == alone == _committed(run)
    assert not run.warnings
    verdicts = [v for record in run.rounds for v in record.every(Verify)]
    assert any(v.status == "rejected" for v in verdicts)
    assert any(v.status == "accepted" for v in verdicts)
    assert all(v.logp is not None for v in verdicts)
    if settings["do_sample"]:
        tested = [v for v in verdicts if v.order is not None]
        assert all(v.u is not None and v.thr is not None and (v.u < v.thr) == (v.status == "accepted") for v in tested)


def test_prompt_lookup_is_exact_match_and_another_rule_is_left_out(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    target, draft = pair
    options = {"max_new_tokens": 12, "pad_token_id": 258, "eos_token_id": None}
    with trace.transformers(target, tmp_path / "a"):
        out = target.generate(PROMPT, prompt_lookup_num_tokens=3, do_sample=False, **options)
        target.generate(PROMPT, assistant_model=draft, do_sample=True, **options)
    run = _read(tmp_path / "a")
    assert _committed(run) == [out[0, 7:].tolist()]
    assert [warning.code for warning in run.warnings] == ["left_out"]
    assert "_get_candidate_generator" not in vars(target)


def test_without_the_recorder_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "specviz_recorder.transformers", None)
    with pytest.raises(TraceError, match=r"specviz-recorder is not here; pip install \./recorder"):
        trace.transformers(None, "nowhere.sv.jsonl")
