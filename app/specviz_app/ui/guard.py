"""What goes wrong in a page becomes one line on it, and a traceback on standard error; the rest of the page goes on.

Streamlit shows an exception in place of everything, the list of runs too, and one of a callback before the page is even
begun. So every page, fragment and callback is wrapped here. Streamlit's own ways to stop a script are no `Exception`.
"""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.ui import parts

_TOLD = "problem"  # in the session's state: what a callback had to say, until the page says it
_LONGEST = 300  # characters of a message on a page

Given = ParamSpec("Given")
Made = TypeVar("Made")


def guarded(work: Callable[Given, Made]) -> Callable[Given, Made | None]:
    """`work` as a page or a fragment: what it raises is said where it was being drawn."""

    @wraps(work)
    def safe(*args: Given.args, **more: Given.kwargs) -> Made | None:
        try:
            return work(*args, **more)
        except Exception as error:
            st.error(_said(error, work))
            return None

    return safe


def obeyed(work: Callable[Given, Any]) -> Callable[Given, None]:
    """`work` as a callback: what it raises is said by the page, which is made as if nothing had been pressed."""

    @wraps(work)
    def safe(*args: Given.args, **more: Given.kwargs) -> None:
        try:
            work(*args, **more)
        except Exception as error:
            st.session_state[_TOLD] = _said(error, work)

    return safe


def fragment(work: Callable[Given, None], run_every: float | None = None) -> Callable[Given, Any]:
    """A part of a page that is made anew by itself."""

    @wraps(work)
    def with_rerun(*args: Given.args, **more: Given.kwargs) -> None:
        tell()
        work(*args, **more)

    fragment_function: Callable[Given, Any] = st.fragment(guarded(with_rerun), run_every=run_every)
    return fragment_function


def tell() -> None:
    """What a callback had to say; once, from the page."""
    if problem := st.session_state.pop(_TOLD, None):
        st.error(problem)


def _said(error: Exception, work: Callable[..., Any]) -> str:
    """The line for the page. What we raise on purpose says everything itself; anything else is written to the log."""
    words = " ".join(str(error).split())
    if len(words) > _LONGEST:
        words = words[:_LONGEST] + "…"
    if isinstance(error, SpecvizError):
        return parts.plain(words)
    log(error, f"{work.__module__}.{work.__qualname__}")
    return parts.plain(
        f"An error in the dashboard itself, {type(error).__name__}: {words}. Go on with another round, page or run; "
        "the terminal that serves this page has the details."
    )


def log(error: Exception, where: str) -> None:
    """The traceback, for whoever mends it."""
    print(f"specviz: {where}:", file=sys.stderr)
    traceback.print_exception(error, file=sys.stderr)
