"""Every code block of README and docs is run, or at least read by the command line.

What is only read, and why, stands in `READ_ONLY`; a block that can do neither says so in the page, above it:
`<!-- not run: why -->`. Nothing else is left out.
"""

import io
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, PAGES, ROOT, Block, blocks
from docs.shell import Pipeline, flags, parse, prints, typed
from specviz.cli import COMMANDS, main
from specviz.metrics.registry import METRICS, RATIOS
from support.recordings import RECORDINGS
from tools.check_versions import main as check_versions

LANGUAGES = {"sh", "console", "python", "text"}
# Commands that a test does not carry out.
READ_ONLY = {
    "tui": "waits for keys",
    "learn": "waits for keys",
    "web": "serves until it is ended",
    "train": "takes minutes",
    "watch": "asks a server of the reader",
    "lab bench": "takes minutes",
    "lab ablate": "takes minutes",
}
OWN_MODELS = ("path/to/", "pair/", "smollm2")  # models of the reader's
WITH_BLOCKS = [page for page in PAGES if blocks(page)]
NAMES = [str(page.relative_to(ROOT)) for page in WITH_BLOCKS]


def _questions(path: Path) -> None:
    path.write_text("".join(json.dumps({"prompt": p, "domain": "d"}) + "\n" for p in ("def add(a, b):", "1 + 1 =")))


def _recording(path: Path) -> None:
    path.write_bytes(RECORDINGS["prose-draft"].read_bytes())


# Files that a page takes for granted. A recording is made for it only where no line of the page records it.
GIVEN: dict[str, Callable[[Path], Any]] = {
    "notes.txt": lambda path: path.write_text("The modules of this package"),
    "questions.jsonl": _questions,
    "prompts.jsonl": _questions,
    "gsm8k_train.jsonl": _questions,
    "own_text.npz": lambda path: path.write_bytes(b""),  # named to a trainer, whose words are only read
    "engine.log": lambda path: path.write_text("steps=40 proposed=160 accepted=70\n"),
    "server.log": lambda path: path.write_bytes((ROOT / "tests/engines/samples/vllm.txt").read_bytes()),
    "run.sv.jsonl.gz": _recording,
    "ngram.sv.jsonl.gz": lambda path: path.write_bytes(RECORDINGS["code-ngram"].read_bytes()),
}


class Reader:
    """Somebody who types a page's blocks one after another, in an empty folder with the files the page speaks of."""

    def __init__(self, page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.names: dict[str, Any] = {"__name__": "__main__"}  # of the page's Python
        self.flags = flags()
        self.ran: list[str] = []  # names of commands that were carried out
        text = page.read_text("utf-8")
        for name, make in GIVEN.items():
            if name in text and f"--record {name.removesuffix('.gz')}" not in text:
                make(Path(name))

    def follow(self, block: Block) -> None:
        """Do what the block says."""
        if block.language == "python":
            exec(compile(block.text, block.name, "exec"), self.names)
            return
        for pipeline, printed in typed(block.text, "$ " if block.language == "console" else ""):
            self._type(pipeline, printed)

    def _type(self, pipeline: Pipeline, printed: str) -> None:
        stdin = b""
        if pipeline[0][0] == "cat":
            if printed:  # a file that the page shows
                Path(pipeline[0][1]).write_text(printed)
            stdin = Path(pipeline[0][1]).read_bytes()
            pipeline = pipeline[1:]
        for name, *args in pipeline:
            stdin = {"specviz": self._specviz, "jq": _jq, "make": _make, "pip": _pip, "pipx": _pip, "uv": _uv}[name](
                args, stdin, printed
            )

    def _specviz(self, args: list[str], stdin: bytes, printed: str) -> bytes:
        parse(args, self.monkeypatch)
        if {args[0], " ".join(args[:2])} & READ_ONLY.keys() or any(
            folder in arg for arg in args for folder in OWN_MODELS
        ):
            assert not printed, f"{args} is not carried out, so nobody knows what it prints"
            return b""
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self.capsys.readouterr()
        assert main([*args, *([] if printed else self._limits(args))]) == 0, args
        self.ran.append(args[0])
        out, err = self.capsys.readouterr()
        if printed:
            assert prints(printed, out) or prints(printed, err + out), f"{args} prints\n{err}{out}"
        return out.encode()

    def _limits(self, args: list[str]) -> list[str]:
        """What keeps a command short; of two `--minutes` the last one counts."""
        if args[0] == "tune":
            return ["--minutes", "0.05"]
        decodes = args[0] == "run" or (args[0] == "compare" and not any(".sv.jsonl" in arg for arg in args))
        limits = {"--max-new-tokens": "6", "--limit": "1"} if decodes else {}
        known = self.flags[args[0]]
        return [word for flag, n in limits.items() if flag in known and flag not in args for word in (flag, n)]


def _jq(args: list[str], stdin: bytes, _printed: str) -> bytes:
    """`jq .a.b`: the field must be there."""
    value = json.loads(stdin)
    for name in args[0].strip(".").split("."):
        value = value[name]
    return json.dumps(value).encode()


def _make(args: list[str], _stdin: bytes, _printed: str) -> bytes:
    """A target that the Makefile knows; what it does is not done here."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in args:
        assert re.search(rf"^{re.escape(word.partition('=')[0])}( \?=|:)", makefile, re.MULTILINE), word
    return b""


def _pip(args: list[str], _stdin: bytes, _printed: str) -> bytes:
    """`install` of pip, pipx and uv: our own names, extras and paths that there are."""
    tables = [tomllib.loads((ROOT / at / "pyproject.toml").read_text("utf-8")) for at in (".", "assets/smollm2")]
    projects = [table["project"] for table in tables]
    assert args[0] == "install"
    for word in args[1:]:
        match = re.fullmatch(r"(?P<name>[\w.-]+)\[(?P<extras>[\w,]+)\]", word)
        if match:
            assert match["name"] in (".", projects[0]["name"])
            assert set(match["extras"].split(",")) <= set(projects[0]["optional-dependencies"])
        else:
            ours = word in [project["name"] for project in projects]
            assert ours or word.startswith("-") or (ROOT / word).exists(), word
    return b""


def _uv(args: list[str], stdin: bytes, printed: str) -> bytes:
    """`uv tool install`: as pip's."""
    assert args[0] == "tool"
    return _pip(args[1:], stdin, printed)


@pytest.fixture(autouse=True)
def _metrics_as_they_were() -> Iterator[None]:
    """A page declares one of its own."""
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = [(METRICS, {**METRICS}), (RATIOS, {**RATIOS})]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=NAMES)
def test_what_a_page_says_can_be_done(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(page, monkeypatch, capsys)
    for block in blocks(page):
        if block.not_run is None and block.language != "text":
            reader.follow(block)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=NAMES)
