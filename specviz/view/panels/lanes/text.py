"""What screen *Lanes* says of a round: how sure the draft was, where it branched, what the classifier said; and of the
block under the cursor what it verified or fed, what became of it, what it cost.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specviz.events import DraftStep, Fork, Match, Posterior, Rollback, Settle, Signal
from specviz.events import prob as linear
from specviz.numerals import UNKNOWN, number, percent, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.text import quoted
from specviz.view.blocks import Block, Cell, Heat, Plot, PlotCurve, Square, TableBlock, Words
from specviz.view.frame.parts import WhyRow
from specviz.view.panels.lanes.blocks import RunFacts
from specviz.view.panels.lanes.model import FATES, BlockInfo, Clock, Fate, LaneBlock
from specviz.view.words.labels import BRANCH_MASS
from specviz.view.words.numbers import apart, seconds

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
_CLASSES = ("draft nothing", "until unsure", "keep all")
_CLASS_MARKS: tuple[Mark, ...] = ("rejected", "recovered", "accepted")
_STEP_HEADS = ("position", "branch", "token", "confidence", "bound", "", "stopped", "what became of it", "entropy")
_FAN_HEADS = ("branch", "token", "q", "rank", "how", "survivor", "what became of it", "goes on")
_FAN_HELP = (
    "The draft goes on beside the target's pass, on several first tokens at once: the one the target takes survives."
)
_HRAD_HELP = (
    "A small classifier that reads the target's hidden state: draft nothing, until the draft is unsure, or keep all."
)
_IN_BRANCH = "No bound here: in a branch nothing stops drafting; its tokens are cut once the branch has survived."
_NO_BOUND = "This method drafts on however unsure the draft model is."
_NO_HRAD = "No classifier in this method: specbranch asks one how far to draft."
_SOURCES = {"hrad": "H-RAD", "fallback": "no classifier: until unsure", "forced": "forced by the knob signal"}


def marked(fate: Fate | None) -> tuple[Mark, str]:
    """Mark and words of a fate."""
    return FATES[fate] if fate is not None else ("drafted", "not settled yet")


def steps(run: Run, record: RoundRecord, fates: Fates) -> tuple[Block, ...]:
    """How sure the draft was before every token of a round, line by line of its drafting, against the bound."""
    looks = sorted(_looks(record), key=lambda look: (-1 if look.branch is None else look.branch, look.pos))
    names, marks, texts, notes, rows = [], [], [], [], []
    for look in looks:
        mark, shown, text, fate = _look(run, record, look, fates)
        names.append(f"{'' if look.branch is None else f'b{look.branch} '}{look.pos} {shown}")
        marks.append(mark)
        texts.append(text)
        notes.append(fate + ("" if look.entropy is None else f", entropy {number(look.entropy)}"))
        rows.append(
            (
                Cell(str(look.pos), look.pos),
                Cell("" if look.branch is None else str(look.branch), look.branch),
                Cell(shown),
                Cell(prob(look.conf), look.conf),
                Cell(prob(look.bound), look.bound),
                Cell(text),
                Cell("yes" if look.stopped else "", look.stopped),
                Cell(fate),
                Cell(number(look.entropy), look.entropy),
            )
        )
    curves = [PlotCurve("confidence", tuple(look.conf for look in looks), texts=tuple(texts), marks=tuple(marks))]
    bounded = any(look.bound is not None for look in looks)
    if bounded:
        bounds = tuple(look.bound for look in looks)
        curves.append(PlotCurve(run.method_traits.threshold_symbol or "bound", bounds, "exit", "step"))
    stopped = ", ".join(name for name, look in zip(names, looks, strict=True) if look.stopped)
    plot = Plot(
        "lanes-steps",
        "Confidence before every token",
        "token",
        tuple(names),
        tuple(curves),
        "share",
        help="Drafting stops before a token whose confidence lies below the bound.",
        words=f"{plural(len(looks), 'look')}; stopped at {stopped or 'none'}.",
        missing="" if looks else "nothing drafted in this round",
        notes=tuple(notes),
        table=TableBlock("lanes-steps", _STEP_HEADS, tuple(rows)),
    )
    if not looks or bounded:
        return (plot,)
    return plot, Words(_IN_BRANCH if looks[0].branch is not None else _NO_BOUND)


def _looks(record: RoundRecord) -> list[DraftStep]:
    """The looks of a round; for a drafter that records none, the confidence of each drafted token."""
    return record.every(DraftStep) or [
        DraftStep(
            r=record.r,
            pos=node.pos,
            branch=node.branch,
            node=node.node,
            conf=linear(node.log_conf),  # type: ignore[arg-type]  # None where it was not recorded
            entropy=node.entropy_q,
        )
        for node in record.nodes.values()
        if node.kept
    ]


def _look(run: Run, record: RoundRecord, look: DraftStep, fates: Fates) -> tuple[Mark, str, str, str]:
    """Mark, token, comparison with the bound, and what became of the token."""
    node = record.query.nodes.get(look.node) if look.node is not None else None
    mark, fate = marked(fates.get(look.node)) if look.node is not None else ("exit", "stopped here: nothing was drawn")
    if look.stopped and node is None:
        node = next(
            (n for n in record.nodes.values() if not n.kept and (n.pos, n.branch) == (look.pos, look.branch)), None
        )
        fate = fate if node is None else "stopped here: filled with those before it, and not verified"
    text = prob(look.conf)
    if look.bound is not None:
        conf, bound = apart(look.conf, look.bound)
        text = f"{conf} {'≥' if look.conf >= look.bound else '<'} {bound}"
    return mark, run.word(node.token) if node else "stop", text, fate


# The fan --------------------------------------------------------------------------------------------------------------


def fan(run: Run, record: RoundRecord, fates: Fates, judged: bool) -> tuple[Block, ...]:
    """The branch point of a round: every branch by how likely the draft held its first token, ▶ the one that survived;
    nothing of a round without one.
    """
    fork, match = record.first(Fork), record.first(Match) if judged else None
    if fork is None:
        return ()
    names, chances, marks, notes, rows = [], [], [], [], []
    for born in fork.branches:
        survivor = match is not None and match.branch == born.branch
        later = [node for node in record.nodes.values() if node.branch == born.branch and node.node != born.node]
        later.sort(key=lambda node: node.pos)
        goes_on = " ".join(run.word(node.token) for node in later)
        mark, fate = marked(fates.get(born.node))
        marks.append(mark)
        names.append(f"{'▶' if survivor else ''}b{born.branch} {run.word(born.token)}")
        chances.append(linear(born.logq))
        became = ", ".join(dict.fromkeys((fate, *(marked(fates.get(node.node))[1] for node in later))))
        notes.append(f"{goes_on} · {became}" if goes_on else became)
        rows.append(
            (
                Cell(str(born.branch), born.branch),
                Cell(run.word(born.token)),
                Cell(prob(chances[-1]), chances[-1]),
                Cell(str(born.rank), born.rank),
                Cell(born.kind),
                Cell("yes" if survivor else "", survivor),
                Cell(fate),
                Cell(goes_on),
            )
        )
    token = run.word(match.token) if match is not None and match.token is not None else None
    words = _fan_words(fork, match, quoted(token) if token else None, judged)
    plot = Plot(
        "lanes-fan",
        "Branches",
        "",
        tuple(names),
        (PlotCurve("q", tuple(chances), marks=tuple(marks)),),
        "share",
        help=_FAN_HELP,
        words=words,
        missing="" if names else words,
        flat=True,
        notes=tuple(notes),
        table=TableBlock("lanes-fan", _FAN_HEADS, tuple(rows)),
    )
    rule = match.rule if match else str(record.knobs.get("branch_rule", UNKNOWN))
    mass = f"{BRANCH_MASS} {percent(match.mass)}" if match is not None and match.mass is not None else ""
    about = " · ".join(filter(None, (_k_text(fork), f"rule {rule}", mass, _memory(fork))))
    return plot, Words(about), *([Words(words)] if names else [])


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
        return f"{where} Miss: the target took {token}, which no branch begins with.{chance}"
    return f"{where} Hit: the target took {token}, branch {match.branch} goes on.{chance}"


# The classifier -------------------------------------------------------------------------------------------------------


def hrad(record: RoundRecord, metrics: "Metrics | None") -> tuple[Block, ...]:
    """What the classifier said in this round, and how often it was right over the run: rows said, columns true."""
    calls = record.every(Signal)
    table = None if metrics is None else metrics["hrad_confusion"]
    if not calls and not table:
        return (Words(_NO_HRAD),)
    sure = [(call.stage, call.probs) for call in calls if call.probs]
    chances = Plot(
        "lanes-hrad",
        "H-RAD",
        "",
        tuple(f"{k} {stage}" for k, (stage, _) in enumerate(sure, 1)),
        tuple(
            PlotCurve(f"{s}: {_CLASSES[s]}", tuple(probs[s] for _, probs in sure), mark)
            for s, mark in enumerate(_CLASS_MARKS)
        ),
        "share",
        help=_HRAD_HELP,
        words=" ".join(_SAID[call.s] for call in calls),
        missing="" if sure else "the classifier gave no probabilities in this round",
    )
    answers = [Words(f"{c.stage}: s = {c.s}, {_SAID[c.s]} ({_SOURCES.get(c.source, c.source)})") for c in calls]
    return *answers, chances, _confusion(table or {})


def _confusion(table: Mapping[int, Mapping[int, int]]) -> Heat:
    counts = [[table.get(s, {}).get(true, 0) for true in range(3)] for s in range(3)]
    totals = [sum(row) for row in counts]
    right, total = sum(counts[s][s] for s in range(3)), sum(totals)
    words = (
        f"right in {percent(right / total)} of {total} calls whose answer became known"
        if total
        else "the right answer of a call is known only where the whole list was judged: none so far"
    )
    return Heat(
        "lanes-confusion",
        "H-RAD over the run",
        tuple(f"said {s}" for s in range(3)),
        tuple(f"true {s}" for s in range(3)),
        tuple(
            tuple(
                Square(str(n), n / (totals[s] or 1), note=f"said {_CLASSES[s]}, was {_CLASSES[true]}: {n} times")
                for true, n in enumerate(row)
            )
            for s, row in enumerate(counts)
        ),
        ("precision", "calls"),
        tuple((percent(counts[s][s] / n if n else None), str(n)) for s, n in enumerate(totals)),
        help="what was said against what turned out, where that is known",
        words=words,
        missing="" if total else words,
    )


def some_of(shown: Sequence[str], most: int = 6) -> str:
    """Some tokens in a sentence."""
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return " ".join(shown[:most]) + more


_NAMES = {
    "verify": "target pass",
    "draft": "draft forward",
    "branch": "branch forward",
    "hrad": "classifier",
    "sync": "barrier",
    "idle": "idle",
}


def block_info(run: Run, facts: RunFacts, block: LaneBlock, fates: Fates, judged: bool, clock: Clock) -> BlockInfo:
    """Numbers and words of a block. `judged`: whether the verdict of its round may be told."""
    record = run.rounds[block.at[0]]
    title = f"{_NAMES[block.kind]} · {block.lane} · round {block.round}"
    if block.kind == "verify":
        text = _verified(run, facts, record, block, judged, clock)
    else:
        text = _drafted(run, facts, record, block, fates) if block.kind in ("draft", "branch") else _waits(block)
    mark: Mark = "untested"
    if block.kind == "verify":
        mark = "root"
    elif block.nodes:
        mark = "rejected" if block.void else "drafted" if block.open else "accepted"
    rows = [WhyRow("took", seconds(block.took)), WhyRow("begins", seconds(block.t0))]
    rows += [WhyRow("rows", str(block.size))] if block.size else []
    for node in block.nodes:
        born = record.query.nodes.get(node)
        rows.append(WhyRow(f"n{node}", run.word(born.token) if born else f"n{node}", None, marked(fates.get(node))[1]))
    if block.nodes and not block.open:
        rows.append(WhyRow("useful", percent(block.useful), block.useful))
    first = next((node for node in block.nodes if node in record.query.nodes), None)
    return BlockInfo(title, mark, tuple(rows), text, first)


def _verified(run: Run, facts: RunFacts, record: RoundRecord, block: LaneBlock, judged: bool, clock: Clock) -> str:
    """What the target's pass judged, what it kept, and what fell."""
    pending = [
        run.name(n.token)
        for i, verdict in record.verdicts.items()
        if verdict.status != "pruned"
        and (n := record.query.nodes.get(i))
        and (i not in record.nodes or record.nodes[i].branch is None)
    ]
    over = f"the newest token and {some_of(pending)}" if pending else "the newest token alone"
    text = f"The target passes over {over} in {seconds(block.took)}."
    if not judged or record.end is None:
        return text
    kept, new = record.end.n_accepted, record.end.n_emitted
    text += f" It kept {plural(kept, 'drafted token')} and the round gave {new}."
    match, rollback = record.first(Match), record.first(Rollback)
    if match is not None and match.branch is not None:
        text += f" Its own token at the branch point is that of branch {match.branch}, whose rest is pending now."
    posterior = record.first(Posterior)
    if posterior is not None and match is not None and posterior.n_trimmed:
        text += f" {posterior.n_trimmed} of the surviving branch were cut, where the draft was unsure."
    return text + (f" {voids(facts, record, clock)}" if rollback is not None or facts.voided(record.index) else "")


