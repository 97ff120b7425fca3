"""The block under the cursor of screen *Lanes*: what it verified or fed, what became of it, what it cost."""

from collections.abc import Sequence

from specviz.events import Fork, Match, Posterior, Rollback, Settle
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.view.frame.parts import WhyRow
from specviz.view.panels.lanes.blocks import RunFacts
from specviz.view.panels.lanes.model import FATES, Block, BlockInfo, Clock
from specviz.view.panels.lanes.parts import Fates, marked, said
from specviz.view.words.numbers import percent, plural, seconds

_NAMES = {"verify": "target pass", "draft": "draft forward", "branch": "branch forward", "hrad": "classifier",
          "sync": "barrier", "idle": "idle"}  # fmt: skip


def block_info(
    run: Run, facts: RunFacts, block: Block, fates: Fates, judged: bool, clock: Clock
) -> BlockInfo:  # fmt: skip
    """Numbers and words of a block. `judged`: whether the verdict of its round may be told."""
    record = run.rounds[block.at[0]]
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
    rows += [_token(run, record, node, fates) for node in block.nodes]
    if block.nodes and not block.open:
        rows.append(WhyRow("useful", percent(block.useful), block.useful))
    node = next((node for node in block.nodes if node in record.query.nodes), None)
    return BlockInfo(f"{_NAMES[block.kind]} · {block.lane} · round {block.round}", mark, tuple(rows), text, node)


def _token(run: Run, record: RoundRecord, node: int, fates: Fates) -> WhyRow:
    born = record.query.nodes.get(node)
    return WhyRow(f"n{node}", run.word(born.token) if born else f"n{node}", None, marked(fates.get(node))[1])


def _verified(
    run: Run, facts: RunFacts, record: RoundRecord, block: Block, judged: bool, clock: Clock
) -> str:  # fmt: skip
    """What the target's pass judged, what it kept, and what fell."""
    pending = [
        run.name(n.token)
        for i in record.verdicts
        if (n := record.query.nodes.get(i)) and (i not in record.nodes or record.nodes[i].branch is None)
    ]
    over = f"the newest token and {said(pending)}" if pending else "the newest token alone"
    text = f"The target passes over {over} in {seconds(block.took)}."
    if not judged or record.end is None:
        return text
    kept, new = record.end.n_accepted, record.end.n_emitted
    text += f" It kept {plural(kept, 'drafted token')} and the round gave {new}."
    match, rollback = next(iter(record.every(Match)), None), next(iter(record.every(Rollback)), None)
    if match is not None and match.branch is not None:
        text += f" Its own token at the branch point is that of branch {match.branch}, whose rest is pending now."
    posterior = next(iter(record.every(Posterior)), None)
    if posterior is not None and match is not None and posterior.n_trimmed:
        text += f" {posterior.n_trimmed} of the surviving branch were cut, where the draft was unsure."
    return text + (f" {voids(facts, record, clock)}" if rollback is not None or facts.voided(record.index) else "")


def voids(facts: RunFacts, record: RoundRecord, clock: Clock) -> str:
    """What a verdict made void, by fate, and what it had cost on this clock."""
    rollback = next(iter(record.every(Rollback)), None)
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
    cost = f": {seconds(lost)} of drafting" if lost else ""
    total = sum(counts.values())
    return f"{cause} makes {plural(total, 'drafted token')} void ({parts}){cost}."


def _drafted(run: Run, facts: RunFacts, record: RoundRecord, block: Block, fates: Fates) -> str:
    """What came of a draft forward, whom it fed, and why it was for nothing."""
    if not block.nodes:
        return f"A draft forward, {seconds(block.took)}; nothing was drawn after it: the draft model was too unsure."
    words = [run.name(record.query.nodes[n].token) for n in block.nodes if n in record.query.nodes]
    rows = f" over {block.size} rows" if block.size > 1 else ""
    made = f"{block.forwards} draft forwards" if block.forwards > 1 else "A draft forward"
    text = f"{made}{rows}, {seconds(block.took)}: {said(words)} {'was' if len(words) == 1 else 'were'} drawn."
    text += _role(record, block)
    settled = {facts.settled[record.q, n][1] for n in block.nodes if (record.q, n) in facts.settled and n in fates}
    if not settled:
        return f"{text} The target has not spoken on it yet."
    rounds = " and ".join(f"round {run.rounds.place(index)[1]}" for index in sorted(settled))
    text += f" It was settled by the target's pass of {rounds}."
    if block.void:
        why = sorted({marked(fates.get(n))[1] for n in block.nodes})
        return f"{text} All void: {', '.join(why)}; {seconds(block.took)} of drafting lost."
    if block.useful < 1:
        return f"{text} {percent(block.useful)} of these tokens became text."
    return f"{text} {'It' if len(words) == 1 else 'All of it'} became text."


def _role(record: RoundRecord, block: Block) -> str:
    """Which part of the round the forward belongs to."""
    fork = next(iter(record.every(Fork)), None)
    if block.kind == "branch" and fork is not None:
        first = [node for node in block.nodes if node in {b.node for b in fork.branches}]
        if first:
            return " They begin the branches, while the target is busy." if len(first) > 1 else (
                " It begins a branch, while the target is busy."
            )  # fmt: skip
        return " It lengthens what is drafted ahead of the verdict."
    return " It feeds the target's pass of this round."


def _waits(block: Block) -> str:
    if block.kind == "idle":
        return f"The {'draft' if block.lane == 'draft' else 'target'} lane {block.why}: {seconds(block.took)} idle."
    if block.kind == "hrad":
        return f"The classifier says how far to draft: {seconds(block.took)}, with both models waiting."
    return f"Verdict and bookkeeping: {seconds(block.took)}, with both models waiting."


def sequence(blocks: Sequence[Block]) -> str:
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