def test_every_block_names_its_language(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.name
        if block.language == "text":  # a drawing
            assert not re.search(r"^(\$ )?(specviz|make|pip|python) ", block.text, re.MULTILINE), block.name


def test_no_block_is_left_out_without_a_reason() -> None:
    """The markers are these; a new one is a decision, and one that stands above no block leaves nothing out."""
    left_out = [block for page in WITH_BLOCKS for block in blocks(page) if block.not_run]
    assert [(block.page.name, block.text.splitlines()[0]) for block in left_out] == [
        ("methods.md", "$ specviz lab prove"),
        ("outside.md", "from transformers import AutoModelForCausalLM, AutoTokenizer"),
        ("outside.md", 'specviz attach http://127.0.0.1:8080 "def add(a, b):"'),
        ("outside.md", "specviz import server.log"),
        ("outside.md", "specviz import server.log"),
        ("outside.md", "pip install ./recorder"),
        ("outside.md", "specviz tui run           # what is being decoded, from the first round on"),
    ]
    markers = [line for page in PAGES for line in _outside_blocks(page) if line.startswith("<!-- not run")]
    assert len(markers) == len(left_out)


def _outside_blocks(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    for block in blocks(page):
        text = text.replace(block.text, "")
    return text.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands_and_options_in_a_sentence_exist(page: Path) -> None:
    assert not _unknown("\n".join(_outside_blocks(page)))


def _unknown(text: str) -> list[str]:
    """The spans that name a command or an option that is not there."""
    known = flags()
    every = {"--help"}.union(*known.values(), *(param.opts for param in check_versions.params))
    wrong = []
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        words = span.split()
        if words[0] in ("accelerate", "conda", "git", "uvx", "python", "pip", "make"):
            continue
        asked = {re.split(r"[=|\]]", word.strip("[]"))[0] for word in words if re.match(r"\[?--[a-z]", word)}
        if words[0] == "specviz" and len(words) > 1 and words[1] in COMMANDS:
            named = next(name for n in (3, 2, 1) if (name := " ".join(words[1 : 1 + n])) in known)
            if not asked <= known[named] | {"--help"}:
                wrong.append(span)
        elif (words[0] == "specviz" and len(words) > 1 and not words[1].startswith("-")) or not all(
            flag in every or _begins_one(flag, every) for flag in asked
        ):
            wrong.append(span)
    return wrong


@pytest.mark.parametrize(
    "span",
    [
        "specviz stat",
        "specviz run --gama 4",
        "--gama",
        "specviz lab bench --seed 5",
        "specviz lab clinic make --draft x",
    ],
)
def test_a_wrong_command_in_a_sentence_is_caught(span: str) -> None:
    assert _unknown(f"then `specviz lab clinic make --seed 5` and `{span}`.") == [span]


def _begins_one(flag: str, every: set[str]) -> bool:
    """`--adapt-*`: all that begin so."""
    return flag.endswith("*") and any(first.startswith(flag[:-1]) for first in every)


# What must fail: a test that follows pages is worth what it would catch.


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nspecviz run --prompt x --gama 4\n```",
        "```sh\nspecviz rum --prompt x\n```",
        "```sh\nspecviz run --prompt x --method ngram --epsilon .2\n```",
        "```sh\nspecviz tui --replay nowhere.sv.jsonl.gz --of-which 3\n```",
        "```sh\nspecviz train pairs\n```",
        "```console\n$ specviz stats run.sv.jsonl.gz\nnothing of this\n```",
        "```sh\nmake dmeo\n```",
        "```sh\npip install 'specviz-llm[enginez]'\n```",
        "```sh\ncurl example\n```",
        "```sh\nspecviz stats run.sv.jsonl.gz --json | jq .no_such_field\n```",
        "```python\nfrom specviz import Sessions\n```",
    ],
    ids=lambda text: text.splitlines()[1],
)
def test_a_wrong_block_is_caught(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text + "\n\nrun.sv.jsonl.gz")
    (block,) = blocks(page, text)
    reader = Reader(page, monkeypatch, capsys)
    with pytest.raises((AssertionError, KeyError, ImportError)):
        reader.follow(Block(DOCS / "page.md", block.line, block.language, block.text, None))


def test_a_marked_block_is_known_by_its_reason() -> None:
    text = "<!-- not run: costs money -->\n```sh\nbuy\n```\n\n```sh\nmake test\n```"
    assert [block.not_run for block in blocks(DOCS / "page.md", text)] == ["costs money", None]
