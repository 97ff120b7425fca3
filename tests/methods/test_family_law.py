"""Every layout of method `draft` under every verifier that takes it: the law of whole generations, exactly.

Production session, drafters and sampling under enumerating draws. Combinations
are asked of the method itself, so a new verifier is tested here without a line.
"""

from typing import Any

import pytest

pytest.importorskip("torch")

from specviz.engine.decode.session import Session
from specviz.methods import get_method
from specviz.probability.table_models import CASE_A, CASE_B, CASE_C, CASES, Iid, Problem, exact_row, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, Law, deviation, law_of, total_variation
from support.table_session import HISTORY, Letters, session, session_law, table_models

EXACT = 1e-12
PROBLEMS = CASES | {"H": HISTORY}
METHOD = get_method("draft")
LAYOUTS: dict[str, dict[str, Any]] = {
    "chain": {"gamma": 2},
    "argmax chain": {"gamma": 2, "draft_mode": "argmax"},
    "chains": {"shape": "chains", "gamma": 2},
    "distinct chains": {"shape": "chains", "gamma": 2, "replacement": False},
    "best chains": {"shape": "chains", "gamma": 2, "draft_mode": "argmax"},
    "caterpillar": {"shape": "caterpillar", "gamma": 2},
    "distinct caterpillar": {"shape": "caterpillar", "gamma": 2, "replacement": False},
    "drawn tree": {"shape": "drawn_tree", "d_max": 2},
    "distinct tree": {"shape": "drawn_tree", "d_max": 2, "replacement": False},
    "lean tree": {"shape": "drawn_tree", "d_max": 3, "replacement": False, "node_budget": 4, "k_max": 1},
    "tree": {"shape": "tree", "d_max": 2, "w_max": 2, "k_max": 2, "node_budget": 5},
}
FITS = [
    (layout, verifier)
    for layout, knobs in LAYOUTS.items()
    for verifier in METHOD.fitting(METHOD.table.knobs({"temperature": 1.0, **knobs}).values)
]
SAME = "multi_tokenwise"  # tokenwise by its other name
LOSSLESS = [(layout, verifier) for layout, verifier in FITS if get_verifier(verifier).lossless and verifier != SAME]
CONTROLS = [name for name in METHOD.verifiers if not get_verifier(name).lossless]
LONG = {"caterpillar", "drawn tree", "chains", "distinct caterpillar"}  # layouts with many draws: shorter texts


def test_one_rule_has_two_names() -> None:
    """So that what is shown below of one holds for the other."""
    assert get_verifier(SAME).plan is get_verifier("tokenwise").plan


def length_of(layout: str, verifier: str, length: int) -> int:
    """Fewer tokens where there are more paths: every node that `walk` does not look at is a draw all the same."""
    return length - (layout in LONG) - (layout in LONG and verifier == "walk") - (layout == "drawn tree")


@pytest.mark.parametrize(("layout", "verifier"), LOSSLESS)
def test_law_of_a_generation(layout: str, verifier: str) -> None:
    """Several rounds up to the length limit, which cuts drafts shorter towards the end."""
    length = length_of(layout, verifier, 5)
    played_law = session_law(HISTORY, "draft", verifier, max_new_tokens=length, **LAYOUTS[layout])
    assert deviation(played_law, law(HISTORY.p, length)) < EXACT


@pytest.mark.parametrize(("layout", "verifier"), LOSSLESS)
def test_law_with_three_and_four_tokens(layout: str, verifier: str) -> None:
    """Case C has zeros in both tables, as after top-k: residuals without support, children that run out."""
    played_law = session_law(CASE_C, "draft", verifier, max_new_tokens=2, **LAYOUTS[layout])
    assert deviation(played_law, law(CASE_C.p, 2)) < EXACT


