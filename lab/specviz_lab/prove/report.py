"""What came out, for programs and for people: the objects of `--json`, numbers in words, and the verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specviz_lab.prove.controls import Caught
from specviz_lab.prove.jobs import Job
from specviz_lab.prove.known import Golden, shared_by_race
from specviz_lab.prove.proof import TOLERANCE, Proof

_LONGEST = 13  # characters of a fraction that is still worth reading
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ProvedJob:
    """A job and its proof."""

    job: Job
    proof: Proof

    @property
    def golden(self) -> Golden | None:
        """What was worked out for it elsewhere, if anything."""
        return self.job.golden

    @property
    def agrees(self) -> bool | None:
        """Whether everything the golden vector says came out; None without one."""
        vector, proof = self.golden, self.proof
        if vector is None:
            return None
        pairs = [(vector.expected_accepted, proof.expected_accepted), (vector.tv, proof.tv)]
        pairs += [] if vector.target_calls is None else [(vector.target_calls, proof.target_calls)]
        pairs += zip(vector.accepted_law, proof.accepted_law, strict=False)
        return all(abs(wanted - computed) <= (0 if proof.exact else TOLERANCE) for wanted, computed in pairs)

    @property
    def is_sound(self) -> bool:
        """The claim holds and every number agrees with what is known of it."""
        return not self.proof.is_false_claim and self.agrees is not False and self.proof.closed_form_holds is not False


@dataclass(frozen=True, slots=True)
class ProofVerdict:
    """One line for each thing that was shown, and whether all of it holds."""

    lines: tuple[tuple[bool, str], ...]

    @property
    def holds(self) -> bool:
        return all(good for good, _ in self.lines)


def verdict(done: Sequence[ProvedJob], caught: Sequence[Caught]) -> ProofVerdict:
    bad = [d for d in done if d.proof.is_false_claim]
    exposed = {d.proof.verifier for d in bad}
    claims = [d for d in done if d.proof.claims_lossless and d.proof.verifier not in exposed]
    lines = [(False, f"{d.job} is NOT lossless: TV {_off(d.proof)}") for d in bad]
    if claims:
        names = dict.fromkeys(d.proof.verifier for d in claims)
        paths = sum(d.proof.n_paths for d in claims)
        exactly = "exactly" if all(d.proof.exact for d in claims) else f"within {TOLERANCE:g}"
        lines.append(
            (True, f"lossless, {exactly}: {', '.join(names)} ({_count(len(claims), 'proof')}, {paths:,} paths)")
        )
    # In the main tables on demand only: it says itself that it is not lossless.
    lines += [(True, f"{d.job} {_admitted(d.proof)}") for d in done if not d.proof.claims_lossless]
    lines += _numbers(done)
    lines += _twins(done)
    lines += _races(done)
    if caught:
        missed = [c for c in caught if not c.fails]
        lines += [(False, f"the check is too weak: it let '{c.control.name}' pass, or missed its size") for c in missed]
        if not missed:
            lines.append((True, f"all {len(caught)} wrong rules were caught, by the exact distance where it is known"))
    return ProofVerdict(tuple(lines))


def _numbers(done: Sequence[ProvedJob]) -> list[tuple[bool, str]]:
    """The golden numbers and closed forms in a line each, or a line for every one that is missed."""
    golden = [(d, "golden vector", d.agrees, d.golden and d.golden.expected_accepted) for d in done]
    forms = [(d, "closed form", d.proof.closed_form_holds, d.proof.closed_form) for d in done]
    known = [entry for entry in (*golden, *forms) if entry[2] is not None]
    missed = [
        f"{d.job} misses its {what}: E[accepted] {number(d.proof.expected_accepted)}, must be {number(wanted)}"
        for d, what, holds, wanted in known
        if not holds
    ]
    if missed or not known:
        return [(False, line) for line in missed]
    counts = Counter(what for _, what, _, _ in known)
    return [(True, f"E[accepted] equals all {' and '.join(f'{what}s ({n})' for what, n in counts.items())}")]


def _twins(done: Sequence[ProvedJob]) -> list[tuple[bool, str]]:
    """Capped HSD and blockwise verification are one algorithm, so their laws must be one."""
    laws: dict[str, dict[Any, Any]] = {"blockwise": {}, "hsd": {}}
    for d in done:
        if d.proof.verifier in laws and d.proof.exact:
            laws[d.proof.verifier][d.job.subject.title, d.job.layout.name] = d.proof.accepted_law
    one, other = laws.values()
    both = one.keys() & other.keys()
    if any(one[place] != other[place] for place in both):
        return [(False, "hsd and blockwise differ, and must be one rule")]
    rule = f"hsd and blockwise are one rule: the same law of the accepted length ({_count(len(both), 'comparison')})"
    return [(True, rule)] if both else []


def _races(done: Sequence[ProvedJob]) -> list[tuple[bool, str]]:
    """What noise shared by race draws, the other way of a session, accepts: known in closed form alone."""
    shared = [d for d in done if d.job.layout.shared]
    if not shared:
        return []
    shares = [f"{number(shared_by_race(d.proof.problem))} ({d.job.subject.title})" for d in shared]
    return [(True, f"noise shared by race draws: E[accepted] {', '.join(shares)}, in closed form")]


def _off(proof: Proof) -> str:
    first = number(proof.tv)
    return first if proof.chained_tv == proof.tv else f"{first}, round after round {number(proof.chained_tv)}"


def _admitted(proof: Proof) -> str:
    """What is said of one that claims nothing."""
    if proof.lossless:
        return "does not claim to be lossless; these tables do not show it"
    return f"is not lossless, as it says: TV {_off(proof)}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def number(value: Any) -> str:
    """A number in its shortest exact form: `11/9`, `1.45`; decimals where that is too long, or for floats."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}" if abs(value) > TOLERANCE else f"{value:.0e}" if value else "0"
    exact = Fraction(value)
    as_fraction, as_decimal = str(exact), _decimal(exact)
    shortest = min((text for text in (as_decimal, as_fraction) if text), key=len)
    return shortest if len(shortest) <= _LONGEST else f"{float(exact):.{_DIGITS}f}.."


