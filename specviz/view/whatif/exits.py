"""A round of early exit under another setting, in a sentence."""

from specviz.numerals import plural
from specviz.view.whatif.round import changed_words
from specviz.whatif import Change, ExitsAgain


def exits_words(replayed: ExitsAgain, change: Change) -> str:
    """How many tokens would be kept, where their rows would have stopped, and what ends the draft."""
    kept = plural(replayed.kept, "drafted token")
    against = "as many as were" if replayed.kept == replayed.was else f"{replayed.was} were"
    layers = ", ".join(map(str, replayed.exits))
    stops = f"; rows stop after {'layer' if len(replayed.exits) == 1 else 'layers'} {layers}" if layers else ""
    wrong = ", and the last draft is not what the target chooses" if replayed.wrong else ""
    return f"{changed_words(change)}, {kept} would have been kept, {against}{stops}{wrong}; the text is the same"
