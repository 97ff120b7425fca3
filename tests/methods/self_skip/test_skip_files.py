"""Skip sets in words and files: what names them, what is refused, what is said where there is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from methods.early_exit.stage import Sink
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.files.loading import load as load_model
from specviz.errors import KnobError, ModelError
from specviz.events import Warn
from specviz.methods import get_method
from specviz.methods.self_skip import drafter as skip
from specviz.methods.self_skip.model import SkippedModel, SkipSetConfig, load, pick
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.parts import fingerprint
from support.driver import session
from support.models import planted, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


def target_of() -> ModelAdapter:
    return ModelAdapter(planted(0, layers=4)[0].double())


def test_the_header_says_what_is_left_out() -> None:
    target = target_of()
    model = SkippedModel(target, SkipSet(frozenset({2}), frozenset({1, 3})))
    drafter = skip.over(FactoryModels(target, None, 64), model, "argmax")
    assert drafter.parts() == {"skip set": "a2 m1 m3 left out; a draft runs 5 of 8 sublayers"}


def test_sets_are_named_sublayer_by_sublayer() -> None:
    skips = SkipSet.parse(["a7 m8,a9", "m8"])
    assert skips == SkipSet(frozenset({7, 9}), frozenset({8}))
    assert str(skips) == "a7 a9 m8"
    assert SkipSet.parse([]) is None
    assert SkipSet.parse(["some/folder"]) is None
    with pytest.raises(KnobError, match="'b3' is no sublayer"):
        SkipSet.parse(["a7 b3"])
    with pytest.raises(KnobError, match="'a0' is no sublayer"):
        get_method("draft_and_verify").example(
            get_method("draft_and_verify").table.knobs({"skip_set": ["a0", "m1"]}).values
        )


@pytest.mark.parametrize("n_layers", [1, 2, 3, 12, 40])
def test_the_set_by_rule_leaves_something(n_layers: int) -> None:
    usual = SkipSet.usual(n_layers)
    assert all(1 <= layer <= n_layers for layer in usual.attention | usual.mlp)
    assert len(usual) <= n_layers  # half of the sublayers at most
    assert len(usual.attention) >= len(usual.mlp)


def written(folder: Path, target: ModelAdapter, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "target": fingerprint(target),
        "target_name": "zoo",
        "n_layers": target.n_layers,
        "attention": (2,),
        "mlp": (1,),
    }
    SkipSetConfig(**{**settings, **changes}).write(folder)
    return folder / "skip-set.json"


def test_a_set_beside_its_target_is_found_and_another_targets_is_not(tmp_path: Path) -> None:
    folder = Path(save(planted(1, layers=3)[0], tmp_path / "target"))
    target = load_model(str(folder), "target", None, "float64").adapter
    assert pick(target, [])[1] is not None
    written(folder / "skip-set", target)
    assert pick(target, []) == (SkipSet(frozenset({2}), frozenset({1})), None)
    other = load_model(save(planted(2, layers=3)[0], tmp_path / "other"), "target", None, "float64").adapter
    assert "no skip set" in str(pick(other, [])[1])
    path = folder / "skip-set"
    assert load(path, target) == load(path / "skip-set.json", target)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda p: p.unlink(), "no such file"),
        (lambda p: p.write_text("{"), "not JSON"),
        (lambda p: p.write_text("[1]"), "no JSON object"),
        (lambda p: edit(p, format="other"), "no skip set"),
        (lambda p: edit(p, version=2), "version 1"),
        (lambda p: edit(p, target="0" * 32), r"found for zoo \(weights 00000000\).*specviz train skip-set"),
        (lambda p: edit(p, attention=[9]), "layer 9, the target has layers 1 to 4"),
        (lambda p: edit(p, mlp="all"), "mlp"),
    ],
)
def test_what_is_refused_in_one_line(tmp_path: Path, break_it: Any, says: str) -> None:
    target = target_of()
    path = written(tmp_path / "set", target)
    break_it(path)
    with pytest.raises(ModelError, match=says) as caught:
        pick(target, [str(path)])
    assert "\n" not in str(caught.value)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_fallback_is_said_once(tmp_path: Path) -> None:
    target = target_of()

    def warnings(**knobs: Any) -> list[str]:
        sink = Sink("none")
        session(
            target, None, PROMPT, method="draft_and_verify", sink=sink, max_new_tokens=12, w_max=2, **knobs
        ).generate()
        return [fact.message for facts in sink.rounds for fact in facts if isinstance(fact, Warn)]

    (message,) = warnings()
    assert "a2 a3 m3 stand in" in message
    assert warnings(skip_set=["a2"]) == []
    assert warnings(skip_set=[str(written(tmp_path / "set", target))]) == []
