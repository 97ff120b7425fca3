"""What an engine's counters say of its speculation at one moment: as a record, whatever engine it was.

vLLM and llama.cpp count rounds, drafted and accepted tokens, the latter by position; SGLang tells means.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from specviz.engines.watch.exposition import MetricSample
from specviz.errors import SpecvizError
from specviz.events import Counted, EngineCounts
from specviz.trace.rules import DEFAULT_RULES

MOST_POSITIONS = 256  # of a draft; what is beyond is no engine's
MOST_ENGINES = 64  # told one by one
OF_MODEL = " of "  # between an engine and its model, where there are several of both
_MOST_GAUGE = 1e9


@dataclass(frozen=True, slots=True)
class EngineKind:
    """How one engine names its counters, and what they leave open."""

    name: str
    prefix: str
    generated: str  # the counter of generated tokens
    turn_on: str  # what to start it with when it shows nothing

    @property
    def rule(self) -> str:
        """What decides there, as far as an engine's defaults say."""
        known = DEFAULT_RULES.get(self.name)
        return known.words if known is not None else "not known"


ENGINES = (
    EngineKind("vLLM", "vllm:", "generation_tokens_total", "start it with --speculative-config"),
    EngineKind("llama.cpp", "llamacpp:", "tokens_predicted_total", "start it with --spec-type, or a draft model"),
    EngineKind("SGLang", "sglang:", "generation_tokens_total", "start it with --speculative-algorithm"),
)


# Counters that say how speculation goes, without the engine's prefix.
_ROUNDS, _VERIFIED = "spec_decode_num_drafts_total", "spec_verify_calls_total"
_DRAFTED, _ACCEPTED = "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"
_KEPT = "spec_decode_num_accepted_tokens_per_pos_total"
_LENGTH, _RATE = "spec_accept_length", "spec_accept_rate"
# Of answers that are over, by how long they are and how long they might have been; vLLM alone tells both.
_ANSWERS, _OVER = "request_generation_tokens_count", "request_success_total"
_TOKENS, _ALLOWED = "request_generation_tokens_bucket", "request_params_max_tokens_bucket"


def kind_of(engine: str) -> EngineKind:
    """What is known of an engine; of one that nobody knows nothing."""
    return next((k for k in ENGINES if k.name == engine), EngineKind(engine, "", "", ""))


def read_counters(samples: Iterable[MetricSample], wall: float, where: str) -> Counted:
    """The counters among the samples, added up over labels. Raises SpecvizError where there are none of an engine."""
    listed = list(samples)
    kind = next((k for k in ENGINES if any(s.name.startswith(k.prefix) for s in listed)), None)
    if kind is None:
        names = sorted({s.name for s in listed})
        seen = f"; it counts {', '.join(names[:3])} .." if names else ", and it counts nothing"
        raise SpecvizError(f"{where} is no vLLM, llama.cpp or SGLang server{seen}; check host and port")
    own = [
        MetricSample(s.name.removeprefix(kind.prefix), s.labels, s.value)
        for s in listed
        if s.name.startswith(kind.prefix)
    ]
    named = _by_name(own)
    rounds = _VERIFIED if _VERIFIED in named else _ROUNDS
    engines, parts_of = _engines(named.get(rounds, []), named.get(_ACCEPTED, []))
    return Counted(
        engine=kind.name,
        wall=wall,
        models=sorted({s.labels["model_name"] for s in own if "model_name" in s.labels})[:8],
        n_generated=_total(named, kind.generated),
        n_rounds=_total(named, rounds),
        n_drafted=_total(named, _DRAFTED),
        n_accepted=_total(named, _ACCEPTED),
        per_position=_positions(named.get(_KEPT, [])),
        accept_length=_mean(named.get(_LENGTH, [])),
        accept_rate=_mean(named.get(_RATE, [])),
        n_answers=_total(named, _ANSWERS),
        n_empty=_empty(named),
        engines=engines,
        parts_of=parts_of,
        gauges=_gauges(named),
        notes=_means_apart(named.get(_LENGTH, [])),
    )


def wanted(name: str) -> bool:
    """Whether a counter is read, by its name without the engine's prefix."""
    return name in _WANTED


_GAUGES: dict[str, tuple[tuple[str, ...], Callable[[list[float]], float]]] = {  # as shown, by the engines' names
    "running": (("num_requests_running", "num_running_reqs", "requests_processing"), sum),
    "waiting": (("num_requests_waiting", "num_queue_reqs", "requests_deferred"), sum),
    "cache in use": (("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"), fmean),
    "prefix hits": (("cache_hit_rate",), fmean),
}
_HITS, _QUERIES = "prefix_cache_hits_total", "prefix_cache_queries_total"
_WANTED = frozenset(
    (
        *(_ROUNDS, _VERIFIED, _DRAFTED, _ACCEPTED, _KEPT, _LENGTH, _RATE, _HITS, _QUERIES),
        *(_ANSWERS, _OVER, _TOKENS, _ALLOWED),
        *(kind.generated for kind in ENGINES),
        *(name for names, _ in _GAUGES.values() for name in names),
    )
)


