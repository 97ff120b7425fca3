"""`specviz lab bench --identity N`: N tokens of every method under `walk` held against plain decoding's, bit for bit.

Knobs are drawn anew before every round, and those that hold for a whole query before every run, so drafts have all
shapes; one that was given stays. All of them decode a prompt under the same sampling, of all kinds in turn. Compared
are the tokens, and the law rows and logits that decided them: texts may agree by luck where numbers do not.

A million tokens take hours: with a file to keep the report in, it is written behind every prompt, and the next call
goes on from there.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import torch

from specviz.collecting import seldom
from specviz.comparison.machine import Machine, load
from specviz.comparison.measured import fitting, machine_of
from specviz.engine.decode import overlap_choice
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.overlap import OverlapLanes
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.pair import Pair, load_pair
from specviz.engine.run import prepare
from specviz.errors import KnobError, ModelError, SpecvizError
from specviz.events import ModelInfo
from specviz.knobs import Knobs, KnobSpec
from specviz.methods import Method, get_method
from specviz.methods.common.missing import missing
from specviz.probability.rows import CertainRows
from specviz.sources.prompts import load_prompts
from specviz.verifiers import get_verifier
from specviz_lab.bench.measure import Tokens
from specviz_lab.bench.settings import PLAIN, BenchSettings

Tell = Callable[[str], None]
SCHEMA = "specviz.identity/1"
TEMPERATURES = (0.0, 0.8, 1.0)
SAMPLINGS: tuple[dict[str, Any], ...] = (  # in turn by prompt, where the temperature is above 0
    {},
    {"top_p": 0.9},
    {"draw": "race"},
    {"top_k": 40},
    {"min_p": 0.05},
    {"repetition_penalty": 1.2},
)
_VERIFIER = "walk"


class MethodIdentity(msgspec.Struct, kw_only=True):
    """One method. `n_rows`: law rows compared; `.._differing`: those that are not plain decoding's."""

    name: str
    n_runs: int = 0
    n_tokens: int = 0
    n_differing: int = 0
    n_rows: int = 0
    n_rows_differing: int = 0
    n_rounds: int = 0
    n_widest: int = 0  # rows of the widest pass


class IdentityReport(msgspec.Struct, kw_only=True):
    """What was compared. `exact`: what the proof at load says; `cut`: fewer tokens than were asked for.

    `n_compared`: prompts times temperatures, in the order in which they are taken; `commits`: of the program, all
    of them where it was gone on with.
    """

    schema: str = SCHEMA
    wall: str
    command: str
    machine: Machine
    target: ModelInfo
    exact: str
    threads: int
    n_tokens: int
    n_differing: int
    n_rows: int
    n_rows_differing: int
    methods: list[MethodIdentity]
    left_out: list[str]
    first: list[str]
    seconds: float
    cut: bool = False
    n_compared: int = 0
    commits: list[str] = []


def identity(
    settings: BenchSettings, n_tokens: int, command: str, tell: Tell, keep: Path | None = None
) -> IdentityReport:
    """Compare until `n_tokens` were compared or the minutes are up.

    `keep`: where the report is written behind every prompt and begun from. Raises SpecvizError, also where the report
    that lies there is of another model, machine, dtype, number of threads or set of methods.
    """
    began, before = time.monotonic(), load()
    prompts = load_prompts(settings.prompts, settings.limit)
    pair = load_pair(
        settings.target,
        settings.draft,
        settings.needs_draft,
        settings.device,
        settings.dtype,
        settings.threads or None,
    )
    pair.runtime.begin()
    ids = [*fitting(prompts, pair, settings.max_new_tokens).values()]
    kinds, left_out = _able(settings, pair)
    soak = _Soak(pair, settings, kinds)
    empty = IdentityReport(
        wall="",
        command=command,
        machine=machine_of(pair, before),
        target=pair.target.info,
        exact=pair.target.exact or "not tried",
        threads=torch.get_num_threads(),
        n_tokens=0,
        n_differing=0,
        n_rows=0,
        n_rows_differing=0,
        methods=[],
        left_out=left_out,
        first=[],
        seconds=0.0,
    )
    earlier = kept(keep, empty, kinds) if keep is not None else None
    if earlier is not None:
        soak.found, soak.first = {method.name: method for method in earlier.methods}, earlier.first
        tell(f"going on from {earlier.n_tokens:,} tokens in {keep}")
    done = earlier.n_compared if earlier is not None else 0
    report = earlier or empty
    with seldom():
        while soak.n_tokens < n_tokens and not (
            settings.minutes is not None and time.monotonic() - began > 60 * settings.minutes
        ):
            seed, nth = divmod(done, len(TEMPERATURES))
            for line in soak.compare(ids[seed % len(ids)], TEMPERATURES[nth], seed):
                tell(line)
            done += 1
            if len(soak.refused) == len(kinds):
                raise SpecvizError(f"--identity: no method could be run: {'; '.join(soak.refused.values())}")
            seconds = time.monotonic() - began + (earlier.seconds if earlier is not None else 0)
            report = soak.report(empty, n_tokens, done, seconds, earlier.commits if earlier is not None else [])
            if keep is not None:
                _write(report, keep)
    return report


