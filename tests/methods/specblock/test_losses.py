"""What a block network is taught: the mask by hand, gradients that stay where they belong, the three rank losses."""

import math
from typing import Any

import pytest
import torch

from methods.specblock.small import SHAPE, VOCAB, Text, network
from specviz.methods.specblock.losses import LossConfig, TargetRows, block_losses, rank_loss
from specviz.methods.specblock.network import packed
from specviz.methods.trained.ranks import N_BUCKETS, buckets, ranks
from specviz.methods.trained.vocabulary import Vocabulary

K, N_PAIRS = SHAPE.slots, 14


class Scripted:
    """A network that says, at row (a, k), what a table holds."""

    shape = SHAPE

    def __init__(self, logits: torch.Tensor, rank_logits: torch.Tensor) -> None:
        self.logits, self.rank_logits = logits, rank_logits

    def head_logits(self, states: torch.Tensor) -> Any:
        where = states[:, 0].long()
        return self.logits.flatten(0, 1)[where], self.rank_logits.flatten(0, 1)[where], None


def numbered(anchors: int) -> torch.Tensor:
    """States `[1, A, K, 1]` that are their own row numbers."""
    return torch.arange(anchors * K, dtype=torch.float64).view(1, anchors, K, 1)


def truth_of(best: list[int], answer_from: int = 0, n: int = VOCAB) -> TargetRows:
    """A target that is rather sure of `best`."""
    logits = torch.zeros(1, len(best), n, dtype=torch.float64)
    logits[0, torch.arange(len(best)), torch.tensor(best)] = 3.0
    return TargetRows(logits, Vocabulary(n), torch.arange(len(best))[None] >= answer_from)


def by_hand(logits: torch.Tensor, truth: TargetRows, counted: list[list[int]], decay: float = 0.8) -> float:
    """The draft loss when `counted[k]` names the anchors whose slot k counts; slot k of anchor a predicts row a + k."""
    total = 0.0
    for k, anchors in enumerate(counted):
        losses = [-(truth.probs[0, a + k] * logits[a, k].log_softmax(-1)).sum() for a in anchors]
        total += decay**k * float(sum(losses)) / max(1, len(losses))
    return total