def full(value: Any) -> str:
    """The shortest exact form, and the decimal beside a fraction: `11/9 = 1.222222`."""
    text = number(value)
    return f"{text} = {float(Fraction(text)):.{_DIGITS}f}" if "/" in text else text


def _decimal(value: Fraction) -> str | None:
    """The finite decimal expansion, None when there is none."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return None
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    return f"{float(value):.{digits}f}" if digits <= _LONGEST else None


_NUMBERS = ("max_abs_err", "tv", "expected_accepted", "chained_tv", "target_calls", "tokens_per_call", "closed_form")


def as_object(done: ProvedJob) -> dict[str, Any]:
    """One verifier of `--json`. `exact` has the same numbers as fractions; floats have none."""
    proof, vector, problem = done.proof, done.golden, done.proof.problem

    def numbers_of(*names: str, form: Callable[[Any], Any] = float) -> dict[str, Any]:
        return {name: None if (value := getattr(proof, name)) is None else form(value) for name in names}

    document = {
        "case": done.job.subject.case,
        "verifier": proof.verifier,
        "law": _law(proof.law, float),
        **numbers_of("max_abs_err", "tv", "expected_accepted"),
        "accepted_law": [float(x) for x in proof.accepted_law],
        "lossless": proof.lossless,
        "claims_lossless": proof.claims_lossless,
        "layout": proof.layout.name,
        **{name: getattr(problem, name) for name in ("gamma", "candidates", "replacement")},
        **numbers_of("chained_max_abs_err", "chained_tv", "target_calls", "tokens_per_call", "closed_form"),
        "shared_by_race": float(shared_by_race(problem)) if proof.layout.shared else None,
        "golden": None if vector is None else float(vector.expected_accepted),
        "golden_agrees": done.agrees,
        "n_paths": proof.n_paths,
        "exact": None,
    }
    if proof.exact:
        lengths = [str(x) for x in proof.accepted_law]
        document["exact"] = {"law": _law(proof.law, str), "accepted_law": lengths, **numbers_of(*_NUMBERS, form=str)}
    return document


def control_object(caught: Caught) -> dict[str, Any]:
    """One negative control of `--json`."""
    control = caught.control
    return {
        "name": control.name,
        "mistake": control.mistake,
        "case": control.case,
        "gamma": control.gamma,
        "tv": float(caught.tv),
        "exact_tv": str(caught.tv),
        "golden_tv": None if control.distance is None else str(control.distance),
        "caught": caught.fails,
    }


def _law(law: Mapping[tuple[int, ...], Any], form: Any) -> dict[str, Any]:
    return {",".join(map(str, text)): form(prob) for text, prob in sorted(law.items()) if prob}