@pytest.mark.parametrize("eos", [0, 1])
@pytest.mark.parametrize(("layout", "verifier"), LOSSLESS)
def test_law_with_an_end_token(layout: str, verifier: str, eos: int) -> None:
    """A drafted end token is kept and not fed; a block whose draft it cut short is as long as was planned."""
    length = length_of(layout, verifier, 4)
    played_law = session_law(HISTORY, "draft", verifier, max_new_tokens=length, eos=[eos], **LAYOUTS[layout])
    assert deviation(played_law, law(HISTORY.p, length, [eos])) < EXACT


@pytest.mark.parametrize("verifier", [v for layout, v in LOSSLESS if layout == "chain"])
@pytest.mark.parametrize("eos", [[], [0], [1]])
def test_law_of_longer_chains(verifier: str, eos: list[int]) -> None:
    """Three drafted tokens: blocks with two carried rounds, scans that stop in the middle."""
    played_law = session_law(HISTORY, "draft", verifier, max_new_tokens=5, eos=eos, gamma=3)
    assert deviation(played_law, law(HISTORY.p, 5, eos)) < EXACT


@pytest.mark.parametrize(("layout", "verifier"), [pair for pair in LOSSLESS if pair[0] not in LONG])
def test_law_with_a_stop_text(layout: str, verifier: str) -> None:
    """It may be completed by an accepted token, by the closing one, or by a carried round."""
    length, stop = 4, "ab"
    knobs = {"max_new_tokens": length, "stop": [stop], "texts": Letters(), **LAYOUTS[layout]}
    played_law = session_law(HISTORY, "draft", verifier, **knobs)
    whole: Law = {}
    for text, prob in law(HISTORY.p, length).items():
        at = "".join("ab"[t] for t in text).find(stop)
        cut = text if at < 0 else text[: at + len(stop)]
        whole[cut] = whole.get(cut, 0) + prob
    assert deviation(played_law, whole) < EXACT


def change(session: Session, done: Any) -> None:
    """Other knobs every round, told by the text so far (which is allowed: it is told before the draws)."""
    turn = session.number + sum(session.new_tokens)
    moves = {
        "gamma": turn % 3,
        "candidates": 1 + turn % 3,
        "replacement": bool(turn % 2),
        "d_max": 1 + turn % 2,
        "node_budget": (4, 0, 2)[turn % 3],
        "k_max": 1 + turn % 2,
    }
    for name, value in moves.items():
        needs = session.table.spec(name).needs.get("shape", [])
        if session.knobs["shape"] in needs and (name != "candidates" or session.knobs["shape"] != "chain"):
            session.request(name, value)


@pytest.mark.parametrize(("layout", "verifier"), LOSSLESS)
def test_law_with_knobs_changed_every_round(layout: str, verifier: str) -> None:
    """Between carried rounds too."""
    length = length_of(layout, verifier, 4)
    played_law = session_law(HISTORY, "draft", verifier, steer=change, max_new_tokens=length, **LAYOUTS[layout])
    assert deviation(played_law, law(HISTORY.p, length)) < EXACT


def first_tokens(problem: Problem, verifier: str, length: int, **knobs: Any) -> Law:
    """The law of the first tokens: one round whose draft no limit cuts, and plain decoding behind it."""
    models = table_models(problem)

    def run(branch: EnumeratedPath) -> tuple[int, ...]:
        running = session(models, branch.keys, "draft", verifier, max_new_tokens=40, **knobs)
        rounds = running.rounds()
        while len(running.new_tokens) < length:
            next(rounds)
            running.request("gamma", 0)
        return tuple(running.new_tokens[:length])

    return law_of(run)


@pytest.mark.parametrize("verifier", CONTROLS)
@pytest.mark.parametrize("knobs", [{}, {"slack": 0.1}, {"slack": 0.75}], ids=str)
def test_controls_are_as_far_off_as_they_say(verifier: str, knobs: dict[str, float]) -> None:
    """Case A, gamma 2: the distance of the header is that of the engine's own law."""
    own = {name: value for name, value in knobs.items() if name in {k.name for k in get_verifier(verifier).knobs}}
    first_law = first_tokens(CASE_A, verifier, 3, gamma=2, **own)
    distance = get_verifier(verifier).tuned(METHOD.table.knobs(own)).distance
    assert distance
    assert float(total_variation(first_law, law(CASE_A.p, 3))) == pytest.approx(distance, abs=1e-12)


