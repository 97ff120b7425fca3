"""What replaces library code for speed gives the library's numbers, and steps aside where it would not."""

import copy

import pytest
import torch

from specviz.engine.decode.round import RoundResult
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.layers.attention import RopeTable
from specviz.engine.model.layers.norms import fuse_norms
from specviz.engine.record.draft_rows import draft_rows
from specviz.events import Knob, Level
from support.driver import session
from support.models import CONFIGS, build

IDS = torch.tensor([[5, 9, 200, 31, 7, 7, 80]])


@pytest.mark.parametrize("name", sorted(CONFIGS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@torch.inference_mode()
def test_fused_norms_move_no_bit_of_any_architecture(name: str, dtype: torch.dtype) -> None:
    model = build(name, dtype=dtype)
    before = model(IDS).logits
    fuse_norms(model)
    assert torch.equal(model(IDS).logits, before)


def test_norms_are_fused_where_bits_agree_and_left_alone_where_they_do_not() -> None:
    assert fuse_norms(build("llama")) == 3 * 2 + 1
    assert fuse_norms(build("gpt2")) == 0
    assert fuse_norms(build("gemma2")) == 0
    odd = build("llama")
    for layer in odd.model.layers:
        layer.input_layernorm.variance_epsilon = 1.0
        layer.input_layernorm.forward = lambda hidden: hidden  # another rule under the same class name
    assert fuse_norms(odd) == 3 + 1


@torch.inference_mode()
def test_a_copy_of_a_fused_model_has_weights_of_its_own() -> None:
    model = build("llama")
    fuse_norms(model)
    before = model(IDS).logits
    other = copy.deepcopy(model)
    for module in other.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.weight.mul_(3)
    assert torch.equal(model(IDS).logits, before)
    assert not torch.equal(other(IDS).logits, before)


@pytest.mark.parametrize("name", sorted(set(CONFIGS) - {"gpt2"}))
@pytest.mark.parametrize("positions", [[0], [70], [3, 4, 5], [600, 601], [9, 10, 10, 11, 11]])
@torch.inference_mode()
def test_rotary_tables_hold_what_the_library_works_out(name: str, positions: list[int]) -> None:
    """Slices, gathers, and positions behind the first stretch of the table."""
    adapter = ModelAdapter(build(name))
    hidden, where = torch.zeros(1, len(positions), 32), torch.tensor([positions])
    assert set(adapter._rope) == set(adapter.types)
    for kind, table in adapter._rope.items():
        assert table.static
        for mine, theirs in zip(table.at(hidden, positions, where), table._ask(hidden, where), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
        if table.layer_type is not None:
            assert table.layer_type == kind


@torch.inference_mode()
def test_angles_that_depend_on_the_longest_position_are_asked_every_time() -> None:
    class Dynamic:
        rope_type = "dynamic"
        asked = 0

        def __call__(self, hidden: torch.Tensor, where: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.asked += 1
            return where[..., None] * 1.0, where.max() * torch.ones(*where.shape, 1)

    rope = Dynamic()
    table = RopeTable(rope)
    for last in (5, 90):
        angles = table.at(torch.zeros(1, 2, 4), [4, last], torch.tensor([[4, last]]))
        assert angles[1].max() == last
    assert rope.asked == 2


class Rounds:
    """A sink that keeps the rounds."""

    def __init__(self, level: Level) -> None:
        self.level, self.kept = level, list[RoundResult]()

    def prefilled(self, session: object, dur_ns: int) -> None: ...
    def knob(self, event: Knob) -> None: ...
    def aborted(self, begun: RoundResult, why: str) -> None: ...
    def round(self, done: RoundResult) -> None:
        self.kept.append(done)


def rounds_at(level: Level, temperature: float) -> list[RoundResult]:
    model = build("llama", seed=1)
    sink = Rounds(level)
    session(model, build("llama", seed=2), [5, 9, 7], sink=sink, temperature=temperature, max_new_tokens=12).generate()
    return sink.kept


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_what_a_draft_model_thought_is_worked_out_for_records_only(temperature: float) -> None:
    for done in rounds_at("summary", temperature):
        confidences = draft_rows(done, 0, None).confidences
        for node in done.draft.nodes:
            assert confidences[node.id] == pytest.approx(float(node.raw.double().log_softmax(-1)[node.token]), abs=1e-4)
            assert (node.logq is None) == (temperature == 0)
    for done in rounds_at("none", temperature):
        assert [(n.raw, n.logq, n.log_conf) for n in done.draft.nodes] == [(None, None, None)] * len(done.draft.nodes)
