"""What all trainers share, and what those of drafters add: requests, interruptions, losses, steps, the card."""

import json
import signal
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from blocks.test_medusa import made as medusa_made
from blocks.test_published import eagle_folder, medusa_folder
from engine.zoo import build, save
from specviz.cli import INTERRUPTED, TERMINATED, main
from specviz.cli.train import command
from specviz.drafters.blocks.losses import draft_losses
from specviz.drafters.eagle import files as eagle_files
from specviz.drafters.medusa import files as medusa_files
from specviz.drafters.rank_table import read_table
from specviz.engine.loading import load
from specviz.engine.model import ModelAdapter
from specviz.errors import SpecvizError
from specviz.train import block_card as cards
from specviz.train import (
    block_drafter,
    block_text,
    corpus,
    drafter_loop,
    eagle3,
    exit_heads,
    hrad,
    kangaroo,
    own_batches,
    part,
    plot,
    skip_set,
    static_tree,
    stopping,
    tree_card,
    tree_measure,
)
from specviz.train.block_text import Windows
from specviz.train.console import Console
from specviz.train.drafter_loop import DrafterRun, Lesson, Pace, Step
from specviz.train.request import Timed
from specviz.train.schedule import Budget
from specviz.train.stopping import held
from specviz.train.tokens import Feed
from specviz.train.workers import Workers

HERE = Path("here")


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))


WINDOWS = Windows(np.random.default_rng(0).integers(0, 250, (12, 24)).astype(np.int32), 5)


def run_of(target: ModelAdapter, folder: Path, steps: int = 6, **asked: Any) -> DrafterRun:
    """A training of a block drafter on given windows."""
    request = block_drafter.Request(None, folder, folder, 1, **asked)
    made = block_drafter._begin(request, target, WINDOWS)
    lesson = Lesson(target.model, made, made.config.taps, WINDOWS, 3, request.batch)
    take = block_drafter._steps(request, target, lesson)
    return DrafterRun(made.network, Budget(steps=steps), folder / "run.pt", take, request.pace)


def quiet(progress: float, loss: float, tokens_per_s: float) -> None:
    """Nothing to tell."""


@dataclass(frozen=True, slots=True)
class Asked(Timed):
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
        None, HERE, HERE, 0.5, layers=(1, 4), rate=1e-4, shift=False, wide=True, seed=7, packages=True,
        texts=(Path("/private/a.txt"),), device="cpu", threads=3,
    )  # fmt: skip
    assert asked.command == (
        "specviz train thing --minutes 0.5 --seed 7 --kind low --layers 1,4 --rate 0.0001 --no-shift --wide "
        "--packages --text a.txt"
    )
    assert asked.settings == {
        "seed": 7, "kind": "low", "layers": [1, 4], "rate": 1e-4, "shift": False, "wide": True, "packages": True,
        "texts": ["a.txt"],
    }  # fmt: skip


