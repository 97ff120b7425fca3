"""What all trainers share: requests, work folders begun before, and being interrupted."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from specviz.cli import INTERRUPTED, TERMINATED, main
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz_train import recipe
from specviz_train.common import loop, own_text
from specviz_train.common.console import Console
from specviz_train.common.loop import held
from specviz_train.common.optim import Budget
from specviz_train.exits import train as exit_heads
from specviz_train.hrad import train as hrad
from specviz_train.kangaroo import train as kangaroo
from specviz_train.recipe import TimedRequest
from specviz_train.self_skip import train as skip_set
from specviz_train.trees import block_drafter, eagle3
from specviz_train.trees.objective import PartResult
from support.models import build
from train.small_drafter import quiet, run_of

HERE = Path("here")


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))


@dataclass(frozen=True, slots=True)
class Asked(TimedRequest):
    """A trainer with an option of every type."""

    command_name: ClassVar[str] = "thing"
    named: ClassVar[tuple[str, ...]] = ("kind",)

    kind: str = "low"
    layers: tuple[int, ...] = ()
    rate: float = 0.5
    shift: bool = True
    wide: bool = False


def test_a_request_names_what_is_not_usual() -> None:
    plain = Asked("some/model", HERE, HERE, 3)
    assert plain.command == "specviz train thing --minutes 3 --seed 0 --target model --kind low"
    asked = Asked(
        None,
        HERE,
        HERE,
        0.5,
        layers=(1, 4),
        rate=1e-4,
        shift=False,
        wide=True,
        seed=7,
        packages=True,
        texts=(Path("/private/a.txt"),),
        device="cpu",
        threads=3,
    )
    assert asked.command == (
        "specviz train thing --minutes 0.5 --seed 7 --kind low --layers 1,4 --rate 0.0001 --no-shift --wide "
        "--packages --text a.txt"
    )
    assert asked.settings == {
        "seed": 7,
        "kind": "low",
        "layers": [1, 4],
        "rate": 1e-4,
        "shift": False,
        "wide": True,
        "packages": True,
        "texts": ["a.txt"],
    }


BEGUN = {  # settings.json of runs that were begun before trainers shared their requests
    block_drafter.BlockDrafterRequest: {
        "seed": 0,
        "slots": 4,
        "layers": 2,
        "blocks": 3,
        "width": 0,
        "draft_vocab": 0,
        "packages": True,
        "rope_mode": "offset",
        "rank_loss": "invsqrt",
        "shift": True,
        "broadcast": True,
        "valid_prefix": True,
        "texts": ["gsm8k_train.jsonl"],
    },
    eagle3.Eagle3Request: {"seed": 0, "steps": 7, "draft_vocab": 0, "packages": True, "texts": ["gsm8k_train.jsonl"]},
    exit_heads.ExitHeadRequest: {
        "seed": 0,
        "kind": "lowrank",
        "rank": 64,
        "shortlist": 0,
        "labels": "hard",
        "layers": [],
        "packages": True,
        "texts": ["gsm8k_train.jsonl"],
    },
    kangaroo.KangarooRequest: {"seed": 0, "layers": [], "packages": True, "texts": ["gsm8k_train.jsonl"]},
    skip_set.SkipSetRequest: {"seed": 0, "packages": True, "texts": ["gsm8k_train.jsonl"]},
    hrad.HradRequest: {
        "gamma": 4,
        "temperature": 0.0,
        "layers": 4,
        "seed": 0,
        "packages": True,
        "texts": ["gsm8k_train.jsonl"],
    },
}


@pytest.mark.parametrize("kind", BEGUN)
def test_runs_begun_before_are_gone_on_with(kind: Any, tmp_path: Path) -> None:
    """Options that came later were then at their defaults; asked for otherwise, they are refused."""
    (tmp_path / "settings.json").write_text(json.dumps(BEGUN[kind]))
    time = {} if kind is hrad.HradRequest else {"minutes": 1}
    asked = {"packages": True, "texts": (Path("x/gsm8k_train.jsonl"),), **time}
    same = kind(None, tmp_path, tmp_path, **asked)
    recipe.claim(tmp_path, tmp_path, same.settings, same.usual)
    assert json.loads((tmp_path / "settings.json").read_text()) == BEGUN[kind]
    other = kind(None, tmp_path, tmp_path, **asked, seed=1)
    with pytest.raises(SpecvizError, match="begun with seed=0"):
        recipe.claim(tmp_path, tmp_path, other.settings, other.usual)


def test_a_later_option_is_refused_where_it_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(BEGUN[block_drafter.BlockDrafterRequest]))
    asked = block_drafter.BlockDrafterRequest(
        None, tmp_path, tmp_path, 1, packages=True, texts=(Path("gsm8k_train.jsonl"),), batch=8, precision="fp32"
    )
    with pytest.raises(SpecvizError, match="begun with batch=2, precision=bf16"):
        recipe.claim(tmp_path, tmp_path, asked.settings, asked.usual)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """SIGINT as a terminal sends it, also where these tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_step_is_finished_and_kept(target: ModelAdapter, tmp_path: Path) -> None:
    """Ctrl-C in the middle of step 2: the step ends, the checkpoint holds it, the run goes on as if none had come."""
    once, folder = run_of(target, tmp_path), tmp_path / "again"
    once.finish(quiet)
    folder.mkdir()
    run = run_of(target, folder)
    part_loss = run.objective.part_loss

    def interrupted(step: int, at: int, progress: float) -> PartResult:
        if step == 2:
            signal.raise_signal(signal.SIGINT)
        return part_loss(step, at, progress)

    run.objective.part_loss = interrupted
    with pytest.raises(KeyboardInterrupt):
        run.finish(quiet)
    assert torch.load(folder / "run.pt", weights_only=True)["ledger"]["steps"] == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    gone_on = run_of(target, folder)
    gone_on.finish(quiet)
    for mine, theirs in zip(once.objective.network.parameters(), gone_on.objective.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_second_interruption_is_obeyed_at_once(
    target: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "AGAIN_S", 0.0)
    run = run_of(target, tmp_path)

    def twice(step: int, at: int, progress: float) -> PartResult:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the step went on")

    run.objective.part_loss = twice
    with pytest.raises(KeyboardInterrupt):
        run.finish(quiet)


def test_one_interruption_that_comes_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the terminal, and again from the launcher."""
    monkeypatch.setattr(loop, "AGAIN_S", 60.0)
    reached = []

    def block() -> None:
        with held() as came:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append(came())

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == [True]


def test_what_is_ignored_stays_ignored() -> None:
    """A shell starts background jobs with SIGINT ignored: noting it would end a run early that nobody interrupted."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held() as came:
            signal.raise_signal(signal.SIGINT)
            assert not came()
    finally:
        signal.signal(signal.SIGINT, before)


def test_text_that_was_being_written_is_gone_on_with(tmp_path: Path) -> None:
    """A batch that was cut short is drawn again by its number; those before it are kept."""
    path, asked = tmp_path / "own.npz", []

    def write(number: int) -> own_text.OwnWindows:
        asked.append(number)
        if asked.count(2) == 1 and number == 2:
            raise KeyboardInterrupt
        return own_text.OwnWindows.behind(np.full((2, 3), number, dtype=np.int32), number % 3)

    with pytest.raises(KeyboardInterrupt):
        own_text.grown(path, Budget(steps=4), Console(quiet=True), write)
    ids = own_text.grown(path, Budget(steps=4), Console(quiet=True), write)
    assert ids.ids[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert ids.written.sum(1).tolist() == [3, 3, 2, 2, 1, 1, 3, 3]
    assert asked == [0, 1, 2, 2, 3]
    path.write_bytes(b"half a file")
    with pytest.raises(SpecvizError, match="--work"):
        own_text.grown(path, Budget(steps=4), Console(quiet=True), write)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("name", ["kangaroo", "eagle3", "hrad"])
def test_whoever_interrupts_is_told_how_to_go_on(
    name: str, number: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it happens: here, while the target is loaded."""
    from specviz.engine.model import pair
    from specviz.engine.model.files import loading

    def interrupt(*_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(loading, "load", interrupt)
    monkeypatch.setattr(pair, "load", interrupt)
    assert main(["train", name, "--work", "some-folder"]) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert lines == ["specviz: interrupted; give the same command again to go on from what is in some-folder"]


def test_checkpoints_of_before_are_gone_on_with(target: ModelAdapter, tmp_path: Path) -> None:
    """Written before trainers shared a loop, when a drafter's tokens were pairs, and heads had one optimiser."""
    once, folder = run_of(target, tmp_path, optimizer="adamw"), tmp_path / "again"
    once.finish(quiet)
    folder.mkdir()
    halted = run_of(target, folder, optimizer="adamw")
    halted.finish(quiet, stop=lambda: halted.ledger.steps == 2)
    state = torch.load(folder / "run.pt", weights_only=True)
    state["ledger"]["pairs"] = state["ledger"].pop("tokens")
    (state["optimizer"],) = state.pop("optimizers")
    torch.save(state, folder / "run.pt")
    gone_on = run_of(target, folder, optimizer="adamw")
    assert gone_on.ledger == halted.ledger
    assert gone_on.finish(quiet).tokens == once.ledger.tokens
    for mine, theirs in zip(once.objective.network.parameters(), gone_on.objective.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_of_another_run_is_refused(target: ModelAdapter, tmp_path: Path) -> None:
    run_of(target, tmp_path, steps=1).finish(quiet)
    with pytest.raises(SpecvizError, match=r"cannot go on from .*run\.pt.*--work"):
        run_of(target, tmp_path, slots=2)
    (tmp_path / "run.pt").write_bytes(b"half a file")
    with pytest.raises(SpecvizError, match="cannot go on from"):
        run_of(target, tmp_path)
