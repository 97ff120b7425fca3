"""What block-drafted runs leave on record: readable, checked, complete, and without any influence on the text."""

from pathlib import Path

import pytest

from methods.specblock.recorded import Run, by_round, knowing, of
from specviz.events import Block, Commit, Expansion, Node, TreeMade, Verify
from specviz.methods.trained.ranks import bucket
from specviz.trace import Recorder, read_events


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("method", ["specblock", "eagle3"])
def test_records_are_read_and_checked(run: Run, tmp_path: Path, method: str, temperature: float) -> None:
    """The same text at every level as without any record; everything a reader checks holds."""
    texts = {}
    for level in ("none", "summary", "full"):
        whole_run, events = run(method, level, temperature=temperature)
        texts[level] = whole_run.tokens
        recorder = Recorder(tmp_path / f"{level}.sv.jsonl")
        for event in events:
            recorder.write(event)
        recorder.close()
        assert len(read_events(tmp_path / f"{level}.sv.jsonl.gz", check=True)) == len(events)
        n_trees = {made_tree.r for made_tree in of(events, TreeMade)}
        assert bool(n_trees) == (level != "none")
    plain, _ = run("ar", temperature=temperature)
    assert texts == dict.fromkeys(texts, plain.tokens)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_expansions_and_blocks(run: Run, monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """Every round: blocks numbered from the root's, expansions as wide as said, true ranks as the other records say."""
    knowing(run, monkeypatch, temperature=temperature)
    _, events = run("specblock", temperature=temperature, node_budget=60, widths=["2,4,5,3"])
    known = on_path = later = 0
    for events_ in by_round(events).values():
        blocks, expansions, nodes = of(events_, Block), of(events_, Expansion), {n.node: n for n in of(events_, Node)}
        if not blocks:
            continue
        assert [block.start for block in blocks] == list(range(len(blocks)))
        assert (blocks[0].node, blocks[0].chain, blocks[0].batch) == (-1, [], 1)
        assert sum(block.block == 2 for block in blocks) in (
            0,
            max(block.batch for block in blocks if block.block == 2) if len(blocks) > 1 else 0,
        )
        for block in blocks[1:]:
            later += 1
            ((first, row, slot),) = block.chain
            assert (first, row) == (1, block.kv_len - 8)
            assert nodes[block.node].depth == slot + 1
            assert nodes[block.node].src["start"] == block.start
        tree = of(events_, TreeMade)[0]
        assert tree.n_raw == sum(expansion.n_children for expansion in expansions)
        assert (tree.n_raw - tree.n_merged, tree.n_kept) == (len(nodes), sum(n.kept for n in nodes.values()))
        assert sum(tree.widths) == sum(tree.buckets) == len(expansions)
        target_best = {verify.node: verify.argmax_p for verify in of(events_, Verify) if verify.argmax_p is not None}
        committed = of(events_, Commit)[0].tokens
        path = [-1] + [n for n, v in ((v.node, v) for v in of(events_, Verify)) if v.status == "accepted"]
        for block in expansions:
            children = [n for n in nodes.values() if n.parent == block.parent and block.id in (n.src["merged"] or [])]
            children += [n for n in nodes.values() if n.parent == block.parent and _maker(n, expansions) == block.id]
            assert len({n.node for n in children}) == block.n_children
            assert len(block.rank_probs) == 4
            assert len(block.phi) == 15
            assert sum(block.rank_probs) == pytest.approx(1, abs=1e-4)
            kept_parent = block.parent == -1 or nodes[block.parent].kept
            assert (block.true_bucket is not None) == kept_parent
            if not kept_parent:
                continue
            known += 1
            assert block.true_bucket == bucket(block.true_rank_argmax)
            judged = [n.node for n in nodes.values() if n.parent == block.parent and n.node in target_best]
            if judged:
                tokens = [token for token, _ in block.top]
                best = target_best[judged[0]]
                assert block.true_rank_argmax == (tokens.index(best) + 1 if best in tokens else block.true_rank_argmax)
                assert (best in tokens) == (block.true_rank_argmax <= len(tokens))
            assert block.on_path == (block.parent in path)
            if block.on_path and path.index(block.parent) < len(committed):
                on_path += 1
                emitted, tokens = committed[path.index(block.parent)], [token for token, _ in block.top]
                assert (emitted in tokens) == (block.true_rank_emitted <= len(tokens))
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
        for expansion in of(events_, Expansion):
            if expansion.parent not in parents or expansion.true_bucket is None:
                continue
            tokens = [token for token, _ in expansion.top]
            if expansion.true_rank_argmax is None:
                absent += 1
                assert expansion.true_bucket == 3
                assert parents[expansion.parent] not in tokens
            elif expansion.true_rank_argmax <= len(tokens):
                there += 1
                assert tokens[expansion.true_rank_argmax - 1] == parents[expansion.parent]
            if mode == "oracle" and (expansion.block, expansion.slot) != (1, 0):
                assert expansion.width == (2, 3, 4, 5)[expansion.true_bucket]
    assert absent > 5
    assert there > 0


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("mode", ["rank", "oracle"])
def test_ranks_are_places_among_the_offers(
    run: Run, monkeypatch: pytest.MonkeyPatch, mode: str, temperature: float
) -> None:
    """Under a penalty and a ban tokens are offered in another order than by their logits, and ranks follow it."""
    law = {"repetition_penalty": 1.8, "ban": ["a"], "temperature": temperature}
    knowing(run, monkeypatch, right=0.6, **law)
    _, events = run("specblock", width_mode=mode, node_budget=60, widths=["2,3,4,5"], **law)
    reordered = placed = 0
    for events_ in by_round(events).values():
        path = [-1] + [v.node for v in of(events_, Verify) if v.status == "accepted"]
        after = dict(zip(path, [token for commit in of(events_, Commit) for token in commit.tokens], strict=False))
        for expansion in of(events_, Expansion):
            tokens, logs = [token for token, _ in expansion.top], [log for _, log in expansion.top]
            reordered += logs != sorted(logs, reverse=True)
            if mode == "oracle" and expansion.true_bucket is not None and (expansion.block, expansion.slot) != (1, 0):
                assert expansion.width == (2, 3, 4, 5)[expansion.true_bucket]
            if expansion.parent not in after:
                assert not expansion.on_path
                continue
            token = after[expansion.parent]
            assert (token in tokens) == (expansion.true_rank_emitted <= len(tokens))
            if token in tokens:
                placed += 1
                assert expansion.true_rank_emitted == tokens.index(token) + 1
                if temperature == 0:
                    assert expansion.true_rank_argmax == expansion.true_rank_emitted
    assert reordered > 4
    assert placed > 10


def _maker(node: Node, expansions: list[Expansion]) -> int:
    """The expansion that made a node: of its block and slot, at its parent, with it at that rank."""
    for expansion in expansions:
        same = (expansion.block, expansion.slot, expansion.parent) == (node.src["block"], node.src["slot"], node.parent)
        if same and expansion.top[node.src["rank"] - 1][0] == node.token and expansion.id not in node.src["merged"]:
            return expansion.id
    raise AssertionError(node)


def test_valid_prefix_follows_the_first_ranks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing(run, monkeypatch, right=0.6)
    _, events = run("specblock", merge=False)
    broken = 0
    for events_ in by_round(events).values():
        for start in {expansion.start for expansion in of(events_, Expansion)}:
            so_far: bool | None = True
            for event in (expansion for expansion in of(events_, Expansion) if expansion.start == start):
                assert event.valid_prefix == so_far
                unknown = so_far is None or event.true_bucket is None
                so_far = None if unknown else so_far and event.true_rank_argmax == 1
                broken += so_far is False
    assert broken


def test_nodes_name_the_expansion_that_made_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing(run, monkeypatch)
    _, events = run("specblock", blocks=3, node_budget=60)  # as large as pays, a tree has few nodes to join
    merged = 0
    for events_ in by_round(events).values():
        expansions = of(events_, Expansion)
        for node in of(events_, Node):
            assert node.src["expansion"] == _maker(node, expansions)
            merged += len(node.src["merged"])
            for number in node.src["merged"]:
                assert expansions[number].parent == node.parent
    assert merged > 10
