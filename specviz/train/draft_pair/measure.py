"""What the model card states, measured: losses, agreement, chain acceptance, speed ratio, a sample.

Plain torch and `transformers`, on purpose apart from the engine: a card that the engine had measured could not show
that the engine is right.
"""

import io
import time
import tokenize
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.train.common.tokens import Ids, fixed
from specviz.train.draft_pair.objective import held_out_loss

GAMMA = 4
SAMPLE_PROMPT = "def fibonacci(n):"
_N_WINDOWS, _LENGTH = 64, 512
_N_PROMPTS, _PROMPT, _N_NEW = 16, 64, 96


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """One domain of held-out text: losses in nats per token, rates as shares."""

    target_loss: float
    draft_loss: float
    agreement: float
    chain_acceptance: float


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """Median milliseconds of a one-token step, float32, one thread."""

    target_ms: float
    draft_ms: float

    @property
    def ratio(self) -> float:
        """The c of the speed formulas: how many draft steps fit in one target step."""
        return self.target_ms / self.draft_ms


def measure_domain(target: LlamaForCausalLM, draft: LlamaForCausalLM, stream: Ids) -> PairAgreement:
    """All rates of one held-out stream."""
    windows, prompts = fixed(stream, _N_WINDOWS, _LENGTH), fixed(stream, _N_PROMPTS, _PROMPT)
    return PairAgreement(
        held_out_loss(target, windows),
        held_out_loss(draft, windows),
        agreement(target, draft, windows),
        chain_acceptance(target, draft, prompts[:, :_PROMPT]),
    )


@torch.no_grad()
def agreement(target: LlamaForCausalLM, draft: LlamaForCausalLM, windows: Tensor) -> float:
    """Share of positions, reading held-out text, where both models hold the same token most likely."""
    same = [
        (target(input_ids=part[:, :-1]).logits.argmax(-1) == draft(input_ids=part[:, :-1]).logits.argmax(-1)).float()
        for part in torch.split(windows, 4)
    ]
    return float(torch.cat(same).mean())


@torch.no_grad()
def greedy(model: LlamaForCausalLM, prompt: Tensor, n_new: int) -> list[int]:
    """The next `n_new` greedy tokens after `prompt` [1, length]; an end token does not stop it."""
    out = model(input_ids=prompt, use_cache=True)
    tokens = [int(out.logits[0, -1].argmax())]
    while len(tokens) < n_new:
        out = model(input_ids=torch.tensor([tokens[-1:]]), past_key_values=out.past_key_values, use_cache=True)
        tokens.append(int(out.logits[0, -1].argmax()))
    return tokens


def chain_counts(target: LlamaForCausalLM, draft: LlamaForCausalLM, prompt: Tensor) -> tuple[int, int]:
    """(accepted, drafted) of greedy rounds after `prompt` [1, length].

    At temperature 0 the output is the target's own greedy text whatever is drafted, so it is made once and the rounds
    are read off it: each drafts `GAMMA` tokens, keeps those that match and gets one more from the target.
    """
    output = greedy(target, prompt, _N_NEW)
    accepted = drafted = at = 0
    while at + GAMMA < len(output):
        prefix = torch.cat([prompt, torch.tensor([output[:at]], dtype=torch.long)], dim=1)
        proposed = greedy(draft, prefix, GAMMA)
        n_same = next((n for n in range(GAMMA) if proposed[n] != output[at + n]), GAMMA)
        accepted, drafted, at = accepted + n_same, drafted + GAMMA, at + n_same + 1
    return accepted, drafted


def chain_acceptance(target: LlamaForCausalLM, draft: LlamaForCausalLM, prompts: Tensor) -> float:
    """Accepted over drafted tokens, gamma 4, T=0, over all `prompts` [n, length]."""
    counts = [chain_counts(target, draft, prompt[None]) for prompt in prompts]
    return sum(accepted for accepted, _ in counts) / max(1, sum(drafted for _, drafted in counts))


@torch.no_grad()
def step_ms(model: LlamaForCausalLM, context: int = 128, n_steps: int = 120) -> float:
    """Median time of one cached decoding step after `context` tokens, the first steps left out."""
    past = model(input_ids=torch.ones(1, context, dtype=torch.long), use_cache=True).past_key_values
    token, times = torch.ones(1, 1, dtype=torch.long), []
    for _ in range(n_steps):
        began = time.perf_counter()
        past = model(input_ids=token, past_key_values=past, use_cache=True).past_key_values
        times.append((time.perf_counter() - began) * 1e3)
    return median(times[n_steps // 6 :])


def measure_speed(target: LlamaForCausalLM, draft: LlamaForCausalLM, n_turns: int = 5) -> PairSpeed:
    """Both models in turns, the best median of each: a busy neighbour should not decide the ratio."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    turns = [(step_ms(target), step_ms(draft)) for _ in range(n_turns)]
    torch.set_num_threads(n_threads)
    return PairSpeed(min(target_ms for target_ms, _ in turns), min(draft_ms for _, draft_ms in turns))


def sample(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str = SAMPLE_PROMPT) -> str:
    """The model's greedy continuation of `prompt`, without it."""
    ids = torch.tensor([tokenizer.encode(prompt)])
    return str(tokenizer.decode(greedy(model, ids, 80)))


def n_python_lines(prompt: str, continuation: str) -> int:
    """How many non-empty lines of the continuation belong to the longest beginning that `tokenize` accepts."""
    lines = (prompt + continuation).splitlines(keepends=True)
    for end in range(len(lines) - 1, 0, -1):  # the last line is cut off by the token limit
        if _is_python("".join(lines[:end])):
            return sum(bool(line.strip()) for line in lines[1:end])
    return 0


def _is_python(text: str) -> bool:
    try:
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    except (tokenize.TokenError, SyntaxError):
        return False
    return tokenize.ERRORTOKEN not in kinds
