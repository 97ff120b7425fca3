"""`lookahead`: no draft model. The target guesses n-grams in a window beside its own work.

Every pass feeds a window of `ngram_size - 1` rows and `window` columns, whose best next tokens make a new row, so that
each column grows an n-gram by one token a round; finished ones go to a pool. What the pool holds under the newest token
is judged in the same pass, at most `guesses` of them. The window always takes the best token, also when sampling.

Both share `node_budget`. On a processor a pass over 28 rows, as the paper's sizes ask for, takes three to four times as
long as one over five, and no window earns that back: there the budget is what the weights' reading hides.
"""

from specviz.knobs import KnobSpec, whole
from specviz.methods import Method
from specviz.probability.draft import ROOT, Draft

MOST_NODES = 1024  # more than any window and its guesses: 7 (60 + 60)

METHOD = Method(
    name="lookahead",
    help="no draft model: the target looks ahead in a window and tries the n-grams it found there",
    drafter="specviz.methods.lookahead.drafter:make",
    verifiers=("walk", "tokenwise"),
    # One guess `0 0` and, behind the judged nodes, one token of the window.
    example=lambda knobs: Draft((0, 0, 1), (ROOT, 0, ROOT), (0, 1, 2), 2, 3, row_of=(-1, -1, -1)),
    cache_slots=lambda knobs: (knobs["ngram_size"] - 1) * (knobs["window"] + knobs["guesses"]),
    knobs=(
        whole(
            "ngram_size",
            2,
            8,
            5,
            "tokens of an n-gram; the window has one row less, and a round commits at most that many",
            symbol="N",
            applies="Q",
        ),
        whole("window", 1, 60, 7, "columns of the window: n-grams grown at once", symbol="W", applies="Q"),
        whole(
            "guesses",
            0,
            60,
            7,
            "n-grams kept, and tried, per first token; 0 keeps none, which decodes plainly",
            symbol="G",
            applies="Q",
        ),
        whole(
            "node_budget",
            -1,
            MOST_NODES,
            -1,
            "nodes sent to the target: guesses first, then the window, made smaller until it fits; 0 decodes plainly; "
            "-1: as many as cost hardly anything on this device",
            applies="Q",
        ),
        KnobSpec(
            name="text_ngrams",
            kind="bool",
            default=True,
            help="the pool also takes the n-grams of the prompt and of the text as it grows",
            applies="Q",
        ),
    ),
)
