"""What block-drafted runs leave on record: readable, checked, complete, and without any influence on the text."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from blocks.stage import Hearsay, trained
from blocks.test_eagle import made as eagle_made
from engine.zoo import build, save
from specviz.drafters.blocks import files as block_files
from specviz.drafters.blocks import grower as drafting
from specviz.drafters.blocks.rank import bucket
from specviz.drafters.blocks.vocabulary import Vocabulary
from specviz.drafters.eagle import files as eagle_files
from specviz.engine.local import LocalRun, Pair, load_pair
from specviz.events import (
    Block,
    Commit,
    Event,
    Expansion,
    Header,
    Node,
    RoundEnd,
    TreeMade,
    Verify,
    Warn,
    decode,
    encode,
)
from specviz.metrics.ranks import confusion, seen
from specviz.trace import Recorder, read_events
from specviz.wire import Start

Run = Callable[..., tuple[LocalRun, list[Event]]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, dict[str, list[str]]]:
    """A target from disk, and a folder of random weights for every method."""
    root = tmp_path_factory.mktemp("target")
    pair = load_pair(save(build("llama", seed=1), root), needs_draft=False, dtype="float64", threads=1)
    adapter = pair.target.adapter
    block_files.KIND.write(root / "blocks", trained(adapter))
    few = Vocabulary.most_frequent(torch.randperm(260, generator=torch.Generator().manual_seed(3)), 120)
    block_files.KIND.write(root / "few", trained(adapter, vocabulary=few, draft_vocab=120))
    eagle_files.KIND.write(root / "eagle", eagle_made(adapter))
    return pair, {"few": [str(root / "few")], "specblock": [str(root / "blocks")], "eagle3": [str(root / "eagle")]}


@pytest.fixture
def run(loaded: tuple[Pair, dict[str, list[str]]]) -> Run:
    """A whole run, through lines and back."""
    pair, folders = loaded

    def decoded(method: str, level: Any = "full", **knobs: Any) -> tuple[LocalRun, list[Event]]:
        method, drafter = ("specblock", "few") if method == "few" else (method, method)
        own = {"max_new_tokens": 24, **({"drafter": folders[drafter]} if drafter in folders else {}), **knobs}
        lines: list[bytes] = []
        start = Start(prompt="ab ab ab", method=method, knobs=own, level=level)
        made = LocalRun(pair, start, lambda event: lines.append(encode(event)))
        for _ in made.rounds():
            pass
        events = [decode(line) for line in lines]
        assert None not in events
        return made, [event for event in events if event is not None]

    return decoded


def knowing(run: Run, monkeypatch: pytest.MonkeyPatch, right: float = 0.8, **knobs: Any) -> None:
    """Give the drafter the text that will be written, in most places."""
    plain, _ = run("ar", **knobs)
    truth = [*plain.session.prompt, *plain.tokens]
    monkeypatch.setattr(drafting, "offers", Hearsay(truth, right))


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def by_round(events: list[Event]) -> dict[int, list[Event]]:
    rounds = defaultdict(list)
    for event in events:
        rounds[event.r].append(event)
    return rounds


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("method", ["specblock", "eagle3"])
def test_records_are_read_and_checked(run: Run, tmp_path: Path, method: str, temperature: float) -> None:
    """The same text at every level as without any record; everything a reader checks holds."""
    texts = {}
    for level in ("none", "summary", "full"):
        made, events = run(method, level, temperature=temperature)
        texts[level] = made.tokens
        recorder = Recorder(tmp_path / f"{level}.sv.jsonl")
        for event in events:
            recorder.write(event)
        recorder.close()
        assert len(read_events(tmp_path / f"{level}.sv.jsonl.gz", check=True)) == len(events)
        n_trees = {each.r for each in of(events, TreeMade)}
        assert bool(n_trees) == (level != "none")
    plain, _ = run("ar", temperature=temperature)
    assert texts == dict.fromkeys(texts, plain.tokens)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_expansions_and_blocks(run: Run, monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """Every round: blocks numbered from the root's, expansions as wide as said, true ranks as the other records say."""
    knowing(run, monkeypatch, temperature=temperature)
    _, events = run("specblock", temperature=temperature, widths=["2,4,5,3"])
    known = on_path = later = 0
    for events_ in by_round(events).values():
        blocks, expansions, nodes = of(events_, Block), of(events_, Expansion), {n.node: n for n in of(events_, Node)}
        if not blocks:
            continue
        assert [each.start for each in blocks] == list(range(len(blocks)))
        assert (blocks[0].node, blocks[0].chain, blocks[0].batch) == (-1, [], 1)
        assert sum(each.block == 2 for each in blocks) in (0, max(each.batch for each in blocks if each.block == 2)
                                                           if len(blocks) > 1 else 0)  # fmt: skip
        for each in blocks[1:]:
            later += 1
            ((first, row, slot),) = each.chain
            assert (first, row) == (1, each.kv_len - 8)
            assert nodes[each.node].depth == slot + 1
            assert nodes[each.node].src["start"] == each.start
        tree = of(events_, TreeMade)[0]
        assert tree.n_raw == sum(each.n_children for each in expansions)
        assert (tree.n_raw - tree.n_merged, tree.n_kept) == (len(nodes), sum(n.kept for n in nodes.values()))
        assert sum(tree.widths) == sum(tree.buckets) == len(expansions)
        target_best = {
            verify.node: verify.argmax_p for verify in of(events_, Verify) if verify.argmax_p is not None
        }  # fmt: skip
        committed = of(events_, Commit)[0].tokens
        path = [-1] + [n for n, v in ((v.node, v) for v in of(events_, Verify)) if v.status == "accepted"]
        for each in expansions:
            children = [n for n in nodes.values() if n.parent == each.parent and each.id in (n.src["merged"] or [])]
            children += [n for n in nodes.values() if n.parent == each.parent and _maker(n, expansions) == each.id]
            assert len({n.node for n in children}) == each.n_children
            assert len(each.rank_probs) == 4
            assert len(each.phi) == 15
            assert sum(each.rank_probs) == pytest.approx(1, abs=1e-4)
            kept_parent = each.parent == -1 or nodes[each.parent].kept
            assert (each.true_bucket is not None) == kept_parent
            if not kept_parent:
                continue
            known += 1
            assert each.true_bucket == bucket(each.true_rank_argmax)
            judged = [n.node for n in nodes.values() if n.parent == each.parent and n.node in target_best]
            if judged:
                tokens = [token for token, _ in each.top]
                best = target_best[judged[0]]
                assert each.true_rank_argmax == (tokens.index(best) + 1 if best in tokens else each.true_rank_argmax)
                assert (best in tokens) == (each.true_rank_argmax <= len(tokens))
            assert each.on_path == (each.parent in path)
            if each.on_path and path.index(each.parent) < len(committed):
                on_path += 1
                emitted, tokens = committed[path.index(each.parent)], [token for token, _ in each.top]
                assert (emitted in tokens) == (each.true_rank_emitted <= len(tokens))
    assert known > 40
    assert on_path > 20
    assert later > 10