BEGUN = {  # settings.json of runs that were begun before trainers shared their requests
    block_drafter.Request: {
        "seed": 0, "slots": 4, "layers": 2, "blocks": 3, "width": 0, "draft_vocab": 0, "packages": True,
        "rope_mode": "offset", "rank_loss": "invsqrt", "shift": True, "broadcast": True, "valid_prefix": True,
        "texts": ["gsm8k_train.jsonl"],
    },
    eagle3.Request: {"seed": 0, "steps": 7, "draft_vocab": 0, "packages": True, "texts": ["gsm8k_train.jsonl"]},
    exit_heads.Request: {
        "seed": 0, "kind": "lowrank", "rank": 64, "shortlist": 0, "labels": "hard", "layers": [], "packages": True,
        "texts": ["gsm8k_train.jsonl"],
    },
    kangaroo.Request: {"seed": 0, "layers": [], "packages": True, "texts": ["gsm8k_train.jsonl"]},
    skip_set.Request: {"seed": 0, "packages": True, "texts": ["gsm8k_train.jsonl"]},
    hrad.Request: {
        "gamma": 4, "temperature": 0.0, "layers": 4, "seed": 0, "packages": True, "texts": ["gsm8k_train.jsonl"],
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", BEGUN)
def test_runs_begun_before_are_gone_on_with(kind: Any, tmp_path: Path) -> None:
    """Options that came later were then at their defaults; asked for otherwise, they are refused."""
    (tmp_path / "settings.json").write_text(json.dumps(BEGUN[kind]))
    time = {} if kind is hrad.Request else {"minutes": 1}
    asked = {"packages": True, "texts": (Path("x/gsm8k_train.jsonl"),), **time}
    same = kind(None, tmp_path, tmp_path, **asked)
    part.claim(tmp_path, tmp_path, same.settings, same.usual)
    assert json.loads((tmp_path / "settings.json").read_text()) == BEGUN[kind]
    other = kind(None, tmp_path, tmp_path, **asked, seed=1)
    with pytest.raises(SpecvizError, match="begun with seed=0"):
        part.claim(tmp_path, tmp_path, other.settings, other.usual)


def test_a_later_option_is_refused_where_it_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(BEGUN[block_drafter.Request]))
    asked = block_drafter.Request(
        None, tmp_path, tmp_path, 1, packages=True, texts=(Path("gsm8k_train.jsonl"),), batch=8, precision="fp32"
    )
    with pytest.raises(SpecvizError, match="begun with batch=2, precision=bf16"):
        part.claim(tmp_path, tmp_path, asked.settings, asked.usual)


def test_an_interrupted_step_is_finished_and_kept(target: ModelAdapter, tmp_path: Path) -> None:
    """Ctrl-C in the middle of step 2: the step ends, the checkpoint holds it, the run goes on as if none had come."""
    once, folder = run_of(target, tmp_path), tmp_path / "again"
    once.finish(quiet)
    folder.mkdir()
    run = run_of(target, folder)
    take = run.take

    def interrupted(step: int, at: int, progress: float) -> Step:
        if step == 2:
            signal.raise_signal(signal.SIGINT)
        return take(step, at, progress)

    run.take = interrupted
    with pytest.raises(KeyboardInterrupt):
        run.finish(quiet)
    assert torch.load(folder / "run.pt", weights_only=True)["ledger"]["steps"] == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    gone_on = run_of(target, folder)
    gone_on.finish(quiet)
    for mine, theirs in zip(once.network.parameters(), gone_on.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_second_interruption_is_obeyed_at_once(
    target: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "AGAIN_S", 0.0)
    run = run_of(target, tmp_path)

    def twice(step: int, at: int, progress: float) -> Step:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the step went on")

    run.take = twice
    with pytest.raises(KeyboardInterrupt):
        run.finish(quiet)


def test_one_interruption_that_comes_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the terminal, and again from the launcher."""
    monkeypatch.setattr(stopping, "AGAIN_S", 60.0)
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

    def write(number: int) -> own_batches.Ids:
        asked.append(number)
        if asked.count(2) == 1 and number == 2:
            raise KeyboardInterrupt
        return np.full((2, 3), number, dtype=np.int32)

    with pytest.raises(KeyboardInterrupt):
        own_batches.grown(path, Budget(steps=4), Console(quiet=True), write)
    ids = own_batches.grown(path, Budget(steps=4), Console(quiet=True), write)
    assert ids[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert asked == [0, 1, 2, 2, 3]
    path.write_bytes(b"half a file")
    with pytest.raises(SpecvizError, match="--work"):
        own_batches.grown(path, Budget(steps=4), Console(quiet=True), write)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("name", ["kangaroo", "eagle3", "hrad"])
def test_whoever_interrupts_is_told_how_to_go_on(
    name: str, number: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it happens: here, while the target is loaded."""
    from specviz.engine import loading, pair

    def interrupt(*_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(loading, "load", interrupt)
    monkeypatch.setattr(pair, "load", interrupt)
    assert main(["train", name, "--work", "some-folder"]) == code
    told = [line for line in capsys.readouterr().err.splitlines() if line]
    assert told == ["specviz: interrupted; give the same command again to go on from what is in some-folder"]


def test_a_checkpoint_of_another_run_is_refused(target: ModelAdapter, tmp_path: Path) -> None:
    run_of(target, tmp_path, steps=1).finish(quiet)
    with pytest.raises(SpecvizError, match=r"cannot go on from .*run\.pt.*--work"):
        run_of(target, tmp_path, slots=2)
    (tmp_path / "run.pt").write_bytes(b"half a file")
    with pytest.raises(SpecvizError, match="cannot go on from"):
        run_of(target, tmp_path)


def test_the_loss_on_fifty_tokens_by_hand() -> None:
    """The likeliest fifty keep their probabilities, so they add up to less than one; a small vocabulary is whole."""
    rng = torch.Generator().manual_seed(0)
    logits, probs = torch.randn(3, 80, generator=rng), torch.randn(3, 80, generator=rng).softmax(-1)
    logs = logits.log_softmax(-1)
    want = [-sum(float(probs[n, v] * logs[n, v]) for v in probs[n].argsort(descending=True)[:50]) for n in range(3)]
    assert draft_losses(logits, probs, "top50").tolist() == pytest.approx(want, rel=1e-5)
    assert draft_losses(logits, probs, "full").tolist() == pytest.approx((-(probs * logs).sum(-1)).tolist(), rel=1e-5)
    few = draft_losses(logits[:, :40], probs[:, :40], "top50")
    assert torch.equal(few, draft_losses(logits[:, :40], probs[:, :40], "full"))


def test_places_ahead_weigh_less_by_the_decay_asked_for(target: ModelAdapter, tmp_path: Path) -> None:
    """The losses of all levels at three decays lie on the line that their weights say."""
    told = {}
    for decay in (1.0, 0.5, 0.25):
        request = eagle3.Request(None, tmp_path, tmp_path, 1, steps=2, decay=decay)
        made = eagle3._begin(request, target, WINDOWS)
        lesson = Lesson(target.model, made, made.config.taps, WINDOWS, 3)
        told[decay] = float(eagle3._steps(request, target, lesson)(0).loss.detach())
    assert told[1.0] - told[0.5] == pytest.approx(2 * (told[0.5] - told[0.25]), rel=1e-4)
    assert told[1.0] > told[0.5] > told[0.25] > 0


def test_the_rate_rises_and_falls_in_a_line(target: ModelAdapter, tmp_path: Path) -> None:
    run = run_of(target, tmp_path, steps=10, rate=1e-3, warm_up=4, optimizer="adamw")
    (only,) = run.optimizers
    rates = []
    while run.progress < 1:
        run.advance()
        rates.append(only[0].param_groups[0]["lr"])
    want = [1e-3 * min(1, (n + 1) / 4) * (1 - 0.95 * n / 10) for n in range(10)]
    assert rates == pytest.approx(want)


def test_parts_of_a_step_have_windows_of_their_own(target: ModelAdapter, tmp_path: Path) -> None:
    """The first part of a step is drawn as ever; every other part of it, and every other step, differently."""
    made = run_of(target, tmp_path)
    lesson = Lesson(target.model, None, (), WINDOWS, 3)
    del made
    keys = [lesson.key(step, at, what) for step in range(3) for at in range(3) for what in (1, 2)]
    assert keys[:2] == [(3, 0, 1), (3, 0, 2)]
    assert len(set(keys)) == len(keys)


def test_master_weights_are_wide_whatever_is_computed_in(target: ModelAdapter, tmp_path: Path) -> None:
    """bfloat16 only rounds what is computed: one step lands near the float32 one, and not on it."""
    ends = []
    for precision in ("fp32", "bf16"):
        folder = tmp_path / precision
        folder.mkdir()
        run = run_of(target, folder, steps=1, precision=precision, optimizer="adamw", warm_up=1)
        run.finish(quiet)
        ends.append(torch.cat([each.detach().flatten() for each in run.network.parameters()]))
    assert {each.dtype for each in ends} == {torch.float32}
    assert not torch.equal(*ends)
    assert float((ends[0] - ends[1]).abs().mean()) < 1e-3


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"optimizer": "sgd"}, "--optimizer sgd: unknown; use muon or adamw"),
        ({"precision": "fp8"}, "--precision fp8: unknown; use bf16 or fp32"),
        ({"draft_loss": "top5"}, "--draft-loss top5: unknown; use full or top50"),
    ],
)
def test_words_that_are_not_known_are_refused(asked: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(SpecvizError, match=says):
        eagle3.train_eagle3(eagle3.Request(None, tmp_path, tmp_path, 1, **asked), Console())


def test_windows_are_as_long_as_asked(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_text, "PROMPT", 4)
    feed = Feed({"code": np.random.default_rng(0).integers(0, 250, 900).astype(np.int32)}, mix={"code": 1.0})
    assert block_text.write_batch(target.model, feed, (0, 0), 3, length=13).shape == (3, 13)


@pytest.mark.parametrize("length", [3, 100_000])
def test_windows_the_target_cannot_hold_are_refused(target: ModelAdapter, length: int, tmp_path: Path) -> None:
    from specviz.train.drafter import _fits

    with pytest.raises(SpecvizError, match=f"--length {length}"):
        _fits(eagle3.Request(None, tmp_path, tmp_path, 1, length=length), target)


def numbers(**settings: Any) -> dict[str, Any]:
    """What a card of a block drafter is drawn from."""
    request = block_drafter.Request(None, HERE, HERE, 1, **settings)
    sizes = {"target_name": "t", "n_layers": 2, "width": 8, "slots": 2, "draft_vocab": 9, "vocab": 9, "taps": (1, 2)}
    row = {"text": "code", "mean_acceptance_length": 2.0, "drafting_share": 0.5}
    rows = [
        row | {"method": name, "knobs": knobs, "drafter_calls_per_round": calls, "drafting_ms_per_round": ms}
        for name, knobs, calls, ms in (
            ("specblock", {"node_budget": 60, "blocks": 2}, 2.0, 3.0), ("eagle3", {"node_budget": 60}, 8.0, 6.0),
        )
    ]  # fmt: skip
    return {
        "n_params": 7, "accuracy": [[0.5, 0.25]], "confusion": np.diag([4, 3, 2, 1]).tolist(), "recall": [1.0] * 4,
        "precision": [1.0] * 4, "decoding": rows[:1], "side_by_side": rows, "config": sizes, "command": "the command",
        "settings": request.settings,
        "training": {
            "own_tokens": 5, "steps": 6, "pairs": 8, "minutes": 1, "curve": [[3, 2.5, 0.1, 0.2], [6, 2, 0.3, 0.1]],
        },
    }  # fmt: skip


def test_the_card_says_what_was_left_out_and_what_stands_beside_it() -> None:
    page = "\n".join(cards.page(numbers()))
    assert "for comparison" not in page
    assert "| code | `specblock`, blocks 2 | 2.00 | 2.00 | 3.0 ms | 0.50 |" in page
    assert "| code | `eagle3` | 2.00 | 8.00 | 6.0 ms | 1.00 |" in page
    left_out = "\n".join(cards.page(numbers(shift=False, valid_prefix=False, rope_mode="repeat", rank_loss="ce")))
    assert (
        "Trained for comparison: no shift between slots; no mask behind a wrong slot; later blocks at the root's "
        "rotary positions; rank loss ce." in left_out
    )
    assert not tree_card.beside(numbers()["side_by_side"][:1])  # one kind alone stands beside nothing


def test_the_card_ends_with_how_it_was_made(tmp_path: Path) -> None:
    found = numbers(batch=4, accumulate=3, decay=0.7, draft_loss="top50", precision="fp32")
    tree_card.write(tmp_path, found, cards.page(found), ("the first slot", "the last slot"))
    page = (tmp_path / "README.md").read_text()
    assert "AdamW for the rest, peak rates 0.02, 0.0015 after 50 steps, then falling; fp32 over float32" in page
    assert "A step: 12 windows; Muon" in page
    assert "its 50 likeliest tokens, not renormalised; every place ahead weighs 0.7" in page
    picture = ET.parse(tmp_path / "curve.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}svg")) == 2
    assert json.loads((tmp_path / "card.json").read_text()) == json.loads(json.dumps(found))
    assert tree_card.curve([], ("a", "b")) == ""


