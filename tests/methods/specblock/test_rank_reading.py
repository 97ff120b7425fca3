"""A round's knobs as a block drafter reads them, and what a call's logits offer under them; all by hand."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specviz.engine.decode.context import Counters
from specviz.engine.decode.sampling import Warper
from specviz.events import six
from specviz.methods.specblock.grower import read
from specviz.methods.specblock.spec import METHOD as SPECBLOCK
from specviz.methods.trained.ranks import RankReading, offers
from specviz.methods.trained.vocabulary import Vocabulary

TRAINED: Any = SimpleNamespace(slots=4, trained_blocks=3)


def plan(reach: int = 50, **knobs: Any) -> Any:
    return read(SPECBLOCK.table.knobs(knobs), TRAINED, reach, False)


def test_presets_and_what_overrides_them() -> None:
    for name, sizes, budget, trims in (
        ("paper", (2, 4, 10, 0), 60, False),
        ("reference-fast", (2, 4, 6, 4), 90, True),
        ("toy", (2, 4, 10, 4), 24, False),
    ):
        growing = plan(preset=name).growing
        assert (growing.widths.by_bucket, growing.budget, growing.widths.trims) == (sizes, budget, trims)
        assert growing.widths.beam == 10
    own = plan(preset="toy", widths=["1,2,3,4"], node_budget=7, trims="on", k_max=5, w_max=3, start_cap=2, merge=False)
    rule = own.growing.widths
    assert (rule.by_bucket, rule.trims, rule.beam, rule.cap, rule.fixed) == ((1, 2, 3, 4), True, 5, 3, None)
    assert (own.growing.budget, own.growing.start_cap, own.growing.merge) == (7, 2, False)
    assert plan(width_mode="fixed").growing.widths.fixed == 4
    assert plan(width_mode="fixed", w_max=3).growing.widths.fixed == 3


@pytest.mark.parametrize(
    ("knobs", "reach", "blocks", "deepest", "slots"),
    [
        ({}, 50, 2, 8, 4),
        ({"blocks": 3}, 50, 3, 12, 4),
        ({"blocks": 3, "d_max": 5}, 50, 2, 5, 4),
        ({"d_max": 4}, 50, 1, 4, 4),
        ({"slots_used": 3}, 50, 2, 6, 3),
        ({"slots_used": 9}, 50, 2, 8, 4),
        ({"d_max": 20}, 50, 2, 8, 4),
        ({}, 3, 1, 3, 4),
        ({}, 0, 0, 0, 4),
    ],
)
def test_depth_blocks_and_slots(knobs: dict[str, Any], reach: int, blocks: int, deepest: int, slots: int) -> None:
    """No block is run that depth or room leave no nodes to."""
    sizes = plan(reach, **knobs)
    assert (sizes.blocks, sizes.growing.deepest, sizes.slots) == (blocks, deepest, slots)


def test_draws_only_where_there_is_something_to_draw() -> None:
    assert [plan(siblings="sampled", temperature=t).drawn for t in (0.0, 0.5)] == [False, True]
    assert not plan(temperature=0.5).drawn


def context(warper: Warper, tokens: tuple[int, ...] = (1, 2)) -> Any:
    return SimpleNamespace(warper=warper, tokens=tokens, counters=Counters())


Judge = Callable[[torch.Tensor], torch.Tensor]


def spoken(rank_logits: list[float], n: int = 30) -> tuple[torch.Tensor, Judge]:
    """One block of one slot, token k has logit -k / 2; and a rank head that always says the same."""
    logits = (-0.5 * torch.arange(n, dtype=torch.float64)).view(1, 1, n)
    return logits, lambda summary: torch.tensor(rank_logits, dtype=torch.float64).view(1, 1, 4)


def test_an_offer_by_hand() -> None:
    """Twenty tokens, best first, with logs over the whole vocabulary; summaries and entropies for the record alone."""
    ctx = context(Warper())
    offered = offers(ctx, Vocabulary(30), *spoken([0.0, 1.0, 0.5, -1.0]), [()], RankReading(full=True))
    assert offered is not None
    ((offer,),) = offered
    norm = math.log(sum(math.exp(-k / 2) for k in range(30)))
    assert offer.tokens == tuple(range(20))
    assert list(offer.logs) == [six(-k / 2 - norm) for k in range(20)]
    best = [-k / 2 - math.log(sum(math.exp(-n / 2) for n in range(20))) for k in range(20)]
    entropy = -sum(math.exp(log) * log for log in best)
    assert offer.summary == pytest.approx([*best[:10], 0.5, 1.0, 2.0, math.exp(best[0]), entropy])
    probs = [math.exp(-k / 2 - norm) for k in range(30)]
    assert offer.entropy == pytest.approx(-sum(p * math.log(p) for p in probs))
    assert ctx.counters.n_syncs == 1
    plain = offers(ctx, Vocabulary(30), *spoken([0.0, 1.0, 0.5, -1.0]), [()], RankReading())
    assert plain is not None
    assert (plain[0][0].summary, plain[0][0].entropy) == ((), None)


@pytest.mark.parametrize(
    ("bias", "temp", "bucket", "scores"),
    [
        ((0.0, 0.0, 0.0, 0.0), 1.0, 1, (0.0, 1.0, 0.5, -1.0)),
        ((0.0, 0.0, 0.6, 0.0), 1.0, 2, (0.0, 1.0, 1.1, -1.0)),
        ((0.0, 0.0, 0.6, 0.0), 0.5, 1, (0.0, 2.0, 1.6, -2.0)),
        ((0.0, 0.0, 0.0, 1.0), 10.0, 3, (0.0, 0.1, 0.05, 0.9)),
    ],
)
def test_bias_and_temperature_of_ranks(
    bias: tuple[float, ...], temp: float, bucket: int, scores: tuple[float, ...]
) -> None:
    """Logits are divided first, the bias is added to what is left."""
    offered = offers(context(Warper()), Vocabulary(30), *spoken([0.0, 1.0, 0.5, -1.0]), [()], RankReading(bias, temp))
    assert offered is not None
    assert offered[0][0].bucket == bucket
    whole = sum(math.exp(x) for x in scores)
    assert offered[0][0].rank_probs == pytest.approx([math.exp(x) / whole for x in scores], abs=1e-12)


def test_tokens_are_ranked_as_the_target_ranks_them() -> None:
    """Penalised by the drafted path too, by the target's own rule on plain logits; banned ones come last."""
    warper = Warper(repetition_penalty=4.0, banned=(0,))
    offered = offers(context(warper, (1, 9)), Vocabulary(30), *spoken([0.0] * 4), [(4,)], RankReading())
    assert offered is not None
    # 1, 4 and 9 are as good as -2, -8 and -18; logs are those of the plain softmax
    assert offered[0][0].tokens[:6] == (2, 3, 1, 5, 6, 7)
    norm = math.log(sum(math.exp(-k / 2) for k in range(30)))
    assert offered[0][0].logs[:3] == pytest.approx([-1 - norm, -1.5 - norm, -0.5 - norm], rel=1e-5)
    assert not {0, 4, 9} & set(offered[0][0].tokens[:8])


