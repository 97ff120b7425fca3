"""The header line: what runs, what is promised about the text, and what is going on right now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specviz.events import Header, ModelInfo, Outside, Promise, Warn
from specviz.numerals import UNKNOWN, number
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.view.frame.frame import Feed, PlayState, RunInfo
from specviz.view.words.models import EXACT, exactness, precision, rounding
from specviz.view.words.numbers import fraction, knob
from specviz.view.words.palette import STATES, StateName, Tone

_OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
_LABELS = {"top_k": "top-k", "top_p": "top-p", "min_p": "min-p", "repetition_penalty": "rep"}
LAG = 12  # rounds behind before the header says so
NOTHING = RunInfo("—", "—", "", "—", "kept", "", "—", None, "", None, "none")


def run_info(run: Run, knobs: Mapping[str, Any], seed: int | None, overhead: str) -> RunInfo:
    """The header of a run; `NOTHING` before one has begun."""
    header = run.header
    if header is None:
        return NOTHING
    return RunInfo(
        run=header.run,
        method=header.method,
        shape=str(knobs.get("shape", "")),
        verifier=header.verifier,
        tone=tone(header),
        badge=badge(header, run.mixed),
        target=_model(header.models.target) or UNKNOWN,
        draft=_model(header.models.draft),
        sampling=sampling(knobs),
        seed=seed if header.outside is None else None,
        level=header.level,
        overhead=overhead,
        exact=exactness(header),
        pages=pages(header),
    )


def pages(header: Header) -> tuple[str, ...]:
    """The documents' pages on a method and a verifier of ours. A trace names them, so they are escaped."""
    known = (header.method_traits.page, header.verifier_traits.page) if header.outside is None else ()
    return tuple(dict.fromkeys(running(page) for page in known if page))


def badge(header: Header, mixed: bool = False) -> str:
    """What is promised about the text, in words."""
    if header.outside is not None:
        return outside_badge(header.outside)
    if header.imported:
        return f"metrics only, from {header.imported}"
    if not header.lossless:
        far = f" · TV {fraction(header.distance)} on the toy" if header.distance is not None else ""
        return f"NOT LOSSLESS{far}"
    kept = "same tokens as plain decoding" if header.keeps_tokens else "same law as plain decoding"
    if header.keeps_tokens and (mixed or (header.sampling.get("temperature") or 0) > 0):
        kept += " with the same random draws"  # what is drawn is the same token only then
    bits = ", bit for bit" if header.keeps_tokens and header.env.get("exact") == EXACT else ""
    text = f"lossless{rounding(header)}: {kept}{bits}"
    return text + (", sampling changed on the way" if mixed else "")


def tone(header: Header) -> Tone:
    """The one colour of that promise, on every screen."""
    if header.outside is not None:
        return outside_tone(header.outside)
    if header.imported:
        return "open"
    return "kept" if header.lossless else "broken"


def outside_tone(outside: Outside) -> Tone:
    """That of a rule of another engine."""
    promise = outside.promise
    return "kept" if promise == "same law" else "open" if promise == "unknown" else "broken"


PROMISES: dict[Promise, str] = {
    "same law": "same law as plain decoding",
    "lossy": "LOSSY by its setting",
    "changed": "LAW CHANGED",
    "invalid": "OUTPUT INVALID",
    "unknown": "rule not known",
}


def outside_badge(outside: Outside) -> str:
    """The rule that another engine decided by, and what it promises."""
    return f"{running(outside.engine)}: {PROMISES[outside.promise]} · {outside.known} known"


def of_whole_run(info: RunInfo, run: Run) -> RunInfo:
    """The header of all rounds together: where they had several temperatures, from the least to the most."""
    met = {change.new for change in run.changes if change.name == "temperature"} | {run.knobs.get("temperature")}
    if run.header is not None:
        met.add(run.header.sampling.get("temperature"))
    return replace(info, sampling=sampling(run.knobs, [t for t in met if isinstance(t, int | float)]))


def sampling(knobs: Mapping[str, Any], met: Sequence[float] = ()) -> str:
    """`T .70  top-p .90`; what is off is left out. `met`: every temperature there was, `T .60 .. .80`."""
    temperature = knobs.get("temperature")
    head = "T —" if temperature is None else "T 0 greedy" if temperature == 0 else f"T {knob(float(temperature))}"
    if len(set(met)) > 1:
        head = f"T {knob(float(min(met)))} .. {knob(float(max(met)))}"
    rest = [
        f"{_LABELS[name]} {knob(knobs[name])}" for name, off in _OFF.items() if name in knobs and knobs[name] != off
    ]
    return "  ".join((head, *rest))


