"""What threads of engines have told of pairs like this one: dated facts (`known.json`), quoted with their source."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from specviz.check.findings import PairFinding, note
from specviz.check.kinds import LLAMA_DFLASH, kind_of_draft
from specviz.check.serve import ServeCommand, kinds_served
from specviz.check.side import ModelSide
from specviz.mtp_layers import own_mtp

_METHOD = ("method", "algorithm", "drafters")  # settings that name the drafter, as engines' texts tell them


@cache
def known_facts() -> tuple[dict[str, Any], ...]:
    """All of them."""
    return tuple(json.loads(resources.files("specviz.check").joinpath("known.json").read_text(encoding="utf-8")))


def check_known(target: ModelSide, draft: ModelSide, command: ServeCommand | None) -> Iterator[PairFinding]:
    """Facts about a draft of this kind: those that hang on what is so here, and all of the engine that serves it."""
    kind = kind_of_draft(target, draft).name
    for fact in known_facts():
        when: Callable[[ModelSide, ModelSide], bool] = _CONDITIONS[fact["when"]]
        engine = command is not None and fact["engine"].startswith(command.engine)
        other = command is not None and not engine
        if fact["kind"] == kind and when(target, draft) and (engine or (fact["when"] and not other)):
            yield note("known", fact["fault"], fact_words(fact), fact_remedy(fact))


def known_of_counts(engine: str, settings: Mapping[str, str], shapes: Collection[str]) -> Iterator[dict[str, Any]]:
    """Facts that fit what an engine counted: the drafter is named among its settings, those that a fact hangs on are
    set so, and the counts have its shape ("dead", "cliff", "later", "slide")."""
    methods = [name for key in _METHOD for name in settings.get(key, "").split(", ") if name]
    kinds = {kind.name for method in methods for kind in kinds_served(engine, method)}
    for fact in known_facts():
        set_so = all(re.search(wanted, settings.get(name, "")) for name, wanted in fact["settings"].items())
        if fact["engine"].startswith(engine) and fact["kind"] in kinds and fact["shape"] in shapes and set_so:
            yield fact


def fact_words(fact: Mapping[str, Any]) -> str:
    """The fact with its source, and the versions it is of."""
    bad = f"first bad: {fact['first_bad']}, last bad: {fact['last_bad']}"
    return f"known of {fact['engine']} ({fact['thread']}; {bad}): {fact['what']}"


def fact_remedy(fact: Mapping[str, Any]) -> str:
    """What to do about it."""
    return f"look there for the version that mends it; noted {fact['seen']}"


def mtp_head_missing(target: ModelSide, draft: ModelSide) -> bool:
    """Whether the target's own MTP layers come without a head, in a layout that has room for one."""
    own = own_mtp(target.tensors) if draft.same_as(target) else None
    return own is not None and own.layout.head != "" and f"{own.prefix}{own.layout.head}.weight" not in target.tensors


def _mixed(target: ModelSide, draft: ModelSide) -> bool:
    kinds = target.get("layer_types")
    return isinstance(kinds, list) and len(set(map(str, kinds))) > 1


def _other_architecture(target: ModelSide, draft: ModelSide) -> bool:
    return draft.gguf is not None and draft.config.get("architectures") != [LLAMA_DFLASH]


_CONDITIONS = {
    "": lambda target, draft: True,
    "mtp-head-missing": mtp_head_missing,
    "mixed-attention": _mixed,
    "other-architecture": _other_architecture,
}
