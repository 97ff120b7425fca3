"""The sentence of a moment: what has just happened, for who reads along and for who only hears it."""

from collections.abc import Callable

from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import Frame, TreeNode
from specviz.view.words.numbers import plural
from specviz.view.words.palette import CLOSING, ROOT, Phase

_MOST = 6  # tokens that a sentence names


def said(frame: Frame, family: RoundTree) -> str:
    """One or two sentences about this moment of the frame's round."""
    words = {
        Phase.ROOT: _root,
        Phase.DRAFT: _draft,
        Phase.VERIFY: _verify,
        Phase.ACCEPT: _test,
        Phase.CLOSE: _close,
        Phase.COMMIT: _commit,
    }
    return words[frame.phase](frame, family)


def _root(frame: Frame, family: RoundTree) -> str:
    shown = next((node.shown for node in frame.tree.nodes if node.id == ROOT), "")
    end = f" {frame.tree.missing}." if frame.tree.missing else ""
    return f"Round {frame.round} begins at the last token of the text, {shown}.{end}"


def _draft(frame: Frame, family: RoundTree) -> str:
    new = [node for node in frame.tree.nodes if node.fresh]
    more = f" and {len(new) - _MOST} more" if len(new) > _MOST else ""
    names = ", ".join(node.shown for node in new[:_MOST])
    where = "behind the text" if frame.step == 1 else f"at level {frame.step}"
    return f"The draft grows: {plural(len(new), 'guess', 'guesses')} {where}, {names}{more}."


def _verify(frame: Frame, family: RoundTree) -> str:
    n = frame.counts.n_drafted or 0
    guesses = "the drafted token" if n == 1 else f"all {n} drafted tokens"
    return f"One pass of the target covers {guesses} at once: now every p stands beside its q."


def _test(frame: Frame, family: RoundTree) -> str:
    tested = _first(frame, lambda node: node.fresh)
    verdict = f"Test {frame.step} of {len(family.tests)}, {tested.shown}: {tested.word}. " if tested else ""
    return verdict + (frame.why.words if frame.why is not None else "")


def _close(frame: Frame, family: RoundTree) -> str:
    return frame.why.words if frame.why is not None else ""


def _commit(frame: Frame, family: RoundTree) -> str:
    new = [token for token in frame.strip.tokens if token.fresh]
    closes = _first(frame, lambda node: node.id == CLOSING)
    kept = len(new) - (closes is not None)
    text = "".join(token.running for token in new)
    last = f" and the {closes.word} one" if closes is not None else ""
    what = (
        f"{plural(kept, 'accepted token')}{last}" if kept else f"only the {closes.word} token" if closes else "nothing"
    )
    return f"The round writes {plural(len(new), 'token')}, {what}: “{text}”." if new else "The round writes nothing."


def _first(frame: Frame, wanted: Callable[[TreeNode], bool]) -> TreeNode | None:
    return next((node for node in frame.tree.nodes if wanted(node)), None)
