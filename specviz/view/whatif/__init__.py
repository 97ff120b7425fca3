"""A round, or a run, decided again: the marks beside the recorded ones, and the sentence that says what is another."""

from specviz.view.whatif.exits import exits_words
from specviz.view.whatif.round import WhatIf, WhatIfNode, what_if
from specviz.view.whatif.run import WhatIfRun, what_if_run

__all__ = ["WhatIf", "WhatIfNode", "WhatIfRun", "exits_words", "what_if", "what_if_run"]