def test_curves_outside_the_usual_range_are_drawn() -> None:
    for y in (0.0, 0.49, 7.0):
        assert "nan" not in plot.svg("x", [plot.Line("a", [(1.0, y), (2.0, y)])])


def test_all_kinds_of_a_target_are_compared(tmp_path: Path) -> None:
    """The folder itself, the others beside it, nothing made for another target."""
    model = build("llama", seed=5, num_hidden_layers=5)
    adapter = ModelAdapter(model)
    medusa_files.KIND.write(tmp_path / "out", medusa_made(adapter))
    found = tree_measure.side_by_side(adapter, tmp_path / "out")
    assert [arm.method for arm in found] == ["medusa"]
    eagle_files.KIND.write(
        tmp_path / "eagle3",
        eagle3._begin(
            eagle3.Request(None, HERE, HERE, 1), ModelAdapter(build("llama", seed=6, num_hidden_layers=5)), WINDOWS
        ),
    )
    assert len(tree_measure.side_by_side(adapter, tmp_path / "out")) == 1
    eagle_files.KIND.write(
        tmp_path / "eagle3", eagle3._begin(eagle3.Request(None, HERE, HERE, 1), adapter, WINDOWS)
    )  # fmt: skip
    found = tree_measure.side_by_side(adapter, tmp_path / "out")
    assert [(arm.method, arm.knobs["node_budget"]) for arm in found] == [("eagle3", 60), ("medusa", 60)]
    rows = [*tree_measure.compared(adapter, found, {"code": [[5, 6, 7], [8, 9, 10]]}, 6)]
    assert [row["method"] for row in rows] == ["eagle3", "medusa"]
    assert all(row["mean_acceptance_length"] * row["rounds"] == pytest.approx(12, abs=0.1) for row in rows)


