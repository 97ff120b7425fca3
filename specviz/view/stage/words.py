"""The sentence of a moment: what just happened, for the caption and the screen reader."""

from collections.abc import Callable

from specviz.numerals import plural
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import Frame, TreeNode
from specviz.view.frame.steps import Moment
from specviz.view.why.explain import why
from specviz.view.words.palette import ROOT, Phase

PHASES = ("Root", "Draft", "Verify", "Accept / reject", "Close", "Commit")  # for a line of six signs
_MOST = 6  # tokens that a sentence names


def moment_sentence(run: Run, frame: Frame, tree: RoundTree, now: Moment) -> str:
    """One or two sentences about this moment of the frame's round."""
    if frame.phase in (Phase.ACCEPT, Phase.CLOSE) and frame.selected is not None:
        words = why(run, tree, frame.selected, now).words  # the inspector adds what panels say
        return f"{_test(frame, tree)}{words}" if frame.phase == Phase.ACCEPT else words
    if frame.phase == Phase.VERIFY:
        return _verify(tree)
    words_of = {Phase.ROOT: _root, Phase.DRAFT: _draft, Phase.COMMIT: _commit}
    return words_of[frame.phase](frame)


def _root(frame: Frame) -> str:
    shown = next((node.shown for node in frame.tree.nodes if node.id == ROOT), "")
    end = f" {frame.tree.missing}." if frame.tree.missing else ""
    return f"Round {frame.round} begins at the last token of the text, {shown}.{end}"


def _draft(frame: Frame) -> str:
    new = [node for node in frame.tree.nodes if node.fresh]
    if not new:
        return f"The draft grows to level {frame.step}; nothing of it is sent to the target."
    more = f" and {len(new) - _MOST} more" if len(new) > _MOST else ""
    names = ", ".join(node.shown for node in new[:_MOST])
    where = "behind the text" if frame.step == 1 else f"at level {frame.step}"
    return f"The draft grows: {plural(len(new), 'guess', 'guesses')} {where}, {names}{more}."


def _verify(tree: RoundTree) -> str:
    end = tree.record.end
    beside = {i for i in tree.kept_nodes if tree.nodes[i].branch is not None and i not in tree.record.verdicts}
    n = len(tree.kept_nodes) - len(beside) or (end.n_drafted if end is not None else 0)
    guesses = "the drafted token" if n == 1 else f"{'' if beside else 'all '}{n} drafted tokens"
    more = f"; {len(beside)} more were drafted beside it" if beside else ""
    return f"One pass of the target covers {guesses} at once: now every p stands beside its q{more}."


def _test(frame: Frame, tree: RoundTree) -> str:
    tested = _first(frame, lambda node: node.fresh)
    return f"Test {frame.step} of {len(tree.tests)}, {tested.shown}: {tested.word}. " if tested else ""


def _commit(frame: Frame) -> str:
    new = [token for token in frame.strip.tokens if token.fresh]
    if not new:
        return "The round writes nothing."
    kept = sum(token.mark == "accepted" for token in new)
    last = next((f"the {token.mark} one" for token in new if token.mark != "accepted"), "")
    what = " and ".join(filter(None, (plural(kept, "accepted token") if kept else "", last)))
    text = "".join(token.running for token in new)
    return f"The round writes {plural(len(new), 'token')}, {what}: “{text}”."


def _first(frame: Frame, wanted: Callable[[TreeNode], bool]) -> TreeNode | None:
    return next((node for node in frame.tree.nodes if wanted(node)), None)