def _write(report: IdentityReport, to: Path) -> None:
    partial = to.with_name(f".{to.name}.partial")
    try:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        partial.replace(to)
    except OSError as error:
        raise SpecvizError(f"--onto {to}: {error.strerror}") from None


def kept(keep: Path, now: IdentityReport, kinds: Sequence[str]) -> IdentityReport | None:
    """The report to go on with, None where there is none yet. Raises SpecvizError."""
    try:
        report = msgspec.json.decode(keep.read_bytes(), type=IdentityReport)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecvizError(f"--onto {keep}: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SpecvizError(f"--onto {keep}: no report of --identity ({error}); name another file") from None
    for what, was, here in (
        ("of schema", report.schema, now.schema),
        ("of the target", report.target.hash or report.target.name, now.target.hash or now.target.name),
        ("in", report.target.dtype, now.target.dtype),
        ("with threads:", report.threads, now.threads),
        ("on the processor", report.machine.processor, now.machine.processor),
        ("of the methods", ",".join(method.name for method in report.methods), ",".join(kinds)),
    ):
        if was != here:
            raise SpecvizError(f"--onto {keep}: that report is {what} {was}, this one {here}; name another file")
    return report


def _able(settings: BenchSettings, pair: Pair) -> tuple[list[str], list[str]]:
    """The kinds that can be held against plain decoding, and the others with what they lack. Raises SpecvizError."""
    kinds, left_out = [], []
    for arm in settings.arms:
        if arm.peer or arm.plain or arm.kind in kinds:
            continue
        method, _ = settings.method_knobs(arm.kind)
        lacks = missing(method, pair)
        if lacks is not None:
            left_out.append(f"{arm.kind}: {lacks.why}")
        elif _VERIFIER not in method.verifiers:
            left_out.append(f"{arm.kind}: it takes no verifier '{_VERIFIER}'")
        else:
            kinds.append(arm.kind)
    if not kinds:
        raise SpecvizError(f"--identity: no method to hold against {PLAIN}: {'; '.join(left_out) or 'name some'}")
    return kinds, left_out


class _Soak:
    """Runs of all kinds against plain decoding, and what they came to."""

    def __init__(self, pair: Pair, settings: BenchSettings, kinds: Sequence[str]) -> None:
        self.pair, self.settings = pair, settings
        self.found = {kind: MethodIdentity(name=kind) for kind in kinds}
        self.first: list[str] = []
        self.refused: dict[str, str] = {}  # kinds that these models cannot be run by, and why

    @property
    def n_tokens(self) -> int:
        """Tokens compared so far."""
        return sum(method.n_tokens for method in self.found.values())

    def report(
        self, empty: IdentityReport, n_tokens: int, n_compared: int, seconds: float, commits: Sequence[str]
    ) -> IdentityReport:
        """What was counted so far."""
        every = self.found.values()
        return msgspec.structs.replace(
            empty,
            wall=datetime.now(UTC).isoformat(timespec="seconds"),
            n_tokens=self.n_tokens,
            n_differing=sum(method.n_differing for method in every),
            n_rows=sum(method.n_rows for method in every),
            n_rows_differing=sum(method.n_rows_differing for method in every),
            methods=list(every),
            first=self.first,
            seconds=seconds,
            cut=self.n_tokens < n_tokens,
            left_out=[*empty.left_out, *(f"{kind}: {why}" for kind, why in self.refused.items())],
            n_compared=n_compared,
            commits=list(dict.fromkeys([*commits, empty.machine.commit or "unknown"])),
        )

    def compare(self, prompt: Tokens, temperature: float, seed: int) -> Iterator[str]:
        """One prompt with every kind; says what parted."""
        shared = {"temperature": temperature, "seed": seed}
        if temperature > 0:
            shared |= SAMPLINGS[seed % len(SAMPLINGS)]
        plain = Decided.of(self._session(PLAIN, prompt, shared).rounds())
        for kind, counted in self.found.items():
            if kind in self.refused:
                continue
            rng = Random(f"{kind} {seed} {temperature}")
            try:
                session = self._session(kind, prompt, shared, rng)
            except ModelError as error:
                self.refused[kind] = str(error)
                yield f"{kind} is left out: {error}"
                continue
            other = Decided.of(_steered(session, rng, self.settings.knobs.get(kind, {})), counted)
            counted.n_runs += 1
            where = self._count(counted, plain, other)
            if where is not None:
                text = f"{kind} at T {temperature:g}, prompt and seed {seed}, token {where}"
                self.first += [text] if len(self.first) < 20 else []
                yield f"differs: {text}"
        yield f"{self.n_tokens:,} tokens compared, {sum(entry.n_differing for entry in self.found.values())} differing"

    def _count(self, counted: MethodIdentity, plain: "Decided", other: "Decided") -> int | None:
        """Count what is equal; the first new token at which anything was not."""
        first = None
        counted.n_tokens += len(plain.tokens)
        alike = True
        for k, token in enumerate(plain.tokens):
            same_token = k < len(other.tokens) and other.tokens[k] == token
            if alike and k < len(other.rows):  # behind another token the rows are those of another text
                same_row = all(torch.equal(a, b) for a, b in zip(plain.rows[k], other.rows[k], strict=True))
                counted.n_rows += 1
                counted.n_rows_differing += not same_row
                first = k if first is None and not same_row else first
            counted.n_differing += not same_token
            first = k if first is None and not same_token else first
            alike = alike and same_token
        return first

    def _session(self, kind: str, prompt: Tokens, shared: Mapping[str, Any], rng: Random | None = None) -> Session:
        """`rng` draws what holds for a whole run: knobs of the kind's own, and the lanes of one that overlaps."""
        method, knobs = self._begun(kind, shared, rng)
        draft = self.pair.draft.adapter if self.pair.draft else None
        room = len(prompt) + self.settings.max_new_tokens + prepare.in_flight(method, knobs)
        models = FactoryModels(self.pair.target.adapter, draft, room)
        drafter = prepare.make_drafter(method, models, knobs)
        table, knobs = prepare.fitted(method.table, drafter, knobs.values)
        lanes = self._lanes(models, drafter, rng)
        return Session(SessionConfig(models, drafter, get_verifier(_VERIFIER), lanes), prompt, table, knobs)

    def _begun(self, kind: str, shared: Mapping[str, Any], rng: Random | None) -> tuple[Method, Knobs]:
        """Method and knobs at the start of a run, one knob drawn after the other where they go together."""
        method, knobs = self.settings.method_knobs(kind, shared)
        fixed = {"shape", *self.settings.knobs.get(kind, {})}
        if rng is None:
            return method, knobs
        for spec in method.own:
            if spec.applies == "R" or spec.kind == "texts" or spec.name in fixed:
                continue
            drawn = {**knobs.values, spec.name: _value(spec, rng)}
            with suppress(KnobError):
                if _VERIFIER in method.fitting(drawn):
                    knobs = method.table.knobs(drawn)
        return method, knobs

    def _lanes(self, models: FactoryModels, drafter: Drafter | None, rng: Random | None) -> OverlapLanes:
        asked = self.settings.lanes
        if asked == "auto":
            overlaps = rng is not None and drafter is not None and drafter.overlaps
            asked = rng.choice(overlap_choice.possible(models)) if rng is not None and overlaps else "serial"
        return overlap_choice.choose(asked, models, drafter).lanes


class Decided:
    """The tokens of a run, and what each was decided by: the law row and the logits `[V]`."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.rows: list[tuple[torch.Tensor, ...]] = []

    @classmethod
    def of(cls, rounds: Iterator[RoundResult], counted: MethodIdentity | None = None) -> "Decided":
        """Of a run to its end."""
        out = cls()
        for done in rounds:
            out._take(done)
            if counted is not None:
                counted.n_rounds += 1
                counted.n_widest = max(counted.n_widest, done.draft.n_fed + 1)
        return out

    def _take(self, done: RoundResult) -> None:
        assert done.outcome is not None
        assert done.logits is not None
        accepted = [0, *(node + 1 for node in done.outcome.accepted)]
        for row in accepted[: len(done.tokens)]:
            law = () if isinstance(done.target_probs, CertainRows) else (done.target_probs[row].clone(),)  # type: ignore[index]
            self.rows.append((done.logits[row].clone(), *law))
        self.tokens += done.tokens


def _steered(session: Session, rng: Random, held: Collection[str] = ()) -> Iterator[RoundResult]:
    """The rounds of a session whose knobs, but for those that are held, are drawn anew before each."""
    session.prefill()
    own = [spec for spec in session.table.specs if _is_drawn(spec, session) and spec.name not in held]
    for done in session.rounds():
        yield done
        for spec in own:
            with suppress(KnobError):  # a value that does not go with the others: the last one stays
                session.request(spec.name, _value(spec, rng))


def _is_drawn(spec: KnobSpec, session: Session) -> bool:
    """Whether a knob moves drafts alone, and may change between rounds."""
    own = {own_spec.name for own_spec in get_method(session.table.method).own}
    return spec.applies == "R" and spec.name in own and spec.kind != "texts"


def _value(spec: KnobSpec, rng: Random) -> Any:
    if spec.kind == "bool":
        return rng.random() < 0.5
    if spec.kind == "choice":
        return rng.choice(spec.choices)
    low = spec.lo if spec.lo is not None else 0.0
    high = spec.hi if spec.hi is not None else low + 1
    if spec.kind == "int":  # between a size and its double lie as many draws everywhere: small drafts are cheap
        return int(low) - 1 + int((high - low + 2) ** rng.random())
    return rng.uniform(low, high) or spec.default
