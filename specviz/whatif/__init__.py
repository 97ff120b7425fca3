"""What if: recorded rounds decided again with another verifier, other uniforms or a smaller draft, without a model.

`recorded` puts a round together again from its records, `complete` finds the rows that no record contradicts, `decide`
walks the verifier's own plan over all of them, `changes` is what may be another, `again` the decision of a round and
`whole` that of a run; `exits` asks the replay of early exit, which needs no rows.
"""

from specviz.whatif.again import Movable, Unfit, decide, movable
from specviz.whatif.changes import Change, checked, cutting, known_lossy
from specviz.whatif.decision import Decision, Parting, RoundAgain, TestAgain
from specviz.whatif.exits import ExitReplay, ExitsAgain, exits_asked, replay_texts
from specviz.whatif.token_law import token_law
from specviz.whatif.whole import RoundGain, RunAgain, decide_run

__all__ = [
    "Change",
    "Decision",
    "ExitReplay",
    "ExitsAgain",
    "Movable",
    "Parting",
    "RoundAgain",
    "RoundGain",
    "RunAgain",
    "TestAgain",
    "Unfit",
    "checked",
    "cutting",
    "decide",
    "decide_run",
    "exits_asked",
    "known_lossy",
    "movable",
    "replay_texts",
    "token_law",
]
