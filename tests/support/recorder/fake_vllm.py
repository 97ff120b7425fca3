"""vLLM as far as the recorder touches it: the names and parameters of version 0.32.0, deciding as its samplers do, on
small tensors."""

import types
from collections.abc import Callable
from types import SimpleNamespace as Bag
from typing import Any

import torch

from specviz_recorder.vllm.philox import uniforms

VOCABULARY, STEPS = 11, 3
Modules = dict[str, types.ModuleType]


def fake_vllm(method: str = "draft_model", sample: str = "probabilistic", judge: str = "standard") -> Modules:
    """Modules by name, for `sys.modules`. The parameters are those of `SpeculativeConfig`."""
    settings = Bag(method=method, model="draft", draft_sample_method=sample, rejection_sample_method=judge)
    config = Bag(speculative_config=settings, model_config=Bag(model="some/target", tokenizer="nowhere"))
    modules: Modules = {}

    def module(name: str, **members: Any) -> types.ModuleType:
        for parent in [name.rsplit(".", n)[0] for n in range(name.count("."), 0, -1)]:
            modules.setdefault(parent, types.ModuleType(parent)).__path__ = []  # type: ignore[attr-defined]
        modules[name] = types.ModuleType(name)
        for member in members.values():
            member.__module__ = name
        vars(modules[name]).update(members)
        return modules[name]

    def get_tensor_model_parallel_rank() -> int:
        return 0

    class WorkerWrapperBase:
        """`runner`: the class to be made."""

        runner: Callable[[Any], Any]

        def init_device(self) -> None:
            self.worker = Bag(model_runner=type(self).runner(config))

    module("vllm.distributed.parallel_state", get_tensor_model_parallel_rank=get_tensor_model_parallel_rank)
    module("vllm.v1.worker.worker_base", WorkerWrapperBase=WorkerWrapperBase)
    _first(module)
    _second(module)
    modules["vllm"].__version__ = "0.32.0"  # type: ignore[attr-defined]
    return modules


def _draw(rows: Any, generator: torch.Generator) -> Any:
    return torch.multinomial(rows.nan_to_num(1.0), 1, generator=generator).squeeze(-1)


def _first(module: Callable[..., types.ModuleType]) -> None:
    """The first model runner, and its rejection sampler."""
    draws = torch.Generator().manual_seed(5)

    def generate_uniform_probs(num_tokens: Any, num_draft_tokens: Any, generators: Any, device: Any) -> Any:
        return torch.rand(num_tokens, dtype=torch.float64, generator=draws)

    def sample_recovered_tokens(
        max_spec_len: Any,
        num_draft_tokens: Any,
        cu_num_draft_tokens: Any,
        draft_token_ids: Any,
        draft_probs: Any,
        target_probs: Any,
        sampling_metadata: Any,
        device: Any,
        use_fp64_gumbel: Any = False,
    ) -> Any:
        one_hot = torch.nn.functional.one_hot(draft_token_ids.clamp(min=0), VOCABULARY).float()
        rest = (target_probs - (one_hot if draft_probs is None else draft_probs)).clamp(min=0)
        return _draw(rest + 1e-9, draws)

    def rejection_sample(
        draft_token_ids: Any,
        num_draft_tokens: Any,
        max_spec_len: Any,
        cu_num_draft_tokens: Any,
        draft_probs: Any,
        target_logits: Any,
        bonus_token_ids: Any,
        sampling_metadata: Any,
        synthetic_mode: Any = False,
        synthetic_conditional_rates: Any = None,
        use_fp64_gumbel: Any = False,
    ) -> Any:
        n, meta = draft_token_ids.shape[0], sampling_metadata
        u = recovered = None
        if not meta.all_greedy:
            u = sampler.generate_uniform_probs(n, num_draft_tokens, {}, "cpu")
            probs = target_logits.softmax(-1)
            recovered = sampler.sample_recovered_tokens(
                max_spec_len, num_draft_tokens, cu_num_draft_tokens, draft_token_ids, draft_probs, probs, meta, "cpu"
            )
        out = torch.full((len(num_draft_tokens), max_spec_len + 1), -1, dtype=torch.int32)
        start = 0
        for row, count in enumerate(num_draft_tokens):
            kept = 0
            greedy = meta.all_greedy or bool(meta.temperature[row] == 0)
            for place in range(start, start + count):
                token = int(draft_token_ids[place])
                if greedy:
                    closing = int(target_logits[place].argmax())
                    passed = closing == token
                else:
                    closing = int(recovered[place])
                    q = 1.0 if draft_probs is None else float(draft_probs[place, token])
                    passed = token >= 0 and float(probs[place, token]) / q >= float(u[place])
                out[row, kept] = token if passed else closing
                kept += passed
                if not passed:
                    break
            else:
                out[row, count] = bonus_token_ids[row, 0]
            start += count
        return out

    sampler = module(
        "vllm.v1.sample.rejection_sampler",
        generate_uniform_probs=generate_uniform_probs,
        sample_recovered_tokens=sample_recovered_tokens,
        rejection_sample=rejection_sample,
    )

    class GPUModelRunner:
        """`drafts`: the arguments that its sampler gets next, None for a step without a draft."""

        def __init__(self, vllm_config: Any) -> None:
            self.vllm_config = vllm_config
            self.input_batch = Bag(req_ids=[], num_reqs=0, vocab_size=VOCABULARY)
            self.discard_request_mask = Bag(np=[False] * 16)

        def execute_model(self, scheduler_output: Any, intermediate_tensors: Any = None) -> None:
            for new in scheduler_output.scheduled_new_reqs:
                self.input_batch.req_ids.append(new.req_id)
            for name in scheduler_output.finished_req_ids:
                self.input_batch.req_ids.remove(name)
            self.input_batch.num_reqs = len(self.input_batch.req_ids)

        def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
            if spec_decode_metadata is None:
                return Bag(sampled_token_ids=logits.argmax(-1, keepdim=True).int())
            return Bag(sampled_token_ids=sampler.rejection_sample(**spec_decode_metadata.given))

    module("vllm.v1.worker.gpu_model_runner", GPUModelRunner=GPUModelRunner)


