"""What would have had to be another where a node's own u decided nothing: every sentence against the record."""

import math
import re

import pytest

from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.frame.parts import Why
from support.traces import make_events


def panels(**recipe: object) -> list[tuple[Player, Why]]:
    """The panel of every drafted node, at the end of its round."""
    player = Player(fold(make_events(**recipe)))
    whys = []
    for record in player.run.rounds:
        player.seek_index(record.index)
        for node in record.nodes:
            why = player.frame(Options(selected=node, folding="none")).why
            assert why is not None
            assert why.node == node
            whys.append((player, why))
    return whys


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_node_with_a_flip_of_its_own_has_no_other_sentence(shape: str, temperature: float) -> None:
    whys = [why for _, why in panels(shape=shape, temperature=temperature)]
    assert all(why.flip is None or why.otherwise is None for why in whys)
    assert any(why.otherwise for why in whys)


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_what_stood_in_the_way_was_decided_as_is_said(shape: str) -> None:
    """`tested if n7 is kept: u < .29`: n7 was tested, and rejected."""
    named = 0
    for player, why in panels(shape=shape, temperature=0.8):
        pattern = r"(tested|its turn comes) if n(\d+) .* is (kept|rejected|drawn|not drawn): u"
        match = re.match(pattern, why.otherwise or "")
        if match is None:
            continue
        record = next(r for r in player.run.rounds if why.node in r.nodes)
        verdict = record.verdicts[int(match[2])]
        assert (verdict.status == "rejected") == (match[3] in ("kept", "drawn"))
        assert verdict.order is not None
        named += 1
    assert named > 3


def test_at_temperature_0_the_logit_is_named_that_would_have_won() -> None:
    named = 0
    for player, why in panels(shape="tree"):
        match = re.match(r"kept if its logit in the target were ([\d.]+) higher", why.otherwise or "")
        if match is None:
            continue
        record = next(r for r in player.run.rounds if why.node in r.nodes)
        token = record.nodes[why.node].token
        siblings = [i for i, node in record.nodes.items() if node.parent == record.nodes[why.node].parent]
        top = next(v.top for i in siblings if (v := record.verdicts.get(i)) and v.top)
        gap = top[0][1] - next(log for t, log in top if t == token)
        assert math.isclose(float(match[1]), gap, rel_tol=0.05, abs_tol=0.02)
        named += 1
    assert named > 3