GOLDEN = [  # docs/methods.md: expected accepted tokens of a first round
    (CASE_A, "chain", "tokenwise", 10 / 9),
    (CASE_A, "chain", "blockwise", 11 / 9),
    (CASE_A, "chain", "hsd", 11 / 9),
    (CASE_A, "chain", "hsd_naive", 12 / 9),
    (CASE_A, "chain", "hsd_ref", 12 / 9),
    (CASE_B, "chain", "hsd", 1.45),
    (CASE_B, "chain", "hsd_naive", 1.5),
    (CASE_C, "chain", "blockwise", 1.075),
    (CASE_C, "chain", "hsd_ref", 1.12),
    (CASE_A, "chains", "multi_tokenwise", 4 / 3),
    (CASE_A, "chains", "multi_hsd", 115 / 81),
    (CASE_A, "chains", "multi_traversal", 38 / 27),
    (CASE_A, "caterpillar", "multi_tokenwise", 113 / 81),
    (CASE_A, "caterpillar", "multi_hsd", 353 / 243),
    (CASE_A, "caterpillar", "multi_traversal", 13 / 9),
    (CASE_B, "distinct chains", "multi_tokenwise", 85 / 56),
    (CASE_B, "distinct chains", "multi_hsd", 2251 / 1400),
    (CASE_B, "chains", "multi_tokenwise", 1.4953),
    (CASE_B, "chains", "multi_hsd", 1.5705),
    (CASE_B, "chains", "multi_traversal", 1.552),
]


@pytest.mark.parametrize(("problem", "layout", "verifier", "expected"), GOLDEN)
def test_golden_acceptance_out_of_the_engine(problem: Problem, layout: str, verifier: str, expected: float) -> None:
    models = table_models(problem)

    def run(branch: EnumeratedPath) -> int:
        running = session(models, branch.keys, "draft", verifier, max_new_tokens=40, **LAYOUTS[layout])
        return next(running.rounds()).n_accepted

    assert sum(k * prob for k, prob in law_of(run).items()) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize(
    ("problem", "gamma", "calls"), [(CASE_A, 2, 4 / 3), (CASE_A, 3, 5 / 3), (CASE_B, 2, 1.2), (CASE_C, 2, 1.3)]
)
def test_the_naive_rule_pays_with_target_calls(problem: Problem, gamma: int, calls: float) -> None:
    """Rounds of the first block; a carried one makes one draft call. Only a draft kept whole gives gamma + 1 tokens."""
    models = table_models(problem)

    def run(branch: EnumeratedPath) -> int:
        running = session(models, branch.keys, "draft", "hsd_naive", max_new_tokens=40, gamma=gamma)
        count = 0
        for count, done in enumerate(running.rounds(), 1):
            assert (done.carry is not None) == (count > 1)
            assert done.n_draft_calls == (1 if count > 1 else gamma)
            if running.carry is None:
                break
        emitted = len(running.new_tokens)
        assert emitted == (gamma + 1 if count == 1 and done.n_accepted == gamma else gamma)
        return count

    assert sum(k * prob for k, prob in law_of(run).items()) == pytest.approx(calls, abs=EXACT)


class Warped:
    """A table's rows after the library's processors, worked out here by themselves."""

    def __init__(self, table: Any, prompt: tuple[int, ...], knobs: dict[str, Any]) -> None:
        self.table, self.prompt, self.knobs = table, prompt, knobs
        self.vocab = table.vocab

    def row(self, prefix: Any) -> Any:
        import numpy as np

        p = np.asarray(self.table.row(prefix), dtype=np.float64)
        for token in {*self.prompt, *prefix}:  # a log-probability is never positive, so the penalty multiplies it
            p[token] **= self.knobs.get("repetition_penalty", 1.0)
        for entry in self.knobs.get("ban", []):
            p[int(entry.removeprefix("id:"))] = 0.0
        p = p ** (1 / self.knobs.get("temperature", 1.0))
        order = sorted(range(len(p)), key=lambda y: -p[y])
        p[order[self.knobs.get("top_k", len(p)) :]] = 0.0
        p = p / p.sum()
        before = np.concatenate([[0.0], np.cumsum(p[order])[:-1]])
        p[[y for y, mass in zip(order, before, strict=True) if mass >= self.knobs.get("top_p", 1.0)]] = 0.0
        p[p < self.knobs.get("min_p", 0.0) * p.max()] = 0.0
        return p / p.sum()


