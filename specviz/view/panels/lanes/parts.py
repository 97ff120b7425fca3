"""The parts of screen *Lanes* about one round: confidence against the bound, the fan of branches, the classifier."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specviz.events import DraftStep, Fork, Match, Node, Signal
from specviz.events import prob as linear
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.text import quoted
from specviz.view.panels.lanes.model import FATES, BranchToken, BranchView, ConfStep, Fan, Fate, Hrad, HradCall
from specviz.view.words.numbers import UNKNOWN, apart, percent, prob

if TYPE_CHECKING:
    from specviz.metrics import Metrics

Fates = Mapping[int, Fate]  # those that may be told
_REASONS = {
    "s0": "the classifier said draft nothing, so branches leave the newest token at once",
    "low_conf": "the draft model was unsure here, so drafting stopped and branches were opened",
    "after_last": "behind the last pending token",
    "cap": "the longest draft was reached",
}
_NO_ROOM = {
    "eos": "a drafted end token closed the draft, and nothing may follow it",
    "cap": "the length limit leaves no room behind what is drafted",
}
_SAID = {0: "draft nothing: the target will reject", 1: "draft until unsure", 2: "draft it all"}
_SOURCES = {"hrad": "H-RAD", "fallback": "no classifier: until unsure", "forced": "forced by the knob signal"}


def marked(fate: Fate | None) -> tuple[Mark, str]:
    """Mark and words of a fate."""
    return FATES[fate] if fate is not None else ("drafted", "not settled yet")


def conf_steps(run: Run, record: RoundRecord, fates: Fates) -> tuple[ConfStep, ...]:
    """The looks of a round; for a drafter that records none, the confidence of each drafted token."""
    looks = record.every(DraftStep)
    if looks:
        return tuple(_look(run, record, look, fates) for look in looks)
    return tuple(_plain(run, node, fates) for node in record.nodes.values() if node.kept)


def _look(run: Run, record: RoundRecord, look: DraftStep, fates: Fates) -> ConfStep:
    node = record.query.nodes.get(look.node) if look.node is not None else None
    mark, fate = marked(fates.get(look.node)) if look.node is not None else ("exit", "stopped here: nothing was drawn")
    if look.bound is None:
        text = prob(look.conf)
    else:
        conf, bound = apart(look.conf, look.bound)
        text = f"{conf} {'≥' if look.conf >= look.bound else '<'} {bound}"
    return ConfStep(
        look.pos, look.branch, look.node, run.word(node.token) if node else "stop", look.conf, look.bound, look.stopped,
        mark, fate, text, look.entropy,
    )  # fmt: skip


def _plain(run: Run, node: Node, fates: Fates) -> ConfStep:
    mark, fate = marked(fates.get(node.node))
    conf = linear(node.log_conf) if node.log_conf is not None else None
    text = prob(conf)
    return ConfStep(
        node.pos, node.branch, node.node, run.word(node.token), conf, None, False, mark, fate, text, node.entropy_q
    )  # fmt: skip


# The fan --------------------------------------------------------------------------------------------------------------


def fan(run: Run, record: RoundRecord, fates: Fates, judged: bool) -> Fan | None:
    """The branch point of a round; None when it has none."""
    fork = next(iter(record.every(Fork)), None)
    if fork is None:
        return None
    match = next(iter(record.every(Match)), None) if judged else None
    branches = tuple(_branch(run, record, fork, born, match, fates) for born in fork.branches)
    hit = None if match is None else match.branch is not None
    token = run.word(match.token) if match is not None and match.token is not None else None
    words = _fan_words(fork, match, quoted(token) if token else None, judged)
    return Fan(
        pos=fork.pos, conf=fork.conf, k=fork.k, k_text=_k_text(fork), reason=_REASONS.get(fork.reason, fork.reason),
        rule=match.rule if match else str(record.knobs.get("branch_rule", UNKNOWN)), mass=match.mass if match else None,
        hit=hit, token=token, branches=branches, memory=_memory(fork), words=words,
    )  # fmt: skip


def _branch(
    run: Run, record: RoundRecord, fork: Fork, born: Any, match: Match | None, fates: Fates
) -> BranchView:  # fmt: skip
    later = [node for node in record.nodes.values() if node.branch == born.branch and node.node != born.node]
    mark, fate = marked(fates.get(born.node))
    return BranchView(
        branch=born.branch, node=born.node, shown=run.word(born.token), q=linear(born.logq), rank=born.rank,
        kind=born.kind, survivor=match is not None and match.branch == born.branch, fate=fate, mark=mark,
        tokens=tuple(_token(run, node, fates) for node in sorted(later, key=lambda node: node.pos)),
    )  # fmt: skip


def _token(run: Run, node: Node, fates: Fates) -> BranchToken:
    mark, fate = marked(fates.get(node.node))
    conf = linear(node.log_conf) if node.log_conf is not None else None
    return BranchToken(node.node, run.word(node.token), conf, mark, fate)


def _k_text(fork: Fork) -> str:
    if not fork.k:
        return "k = 0: nothing may follow"
    if fork.conf is None:
        return f"k = {fork.k}"
    return f"k = max(1, ⌊{fork.k_max}·(1 − {prob(fork.conf)})⌋) = {fork.k}"


def _memory(fork: Fork) -> str:
    if not fork.n_rows:
        return ""
    saved = f", {_bytes(fork.kv_saved)} less than with a copy of the prefix a branch" if fork.kv_saved else ""
    return f"{fork.n_rows} rows over one prefix, {_bytes(fork.kv_bytes)}{saved}"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{count / 1e3:.1f} kB"


def _fan_words(fork: Fork, match: Match | None, token: str | None, judged: bool) -> str:
    where = f"Branches leave at position {fork.pos}, {_REASONS.get(fork.reason, fork.reason)}."
    if not fork.k:
        return f"No branch: {_NO_ROOM.get(fork.reason, 'nothing may follow')}."
    if not judged:
        return where
    if match is None:
        return f"{where} The text did not get here: a pending token was rejected, so every branch hangs on nothing."
    chance = f" The branch tokens held {percent(match.mass)} of the target's law." if match.mass is not None else ""
    if match.branch is None:
        return f"{where} Miss: the target took {token}, which no branch spells.{chance}"
    return f"{where} Hit: the target took {token}, branch {match.branch} goes on.{chance}"


# The classifier -------------------------------------------------------------------------------------------------------


def hrad(record: RoundRecord, metrics: "Metrics | None") -> Hrad | None:
    """What the classifier said in this round, and how often it was right over the run."""
    calls = tuple(
        HradCall(s.stage, s.s, tuple(s.probs) if s.probs else None, _SOURCES.get(s.source, s.source), _SAID[s.s])
        for s in record.every(Signal)
    )
    table = getattr(metrics, "hrad_confusion", None)
    confusion = _square(table)
    if not calls and confusion is None:
        return None
    total = sum(map(sum, confusion)) if confusion else 0
    right = sum(confusion[k][k] for k in range(3)) / total if confusion and total else None
    words = f"right in {percent(right)} of {total} calls whose answer became known" if total else (
        "the right answer of a call is known only where the whole list was judged: none so far"
    )  # fmt: skip
    return Hrad(calls, confusion, right, words)


def _square(table: Any) -> tuple[tuple[int, ...], ...] | None:
    """Rows said, columns true, whatever container the metrics use."""
    if not table:
        return None
    rows: list[tuple[int, ...]] = []
    for said in range(3):
        row: Any = table.get(said, {}) if isinstance(table, Mapping) else table[said]
        rows.append(tuple(int(row.get(true, 0) if isinstance(row, Mapping) else row[true]) for true in range(3)))
    return tuple(rows)


def said(shown: Sequence[str], most: int = 6) -> str:
    """Some tokens in a sentence."""
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return " ".join(shown[:most]) + more
