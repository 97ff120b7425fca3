"""The sampled chains of a round, and which of them is looked at; their numbers: `specviz.metrics.replay_rules`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from specviz.events import Verify
from specviz.runlog.fold import Run
from specviz.runlog.tree import Family
from specviz.view.frame.frame import ROOT
from specviz.view.words.numbers import joint

if TYPE_CHECKING:
    from specviz.metrics.replay_rules import Link

NO_CHAIN = "run with --method draft --temperature 1 --verifier hsd, recorded at level full"

_ENDLESS = 1e8  # a log that stands for infinity: JSON has none


@dataclass(frozen=True, slots=True)
class Path:
    """One drawn chain, root to leaf. `number` counts from 1 of `count` candidates."""

    links: "tuple[Link, ...]"
    number: int
    count: int

    def link(self, node: int) -> "Link | None":
        """The link of a node."""
        return next((link for link in self.links if link.node == node), None)


def paths(run: Run, family: Family) -> tuple[Path, ...]:
    """Every drawn chain of the round, in the order of its leaf's id; worked out once."""
    if "paths" not in family.known:
        family.known["paths"] = tuple(_paths(run, family))
    found: tuple[Path, ...] = family.known["paths"]
    return found


def _paths(run: Run, family: Family) -> list[Path]:
    from specviz.metrics.replay_rules import links

    kept, record = family.kept_nodes, family.record
    leaves = [i for i in kept if not any(child in kept for child in family.children.get(i, ()))]
    drawn = [family.path(i) for i in leaves]
    drawn = [p for p in drawn if all(kept[i].mode == "sampled" and kept[i].logq is not None for i in p if i in kept)]
    seed = record.query.prefill.seed if record.query.prefill else None
    key = None if seed is None else (seed, record.r)
    verdicts = _with_p(family)
    found = [
        links([kept[i] for i in p if i in kept], verdicts, record.chains, run.rule.replays_as, key, family.ordinals)
        for p in drawn
    ]
    return [Path(chain, k, len(found)) for k, chain in enumerate(found, 1) if chain]


def _with_p(family: Family) -> Mapping[int, Verify]:
    """The verdicts with the target's own p, which older traces overwrote where a sibling had failed before."""
    verdicts = family.record.verdicts
    known = {i: family.log_p(i) for i in verdicts if i in family.nodes}
    return {
        i: v if known.get(i, v.logp) == v.logp else msgspec.structs.replace(v, logp=known[i])
        for i, v in verdicts.items()
    }


def looked_at(run: Run, family: Family, selected: int | None) -> Path | None:
    """The chain of the selected node; else the one that was kept; else the first."""
    every = paths(run, family)
    for node in (selected, family.stop):
        if node is not None and node != ROOT:
            found = next((path for path in every if path.link(node) is not None), None)
            if found is not None:
                return found
    return every[0] if every else None


def n_carried(family: Family, n_kept: int, length: int) -> int:
    """Carried rounds after naive HSD kept `n_kept` tokens of a draft (verification.md 3.5).

    A draft cut at a drafted stop token counts with the length it was planned for.
    """
    end, gamma = family.record.end, family.record.knobs.get("gamma")
    planned = gamma if end is not None and end.draft_end == "stop_token" and isinstance(gamma, int) else length
    return max(0, planned - n_kept - 1) if n_kept < length else 0


def carried(log_ratio: float) -> str:
    """The ratio of a carried round; infinite after a token that the draft could not have drawn."""
    return joint(math.inf if abs(log_ratio) > _ENDLESS else log_ratio)


def why_no_chain(run: Run, family: Family) -> str:
    """Why there is no chain to scan in this round, and what to run instead."""
    record = family.record
    if missing := run.missing(record):
        return f"{missing}. To see a scan, {NO_CHAIN}."
    if record.start.carry is not None:
        return (
            "A carried round of naive HSD: nothing is drafted, and the token is drawn from max(0, R·p − q), "
            f"R {carried(record.start.carry)} being the joint ratio of what was written since the draft began."
        )
    if run.method_traits.plain:
        return f"Plain decoding drafts nothing: {NO_CHAIN}."
    if record.temperature == 0:
        return f"Temperature 0: nothing is drawn, so there is no ratio to scan. To see one, {NO_CHAIN}."
    if not family.kept_nodes:
        return "Nothing was drafted in this round."
    if any(node.mode == "shared" for node in family.kept_nodes.values()):
        return f"This draft was drawn with the target's own noise, so no ratio decides it. To see a scan, {NO_CHAIN}."
    if any(node.mode == "sampled" for node in family.kept_nodes.values()):
        return "The draft has not been judged yet." if not record.verdicts else f"No chain on record: {NO_CHAIN}."
    return f"This run has no sampled chain (its drafts are the drafter's likeliest tokens): {NO_CHAIN}."