def _model(info: ModelInfo | None) -> str | None:
    if info is None:
        return None
    if info.n_params is None:
        return info.name + precision(info)
    scale, unit = (1e9, "B") if info.n_params >= 1e9 else (1e6, "M")
    return f"{info.name} {number(info.n_params / scale, 1)}{unit}{precision(info)}"


def state(
    run: Run,
    feed: Feed,
    *,
    playing: bool,
    following: bool,
    waiting: int,
    speed: float,
    ascii: bool,
    at_end: bool = True,
) -> PlayState:
    """One word for what is going on, and the number that belongs to it. `at_end`: the last moment is on screen."""
    name, detail = _name(run, feed, playing, following, waiting, at_end)
    glyph, plain, word = STATES[name]
    if name == "paused" and waiting:
        word += f" (+{waiting})"
    if name == "replay":
        word += f" {speed_text(speed)}"
    if name == "lag":
        word += f" {waiting}r"
    if name == "error":
        word = f"{word} {feed.detail}"
    elif feed.beside and name != "ended":
        word += f" {feed.beside}"
    return PlayState(name, plain if ascii else glyph, word.strip(), detail, feed.meanwhile)


def _name(run: Run, feed: Feed, playing: bool, following: bool, waiting: int, at_end: bool) -> tuple[StateName, str]:
    if feed.name in ("loading", "silent", "error", "core_lost"):
        return feed.name, feed.detail
    if run.header is None:
        return "idle", feed.detail
    end = run.end
    if end is not None and end.reason in ("core_lost", "error") and following:
        return ("core_lost" if end.reason == "core_lost" else "error"), end.message or "the trace is kept"
    if playing:
        return ("replay", "") if end is not None or not following else ("lag" if waiting > LAG else "live", "")
    if following and end is not None and at_end:
        return "ended", {"done": "finished", "stopped": "stopped", "cancelled": "cancelled"}.get(end.reason, end.reason)
    if following and not feed.held:
        return ("lag" if waiting > LAG else "live"), ""
    return "paused", "the core waits" if feed.held else ""


def speed_text(speed: float) -> str:
    """`1×`, `¼×`, `as recorded`."""
    if speed == 0:
        return "as recorded"
    words = {0.25: "¼", 0.5: "½"}
    return f"{words.get(speed, number(speed))}×"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning. `index`: its round over the whole run, None where no round on record has that number."""

    index: int | None
    place: str  # "r12", "q1 r3"; "" before the first round
    text: str  # "clamped knob: gamma 99 is above ..", escaped, of any length


def warned(run: Run) -> tuple[Warned, ...]:
    """Every warning of a run, in order."""
    several, warnings = len(run.queries) > 1, []
    for event in run.warnings:
        index = run.find(event.q, event.r)
        place = "" if index is None else f"q{event.q} r{event.r}" if several else f"r{event.r}"
        warnings.append(Warned(index, place, warning_text(event)))
    return tuple(warnings)


@dataclass(frozen=True, slots=True)
class WarningGroup:
    """Warnings that say the same. `places`: `(index, label)` of the rounds that have it, in order."""

    text: str
    n: int
    places: tuple[tuple[int, str], ...]

    def next(self, index: int) -> int | None:
        """The round that has it next after one, round and round; None where no round on record has it."""
        later = [at for at, _ in self.places if at > index]
        return later[0] if later else self.places[0][0] if self.places else None


def warning_groups(run: Run) -> tuple[WarningGroup, ...]:
    """Every warning of a run once, with how often it came and where; those of a kind stand together."""
    by_text: dict[str, list[Warned]] = {}
    for warning in warned(run):
        by_text.setdefault(warning.text, []).append(warning)
    kinds = list(dict.fromkeys(text.partition(":")[0] for text in by_text))
    return tuple(
        WarningGroup(text, len(same), tuple(dict.fromkeys((w.index, w.place) for w in same if w.index is not None)))
        for text, same in sorted(by_text.items(), key=lambda item: kinds.index(item[0].partition(":")[0]))
    )


def warning_text(event: Warn) -> str:
    """`clamped knob: gamma 99 is above 64`. A trace is written by whoever wrote it, so its words are escaped."""
    return running(f"{event.code.replace('_', ' ')}: {event.message}")