def voids(facts: RunFacts, record: RoundRecord, clock: Clock) -> str:
    """What a verdict invalidates, by fate, and what it had cost on this clock."""
    rollback = record.first(Rollback)
    settled = list(facts.voided(record.index).values())
    # A rollback counts what it voids itself: what was trimmed, or lost to another branch, is not its doing.
    fates = [fate for fate in settled if fate in rollback.void] if rollback is not None else settled
    counts: dict[str, int] = {}
    for fate in fates:
        counts[FATES[fate][1]] = counts.get(FATES[fate][1], 0) + 1
    cause = {"reject": "The rejection", "miss": "The miss", "eos": "The end of the text"}.get(
        rollback.cause if rollback else "", "The verdict"
    )
    parts = ", ".join(f"{n} {words}" for words, n in counts.items())
    known = facts.known(record.index)
    played = known.played if known is not None else None
    lost = sum(settle.wasted_ns for settle in record.every(Settle)) / 1e9
    if clock == "model":
        lost = played.wasted if played is not None else 0.0
    cost = f": {seconds(lost)} of draft time" if lost else ""
    total = sum(counts.values())
    return f"{cause} invalidates {plural(total, 'drafted token')} ({parts}){cost}."


def _drafted(run: Run, facts: RunFacts, record: RoundRecord, block: LaneBlock, fates: Fates) -> str:
    """What came of a draft forward, whom it fed, and why it was for nothing."""
    if not block.nodes:
        return f"A draft forward, {seconds(block.took)}; nothing was drawn after it: the draft model was too unsure."
    words = [run.name(record.query.nodes[n].token) for n in block.nodes if n in record.query.nodes]
    rows = f" over {block.size} rows" if block.size > 1 else ""
    forwards = f"{block.forwards} draft forwards" if block.forwards > 1 else "A draft forward"
    text = f"{forwards}{rows}, {seconds(block.took)}: {some_of(words)} {'was' if len(words) == 1 else 'were'} drawn."
    text += _role(record, block)
    settled = {facts.settled[record.q, n][1] for n in block.nodes if (record.q, n) in facts.settled and n in fates}
    if not settled:
        return f"{text} The target has not spoken on it yet."
    rounds = " and ".join(f"round {run.rounds.place(index)[1]}" for index in sorted(settled))
    text += f" It was settled by the target's pass of {rounds}."
    if block.void:
        why = sorted({marked(fates.get(n))[1] for n in block.nodes})
        return f"{text} All invalidated: {', '.join(why)}; {seconds(block.took)} of draft time wasted."
    if block.useful < 1:
        return f"{text} {percent(block.useful)} of these tokens became text."
    return f"{text} {'It' if len(words) == 1 else 'All of it'} became text."