@pytest.mark.parametrize("mode", ["rank", "oracle"])
def test_ranks_in_a_reduced_vocabulary(run: Run, mode: str) -> None:
    """A token that the drafter cannot say has no rank, and counts as the last bucket; widths by the oracle follow."""
    _, events = run("few", width_mode=mode, widths=["2,3,4,5"], temperature=0.9)
    absent = there = 0
    for events_ in by_round(events).values():
        best = {v.node: v.argmax_p for v in of(events_, Verify) if v.argmax_p is not None}
        parents = {n.parent: best[n.node] for n in of(events_, Node) if n.node in best}
        for each in of(events_, Expansion):
            if each.parent not in parents or each.true_bucket is None:
                continue
            tokens = [token for token, _ in each.top]
            if each.true_rank_argmax is None:
                absent += 1
                assert each.true_bucket == 3
                assert parents[each.parent] not in tokens
            elif each.true_rank_argmax <= len(tokens):
                there += 1
                assert tokens[each.true_rank_argmax - 1] == parents[each.parent]
            if mode == "oracle" and (each.block, each.slot) != (1, 0):
                assert each.width == (2, 3, 4, 5)[each.true_bucket]
    assert absent > 5
    assert there > 0


def _maker(node: Node, expansions: list[Expansion]) -> int:
    """The expansion that made a node: of its block and slot, at its parent, with it at that rank."""
    for each in expansions:
        same = (each.block, each.slot, each.parent) == (node.src["block"], node.src["slot"], node.parent)
        if same and each.top[node.src["rank"] - 1][0] == node.token and each.id not in node.src["merged"]:
            return each.id
    raise AssertionError(node)


def test_valid_prefix_follows_the_first_ranks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing(run, monkeypatch, right=0.6)
    _, events = run("specblock", merge=False)
    broken = 0
    for events_ in by_round(events).values():
        for start in {each.start for each in of(events_, Expansion)}:
            so_far: bool | None = True
            for each in (each for each in of(events_, Expansion) if each.start == start):
                assert each.valid_prefix == so_far
                unknown = so_far is None or each.true_bucket is None
                so_far = None if unknown else so_far and each.true_rank_argmax == 1
                broken += so_far is False
    assert broken