def test_the_kernel_offers_what_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last digit that is told, and to the last bit what the rank head reads; a row that is not finite offers
    nothing either way."""
    logits = torch.randn(2, 3, 2000, generator=torch.Generator().manual_seed(3)).mul(4)
    vocabulary = Vocabulary(2100, torch.arange(2000) // 100)
    offered: list[list[torch.Tensor]] = [[], []]

    def found(way: int, rows: torch.Tensor) -> Any:
        def judge(summary: torch.Tensor) -> torch.Tensor:
            offered[way].append(summary)
            return summary[..., :4]

        return offers(context(Warper()), vocabulary, rows, judge, [(), (7,)], RankReading(full=True))

    broken = logits.clone()
    broken[1, 2, 5] = math.nan
    ours = found(0, logits), found(0, broken)
    monkeypatch.setenv("SPECVIZ_COMPILE", "off")
    assert (found(1, logits), found(1, broken)) == ours
    assert torch.equal(offered[0][0], offered[1][0])
    assert ours[0] is not None
    assert ours[1] is None


def test_a_reduced_vocabulary_by_hand() -> None:
    """Absent tokens have no score; ids go both ways."""
    vocabulary = Vocabulary(6, torch.tensor([1, 1, 2]))  # tokens 1, 2, 4
    assert vocabulary.spread(torch.tensor([[5.0, 6.0, 7.0]])).tolist() == [[-math.inf, 5, 6, -math.inf, 7, -math.inf]]
    place, known = vocabulary.find(torch.tensor([4, 3, 1, 5]))
    assert (place.tolist(), known.tolist()) == ([2, 0, 0, 0], [True, False, True, False])
    offered = offers(context(Warper()), vocabulary, *spoken([0.0] * 4, 3), [()], RankReading())
    assert offered is not None
    assert offered[0][0].tokens == (1, 2, 4)
