"""`ngram`: prompt lookup. The text's own last words are looked up in the text, what followed them is the draft."""

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.knobs import CHAIN, gamma, sample

METHOD = Method(
    name="ngram",
    help="prompt lookup: copy what followed the last earlier match of the text's suffix",
    drafter="specviz.methods.ngram.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=lambda knobs: sample(CHAIN, drawn=False),
    knobs=(
        gamma(),
        KnobSpec(
            name="ngram_max", kind="int", lo=1, hi=8, default=3, help="longest suffix that is looked up, tried first"
        ),
        KnobSpec(name="ngram_min", kind="int", lo=1, hi=8, default=1, help="shortest suffix that is looked up"),
    ),
)
