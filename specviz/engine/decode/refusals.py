"""What a session will not begin with, and drafts its verifier does not take, each said in one line."""

from collections.abc import Sequence

from specviz.errors import SpecvizError
from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier


def refuse_prompt(prompt: Sequence[int], context: int) -> None:
    """Raises SpecvizError for an empty prompt, and for one that leaves no place for a new token."""
    if not prompt:
        raise SpecvizError("the prompt is empty: give at least one token of text")
    if context < 2:
        raise SpecvizError(
            f"the target's context holds {context} token(s), no prompt and a new token: use another model"
        )
    if len(prompt) >= context:
        raise SpecvizError(
            f"the prompt has {len(prompt)} tokens, the target's context holds {context}: "
            f"shorten it to at most {context - 1}"
        )


def refuse_draft(verifier: Verifier, draft: Draft) -> None:
    """Raises SpecvizError for a draft the verifier has no rule for."""
    refusal = verifier.refuses(draft)
    if refusal:
        raise SpecvizError(f"verifier {verifier.name} does not take this draft: {refusal}")
