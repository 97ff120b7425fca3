"""`draft_and_verify`: the target itself drafts with some sublayers left out (Zhang et al. 2023).

Nothing is trained: which attention and feed-forward sublayers a draft does without is found once by a bounded search
(`specviz train skip-set`). Drafting ends after a token that the draft gave less than a threshold, which a controller
moves between rounds so that about nine in ten drafts are kept. Draft states are not the model's,
so nothing of a draft is reused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.knobs import by_mode, draft_mode, part_folder, words
from specviz.methods.early_exit import spec
from specviz.probability.draft import Draft
from specviz.traits import MethodTraits

_WORD = re.compile(r"([am])([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class SkipSet:
    """Sublayers left out, by layer from 1."""

    attention: frozenset[int] = frozenset()
    mlp: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "SkipSet | None":
        """`a7 m8, a9`: attention of layers 7 and 9, feed-forward of layer 8. None for what is a path instead.

        Raises KnobError for a list with a word that names no sublayer.
        """
        listed = words(texts)
        matches = [_WORD.fullmatch(word) for word in listed]
        if not any(matches):
            return None
        wrong = next((word for word, match in zip(listed, matches, strict=True) if match is None), None)
        if wrong is not None:
            raise KnobError(f"knob skip_set: '{wrong}' is no sublayer; a7 is the attention of layer 7, m8 the mlp of 8")
        named = [(match[1], int(match[2])) for match in matches if match is not None]
        return cls(*(frozenset(layer for kind, layer in named if kind == letter) for letter in "am"))

    @classmethod
    def usual(cls, n_layers: int) -> "SkipSet":
        """Without a search: the attention of the middle half of the layers, every second feed-forward there."""
        middle = range(n_layers // 4 + 1, 3 * n_layers // 4 + 1)
        return cls(frozenset(middle), frozenset(middle[1::2]))

    def __len__(self) -> int:
        return len(self.attention) + len(self.mlp)

    def __str__(self) -> str:
        return " ".join([*(f"a{layer}" for layer in sorted(self.attention)), *(f"m{k}" for k in sorted(self.mlp))])

    def kept(self, n_layers: int) -> int:
        """Sublayers that a draft runs."""
        return 2 * n_layers - len(self)


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: one chain, of point masses unless drafts are drawn."""
    SkipSet.parse(knobs["skip_set"])
    return by_mode(knobs)


METHOD = Method(
    name="draft_and_verify",
    help="the target drafts with some of its sublayers left out",
    drafter="specviz.methods.self_skip.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(exits="skipped", threshold_symbol="τ (γ)"),
    knobs=(
        spec.tau(0.6, "drafting ends after a token that the draft gives less than this; where tau_control begins"),
        spec.width(8),
        KnobSpec(
            name="tau_control",
            kind="bool",
            default=True,
            help="raise the threshold while fewer than nine in ten drafts are kept, lower it while more are",
        ),
        draft_mode("argmax", "sampled", "shared"),
        part_folder(
            "skip_set",
            "sublayers left out, such as a7 m8, or the folder of a skip set; none: the one found for the target",
        ),
    ),
)
