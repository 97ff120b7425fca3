"""Why a round closed as it did: the sentence about its last token, and the row that token was drawn from."""

from specviz.events import Closing, Fork, Match, Verify, Window
from specviz.events import prob as linear
from specviz.numerals import percent, prob
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.text import quoted, running
from specviz.view.frame.parts import Residual, ResidualEntry
from specviz.view.why.node_context import carried, foreign_rule, paths
from specviz.view.why.values_text import ENDED
from specviz.view.words.numbers import within

N_ENTRIES = 5
_EMPTY = {
    "no_match": "Nothing earlier in the text matches its last words, so nothing was drafted",
    "low_conf": "The drafter was not sure enough to draft anything",
    "budget": "The knobs allow no drafted token",
    "length": "There is room for one token only",
    "pausing": "Drafting pauses, for it cost more than it brought",
}

_NO_GUESS = "The pool holds no guess for the last word of the text, so only the window moved on"


def closing_words(run: Run, tree: RoundTree, panel_words: str = "") -> str:
    """Why the round ends with this token, or without one. `panel_words`: what the panels add."""
    closing = tree.record.closing
    if closing is None or closing.kind == "none":
        return _no_token(run, tree)
    token = run.name(closing.token) if closing.token is not None else "the token"
    if closing.kind == "bonus":
        text = _bonus(run, tree, closing, token)
    else:
        text = _recovered(run, tree, closing, token)
        text += " That is a drafted token after all." if closing.equals_drafted else ""
    return " ".join(filter(None, (text, _missed(run, tree), panel_words)))


def _no_token(run: Run, tree: RoundTree) -> str:
    commit = tree.record.commit
    if commit is not None and commit.finish is not None:
        return f"The text ends here: {ENDED[commit.finish]}. Nothing is drawn after it."
    match = _match(tree)
    if match is not None and match.branch is not None:
        return _hit(run, tree, match, match.branch)
    return "The last kept token has no target row of its own, so nothing is drawn after it."


def _paused(run: Run, q: int, r: int) -> str:
    """What was said as drafting paused: what a round costs and brings, and when it is tried again."""
    messages = [warn.message for warn in run.warnings if warn.code == "auto" and (warn.q, warn.r) <= (q, r)]
    return running(messages[-1][:1].upper() + messages[-1][1:]) if messages else ""


def _match(tree: RoundTree) -> Match | None:
    return next(iter(tree.record.every(Match)), None)


def _hit(run: Run, tree: RoundTree, match: Match, branch: int) -> str:
    """A branch begins with the target's token: it goes on, without a token drawn after it."""
    token = run.name(match.token) if match.token is not None else "The target's token"
    rest = sum(
        node.branch == branch and tree.settled.get(i) != "trimmed" and i not in tree.record.verdicts
        for i, node in tree.record.nodes.items()
    )
    pending = f"its other {rest} tokens are" if rest != 1 else "its other token is"
    after = f"{pending} pending now, and the next pass judges them" if rest else "nothing was drafted behind it"
    return f"The target's token here, {token}, is the first of branch {branch}. The branch goes on: {after}."


def _missed(run: Run, tree: RoundTree) -> str:
    """Branches were ready, and none of them begins with the target's token."""
    match, fork = _match(tree), next(iter(tree.record.every(Fork)), None)
    if match is None or match.branch is not None or fork is None or not fork.branches:
        return ""
    n = len(fork.branches)
    if n == 1:
        return "The branch drafted ahead does not begin with it: it is invalidated."
    return f"None of the {n} branches drafted ahead begins with it: all are invalidated."


def _bonus(run: Run, tree: RoundTree, closing: Closing, token: str) -> str:
    how = _drew(run, tree, closing, token)
    if not any(node.kept and i in tree.record.verdicts for i, node in tree.nodes.items()):
        end = tree.record.end
        if run.method_traits.plain:
            return f"Plain decoding: one target pass, one token. {how}."
        window = next(iter(tree.record.every(Window)), None)
        if window is not None:
            return f"{_NO_GUESS}; the target decodes one token as in plain decoding. {how}."
        reason = _EMPTY.get((end.draft_end if end else None) or "", "Nothing was drafted")
        if end is not None and end.draft_end == "no_match" and run.method_traits.tree != "none":
            reason = "The drafter had nothing to go on, no state of the target yet or no finite numbers"
        if end is not None and end.draft_end == "pausing":
            reason = _paused(run, end.q, end.r) or reason
        return f"{reason}; the target decodes one token as in plain decoding. {how}."
    last = tree.nodes.get(tree.stop)
    after = f" after {quoted(last.text, last.bytes)}" if last else ""
    free = f"the same target pass has one more row{after}: a token for free"
    return f"A drafted path was kept to its end, and {free}. {how}."


