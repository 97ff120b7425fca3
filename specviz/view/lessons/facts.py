"""`filled(text, player)`: a lesson's words with the numbers of its recording: `{r3.kept}`, `{r3/n12.p}`, `{run.times}`.

run     prompt, rounds, tokens and drafted (a round), times (against plain decoding), step (a draft step, in passes)
rN      drafted, kept, tested, written, text, closing, target_ms, draft_ms
rN/nM   token, p, q, ratio, u, surer (how many times as sure the draft was)
"""

import re
from statistics import median

from specviz.errors import SpecvizError, suggestion
from specviz.events import prob
from specviz.metrics.tally import Tally
from specviz.numerals import number, times
from specviz.view.play.player import Player
from specviz.view.words.numbers import fine

_FIELD = re.compile(r"\{([^{}]+)\}")


def filled(text: str, player: Player, here: str) -> str:
    """Raises SpecvizError for a field that is not known, and for one that the recording does not hold."""
    return _FIELD.sub(lambda match: _fact(match[1], player, here), " ".join(text.split()))


def _fact(field: str, player: Player, here: str) -> str:
    of, _, name = field.rpartition(".")
    values = _of_run(player) if of == "run" else _of_place(of, player, here)
    if name not in values:
        raise SpecvizError(f"{here}: {{{field}}}: no '{name}' here{suggestion(name, dict.fromkeys(values))}")
    value = values[name]
    if value is None:
        raise SpecvizError(f"{here}: {{{field}}} is not on record")
    return value


def _of_run(player: Player) -> dict[str, str | None]:
    tally = Tally()
    tally.follow(player.run)
    metrics = tally.summary()
    n = max(1, len(player.run.rounds))
    prefill = player.run.rounds[0].query.prefill if player.run.rounds else None
    over = None if metrics.over_plain is None else metrics.over_plain.times.value
    return {
        "rounds": str(len(player.run.rounds)),
        "tokens": number(metrics.block_efficiency.value),
        "times": None if over is None else times(over),
        "drafted": number(metrics.n_drafted / n),
        "step": _step_cost(player),
        "prompt": None if prefill is None else prefill.text,
    }


def _step_cost(player: Player) -> str | None:
    """A call of the drafter as a share of the target's pass, the median over rounds."""
    ends = [record.end for record in player.run.rounds if record.end is not None and record.end.n_draft_calls]
    costs = [
        end.stage_ns.get("draft", 0) / end.n_draft_calls / target
        for end in ends
        if (target := end.stage_ns.get("target", 0))
    ]
    return number(median(costs)) if costs else None


def _of_place(place: str, player: Player, here: str) -> dict[str, str | None]:
    try:
        index, node = player.located(place)
    except SpecvizError as error:
        raise SpecvizError(f"{here}: {{{place}}}: {error}") from None
    record = player.run.rounds[index]
    family, end = player.builder.round_tree(index), record.end
    if node is None:
        if end is None or record.commit is None:
            raise SpecvizError(f"{here}: {place} has not ended")
        closing = record.closing.token if record.closing is not None else None
        return {
            "drafted": str(end.n_drafted),
            "kept": str(end.n_accepted),
            "tested": str(end.n_tested),
            "written": str(end.n_emitted),
            "text": "".join(player.run.word(token) for token in record.commit.tokens),
            "closing": None if closing is None else player.run.word(closing),
            "target_ms": number(end.stage_ns.get("target", 0) / 1e6),
            "draft_ms": number(end.stage_ns.get("draft", 0) / 1e6),
        }
    if node not in family.nodes:
        raise SpecvizError(f"{here}: no node {place}")
    p, q = family.p(node), prob(family.nodes[node].logq)
    verdict = record.verdicts.get(node)
    return {
        "token": player.run.word(family.nodes[node].token),
        "p": None if p is None else fine(p),
        "q": None if q is None else fine(q),
        "surer": None if not p or not q else number(q / p),
        "ratio": None if p is None or not q else fine(min(1.0, p / q)),
        "u": None if verdict is None or verdict.u is None else fine(verdict.u),
    }
