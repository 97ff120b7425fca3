"""The text strip: committed tokens as they were kept, then what this moment has on the table."""

from dataclasses import replace

from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, TextToken
from specviz.runlog.tree import RoundTree
from specviz.text import LONGEST, running, shown
from specviz.view.frame.frame import Strip
from specviz.view.frame.steps import Moment
from specviz.view.words.palette import CLOSING, ROOT, Phase


def strip(run: Run, family: RoundTree, now: Moment) -> Strip:
    """The text of this round's query up to this moment."""
    record = family.record
    tokens = record.query.tokens
    before = tokens[: record.n_before]
    commit = record.commit
    if now.phase == Phase.COMMIT and commit is not None:
        new = [replace(token, fresh=True) for token in tokens[record.n_before : record.n_before + len(commit.tokens)]]
    else:
        new = list(_provisional(run, family, now))
    prefill = record.query.prefill
    n_prompt = prefill.n_prompt if prefill else 0
    n_new = record.start.n - n_prompt + (len(new) if now.phase == Phase.COMMIT else 0)
    return Strip(tuple(before + new), n_prompt, n_new, f"{n_new} tok")


def _provisional(run: Run, family: RoundTree, now: Moment) -> list[TextToken]:
    """The path under consideration: the draft's first guess, then what the tests have left of it."""
    path = _spine(family, now) if now.phase <= Phase.VERIFY else _tested(family, now)
    out = []
    for k, node in enumerate(path):
        mark = now.mark(family, node)
        out.append(_token(run, family, node, mark, family.record.start.n + k, k == 0))
    return out


def _spine(family: RoundTree, now: Moment) -> list[int]:
    path: list[int] = []
    node = ROOT
    while True:
        children = [i for i in family.children.get(node, ()) if family.nodes[i].kept and now.visible(family, i)]
        if not children:
            return path
        node = children[0]
        path.append(node)


def _tested(family: RoundTree, now: Moment) -> list[int]:
    kept = [i for i in family.accepted if i in now.verdicts]
    if now.testing is not None and not kept:  # the prefix on trial: all of it, for a backward scan begins at its end
        return list(family.path(now.testing))
    if now.testing is not None:
        return [*(i for i in kept if family.depth[i] < family.depth[now.testing]), now.testing]
    return [*kept, CLOSING] if now.phase >= Phase.CLOSE and now.visible(family, CLOSING) and _closes(family) else kept


def _closes(family: RoundTree) -> bool:
    closing = family.record.closing
    return closing is not None and closing.token is not None


def _token(run: Run, family: RoundTree, node: int, mark: Mark, pos: int, breaks: bool) -> TextToken:
    born = family.nodes.get(node)
    closing = family.record.closing
    token = born.token if born else (closing.token or 0) if closing else 0
    text, raw = (born.text, born.bytes) if born else run.words.get(token, ("", None))
    return TextToken(
        shown(text, raw),
        running(text, raw, LONGEST),
        token,
        mark,
        family.record.r,
        pos,
        node,
        provisional=True,
        breaks=breaks,
    )
