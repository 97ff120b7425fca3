"""`Writer`: a trace of any decoding loop, in three calls: `round`, `drafted`, `committed`.

What the loop does not know stays unknown: nothing is filled in, and the panels that would need it say so. Token ids
that nobody has are -1.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

import msgspec

from specviz import events as ev
from specviz.errors import TraceError
from specviz.events.outside import Known, Outside, Reported
from specviz.events.round import Finish
from specviz.trace.recorder import Recorder
from specviz.trace.rules import RuleInForce, rule_named
from specviz.trace.verdicts import DraftedToken, JudgedRound, judge_round
from specviz.traits import MethodTraits

SpanLane = Literal["target", "draft", "sync"]
LONGEST = 1 << 24  # tokens of a text, as far as a reader goes
_MOST_DRAFTED = 1 << 16  # of one round


@dataclass(slots=True)
class _Open:
    """The round that has begun and is not yet committed."""

    began: int
    n_drafted: int | None
    tokens: list[DraftedToken] = field(default_factory=list)
    spans: list[ev.Span] = field(default_factory=list)


class Writer:
    """Writes the trace of a loop that is not specviz's.

    `rule`: one of `specviz.trace.RULES`, or the name of a verifier. `known`: how much the loop can tell; "counts" where
    only numbers of tokens are known, and `chains` then says that every draft is one line of tokens. `text`: turns one
    token id into text, where texts are not given. `clock`: of monotonic nanoseconds; a loop that is read from a file
    without times gives one that stands still.

    Raises TraceError where the calls contradict each other; what was written stays.
    """

    def __init__(
        self,
        path: Path | str,
        engine: str,
        *,
        rule: str = "unknown",
        known: Known = "probabilities",
        version: str | None = None,
        setting: str = "",
        source: str = "",
        chains: bool = False,
        method: str = "draft",
        target: str | None = None,
        draft: str | None = None,
        temperature: float | None = None,
        sampling: dict[str, Any] | None = None,
        text: Callable[[int], str] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.rule: RuleInForce = rule_named(rule)
        self.known: Known = known
        self._clock, self._text = clock, text
        self._recorder = Recorder(path)
        self._q, self._r, self._n, self._root, self._next = -1, 0, 0, -1, 0
        self._open: _Open | None = None
        self.warned: dict[str, str] = {}  # the first warning of every code
        self._temperature = temperature
        self._told = 0  # when the last record was written
        knobs = {} if temperature is None else {"temperature": temperature}
        settings = {"sampling": {**knobs, **(sampling or {})}, "knobs": dict(knobs), "method": method}
        outside = Outside(
            engine=engine,
            version=version,
            setting=setting or self.rule.name,
            how=self.rule.how,
            promise=self.rule.promise,
            known=known,
            source=source,
            chains=chains,
        )
        self._write(_header(outside, self.rule, _models(target, draft), settings))

    # The three calls -------------------------------------------------------------------------------------------------

    def round(self, n_drafted: int | None = None) -> None:
        """Begin a round. `n_drafted`: number of drafted tokens, where their ids are unknown."""
        if self._open is not None:
            raise TraceError(
                f"round {self._r + 1} has begun and committed nothing yet: call committed() before round()"
            )
        if n_drafted is not None and not 0 <= n_drafted <= _MOST_DRAFTED:
            raise TraceError(f"a round that drafted {n_drafted:,} tokens: from 0 to {_MOST_DRAFTED:,} are possible")
        if self._q < 0:
            self.request()
        self._open = _Open(self._clock(), n_drafted)

    def drafted(
        self,
        token: int,
        text: str | None = None,
        *,
        parent: DraftedToken | None = None,
        first: bool = False,
        q: float | None = None,
        p: float | None = None,
        u: float | None = None,
        kept: bool | None = None,
        top: Sequence[tuple[int, float]] = (),
    ) -> DraftedToken:
        """One drafted token, behind the one before it, behind `parent`, or right behind the text (`first`).

        `q`, `p`: its probability in the draft's and in the target's row; `u`: the number it was tested with; `kept`:
        whether it was, where the committed tokens alone do not say so; `top`: of the draft's row, `(id, probability)`.
        What is not known yet can be set on the token that is returned, until the round is committed.
        """
        if self._open is None:
            raise TraceError("a token was drafted outside a round: call round() first")
        above = None if first else parent or (self._open.tokens[-1] if self._open.tokens else None)
        drafted = DraftedToken(self._next, token, self._shown(token, text), above, q, p, u, kept, list(top))
        self._next += 1
        self._open.tokens.append(drafted)
        return drafted

    def committed(
        self,
        tokens: Sequence[int],
        texts: Sequence[str] | None = None,
        *,
        n_accepted: int | None = None,
        finish: Finish | None = None,
        p: float | None = None,
        u: float | None = None,
        took_ns: int | None = None,
    ) -> None:
        """The round's end: tokens that became text, the one that closed it last. `p`, `u`: of that one.

        `n_accepted`: how many of them were drafted, where that is not told by the drafted tokens. Where all of them
        were, nothing was drawn behind the draft: the text ended there. `took_ns`: how long the round took, 0 where
        nobody knows; without it by the clock since `round`.
        """
        if self._open is None:
            raise TraceError("tokens were committed outside a round: call round() first")
        if finish is not None and finish not in get_args(Finish):
            raise TraceError(f"finish {finish!r}: one of {', '.join(get_args(Finish))}, or None where the text goes on")
        pieces: Sequence[str | None] = texts if texts is not None else [None] * len(tokens)
        shown = [self._shown(token, text) for token, text in zip(tokens, pieces, strict=True)]
        done = judge_round(self._open.tokens, list(tokens), shown, self.rule, n_accepted, self._open.n_drafted, finish)
        self._r += 1
        now = self._clock()
        self._emit(done, self._open.spans, p, u, finish, now, now - self._open.began if took_ns is None else took_ns)
        self._open = None

    def span(self, lane: SpanLane, name: str, began_ns: int, took_ns: int, *, device: bool = False) -> None:
        """A stretch of the round in hand, for the screen Lanes: on the target's lane, the draft model's, or besides.

        `began_ns`: by the writer's clock, or by that of the `device`.
        """
        if self._open is None:
            raise TraceError("a span was timed outside a round: call round() first")
        clock: Literal["device", "host"] = "device" if device else "host"
        self._open.spans.append(ev.Span(lane=lane, name=name, t0=began_ns, dur_ns=took_ns, clock=clock))

    # What is round about them ----------------------------------------------------------------------------------------

    def request(
        self,
        prompt: Sequence[int] = (),
        text: str = "",
        *,
        n_prompt: int | None = None,
        seed: int = 0,
        dur_ns: int = 0,
        domain: str | None = None,
    ) -> None:
        """The next prompt begins; without this call the first one is unknown. `n_prompt`: where ids are not known."""
        if self._open is not None:
            raise TraceError("a request begins inside a round: call committed() first")
        if max(len(prompt), n_prompt or 1) > LONGEST:
            raise TraceError(
                f"a prompt of {max(len(prompt), n_prompt or 1):,} tokens: at most {LONGEST:,} are possible"
            )
        ids = [*prompt] or [-1] * max(1, n_prompt or 1)
        self._q, self._r, self._n, self._root, self._next = self._q + 1, 0, len(ids), ids[-1], 0
        if not text and self._text is not None and prompt:
            text = "".join(map(self._text, ids))
        self._write(ev.Prefill(prompt=ids, text=text, n_prompt=len(ids), seed=seed, dur_ns=dur_ns, domain=domain))

    def reported(self, of: str, **totals: Any) -> None:
        """What the engine counted itself (fields of `specviz.events.Reported`), to be held against the rounds."""
        try:
            self._write(msgspec.convert({"of": of, **totals}, Reported))
        except msgspec.ValidationError as error:
            raise TraceError(f"what {of} counted cannot be: {error}") from None

    def temperature(self, value: float) -> None:
        """The next request runs at another temperature."""
        if self._open is not None:
            raise TraceError("the temperature changes inside a round: call committed() first")
        old, self._temperature = self._temperature, value
        if old != value:
            knob = ev.Knob(name="temperature", old=old, new=value, requested_r=1, applied_r=1, changes_text=True)
            self._write(knob)

    def warn(self, code: str, message: str) -> None:
        """Something that a reader must know."""
        self.warned.setdefault(code, message)
        self._write(ev.Warn(code=code, message=message))

    def abandon(self) -> None:
        """Discard the current round, of which nothing was committed."""
        self._open = None

    def close(self, reason: str = "done", message: str | None = None) -> None:
        """Ends the trace. Again: does nothing."""
        self._recorder.close(reason, message)

    @property
    def path(self) -> Path:
        """Where the trace is; the name changes when it is zipped at its end."""
        return self._recorder.path

    @property
    def problem(self) -> str | None:
        """Why the trace cannot be written, where it cannot."""
        return self._recorder.problem

    @property
    def n_rounds(self) -> int:
        """Rounds of this request so far."""
        return self._r

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("done" if kind is None else "error", None if error is None else f"{type(error).__name__}: {error}")

    # Records ---------------------------------------------------------------------------------------------------------

    def _shown(self, token: int, text: str | None) -> str:
        if text is not None:
            return text
        return self._text(token) if self._text is not None and token >= 0 else ""

    def _write(self, event: ev.Event) -> None:
        event.q, event.r = max(self._q, 0), self._r
        event.t = event.t or max(self._told, self._clock())
        self._told = event.t
        self._recorder.write(event)

    def _emit(
        self,
        done: JudgedRound,
        spans: list[ev.Span],
        p: float | None,
        u: float | None,
        finish: Finish | None,
        now: int,
        took_ns: int,
    ) -> None:
        started = self._n
        start = ev.RoundStart(n=started, root=self._root, knob_version=0)
        start.t = max(self._told, now - took_ns)  # no record is older than the one before it
        self._write(start)
        records: list[ev.Event] = []
        if self.known not in ("times", "counts"):
            records += done.records(started, self.rule, p, u)
        self._n += len(done.tokens)
        self._root = done.tokens[-1] if done.tokens else self._root
        records.append(ev.Commit(tokens=done.tokens, texts=done.texts, kinds=done.kinds, n=self._n, finish=finish))
        records += [ev.Warn(code="rule_violated", message=message) for message in done.contradictions]
        for record in (*records, *spans, done.end(finish, _stages(spans, took_ns))):
            record.t = now  # all at once: between them nothing was timed
            self._write(record)


def _stages(spans: Sequence[ev.Span], took_ns: int) -> dict[str, int]:
    """Where a round's time went: what was timed of either model, and the rest."""
    timed = {lane: sum(span.dur_ns for span in spans if span.lane == lane) for lane in ("draft", "target")}
    timed["other"] = max(0, took_ns - sum(timed.values()))
    return {stage: ns for stage, ns in timed.items() if ns > 0}


def _models(target: str | None, draft: str | None) -> ev.Models:
    return ev.Models(
        target=ev.ModelInfo(name=target) if target else None, draft=ev.ModelInfo(name=draft) if draft else None
    )


def _header(outside: Outside, rule: RuleInForce, models: ev.Models, settings: dict[str, Any]) -> ev.Header:
    return ev.Header(
        schema=ev.SCHEMA,
        v=ev.VERSION,
        run=uuid.uuid4().hex[:12],
        wall=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        drafter=settings["method"],
        verifier=rule.verifier or rule.name,
        lanes="serial",
        lossless=rule.promise == "same law",
        keeps_tokens=False,  # its draws are not ours: which tokens plain decoding would give is not known
        models=models,
        knob_specs=[],
        level="none" if outside.known == "counts" else "summary",
        imported=outside.engine if outside.known == "counts" else None,
        outside=outside,
        method_traits=MethodTraits(plain=settings["method"] == "plain"),
        verifier_traits=rule.traits,
        **settings,
    )