def _drew(run: Run, tree: RoundTree, closing: Closing, token: str) -> str:
    if tree.record.temperature == 0:
        return f"{token} is the target's most likely token there"
    p = linear(closing.logp)
    chance = f" with chance {percent(p)}" if p is not None else ""
    return f"It drew {token}{chance}{_where(closing)}"


def _where(closing: Closing) -> str:
    if closing.u is None or closing.interval is None:
        return ""
    return " (u {} falls in {})".format(*within(closing.u, *closing.interval))


def _recovered(run: Run, tree: RoundTree, closing: Closing, token: str) -> str:
    if tree.record.start.carry is not None:
        return _carried(tree, closing, token)
    lost = _losers(tree)
    if lost and foreign_rule(run):
        names = _names([quoted(tree.nodes[v.node].text, tree.nodes[v.node].bytes) for v in lost])
        return f"{names} did not stay, and the engine closes the round with {token}."
    if lost and run.backward and tree.record.temperature != 0:
        return _after_scan(run, tree, closing, token)
    names = _names([quoted(tree.nodes[v.node].text, tree.nodes[v.node].bytes) for v in lost])
    if tree.record.temperature == 0:
        return f"{token} is the target's most likely token here; it is written in place of {names}."
    if not any(v.kind == "test" for v in lost):
        drew = f"The target drew {token}{_where(closing)}"
        return f"{drew}; no token that was sent matches it, so it is written and the round ends."
    if closing.fallback:
        return f"{names} failed, but nothing was left over to draw from, so {token} comes from the target's plain row."
    law = _has_law(tree, lost)
    left = "what the target wants more than the draft gave" if law else "the target's row without what failed"
    left = f"the residual, {left}"
    share = _share(closing)
    return f"{names} failed, so one token is drawn from {left}. It drew {token}{share}."


def _after_scan(run: Run, tree: RoundTree, closing: Closing, token: str) -> str:
    """A backward scan stopped before the end: what the longer prefixes left of the target's row."""
    last = tree.nodes.get(tree.stop)
    where = f"No prefix longer than {quoted(last.text, last.bytes)} passed" if last else "No prefix passed"
    if closing.fallback:
        return f"{where}, and nothing was left over to draw from, so {token} comes from the target's plain row."
    if len(paths(run, tree)) > 1:
        drawn = "one token is drawn from what the candidates left of the target's row"
        return f"{where}, so {drawn}. It drew {token}{_share(closing)}."
    letter = "c" if run.rule.capped else "r"
    drawn = f"one token is drawn from what the target, weighted with {letter}, has more than the draft"
    return f"{where}, so {drawn}. It drew {token}{_share(closing)}."


def _carried(tree: RoundTree, closing: Closing, token: str) -> str:
    """Naive HSD goes on with the block it left unfinished."""
    ratio = carried(tree.record.start.carry or 0.0)
    text = "A carried round: the block of the last draft is written to its end, one target and one draft call a token"
    if ratio == "∞":
        return f"{text}. The draft could not have drawn the last token, so {token} comes from the target's plain row."
    return f"{text}. {token} is drawn from max(0, R·p − q), R {ratio}{_share(closing)}."


def _share(closing: Closing) -> str:
    row = next((entry for entry in closing.row or [] if entry[0] == closing.token), None)
    return f", which had {percent(row[4])} of that" if row else _where(closing)


def _losers(tree: RoundTree) -> list[Verify]:
    """Tested nodes that competed with the closing token."""
    return [v for v in tree.tests if v.status == "rejected" and v.node in tree.nodes and tree.same_row(v.node)]


def _has_law(tree: RoundTree, lost: list[Verify]) -> bool:
    """Whether what failed was drawn; of other engines q may not be on record."""
    nodes = [tree.nodes[v.node] for v in lost]
    return any(node.logq is not None or node.mode == "sampled" for node in nodes)


