"""What block-drafted runs leave on record: readable, checked, complete, and without any influence on the text."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blocks.stage import Hearsay, trained
from blocks.test_eagle import made as eagle_made
from engine.zoo import build, save
from specviz.drafters.blocks import drafter as drafting
from specviz.drafters.blocks import files as block_files
from specviz.drafters.blocks.rank import bucket
from specviz.drafters.eagle import files as eagle_files
from specviz.engine.local import LocalRun, Pair, load_pair
from specviz.events import Block, Commit, Event, Expansion, Node, TreeMade, Verify, decode, encode
from specviz.methods import get_method
from specviz.methods.blocks import EAGLE3, SPECBLOCK
from specviz.trace import Recorder, read_events
from specviz.wire import Start

OURS = {method.name: method for method in (SPECBLOCK, EAGLE3)}
Run = Callable[..., tuple[LocalRun, list[Event]]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, dict[str, list[str]]]:
    """A target from disk, and a folder of random weights for every method."""
    root = tmp_path_factory.mktemp("target")
    pair = load_pair(save(build("llama", seed=1), root), needs_draft=False, dtype="float64", threads=1)
    adapter = pair.target.adapter
    block_files.KIND.write(root / "blocks", trained(adapter))
    eagle_files.KIND.write(root / "eagle", eagle_made(adapter))
    return pair, {"specblock": [str(root / "blocks")], "eagle3": [str(root / "eagle")]}


@pytest.fixture
def run(loaded: tuple[Pair, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A whole run, through lines and back."""
    pair, folders = loaded
    monkeypatch.setattr("specviz.engine.local.get_method", lambda name: OURS.get(name) or get_method(name))

    def decoded(method: str, level: Any = "full", **knobs: Any) -> tuple[LocalRun, list[Event]]:
        own = {"max_new_tokens": 24, **({"drafter": folders[method]} if method in folders else {}), **knobs}
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
