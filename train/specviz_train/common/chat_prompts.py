"""What people ask a chat model, made of text that is found on every machine: the beginnings of training on chat.

The kinds follow those that speculative decoding is usually measured on (writing, roles, reasoning, sums, code, science,
humanities, translation, summaries, questions with and without a passage), never their prompts. Passages and functions
come from documents of the corpus, and a prompt keeps its document's side of the held-out split; subjects are filled
into forms (`chat_forms.toml`) and split by what fills them.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random

from specviz_train.common.corpus import Document, is_held_out, key_of, parsed, records

FEWEST, MOST = 160, 560  # characters of a passage
CODE_LINES = 24
PER_FORM = 400  # prompts of every form that fills in subjects, at most
_FORMS = tomllib.loads(files("specviz_train.common").joinpath("chat_forms.toml").read_text("utf-8"))
SUBJECTS = {name: words.split("; ") for name, words in _FORMS["subjects"].items()}
FIELDS = ("question", "prompt", "instruction")  # of a .jsonl record, in this order; or `turns`


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """What a user says first. `domain` names its kind on cards; `key` decides its side of the held-out split."""

    domain: str
    key: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the prompt is measured on and never trained on."""
        return is_held_out(self.key)


def gather(documents: Sequence[Document], texts: Sequence[Path], seed: int) -> list[ChatPrompt]:
    """All prompts, those of `.jsonl` files among them, without repeats, ordered by what they say."""
    rng = Random(seed)
    by_key: dict[str, ChatPrompt] = {}
    for prompt in _all(documents, texts, rng):
        by_key.setdefault(key_of(prompt.text), prompt)
    return [by_key[name] for name in sorted(by_key)]


def _all(documents: Sequence[Document], texts: Sequence[Path], rng: Random) -> Iterator[ChatPrompt]:
    for path in texts:
        if path.suffix == ".jsonl":
            yield from asked_in(path)
    for document in documents:
        if document.domain == "prose":
            yield from _about_passages(document, rng)
        elif document.domain == "code":
            yield from _about_code(document, rng)
    for domain, forms in _FORMS["forms"].items():
        for form in forms:
            yield from _filled(domain, form, rng)
    for _ in range(20 * PER_FORM):
        text = rng.choice(PROBLEMS)(rng)
        yield ChatPrompt("sums", key_of(text), text)


def asked_in(path: Path) -> Iterator[ChatPrompt]:
    """Questions of a `.jsonl` file; records without any are passed over. Raises SpecvizError for what is none."""
    for fields in records(path):
        turns = fields.get("turns")
        first = turns[0] if isinstance(turns, list) and turns else None
        text = next((fields[name] for name in FIELDS if isinstance(fields.get(name), str)), first)
        if isinstance(text, str) and text.strip():
            yield ChatPrompt(path.stem, key_of(text), text.strip())


def _about_passages(document: Document, rng: Random) -> Iterator[ChatPrompt]:
    """A few passages of a document, each asked about in one way."""
    for passage in _passages(document.text)[:6]:
        domain = rng.choice([*_FORMS["passages"]])
        form = rng.choice(_FORMS["passages"][domain])
        if domain == "translation":
            passage = re.split(r"(?<=[.!?])\s", passage)[0]
        yield ChatPrompt(domain, document.key, form.format(passage=passage, language=rng.choice(SUBJECTS["language"])))


def _passages(text: str) -> list[str]:
    """Paragraphs that read like sentences, on one line each."""
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [
        part
        for part in parts
        if FEWEST <= len(part) <= MOST and part[0].isupper() and part[-1] in ".!?" and part.count(" ") > len(part) / 9
    ]


def _about_code(document: Document, rng: Random) -> Iterator[ChatPrompt]:
    """Some functions of a file: what they do, or how one would write them."""
    functions = [*_functions(document.text)]
    for source, summary in rng.sample(functions, min(4, len(functions))):
        if summary and rng.random() < 0.6:
            text = rng.choice(_FORMS["code"]["tasks"]).format(task=summary[0].lower() + summary[1:].rstrip("."))
        else:
            text = rng.choice(_FORMS["code"]["functions"]).format(code=source)
        yield ChatPrompt("code", document.key, text)


def _functions(text: str) -> Iterator[tuple[str, str]]:
    """Short functions as they stand, each with the first line of its docstring."""
    lines = text.splitlines()
    for node in parsed(text).body:
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno < CODE_LINES:
            source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if len(source) <= MOST:
                summary = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ").strip()
                yield source, summary if 24 <= len(summary) <= 160 and summary[0].isalpha() else ""


def _filled(domain: str, form: str, rng: Random) -> Iterator[ChatPrompt]:
    """A form with every subject it can hold, a number of them at most."""
    slots = re.findall(r"\{(\w+)\}", form)
    combinations = [{slot: rng.choice(SUBJECTS[slot]) for slot in slots} for _ in range(PER_FORM)]
    for chosen in combinations:
        text = form.format(**chosen)
        yield ChatPrompt(domain, key_of(text), text)


def _shop(rng: Random) -> str:
    name, item, other = rng.choice(_NAMES), *rng.sample(_ITEMS, 2)
    n, price, m, cost = rng.randint(2, 12), rng.randint(2, 15), rng.randint(1, 9), rng.randint(1, 12)
    return (
        f"{name} buys {n} {item} for ${price} each and {m} {other} for ${cost} each. "
        f"How much does {name} spend in total? Explain your steps."
    )


def _trip(rng: Random) -> str:
    name, hours, speed, rest = rng.choice(_NAMES), rng.randint(2, 6), 5 * rng.randint(6, 16), rng.randint(1, 3)
    return (
        f"{name} drives for {hours} hours at {speed} km per hour, rests, and then drives {rest} more hours at "
        f"{speed - 20} km per hour. How far does {name} drive?"
    )


def _shares(rng: Random) -> str:
    name, item, share, n = rng.choice(_NAMES), rng.choice(_ITEMS), rng.randint(3, 12), rng.randint(3, 9)
    return (
        f"{name} has {share * n + rng.randint(0, n - 1)} {item} and shares them equally among {n} friends. "
        "How many does each friend get, and how many are left?"
    )


def _percent(rng: Random) -> str:
    return f"What is {5 * rng.randint(1, 19)}% of {10 * rng.randint(2, 90)}? Show how you get the answer."


def _plain(rng: Random) -> str:
    sign = rng.choice(("plus", "minus", "times"))
    left, right = rng.randint(2, 99), rng.randint(2, 12 if sign == "times" else 99)
    return f"What is {max(left, right)} {sign} {min(left, right)}?"


def _savings(rng: Random) -> str:
    name, week, weeks, cost = rng.choice(_NAMES), rng.randint(4, 30), rng.randint(3, 20), rng.randint(20, 90)
    return (
        f"{name} saves ${week} every week for {weeks} weeks and then buys a present for ${cost}. "
        f"How much money does {name} have left?"
    )


PROBLEMS: Sequence[Callable[[Random], str]] = (_shop, _trip, _shares, _percent, _plain, _savings)
_NAMES = (
    "Anna",
    "Ben",
    "Chen",
    "Dina",
    "Elif",
    "Farid",
    "Grace",
    "Hugo",
    "Ines",
    "Jonas",
    "Kim",
    "Lena",
    "Maya",
    "Omar",
)
_ITEMS = ("apples", "pencils", "books", "tickets", "cookies", "shirts", "marbles", "plants", "candles", "stickers")
