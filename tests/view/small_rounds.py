"""Rounds written by hand, a few nodes each, for sentences whose words are fixed in the tests."""

import math
from typing import Any

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.view import Cursor, Run
from specviz.view.frame.parts import Why
from specviz.view.frame.steps import moment
from specviz.view.panels import remarks
from specviz.view.play.build import FrameBuilder
from specviz.view.why.explain import why
from specviz.view.words.palette import Phase
from support.traces import Recipe, make_header


def log(p: float | None) -> float | None:
    """As written in a trace."""
    return None if p is None else ev.log6(p)


def node(
    i: int, text: str, parent: int = -1, depth: int = 1, q: float | None = None, conf: float = 0.5, **rest: Any
) -> ev.Node:
    """A drafted token; its id is also its token id + 100."""
    return ev.Node(
        r=1,
        node=i,
        parent=parent,
        depth=depth,
        pos=9 + depth,
        token=100 + i,
        text=text,
        logq=log(q),
        log_conf=math.log(conf),
        mode="argmax" if q is None else "sampled",
        **rest,
    )


def judged(
    i: int, p: float, u: float, thr: float, order: int, why: str = "", q: float | None = None, **rest: Any
) -> ev.Verify:
    """A verdict of kind test, decided here as the engine decides it."""
    passed = u < thr
    why = why or ("kept" if passed else "u_above" if thr > 0 else "target_zero")
    return ev.Verify(
        r=1,
        node=i,
        order=order,
        kind="test",
        logp=log(p),
        logq=log(q),
        thr=thr,
        u=u,
        why=why,
        status="accepted" if passed else "rejected",
        **rest,
    )


def drawn(i: int, u: float, held: tuple[float, float], order: int, **rest: Any) -> ev.Verify:
    """A verdict of kind draw: kept when u falls into the node's interval."""
    kept = held[0] <= u < held[1]
    p = held[1] - held[0]
    why = "kept" if kept else "not_drawn" if p > 0 else "target_zero"
    verdict = ev.Verify(
        r=1,
        node=i,
        order=order,
        kind="draw",
        logp=log(p),
        logq=None,
        thr=None,
        u=u,
        interval=held,
        status="accepted" if kept else "rejected",
        why=why,
    )  # type: ignore[arg-type]
    for name, value in rest.items():
        setattr(verdict, name, value)
    return verdict


def untested(i: int, why: str, p: float = 0.2, kind: str = "test") -> ev.Verify:
    """A node that was never reached."""
    return ev.Verify(
        r=1, node=i, order=None, kind=kind, logp=log(p), logq=None, thr=None, u=None, status="untested", why=why
    )  # type: ignore[arg-type]


def closing(kind: str, text: str | None, node: int = -1, token: int | None = 900, **rest: Any) -> ev.Closing:
    """The round's last token, id 900."""
    none = kind == "none"
    rest.setdefault("u", None if none else 0.713)
    return ev.Closing(r=1, node=node, kind=kind, token=None if none else token, text=text, **rest)  # type: ignore[arg-type]


def a_round(
    *records: Any,
    temperature: float = 0.7,
    verifier: str = "tokenwise",
    finish: Any = None,
    draft_end: Any = "full",
    **header: Any,
) -> Run:
    """A run of one round with these nodes, verdicts and closing."""
    nodes = [e for e in records if isinstance(e, ev.Node)]
    verdicts = [e for e in records if isinstance(e, ev.Verify)]
    closes = [e for e in records if isinstance(e, ev.Closing)]
    looks = [e for e in records if isinstance(e, ev.DraftStep)]
    accepted = [v.node for v in verdicts if v.status == "accepted"]
    tokens = [100 + i for i in accepted]
    texts = [n.text for n in nodes if n.node in accepted]
    kinds: list[Any] = ["accepted"] * len(tokens)
    for event in closes:
        if event.token is not None:
            tokens, texts, kinds = [*tokens, event.token], [*texts, event.text or ""], [*kinds, event.kind]
    start = [
        make_header(Recipe(temperature=temperature), verifier=verifier, **header),
        ev.Prefill(prompt=[1, 2], text="a prompt", n_prompt=10, seed=0, dur_ns=1),
        ev.RoundStart(r=1, n=10, root=2, knob_version=0),
    ]
    commit = ev.Commit(r=1, tokens=tokens, texts=texts, kinds=kinds, n=10 + len(tokens), finish=finish)
    end = ev.RoundEnd(
        r=1,
        n_drafted=len(nodes),
        n_tested=sum(v.order is not None for v in verdicts),
        n_accepted=len(accepted),
        n_emitted=len(tokens),
        n_draft_calls=1,
        n_syncs=1,
        stage_ns={},
        probe_ns=0,
        draft_end=draft_end,
        walk_end="leaf",
        cut=False,
    )
    return fold([*start, *nodes, *looks, *verdicts, *closes, commit, end])


def panel(run: Run, node: int, at: Cursor | None = None) -> Why:
    """The why panel of a node, at the end of the round unless told otherwise."""
    round_tree = FrameBuilder(run).round_tree(0)
    return why(
        run, round_tree, node, moment(round_tree, at or Cursor(0, Phase.COMMIT)), remark=remarks(run, round_tree, node)
    )


def words(run: Run, node: int) -> str:
    """The sentence of a node."""
    return panel(run, node).words
