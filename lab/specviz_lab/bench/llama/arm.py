"""The contestant: one request a run, timed from outside; counts and a second clock from what the server says.

A server starts when its arm first runs, with the threads that torch has then, so that loading is never timed. It runs
until `LlamaServers.close`.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from specviz.errors import MissingExtra, SpecvizError
from specviz.local_models.shipped import usual_draft
from specviz.self_drafts import is_self
from specviz_lab.bench.measure import Split, Tokens
from specviz_lab.bench.peers import Peers
from specviz_lab.bench.settings import BenchSettings, Contestant

_TIMEOUT = 600.0  # seconds that one request may take
# Loopback is never asked for through a proxy.
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@dataclass(slots=True)
class LlamaServers:
    """The files and the processes of all arms. Used as a context, it leaves neither behind."""

    settings: BenchSettings
    peers: Peers
    tokenizer: Any
    _files: dict[tuple[str, str | None], Path] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "LlamaServers":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def why_not(self, kind: str) -> str | None:
        """Why an arm of this kind cannot run here, in one line; None when it can."""
        from specviz_lab.bench.llama.gguf_file import unwritable

        settings = self.settings
        if find_spec("xllamacpp") is None:
            return str(MissingExtra("lab", "llama.cpp's server"))
        if (settings.device or "cpu") != "cpu":
            return f"its prebuilt server computes on processors, not on '{settings.device}'"
        roles = ("target", "draft") if kind == "llama-draft" and not self._drafts_for_itself else ("target",)
        return next((why for role in roles if (why := unwritable(self.peers.model(role).config))), None)

    @property
    def _drafts_for_itself(self) -> bool:
        """Whether the draft model is the target in fewer bits: here its q4_0 file."""
        settings = self.settings
        return is_self(settings.draft or (usual_draft(settings.target) if settings.target else None))

    def start(self, kind: str, packed: str | None) -> str:
        """Start a server; its address. Raises SpecvizError with its last words when it does not come up."""
        draft = ("target", "q4_0") if self._drafts_for_itself else ("draft", None)
        order = {
            "target": str(self._file("target", packed)),
            "draft": str(self._file(*draft)) if kind == "llama-draft" else None,
            "matched": self.settings.lookup_length if kind == "llama-ngram" else None,
            "gamma": self.settings.gamma,
            "context": self.peers.context,
            "threads": torch.get_num_threads(),
        }
        log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the stack
        self._open.callback(log.close)
        process = subprocess.Popen(
            [sys.executable, "-m", "specviz_lab.bench.llama.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C is for the process that measures, which then ends this one
        )
        self._open.callback(_stop, process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        # What llama.cpp says on standard output besides is no address.
        address = next((line.strip() for line in process.stdout if line.startswith("http")), None)
        if address is None:
            log.seek(0)
            words = [line.strip() for line in log if line.strip()]
            raise SpecvizError(f"{kind}: llama.cpp's server did not start: {words[-1] if words else 'it said nothing'}")
        return address

    def _file(self, role: str, packed: str | None) -> Path:
        """The weights as a file, written once for all arms."""
        from specviz_lab.bench.llama.gguf_file import write_gguf_file

        if (role, packed) not in self._files:
            folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="specviz-llama-")))
            path = folder / f"{role}.gguf"
            write_gguf_file(path, self.peers.model(role), self.tokenizer, packed)
            self._files[role, packed] = path
        return self._files[role, packed]


def _stop(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


class LlamaArm:
    """Plain decoding, drafts of the second model, or drafts from the text, by llama.cpp's server."""

    def __init__(self, contestant: Contestant, settings: BenchSettings, servers: LlamaServers) -> None:
        self.name, self.kind, self.packed, self.servers = contestant.name, contestant.kind, contestant.packed, servers
        self.temperature = settings.temperature
        self._address: str | None = None

    def _ask(self, prompt: Tokens, n: int, seed: int) -> Callable[[], dict[str, Any]]:
        """One request, ready to go. The answer in whole; SpecvizError when there is none."""
        self._address = self._address or self.servers.start(self.kind, self.packed)
        wanted = {
            "prompt": prompt,
            "n_predict": n,
            "seed": seed,
            "temperature": self.temperature,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "cache_prompt": False,  # every run reads its prompt, as those of the others do
            "return_tokens": True,
        }
        request = urllib.request.Request(
            f"{self._address}/completion", json.dumps(wanted).encode(), {"Content-Type": "application/json"}
        )

        def ask() -> dict[str, Any]:
            try:
                with _OPEN(request, timeout=_TIMEOUT) as answer:
                    document: dict[str, Any] = json.load(answer)
            except (OSError, ValueError) as error:
                raise SpecvizError(f"{self.name}: llama.cpp's server gave no answer: {error}") from None
            return document

        return ask

    def ready(self, prompt: Tokens, n: int, seed: int) -> Callable[[], Tokens]:
        """The run: a whole request over loopback, prompt and transport included."""
        ask = self._ask(prompt, n, seed)

        def run() -> Tokens:
            tokens: Tokens = ask()["tokens"]
            return tokens

        return run

    def split(self, prompt: Tokens, n: int, seed: int) -> Split:
        """Counts of the server, and a round's mean by the server's own clock, which leaves the prompt out."""
        answer = self._ask(prompt, n, seed)()
        timings, tokens = answer["timings"], answer["tokens"]
        drafted, accepted = timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
        out = Split(n_tokens=len(tokens), n_drafted=drafted, n_accepted=accepted, n_rounds=len(tokens) - accepted)
        # The first token falls out of the prompt's own pass, so one round fewer is in that time.
        out.rounds = [{"server": timings["predicted_ms"] / max(1, out.n_rounds - 1)}] * (out.n_rounds - 1)
        return out