def _role(record: RoundRecord, block: LaneBlock) -> str:
    """Which part of the round the forward belongs to."""
    fork = record.first(Fork)
    if block.kind == "branch" and fork is not None:
        first = [node for node in block.nodes if node in {b.node for b in fork.branches}]
        if first:
            return (
                " They begin the branches, while the target is busy."
                if len(first) > 1
                else (" It begins a branch, while the target is busy.")
            )
        return " It lengthens what is drafted ahead of the verdict."
    return " It feeds the target's pass of this round."


def _waits(block: LaneBlock) -> str:
    if block.kind == "idle":
        return f"The {'draft' if block.lane == 'draft' else 'target'} lane {block.why}: {seconds(block.took)} idle."
    if block.kind == "hrad":
        return f"The classifier says how far to draft: {seconds(block.took)}, with both models waiting."
    return f"Verdict and bookkeeping: {seconds(block.took)}, with both models waiting."


def sequence(blocks: Sequence[LaneBlock]) -> str:
    """A round's way through time: `draft 3.0 → verify 12.4 ‖ draft 9.1 ms`."""
    verify = next((b for b in blocks if b.kind == "verify"), None)
    drafts = [b for b in blocks if b.lane == "draft" and b.kind in ("draft", "branch")]
    if verify is None:
        return ""
    early = sum(b.took for b in drafts if b.t0 < verify.t0)
    beside = sum(b.took for b in drafts if verify.t0 <= b.t0 < verify.t1)
    late = sum(b.took for b in drafts if b.t0 >= verify.t1)
    parts = [f"draft {seconds(early)}"] if early else []
    parts.append(f"verify {seconds(verify.took)}" + (f" ‖ draft {seconds(beside)}" if beside else ""))
    parts += [f"draft ahead {seconds(late)}"] if late else []
    return " → ".join(parts)