WARPS: list[dict[str, Any]] = [
    {"temperature": 0.6},
    {"top_k": 2},
    {"top_p": 0.75},
    {"min_p": 0.55},
    {"repetition_penalty": 1.7},
    {"ban": ["id:1"]},
    {"temperature": 1.4, "top_k": 2, "repetition_penalty": 0.8, "ban": ["id:2"]},
]
PLAIN = Problem(4, 2, Iid(exact_row([".15", ".4", ".25", ".2"])), Iid(exact_row([".3", ".2", ".35", ".15"])))


@pytest.mark.parametrize(
    ("layout", "verifier", "warp"),
    [(*pair, warp) for pair in LOSSLESS for warp in (WARPS if pair[0] == "chain" else WARPS[-1:])],
    ids=str,
)
def test_the_target_law_is_the_warped_one(layout: str, verifier: str, warp: dict[str, Any]) -> None:
    """Lossless is relative to the target's own warpers, under every verifier and layout."""
    played_law = session_law(PLAIN, "draft", verifier, max_new_tokens=2, **LAYOUTS[layout], **warp)
    assert deviation(played_law, law(Warped(PLAIN.p, (0,), warp), 2)) < EXACT
    assert deviation(played_law, law(PLAIN.p, 2)) > 0.01  # and another law than the plain one


@pytest.mark.parametrize("layout", LAYOUTS)
def test_temperature_zero_is_one_path(layout: str) -> None:
    """No uniform decides anything, whatever drafts and judges: the arg-max text with probability one."""
    best = {(): 0, (0,): 0, (1,): 1, (2,): 2}
    text = [best[()]]
    while len(text) < 7:
        text.append(best[(text[-1],)])
    knobs = {"temperature": 0.0, **LAYOUTS[layout]}
    fitting = METHOD.fitting(METHOD.table.knobs(knobs).values)
    assert {"walk", "tokenwise"} <= set(fitting)
    for verifier in fitting:
        if get_verifier(verifier).lossless:
            assert session_law(CASE_B, "draft", verifier, max_new_tokens=7, **knobs) == {tuple(text): 1}, verifier


@pytest.mark.parametrize("layout", ["chains", "caterpillar", "drawn tree"])
def test_temperature_zero_drafts_no_token_twice(layout: str) -> None:
    """Copies of one greedy chain are pointless: siblings are the most likely tokens in turn, with replacement too."""
    running = session(table_models(CASE_B), None, "draft", "walk", temperature=0.0, **LAYOUTS[layout])
    draft = next(running.rounds()).draft
    families = [[draft.tokens[c] for c in children] for children in draft.children.values()]
    assert [len(f) for f in families if len(f) > 1]
    assert all(len(set(family)) == len(family) for family in families)
    assert all(row < 0 for row in draft.row_of)


def test_a_law_changes_between_blocks_only() -> None:
    """A temperature asked for while a block is under way waits for its end; gamma does not."""
    models = table_models(CASE_A)
    waited = 0
    for seed in range(30):
        running = session(models, None, "draft", "hsd_naive", gamma=3, seed=seed, max_new_tokens=30)
        for _ in running.rounds():
            if running.carry is None:
                continue
            running.request("temperature", 0.5)
            running.request("gamma", 2)
            left = running.carry.left
            break
        for k, done in enumerate(running.rounds()):
            assert running.knobs["gamma"] == 2
            assert running.knobs["temperature"] == (1.0 if k < left else 0.5)
            waited += done.carry is not None
            if k > left:
                break
    assert waited > 10