@pytest.fixture
def little_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of a few pages, short windows."""
    texts = [" ".join(f"word{n * k % 97}" for n in range(400)) for k in range(1, 9)]
    documents = [
        corpus.Document("code", "stdlib", f"{'f' if k % 2 else '00'}{corpus.key_of(text)}", text)
        for k, text in enumerate(texts)
    ]
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for name, value in {"LENGTH": 40, "ROWS": 6, "PROMPT": 8}.items():
        monkeypatch.setattr(block_text, name, value)


@pytest.mark.parametrize("published", [False, True])
def test_medusa_heads_get_a_counted_tree(published: bool, little_text: None, tmp_path: Path) -> None:
    """Published heads come with none: a table beside their weights; ours carry theirs in their config."""
    where = save(build("llama", seed=1), tmp_path / "target")
    adapter = load(where, "target", None, None).adapter
    folder = tmp_path / "heads"
    if published:
        medusa_folder(adapter, folder)
    else:
        medusa_files.KIND.write(folder, medusa_made(adapter))
    before = medusa_files.KIND.read(folder, adapter).config
    assert before.counted is not published
    done = CliRunner().invoke(command, ["static-tree", "--target", where, "--drafter", str(folder), "--windows", "8"])
    assert done.exit_code == 0, done.output
    after = medusa_files.KIND.read(folder, adapter).config
    assert after.counted
    assert after.right != before.right
    assert [len(row) for row in after.right] == [10] * 4
    assert (folder / "static_tree.json").exists() is published


def test_a_published_eagle_drafter_gets_a_counted_tree(little_text: None, tmp_path: Path) -> None:
    where = save(build("llama", seed=1), tmp_path / "target")
    folder = eagle_folder(load(where, "target", None, None).adapter, tmp_path / "eagle")
    asked = static_tree.Request(where, str(folder), windows=8)
    _, found = static_tree.train_static_tree(asked, Console())
    assert read_table(folder) == found["right"]
    save_file({"other": torch.zeros(1)}, folder / "model.safetensors")  # other weights: the table is not theirs
    with pytest.raises(SpecvizError, match="counted with other weights"):
        read_table(folder)


def test_pace_is_what_the_request_says() -> None:
    asked = eagle3.Request(None, HERE, HERE, 1, batch=3, accumulate=2, optimizer="adamw", rate=1e-4, warm_up=9)
    assert asked.pace == Pace(3, 2, "adamw", 1e-4, 2e-2, 9, "bf16")
    assert eagle3.Request(None, HERE, HERE, 1).pace == Pace()
    assert Workers().main
    assert Pace().batch == drafter_loop.WINDOWS


def test_inputs_reach_the_first_rows_whole(target: ModelAdapter, tmp_path: Path) -> None:
    """Tokens turn, conditions stay, slots alike pass straight through: what training begins with loses nothing."""
    network = run_of(target, tmp_path).network.requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    width, noise = network.shape.layer.width, 0.25  # of fresh queries: their map is left at N(0, .02)
    one, other, token, word = torch.randn(4, 1, 1, width, generator=rng)
    rows = {(c, t): network.begin(c, t)[0, 0, 0] for c in (one, other) for t in (token, word)}
    conditions, tokens = network.norm_condition(torch.cat([one, other])), network.norm_token(torch.cat([token, word]))
    by_condition = rows[one, token] - rows[other, token]
    assert torch.allclose(by_condition, conditions[0, 0] - conditions[1, 0], atol=1e-5)
    by_token = rows[one, token] - rows[one, word]
    assert float(by_token.norm()) == pytest.approx(float((tokens[0] - tokens[1]).norm()), rel=1e-4)
    alike = torch.randn(1, 1, 1, width, generator=rng).expand(-1, -1, network.slots, -1)
    for shift in network.shifts:
        passed = shift(torch.cat([alike, alike], -1))
        assert float((passed - alike).norm() / alike.norm()) < noise
    thirds = network.condition.weight.chunk(3, 1)
    assert all(torch.allclose(part @ part.T, part.square().sum(1).diag(), atol=1e-4) for part in thirds)


def test_block_one_learns_alone_at_first(target: ModelAdapter, tmp_path: Path) -> None:
    """Before step `alone` and half of the time, the later blocks' part of the loss is not there."""
    request = block_drafter.Request(None, tmp_path, tmp_path, 1, alone=5, floor=1.0)
    made = block_drafter._begin(request, target, WINDOWS)
    lesson = Lesson(target.model, made, made.config.taps, WINDOWS, 3)
    steps = block_drafter._steps(request, target, lesson)
    early, late, short = (float(steps(*at).loss.detach()) for at in ((4, 0, 0.1), (5, 0, 0.1), (4, 0, 0.6)))
    everything = block_drafter._steps(
        block_drafter.Request(None, tmp_path, tmp_path, 1, alone=0, floor=1.0), target, lesson
    )
    assert float(everything(4, 0, 0.1).loss.detach()) == pytest.approx(short, rel=1e-6)
    assert early < 0.6 * short  # one block of three
    assert late > 1.5 * early
