"""What the model card states, measured: losses, agreement, chain acceptance, speed ratio.

Plain torch and `transformers`, on purpose apart from the engine: a card that the engine had measured could not show
that the engine is right.
"""

import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

GAMMA = 4
_N_NEW = 96
_PROMPT = 64


@torch.no_grad()
def agreement(target: LlamaForCausalLM, draft: LlamaForCausalLM, windows: Tensor) -> float:
    """Share of positions, reading held-out text, where both models hold the same token most likely."""
    same = [
        (target(input_ids=part[:, :-1]).logits.argmax(-1) == draft(input_ids=part[:, :-1]).logits.argmax(-1)).float()
        for part in windows.split(8)
    ]
    return float(torch.cat(same).mean())


@torch.no_grad()
def greedy(model: LlamaForCausalLM, prompt: Tensor, n_new: int) -> list[int]:
    """The next `n_new` greedy tokens after `prompt` [1, length]; end tokens are kept and passed."""
    ids = prompt
    out = model(input_ids=ids, use_cache=True)
    tokens = [int(out.logits[0, -1].argmax())]
    while len(tokens) < n_new:
        out = model(input_ids=torch.tensor([tokens[-1:]]), past_key_values=out.past_key_values, use_cache=True)
        tokens.append(int(out.logits[0, -1].argmax()))
    return tokens


def chain_counts(target: LlamaForCausalLM, draft: LlamaForCausalLM, prompt: Tensor) -> tuple[int, int]:
    """(accepted, drafted) of greedy rounds after `prompt` [1, length]: the output is the target's own greedy text."""
    output = greedy(target, prompt, _N_NEW)
    accepted = drafted = at = 0
    while at + GAMMA < len(output):
        prefix = torch.cat([prompt, torch.tensor([output[:at]], dtype=torch.long)], dim=1)
        proposed = greedy(draft, prefix, GAMMA)
        n_same = next((n for n in range(GAMMA) if proposed[n] != output[at + n]), GAMMA)
        accepted, drafted, at = accepted + n_same, drafted + GAMMA, at + n_same + 1
    return accepted, drafted


def chain_acceptance(target: LlamaForCausalLM, draft: LlamaForCausalLM, windows: Tensor) -> float:
    """Accepted over drafted tokens, gamma 4, T=0, prompted by the beginnings of `windows`."""
    counts = [chain_counts(target, draft, window[None, :_PROMPT]) for window in windows]
    return sum(accepted for accepted, _ in counts) / max(1, sum(drafted for _, drafted in counts))


@torch.no_grad()
def step_ms(model: LlamaForCausalLM, context: int = 128, n_steps: int = 100) -> float:
    """Median time of one cached decoding step after `context` tokens."""
    past = model(input_ids=torch.ones(1, context, dtype=torch.long), use_cache=True).past_key_values
    token, times = torch.ones(1, 1, dtype=torch.long), []
    for _ in range(n_steps):
        began = time.perf_counter()
        past = model(input_ids=token, past_key_values=past, use_cache=True).past_key_values
        times.append((time.perf_counter() - began) * 1e3)
    return median(times[n_steps // 10 :])


def speed_ratio(target: LlamaForCausalLM, draft: LlamaForCausalLM, n_repeats: int = 3) -> tuple[float, float]:
    """Milliseconds of a one-token step of the target and of the draft model, one thread, taken in turns."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pairs: Sequence[tuple[float, float]] = [(step_ms(target), step_ms(draft)) for _ in range(n_repeats)]
    torch.set_num_threads(n_threads)
    return min(target_ms for target_ms, _ in pairs), min(draft_ms for _, draft_ms in pairs)