def test_an_aborted_carried_round_keeps_its_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round is run again with the same carry and the same keys: the same text as without the abort."""
    models = table_models(HISTORY)
    aborted = 0
    for seed in range(20):
        plain = session(models, None, "draft", "hsd_naive", gamma=3, seed=seed, max_new_tokens=16).generate()
        running = session(models, None, "draft", "hsd_naive", gamma=3, seed=seed, max_new_tokens=16)
        for _ in running.rounds():
            if running.carry is not None and running.finish is None:
                with monkeypatch.context() as patch:
                    patch.setattr(type(models.target), "logits", lambda self, hidden: {}["broken"])
                    with pytest.raises(KeyError):
                        next(iter(running.rounds()))
                assert running.carry is not None
                aborted += 1
                break
        assert running.generate() == plain
    assert aborted > 5


# Controls: faults of drafters and session that these laws must show.


def test_pruning_drawn_nodes_by_value_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two children drawn, the one with the smaller id sent: no law was recorded for that."""
    from specviz.engine.decode.draft_tree import DraftTree

    knobs = {"shape": "drawn_tree", "d_max": 1, "max_new_tokens": 3}
    assert deviation(session_law(CASE_B, "draft", "tokenwise", **knobs), law(CASE_B.p, 3)) < EXACT
    draft = DraftTree.draft

    def pruned(self: DraftTree, *args: Any, **named: Any) -> Any:
        return draft(self, *args, **{**named, "keep": sorted(range(len(self)), key=self.token)[:1]})

    monkeypatch.setattr(DraftTree, "draft", pruned)
    assert deviation(session_law(CASE_B, "draft", "tokenwise", **knobs), law(CASE_B.p, 3)) > 0.01


@pytest.mark.parametrize("verifier", ["tokenwise", "multi_hsd", "multi_traversal"])
def test_the_plain_row_for_draws_without_replacement_is_caught(monkeypatch: pytest.MonkeyPatch, verifier: str) -> None:
    """The elder siblings are struck out of what is drawn from, and not of what is recorded."""
    from specviz.engine.decode.draft_tree import DraftTree

    add = DraftTree.add

    def plain(self: DraftTree, token: int, parent: int, row: Any = None, *rest: Any, **facts: Any) -> int:
        elder = next((n for n in range(len(self)) if self.parent(n) == parent), None)
        return add(self, token, parent, row if elder is None else self.law(elder), *rest, **facts)

    monkeypatch.setattr(DraftTree, "add", plain)
    problem = Problem(4, 1, Iid(exact_row([".4", ".3", ".2", ".1"])), Iid(exact_row([".7", ".1", ".1", ".1"])))
    played_law = session_law(problem, "draft", verifier, max_new_tokens=2, **LAYOUTS["distinct chains"])
    assert deviation(played_law, law(problem.p, 2)) > 0.005  # case B would not do: its residuals are certain


def test_a_forgotten_carry_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafting afresh behind a naive stop, as one-call verifiers may."""
    commit = Session._commit

    def forgetful(self: Session, *args: Any) -> Any:
        seen = commit(self, *args)
        self.carry = None
        return seen

    monkeypatch.setattr(Session, "_commit", forgetful)
    played_law = session_law(CASE_A, "draft", "hsd_naive", max_new_tokens=4, gamma=2)
    assert deviation(played_law, law(CASE_A.p, 4)) > 0.01


def test_a_block_as_short_as_its_draft_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafted end token cuts the draft, not the block: forgetting what was planned moves the law."""
    from dataclasses import replace

    from specviz.methods.draft_model.drafter import ChainDrafter

    propose = ChainDrafter.propose
    monkeypatch.setattr(ChainDrafter, "propose", lambda self, ctx: replace(propose(self, ctx), planned=None))
    played_law = session_law(HISTORY, "draft", "hsd_naive", max_new_tokens=4, gamma=3, eos=[0])
    assert deviation(played_law, law(HISTORY.p, 4, [0])) > 1e-4