def _second(module: Callable[..., types.ModuleType]) -> None:
    """The second model runner, whose numbers are keyed by seed and position."""
    draws = torch.Generator().manual_seed(6)

    def rejection_sample(
        target_logits: Any,
        draft_logits: Any,
        draft_sampled: Any,
        cu_num_logits: Any,
        pos: Any,
        idx_mapping: Any,
        expanded_idx_mapping: Any,
        expanded_local_pos: Any,
        temperature: Any,
        seed: Any,
        num_speculative_steps: Any,
        synthetic_conditional_rates: Any = None,
        use_fp64: Any = False,
        use_block_verification: Any = False,
        contexts: Any = None,
        watermarking: Any = None,
        watermarking_skip_mask: Any = None,
        watermark_key: Any = None,
    ) -> Any:
        sampled = torch.zeros(idx_mapping.shape[0], num_speculative_steps + 1, dtype=torch.int64)
        n_sampled = torch.zeros(idx_mapping.shape[0], dtype=torch.int32)
        for row, state in enumerate(idx_mapping.tolist()):
            first, stop = cu_num_logits[row : row + 2].tolist()
            u = uniforms(seed[state].repeat(stop - first).numpy(), pos[first:stop].numpy())
            greedy, kept = bool(temperature[state] == 0), 0
            for k, place in enumerate(range(first, stop)):
                p, rest = target_logits[place].softmax(-1), target_logits[place].softmax(-1)
                passed = False
                if place < stop - 1:
                    token = int(draft_sampled[place + 1])
                    q = torch.nn.functional.one_hot(torch.tensor(max(token, 0)), VOCABULARY).float()
                    if draft_logits is not None and not greedy:
                        q = (draft_logits[state, k] / temperature[state]).softmax(-1)
                    passed = int(p.argmax()) == token if greedy else token >= 0 and bool(p[token] > u[k] * q[token])
                    rest = (p - q).clamp(min=0) + 1e-9
                sampled[row, kept] = token if passed else p.argmax() if greedy else _draw(rest, draws)
                kept += 1
                if not passed:
                    break
            n_sampled[row] = kept
        return sampled, n_sampled

    sampler = module("vllm.v1.worker.gpu.spec_decode.rejection_sampler", rejection_sample=rejection_sample)

    class GPUModelRunner:
        """`given`: the arguments of its sampler by chunk; none for a step without a draft."""

        def __init__(self, vllm_config: Any) -> None:
            self.vllm_config, self.batch_sharder = vllm_config, None
            self.given: list[dict[str, Any]] = []

        def execute_model(
            self,
            scheduler_output: Any,
            intermediate_tensors: Any = None,
            dummy_run: Any = False,
            skip_attn_for_dummy_run: Any = False,
            is_profile: Any = False,
            context_len: Any = 0,
            valid_dummy_state_slots: Any = False,
            randomize_inputs: Any = True,
        ) -> None:
            return None

        def sample(self, hidden_states: Any, input_batch: Any, grammar_output: Any) -> Any:
            parts = [sampler.rejection_sample(**logits) for logits in self.given]
            sampled, n_sampled = (torch.cat(given_parts) for given_parts in zip(*parts, strict=True))
            return Bag(sampled_token_ids=sampled, num_sampled=n_sampled), n_sampled, n_sampled

    module("vllm.v1.worker.gpu.model_runner", GPUModelRunner=GPUModelRunner)
