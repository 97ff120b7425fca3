"""What became of every drafted token of a round, told from what the loop committed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from specviz import events as ev
from specviz.errors import TraceError
from specviz.events import log6
from specviz.events.round import Finish, WalkEnd, Why
from specviz.trace.rules import RuleInForce

Verdict = Literal["accepted", "rejected", "untested"]


@dataclass(slots=True, eq=False)
class DraftedToken:
    """One drafted token; `q`, `p`, `u` and `kept` may be set until its round is committed."""

    id: int
    token: int
    text: str
    parent: "DraftedToken | None"
    q: float | None = None
    p: float | None = None
    u: float | None = None
    kept: bool | None = None
    top: list[tuple[int, float]] = field(default_factory=list)  # of the draft's row

    @property
    def depth(self) -> int:
        """1 right behind the text."""
        return 1 if self.parent is None else self.parent.depth + 1


@dataclass(slots=True)
class JudgedRound:
    """A round with the verdict of every drafted token. `path`: the kept ones, root to leaf."""

    drafted: list[DraftedToken]
    path: list[DraftedToken]
    verdicts: dict[int, Verdict]
    tokens: list[int]
    texts: list[str]
    kinds: list[Any]
    n_drafted: int
    n_tested: int
    contradictions: list[str]

    @property
    def n_accepted(self) -> int:
        return self.kinds.count("accepted")

    @property
    def closed(self) -> bool:
        """Whether a token was drawn behind what was kept."""
        return self.kinds[-1:] not in ([], ["accepted"])

    def records(self, n: int, rule: RuleInForce, p: float | None, u: float | None) -> Iterator[ev.Event]:
        """Drafted tokens, verdicts, the closing draw. `n`: length of the text before; `p`, `u`: of the last token."""
        for token in self.drafted:
            yield self._node(token, n, rule)
        order = 0
        for token in self.drafted:
            tested = self.verdicts[token.id] != "untested"
            yield self._verify(token, order if tested else None, rule)
            order += tested
        stop = self.path[-1].id if self.path else -1
        yield ev.Closing(
            node=stop,
            kind=self.kinds[-1] if self.closed else "none",
            token=self.tokens[-1] if self.closed else None,
            text=self.texts[-1] if self.closed else None,
            u=u if self.closed else None,
            logp=log6(p) if p is not None and self.closed else None,
        )

    def _node(self, drafted: DraftedToken, n: int, rule: RuleInForce) -> ev.Node:
        chance = None if drafted.q is None else log6(drafted.q)
        return ev.Node(
            node=drafted.id,
            parent=drafted.parent.id if drafted.parent is not None else -1,
            depth=drafted.depth,
            pos=n - 1 + drafted.depth,
            token=drafted.token,
            text=drafted.text,
            logq=None if rule.point_mass else chance,
            log_conf=chance,
            mode=rule.mode,
            top=[(token, log6(q)) for token, q in drafted.top] or None,
        )

    def _verify(self, token: DraftedToken, order: int | None, rule: RuleInForce) -> ev.Verify:
        status = self.verdicts[token.id]
        why: Why = "kept" if status == "accepted" else "not_drawn" if status == "rejected" else "prefix_rejected"
        tested = _tested(rule)
        if status == "rejected" and tested:
            why = "u_above"
        elif status == "untested" and not self.closed:
            why = "after_stop"
        threshold = threshold_of(token, rule)
        broken = status != "untested" and _contradicts(token, status, threshold)
        return ev.Verify(
            node=token.id,
            order=order,
            kind="test" if tested else "draw",
            logp=None if token.p is None else log6(token.p),
            logq=None if token.q is None or rule.point_mass else log6(token.q),
            thr=None if broken else threshold,
            u=token.u,
            status=status,
            why=why,
        )

    def end(self, finish: Finish | None, stage_ns: dict[str, int]) -> ev.RoundEnd:
        """Its counts. `stage_ns`: where its time went."""
        rejected = self.closed and self.n_accepted < self.n_drafted
        stop: WalkEnd = "rejected" if rejected else "leaf" if self.closed else finish or "leaf"  # type: ignore[assignment]
        return ev.RoundEnd(
            n_drafted=self.n_drafted,
            n_tested=self.n_tested,
            n_accepted=self.n_accepted,
            n_emitted=len(self.tokens),
            n_draft_calls=0,
            n_syncs=0,
            stage_ns=stage_ns,
            probe_ns=0,
            draft_end="full",
            walk_end=finish if finish in ("eos", "stop", "length") else stop,
            cut=not self.closed,
        )


def judge_round(
    drafted: Sequence[DraftedToken],
    tokens: list[int],
    texts: list[str],
    rule: RuleInForce,
    n_accepted: int | None,
    n_drafted: int | None,
    finish: Finish | None,
) -> JudgedRound:
    """Raises TraceError where drafted and committed tokens contradict each other."""
    if n_drafted is not None and drafted and n_drafted != len(drafted):
        raise TraceError(f"the round was begun with {n_drafted} drafted tokens, {len(drafted)} were named")
    path = _path(drafted, tokens, n_accepted, finish) if drafted else []
    kept = len(path) if drafted else n_accepted or 0
    count = n_drafted if n_drafted is not None else len(drafted)
    if not kept <= min(len(tokens), count) or len(tokens) - kept > 1:
        raise TraceError(
            f"{len(tokens)} tokens were committed, {kept} of them drafted: "
            "a round brings what it keeps and at most one more"
        )
    verdicts = _verdicts(drafted, path, closed=len(tokens) > kept)
    closing = ["recovered" if kept < count else "bonus"] * (len(tokens) - kept)
    tested = sum(verdict != "untested" for verdict in verdicts.values())
    if not drafted:
        tested = min(count, kept + (closing == ["recovered"]))
    broken = [_words(token, verdicts[token.id], rule) for token in drafted]
    return JudgedRound(
        list(drafted),
        path,
        verdicts,
        tokens,
        texts,
        ["accepted"] * kept + closing,
        count,
        tested,
        [words for words in broken if words],
    )


def _path(
    drafted: Sequence[DraftedToken], tokens: list[int], n_accepted: int | None, finish: Finish | None
) -> list[DraftedToken]:
    """The drafted tokens that the committed ones follow. The last of these closes the round, unless the text ended."""
    most = n_accepted if n_accepted is not None else len(tokens) if finish is not None else len(tokens) - 1
    path: list[DraftedToken] = []
    while len(path) < most:
        above = path[-1] if path else None
        wanted = tokens[len(path)] if len(path) < len(tokens) else None
        below = [child for child in drafted if child.parent is above]
        kept = next((child for child in below if child.kept or (child.kept is None and child.token == wanted)), None)
        if kept is None:
            break
        path.append(kept)
    if n_accepted is not None and len(path) < n_accepted:
        raise TraceError(
            f"{n_accepted} drafted tokens were kept, but only {len(path)} of those that were named are text"
        )
    return path


def _verdicts(drafted: Sequence[DraftedToken], path: list[DraftedToken], closed: bool) -> dict[int, Verdict]:
    """Children of the last kept one lost; siblings before a kept one lost to it; whatever lies behind has no test."""
    stop = path[-1] if path else None
    verdicts: dict[int, Verdict] = {}
    for token in drafted:
        if any(token is one for one in path):
            verdicts[token.id] = "accepted"
        elif token.parent is stop:
            verdicts[token.id] = "rejected" if closed else "untested"
        else:
            rival = next((one for one in path if one.parent is token.parent), None)
            verdicts[token.id] = "rejected" if rival is not None and token.id < rival.id else "untested"
    return verdicts


def _tested(rule: RuleInForce) -> bool:
    """Whether the rule tests drafted tokens with a number each; else the target draws."""
    return rule.tests_by_ratio or (not rule.traits.draws and rule.promise != "changed")


def threshold_of(token: DraftedToken, rule: RuleInForce) -> float | None:
    """What u had to lie below, where the rule and the numbers say so."""
    if not rule.tests_by_ratio or token.p is None:
        return None
    if rule.point_mass:
        return min(1.0, token.p)
    return None if not token.q else min(1.0, token.p / token.q)


def _contradicts(token: DraftedToken, status: Verdict, threshold: float | None) -> bool:
    if token.u is None or threshold is None or status == "untested":
        return False
    return (token.u < threshold) != (status == "accepted")


def _words(token: DraftedToken, status: Verdict, rule: RuleInForce) -> str:
    """A verdict that the rule would not have given; "" for one that it would."""
    threshold = threshold_of(token, rule)
    if not _contradicts(token, status, threshold):
        return ""
    return f"n{token.id} was {status} with u {token.u:.6g}, but {rule.name} keeps a token if u < {threshold:.6g}"
