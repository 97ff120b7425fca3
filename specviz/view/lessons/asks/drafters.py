"""Questions about who drafts: four kinds of drafter, told from each other by what each can know and what it costs."""

from dataclasses import dataclass

from specviz.events import LayerTrace
from specviz.numerals import percent, plural
from specviz.runlog.fold import Run
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import AskScene
from specviz.view.lessons.parts import LessonBoard, LessonQuestion
from specviz.view.play.player import Player
from specviz.view.words.palette import glyph

LOOKUP, SMALLER, OWN_LAYERS, NETWORK = range(4)
_SHOWN = 2  # drafted tokens: a line of the board
_NAMES = (
    "a lookup in the text",
    "a second, smaller model",
    "the target's own lower layers",
    "a small network on the target's states",
)
_REASONS = (
    "It made no call and knows no chances: it copies what stood there before.",
    "A call for every token, well below a pass, and a chance for each: a model of its own.",
    "A call takes a good part of the target's pass: those are its own layers, left early.",
    "Calls are a small part of a pass, each of them a whole level of a tree.",
)


def kind_of(run: Run) -> int:
    """Which of the four drafts, by what its records hold."""
    assert run.header is not None
    rounds = list(run.rounds)
    if not any(record.end is not None and record.end.n_draft_calls for record in rounds):
        return LOOKUP
    if run.header.models.draft is not None:
        return SMALLER
    return OWN_LAYERS if any(record.every(LayerTrace) for record in rounds) else NETWORK


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A round of another recording: nodes that were judged, calls of the drafter, a call's share of a pass."""

    player: Player
    index: int
    judged: tuple[int, ...]
    n_calls: int
    call_ms: float
    pass_ms: float

    @property
    def share(self) -> float:
        return self.call_ms / self.pass_ms if self.pass_ms else 0.0


def _evidence(scene: AskScene) -> _Evidence:
    """The round that `run` and `round` name."""
    player, r = scene.open(str(scene.fields["run"])), int(scene.fields.get("round", 1))
    index = player.run.find(0, r)
    if index is None or (end := player.run.rounds[index].end) is None:
        raise scene.refuse(f"{scene.fields['run']} has no round {r}")
    record, family = player.run.rounds[index], player.builder.round_tree(index)
    judged = [node for node in family.kept_nodes if node in record.verdicts]
    judged.sort(key=lambda node: (record.verdicts[node].status != "accepted", node))
    call = end.stage_ns.get("draft", 0) / max(1, end.n_draft_calls)
    return _Evidence(player, index, tuple(judged), end.n_draft_calls, call / 1e6, end.stage_ns.get("target", 0) / 1e6)


def evidence(scene: AskScene) -> LessonBoard:
    """What one round of a recording shows, its method not named."""
    seen = _evidence(scene)
    record, family = seen.player.run.rounds[seen.index], seen.player.builder.round_tree(seen.index)
    shown = seen.judged[:_SHOWN]
    words = [f"{glyph(record.verdicts[node].status)}{seen.player.run.word(family.nodes[node].token)}" for node in shown]
    tree = any(len(below) > 1 for below in family.children.values())
    named = any(node.logq is not None or node.log_conf is not None for node in record.nodes.values())
    rows = [
        WhyRow("drafted", " ".join(words) + " …" * (len(seen.judged) > _SHOWN)),
        WhyRow("shape", f"a {'tree' if tree else 'chain'} of {plural(len(seen.judged), 'node')}"),
        WhyRow("calls", str(seen.n_calls)),
    ]
    if seen.n_calls:
        rows.append(WhyRow("a call", f"{percent(seen.share)} of a pass"))
    rows.append(WhyRow("chances (q)", "on record" if named else "none"))
    return LessonBoard("A round of a drafter unnamed", tuple(rows))


def who(scene: AskScene) -> LessonQuestion:
    """Which of the four kinds wrote a round."""
    seen = _evidence(scene)
    right = kind_of(seen.player.run)
    choices = [(name, _REASONS[k] if k == right else _not(k, seen)) for k, name in enumerate(_NAMES)]
    return scene.choice("Who drafted this round?", choices, right, reason=_REASONS[right])


def _not(kind: int, seen: _Evidence) -> str:
    """Why a round is none of a kind."""
    if kind == LOOKUP:
        return f"A lookup asks nobody; here are {plural(seen.n_calls, 'call')}."
    if not seen.n_calls:
        return "That would have to be called and would take time; here nothing was called."
    n = len(seen.judged)
    if kind == SMALLER and n > seen.n_calls:
        return f"It is called for each token; here {plural(seen.n_calls, 'call')} brought {plural(n, 'token')}."
    if kind == OWN_LAYERS:
        return f"Its own layers would take more of a pass than {percent(seen.share)} a call."
    return f"That is quicker: here a call takes {percent(seen.share)} of a pass of the target."