def test_nodes_name_the_expansion_that_made_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing(run, monkeypatch)
    _, events = run("specblock", blocks=3)
    merged = 0
    for events_ in by_round(events).values():
        expansions = of(events_, Expansion)
        for node in of(events_, Node):
            assert node.src["expansion"] == _maker(node, expansions)
            merged += len(node.src["merged"])
            for number in node.src["merged"]:
                assert expansions[number].parent == node.parent
    assert merged > 10


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_oracle_widths_are_those_of_the_true_ranks(
    run: Run, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Every slot whose parent the target ran on is as wide as its true bucket says, whatever the rank head said."""
    knowing(run, monkeypatch, 0.5, temperature=temperature)
    widths, judged, other = (3, 4, 6, 0), 0, 0
    plain, _ = run("ar", temperature=temperature)
    for mode in ("oracle", "rank"):
        made, events = run("specblock", width_mode=mode, widths=["3,4,6,0"], blocks=3, temperature=temperature)
        assert made.tokens == plain.tokens
        assert [warn.code for warn in of(events, Warn)] == (["oracle_widths"] if mode == "oracle" else [])
        for each in of(events, Expansion):
            if each.true_bucket is None or (each.block, each.slot) == (1, 0):
                continue
            if mode == "rank":
                other += each.width_reason == "bucket" and each.width != widths[each.true_bucket]
                continue
            judged += 1
            if each.width_reason == "override":
                assert each.width == widths[each.true_bucket]
            else:
                assert (each.width_reason, each.width) == ("give_up", 0)
                above = [e for e in of(events, Expansion) if (e.r, e.start) == (each.r, each.start) and e.id <= each.id]
                assert any(e.true_bucket in (3, None) for e in above)
    assert judged > 30
    assert other > 10, "the rank head was right by itself: nothing is shown"


def test_what_is_clamped_is_said_once(run: Run) -> None:
    """Drafts are those of the greatest value there is, and a person is told."""
    _, usual = run("specblock")
    for knobs, code in (
        ({"slots_used": 9}, "slots_clamped"),
        ({"d_max": 30}, "depth_clamped"),
        ({"blocks": 4}, "blocks_beyond_training"),
    ):
        _, events = run("specblock", **knobs)
        assert [warn.code for warn in of(events, Warn)] == [code]
        assert str(next(iter(knobs.values()))) in of(events, Warn)[0].message
        same = [node.token for node in of(events, Node)] == [node.token for node in of(usual, Node)]
        assert same == (code != "blocks_beyond_training")
    assert not of(usual, Warn)


@pytest.mark.parametrize("method", ["specblock", "eagle3"])
def test_modelled_speedup_by_hand(run: Run, method: str) -> None:
    """Tokens of the round over one pass and the drafter's calls, by weights read."""
    made, events = run(method)
    drafter, model = made.session.drafter, made.session.target.model
    own = sum(parameter.numel() for parameter in drafter.trained.network.parameters())
    share = own / (sum(p.numel() for p in model.model.layers.parameters()) + model.lm_head.weight.numel())
    trees = 0
    for events_ in by_round(events).values():
        for tree in of(events_, TreeMade):
            end, tokens = of(events_, RoundEnd)[0], of(events_, Commit)[0].tokens
            assert tree.modelled_speedup == pytest.approx(len(tokens) / (1 + end.n_draft_calls * share), rel=1e-5)
            trees += 1
    assert trees > 5


def test_the_header_tells_what_drafts(run: Run) -> None:
    for method, what in (("specblock", "block drafter, "), ("eagle3", "EAGLE-3 drafter, ")):
        _, events = run(method, max_new_tokens=2)
        told = of(events, Header)[0].models.parts["drafter"]
        assert told.startswith(what)
        assert "made for" in told


def test_confusion_counts_every_expansion_whose_parent_the_target_saw(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The totals of true by predicted bucket are the expansions of the root and of kept nodes, no more, no fewer."""
    knowing(run, monkeypatch, 0.6)
    _, events = run("specblock", node_budget=12, widths=["2,4,5,3"])
    there = pruned = 0
    for events_ in by_round(events).values():
        kept = {node.node for node in of(events_, Node) if node.kept} | {-1}
        for each in of(events_, Expansion):
            there += each.parent in kept
            pruned += each.parent not in kept
    cells = confusion(seen(each) for each in of(events, Expansion))
    assert sum(sum(row.values()) for row in cells.values()) == there
    assert pruned > 10
    assert all(sum(cells[true].values()) > 10 for true in (0, 3))