def said(best: list[list[int]], seed: int = 0) -> torch.Tensor:
    """Logits `[A, K, V]` with these best tokens."""
    logits = torch.rand(len(best), K, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for a, row in enumerate(best):
        for k, token in enumerate(row):
            logits[a, k, token] += 2
    return logits


def test_slots_behind_a_wrong_one_do_not_count() -> None:
    """Anchor 0 is wrong at slot 1, so its slots 0 and 1 count and 2, 3 do not; anchor 1 is right throughout."""
    truth = truth_of([1, 2, 3, 4, 5])
    logits = said([[1, 9, 3, 4], [2, 3, 4, 5]])
    net = Scripted(logits, torch.zeros(2, K, N_BUCKETS, dtype=torch.float64))
    losses = block_losses(net, truth, numbered(2), torch.tensor([[0, 1]]), LossConfig())  # type: ignore[arg-type]
    assert float(losses.draft) == pytest.approx(by_hand(logits, truth, [[0, 1], [0, 1], [1], [1]]), abs=1e-12)
    assert losses.tally.total.tolist() == [2, 2, 1, 1]
    assert losses.tally.right.tolist() == [2, 1, 1, 1]
    assert int(losses.tally.confusion.sum()) == 6
    free = block_losses(net, truth, numbered(2), torch.tensor([[0, 1]]), LossConfig(valid_prefix=False))  # type: ignore[arg-type]
    assert free.tally.total.tolist() == [2, 2, 2, 2]


def test_a_block_counts_anew() -> None:
    """The mask begins at one in every block: a later block's slot 0 counts, whatever the block before got wrong."""
    truth = truth_of([1, 2, 3, 4, 5, 6])
    net = Scripted(said([[9, 9, 9, 9]]), torch.zeros(1, K, N_BUCKETS, dtype=torch.float64))
    for first in (0, 2):
        losses = block_losses(net, truth, numbered(1), torch.tensor([[first]]), LossConfig())  # type: ignore[arg-type]
        assert losses.tally.total.tolist() == [1, 0, 0, 0]


def test_only_what_the_target_wrote_and_the_text_holds_counts() -> None:
    """Row t predicts token t + 1: with answers from token 3 on rows 0 and 1 teach nothing, but carry the prefix on."""
    truth = truth_of([1, 2, 3, 4], answer_from=3)
    net = Scripted(said([[1, 2, 3, 4], [2, 3, 4, 5]]), torch.zeros(2, K, N_BUCKETS, dtype=torch.float64))
    losses = block_losses(net, truth, numbered(2), torch.tensor([[0, 1]]), LossConfig())  # type: ignore[arg-type]
    assert losses.tally.total.tolist() == [0, 1, 2, 1]  # (0,2) (0,3) and (1,1) (1,2); row 4 is not in the text


def test_tokens_outside_the_draft_vocabulary_teach_nothing() -> None:
    vocabulary = Vocabulary.most_frequent(torch.tensor([5, 0, 4, 3, 0, 2]), 4)
    assert vocabulary.ids is not None
    assert vocabulary.ids.tolist() == [0, 2, 3, 5]
    logits = torch.zeros(1, 3, 6)
    logits[0, torch.arange(3), torch.tensor([2, 4, 5])] = 4.0
    truth = TargetRows(logits, vocabulary, torch.ones(logits.shape[:2], dtype=torch.bool))
    assert truth.known.tolist() == [[True, False, True]]
    assert truth.best[0, [0, 2]].tolist() == [1, 3]
    assert truth.probs.sum(-1).tolist() == [[pytest.approx(1)] * 3]
    assert vocabulary.to_target(torch.arange(4)).tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("kind", ["invsqrt", "ce", "reference"])
def test_the_rank_loss_moves_the_rank_head_alone(kind: Any) -> None:
    """Exactly zero everywhere else; and the draft loss leaves the rank head alone."""
    net, text = network(), Text(N_PAIRS)
    net.requires_grad_(True)
    truth = truth_of([int(t) for t in text.tokens[0, 1:]] + [0])
    anchors = torch.tensor([[2, 5]])

    def told() -> Any:
        lesson = packed(net, text.embed, text.features, text.tokens, anchors, (2, 3))
        return block_losses(net, truth, lesson[2], anchors + 6, LossConfig(rank_loss=kind, valid_prefix=False))

    told().rank.backward()
    moved = {name for name, p in net.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}
    assert moved == {"rank.down.weight", "rank.up.weight"}
    net.zero_grad()
    told().draft.backward()
    grads = {name: p.grad for name, p in net.named_parameters()}
    assert all(name.startswith("rank.") == (grad is None) for name, grad in grads.items())


def test_gradient_flows_through_inherited_states() -> None:
    """Block 3's loss reaches the first block: its condition is not detached."""
    net, text = network(), Text(N_PAIRS)
    net.requires_grad_(True)
    features = text.features.clone().requires_grad_(True)
    packed(net, text.embed, features, text.tokens, torch.tensor([[3]]), (2, 3))[2].square().sum().backward()
    assert features.grad is not None
    assert float(features.grad[0, 3].abs().sum()) > 0
    assert float(features.grad[0, 4:].abs().sum()) == 0


def rank_case() -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Two slots: buckets 0 0 0 1 3 and 2 2, the last row of slot 0 not counted."""
    rng = torch.Generator().manual_seed(2)
    logits = [torch.randn(6, 4, generator=rng, dtype=torch.float64), torch.randn(2, 4, generator=rng).double()]
    true = [torch.tensor([0, 0, 0, 1, 3, 2]), torch.tensor([2, 2])]
    return logits, true, [torch.tensor([True] * 5 + [False]), torch.tensor([True, True])]


def test_rank_losses_by_hand() -> None:
    """Weights 1; sqrt(max count / count) by slot; min(1, 10 / count) times the cost of underestimating."""
    logits, true, kept = rank_case()
    rows = [
        (s, int(t), slot) for slot in (0, 1) for s, t, k in zip(logits[slot], true[slot], kept[slot], strict=True) if k
    ]
    logs = [s.float().log_softmax(-1) for s, _, _ in rows]
    ce = [-float(log[t]) for log, (_, t, _) in zip(logs, rows, strict=True)]
    assert float(rank_loss("ce", logits, true, kept)) == pytest.approx(sum(ce) / 7, rel=1e-6)
    weight = [1, 1, 1, math.sqrt(3), math.sqrt(3), 1, 1]
    want = sum(w * x for w, x in zip(weight, ce, strict=True)) / sum(weight)
    assert float(rank_loss("invsqrt", logits, true, kept)) == pytest.approx(want, rel=1e-6)
    total = norm = 0.0
    for log, (scores, t, _) in zip(logs, rows, strict=True):
        guess = int(scores.argmax())
        kernel = [1 / (1 + abs(c - t) + max(t - c, 0)) ** 2 for c in range(4)]
        w = 1 + abs(t - guess) + max(t - guess, 0)
        total += w * -sum(k / sum(kernel) * float(x) for k, x in zip(kernel, log, strict=True))
        norm += w
    assert float(rank_loss("reference", logits, true, kept)) == pytest.approx(total / norm, rel=1e-6)


def test_the_reference_follows_the_rank_head_s_own_mistakes() -> None:
    """Its mask ends behind a wrong bucket, not behind a wrong token."""
    truth = truth_of([1, 2, 3, 4])
    wrong_token = said([[9, 2, 3, 4]])
    true = buckets(ranks(wrong_token[0], torch.tensor([1, 2, 3, 4])))
    right_bucket = torch.nn.functional.one_hot(true, N_BUCKETS)[None].double() * 5
    for rank_logits, rows in ((right_bucket, 4), (right_bucket.flip(-1), 1)):
        net = Scripted(wrong_token, rank_logits)
        losses = block_losses(net, truth, numbered(1), torch.tensor([[0]]), LossConfig(rank_loss="reference"))  # type: ignore[arg-type]
        slots = [[k] for k in range(rows)]
        want = rank_loss(
            "reference", [rank_logits[0, k] for k in slots], [true[k] for k in slots], [torch.tensor([True])] * rows
        )
        assert float(losses.rank) == pytest.approx(float(want))
        assert losses.tally.total.tolist() == [1, 0, 0, 0]


def test_few_survivors_weigh_less_than_many() -> None:
    """Four anchors, one of which survives slot 0: with a floor of a half its loss counts half, with none wholly."""
    truth = truth_of([1, 2, 3, 4, 5, 6, 7])
    logits = said([[1, 2, 3, 9], [9, 3, 4, 5], [9, 4, 5, 6], [9, 5, 6, 7]])
    net = Scripted(logits, torch.zeros(4, K, N_BUCKETS, dtype=torch.float64))
    first = torch.tensor([[0, 1, 2, 3]])
    whole, half = (
        block_losses(net, truth, numbered(4), first, LossConfig(floor=floor)).draft  # type: ignore[arg-type]
        for floor in (0.0, 0.5)
    )
    counted = [[0, 1, 2, 3], [0], [0], [0]]
    assert float(whole) == pytest.approx(by_hand(logits, truth, counted), abs=1e-12)
    first_slot = by_hand(logits, truth, [counted[0]])
    assert float(half) == pytest.approx(first_slot + (float(whole) - first_slot) / 2, abs=1e-12)