def _gauges(named: dict[str, list[MetricSample]]) -> dict[str, float]:
    """What stands beside, where the engine tells it. Shares are from 0 to 1."""
    out: dict[str, float] = {}
    for label, (names, joined) in _GAUGES.items():
        values = next(([s.value for s in named[name]] for name in names if name in named), [])
        if values and all(0 <= value < _MOST_GAUGE for value in values):
            out[label] = float(joined(values))
    queries = _total(named, _QUERIES)
    if queries:
        out["prefix hits"] = min(1.0, (_total(named, _HITS) or 0) / queries)
    return out


def _engines(rounds: list[MetricSample], accepted: list[MetricSample]) -> tuple[list[EngineCounts], str]:
    """Each engine and each model alone, and what the parts are: vLLM's data parallel engines carry a label `engine`,
    several models behind one address a `model_name`. Nothing where there is only one of both."""
    several = [
        label for label in ("engine", "model_name") if len({s.labels.get(label) for s in (*rounds, *accepted)}) > 1
    ]
    if not several:
        return [], "engine"
    counts: dict[tuple[str, ...], list[float]] = {}
    for place, samples in enumerate((rounds, accepted)):
        for sample in samples:
            key = tuple(sample.labels.get(label, "") for label in several)
            if all(key) and (key in counts or len(counts) < MOST_ENGINES):
                counts.setdefault(key, [0.0, 0.0])[place] += sample.value
    named = sorted(counts.items(), key=lambda item: (item[0][1:], len(item[0][0]), item[0]))
    parts = [
        EngineCounts(name=OF_MODEL.join(key), n_rounds=_added([n]), n_accepted=_added([kept]))
        for key, (n, kept) in named
    ]
    return parts, "engine" if several[0] == "engine" else "model"


def _means_apart(lengths: list[MetricSample]) -> list[str]:
    """What data parallel ranks, or models, have apart where an engine tells means alone."""
    for label, words, front in (("dp_rank", "data parallel rank", "rank "), ("model_name", "model", "")):
        means: dict[str, list[float]] = {}
        for sample in lengths:
            if 0 < sample.value < _MOST_GAUGE and (name := sample.labels.get(label)) and len(means) < MOST_ENGINES:
                means.setdefault(f"{front}{name}", []).append(sample.value)
        if len(means) > 1:
            return [means_apart({name: fmean(values) for name, values in means.items()}, words)]
    return []


def means_apart(means: Mapping[str, float], of: str) -> str:
    """Tokens a round of parts that ought to be alike, in words: those that keep less than half as much as the middle
    one by name, else from the least to the most."""
    middle = median(means.values())
    alike = of != "model" and len(means) > 2
    ill = [f"{name} at {mean:.2f}" for name, mean in means.items() if alike and mean - 1 < (middle - 1) / 2]
    if ill:
        return f"tokens a round by {of}, {len(means)} of them: {', '.join(ill)}, the middle one at {middle:.2f}"
    ends = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()) if of == "model" else ""
    ends = ends or f"from {min(means.values()):.2f} to {max(means.values()):.2f}"
    return f"tokens a round by {of}, {len(means)} of them: {ends}"


def _by_name(samples: Iterable[MetricSample]) -> dict[str, list[MetricSample]]:
    named: dict[str, list[MetricSample]] = {}
    for sample in samples:
        named.setdefault(sample.name, []).append(sample)
    return named


def _total(named: dict[str, list[MetricSample]], name: str) -> int | None:
    return _added(s.value for s in named[name]) if name in named else None


def _added(values: Iterable[float]) -> int:
    return max(0, min(round(sum(values)), 2**53))


def _empty(named: dict[str, list[MetricSample]]) -> int | None:
    """Answers of one token, less those that were allowed no more and those that were broken off: so many at least
    ended with their first token."""
    single, allowed = ([s.value for s in named.get(name, []) if _is_one(s)] for name in (_TOKENS, _ALLOWED))
    if not single or not allowed:
        return None
    aborted = [s.value for s in named.get(_OVER, []) if s.labels.get("finished_reason") == "abort"]
    return _added((sum(single), -sum(allowed), -sum(aborted)))


def _is_one(sample: MetricSample) -> bool:
    return sample.labels.get("le") in ("1", "1.0")


def _mean(samples: list[MetricSample]) -> float | None:
    """Of several workers the mean of those that speculate: a gauge of 0 has nothing to tell yet."""
    values = [s.value for s in samples if 0 < s.value < 1e9]
    return sum(values) / len(values) if values else None


def _positions(samples: list[MetricSample]) -> list[int]:
    placed: dict[int, float] = {}
    for sample in samples:
        at = sample.labels.get("position", "")
        if at.isascii() and at.isdigit() and len(at) < 4 and int(at) < MOST_POSITIONS:
            placed[int(at)] = placed.get(int(at), 0.0) + sample.value
    return [_added([placed.get(k, 0.0)]) for k in range(max(placed, default=-1) + 1)]
