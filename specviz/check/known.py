"""What threads of engines have told of pairs like this one: dated facts (`known.json`), quoted with their source."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any

from specviz.check.findings import PairFinding, note
from specviz.check.kinds import kind_of_draft
from specviz.check.serve import ServeCommand
from specviz.check.side import ModelSide
from specviz.mtp_layers import own_mtp


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
            yield note(
                "known",
                fact["fault"],
                f"known of {fact['engine']} ({fact['thread']}, bad: {fact['last_bad']}): {fact['what']}",
                f"look there for the version that mends it; noted {fact['seen']}",
            )


def mtp_head_missing(target: ModelSide, draft: ModelSide) -> bool:
    """Whether the target's own MTP layers come without a head, in a layout that has room for one."""
    own = own_mtp(target.tensors) if draft.same_as(target) else None
    return own is not None and own.layout.head != "" and f"{own.prefix}{own.layout.head}.weight" not in target.tensors


def _mixed(target: ModelSide, draft: ModelSide) -> bool:
    kinds = target.get("layer_types")
    return isinstance(kinds, list) and len(set(map(str, kinds))) > 1


def _other_architecture(target: ModelSide, draft: ModelSide) -> bool:
    return draft.gguf is not None and draft.config.get("architectures") != ["dflash"]


_CONDITIONS = {
    "": lambda target, draft: True,
    "mtp-head-missing": mtp_head_missing,
    "mixed-attention": _mixed,
    "other-architecture": _other_architecture,
}