def _names(words: list[str]) -> str:
    if not words:
        return "the draft"
    if len(words) > 3:
        return f"{words[0]} and {len(words) - 1} siblings"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# The row ------------------------------------------------------------------------------------------------------------


def residual(run: Run, tree: RoundTree) -> Residual | None:
    """The row the closing token was drawn from, largest first; None when it was not recorded."""
    closing = tree.record.closing
    if closing is None or closing.kind == "none":
        return None
    if tree.record.temperature == 0:
        return _raw_row(run, tree, closing)
    if not closing.row and closing.mass is None:
        return None
    drafted = {tree.nodes[i].token for i in _place(tree)}
    entries = [
        ResidualEntry(run.word(token), share, prob(share), token == closing.token, token in drafted, p, q)
        for token, p, q, weight, share in sorted(closing.row or [], key=lambda entry: -entry[4])
    ]
    if closing.token is not None and not any(entry.drawn for entry in entries):
        entries += _unlisted(run, closing, closing.token)
    entries = entries[:N_ENTRIES] + [e for e in entries[N_ENTRIES:] if e.drawn]
    return Residual(_title(run, tree, closing), tuple(entries), _note(tree, closing))


def _unlisted(run: Run, closing: Closing, token: int) -> list[ResidualEntry]:
    """The drawn token when it was too unlikely for the recorded part of the row: its interval is its share."""
    if closing.interval is None:
        return []
    share = closing.interval[1] - closing.interval[0]
    return [ResidualEntry(run.word(token), share, prob(share), True, closing.equals_drafted, linear(closing.logp))]


def _place(tree: RoundTree) -> tuple[int, ...]:
    """Drafted nodes at the closing token's place."""
    return tuple(i for i in tree.nodes if tree.nodes[i].kept and tree.same_row(i))


def _title(run: Run, tree: RoundTree, closing: Closing) -> str:
    if closing.kind == "bonus":
        return "The target's row here"
    if tree.record.start.carry is not None:
        return f"Carried: max(0, R·p − q), mass {prob(closing.mass)}"
    lost = _losers(tree)
    if not any(v.kind == "test" for v in lost):
        return f"The target's row here; not drafted: {prob(closing.mass)}"
    formula = "max(0, p − q)" if _has_law(tree, lost) else "p without the failed"
    if run.backward and len(paths(run, tree)) > 1:
        return f"What the candidates left of the target's row: mass {prob(closing.mass)}"
    if run.backward:
        formula = "max(0, c·p − q)" if run.rule.capped else "max(0, r·p − q)"
    after = f" after {len(lost)} failures" if len(lost) > 1 and not run.backward else ""
    return f"Residual {formula}{after}: mass {prob(closing.mass)}"


def _note(tree: RoundTree, closing: Closing) -> str:
    if closing.fallback:
        return "nothing was left over (rounding): drawn from the plain row"
    dead = [v for v in _losers(tree) if v.kind == "test" and v.thr == 0 and (v.order or 0) > 0]
    names = [quoted(tree.nodes[v.node].text, tree.nodes[v.node].bytes) for v in dead]
    return f"→ {_names(names)} could not pass" if names and len(_losers(tree)) > 1 else ""


def _raw_row(run: Run, tree: RoundTree, closing: Closing) -> Residual | None:
    """At temperature 0 the law is one token; what is worth seeing is the row its maximum was taken from."""
    top = next((top for i in _place(tree) if (top := tree.top(i))), None)
    if top is None:
        return None
    drafted = {tree.nodes[i].token for i in _place(tree)}
    entries = [
        ResidualEntry(run.word(token), p, prob(p), token == closing.token, token in drafted, p)
        for token, log in top[:N_ENTRIES]
        if (p := linear(log)) is not None
    ]
    return Residual("The target's row at T 1, of which T 0 takes the largest", tuple(entries))


def closing_title(run: Run, tree: RoundTree) -> str:
    """`↻ "▁rug"` without the glyph: what the panel calls the closing token."""
    closing = tree.record.closing
    token = run.word(closing.token) if closing and closing.token is not None else "—"
    return f'{tree.record.closing_mark or "closing"} "{token}"'
