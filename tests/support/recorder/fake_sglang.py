"""SGLang as far as the recorder touches it: the names and parameters of version 0.5.23, deciding as its kernels do, on
small tensors, and a registry that applies hooks as its own does."""

import types
from collections.abc import Callable
from types import SimpleNamespace as Bag
from typing import Any

import torch

VOCABULARY = 9
SLOTS = 6  # of a tree: 0 the root, below it 1, 2; below 1: 3, 4; below 3: 5
CHILD, SIBLING = [1, 3, -1, 5, -1, -1], [-1, 2, -1, 4, -1, -1]
Modules = dict[str, types.ModuleType]
KERNELS, SPECULATIVE = "sglang.kernels.ops.speculative", "sglang.srt.speculative"


def fake_sglang(**settings: Any) -> Modules:
    """Modules by name, for `sys.modules`. `settings`: of speculation, by their names there."""
    modules: Modules = {}
    spec = Bag(
        speculative_accept_threshold_single=1.0,
        speculative_accept_threshold_acc=1.0,
        speculative_use_rejection_sampling=False,
        speculative_use_block_verification=False,
    )
    vars(spec).update(settings)
    bag = Bag(
        speculative_algorithm="EAGLE", model_path="some/target", speculative_draft_model_path=None, tokenizer_path=None
    )

    def module(name: str, **members: Any) -> types.ModuleType:
        for parent in [name.rsplit(".", n)[0] for n in range(name.count("."), 0, -1)]:
            modules.setdefault(parent, types.ModuleType(parent)).__path__ = []  # type: ignore[attr-defined]
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update(members)
        return modules[name]

    module(
        "sglang.srt.runtime_context",
        get_spec=lambda: spec,
        get_server_args=lambda: bag,
        get_parallel=lambda: Bag(attn_tp_rank=0),
    )
    module("sglang.srt.plugins.hook_registry", **_registry(modules))
    kernels = _kernels(module)
    module(f"{SPECULATIVE}.eagle_utils", eagle_sample=_eagle(kernels), _is_cpu=False, _is_xpu=False, _is_hip=False)
    module(f"{SPECULATIVE}.dflash_worker_v2", DFlashWorkerV2=_block(kernels))
    modules["sglang"].__version__ = "0.5.23"  # type: ignore[attr-defined]
    return modules


def _registry(modules: Modules) -> dict[str, Any]:
    kinds = {"AFTER": "after", "AROUND": "around"}

    class HookRegistry:
        """Hooks are applied at once."""

        @classmethod
        def register(cls, target: str, hook: Any, hook_type: Any = "after", *, source: Any = None) -> None:
            name = max((module for module in modules if target.startswith(module + ".")), key=len)
            *owners, last = target.removeprefix(name + ".").split(".")
            owner: Any = modules[name]
            for module in owners:
                owner = getattr(owner, module)
            original = getattr(owner, last)

            def wrapped(*args: Any, **kwargs: Any) -> Any:
                if hook_type == "around":
                    return hook(original, *args, **kwargs)
                result = original(*args, **kwargs)
                other = hook(result, *args, **kwargs)
                return result if other is None else other

            setattr(owner, last, wrapped)

    return {"HookRegistry": HookRegistry, "HookType": kinds}


def _kernels(module: Callable[..., types.ModuleType]) -> list[types.ModuleType]:
    def tree_speculative_sampling_target_only(
        predicts: Any,
        accept_index: Any,
        accept_token_num: Any,
        candidates: Any,
        retrive_index: Any,
        retrive_next_token: Any,
        retrive_next_sibling: Any,
        uniform_samples: Any,
        uniform_samples_for_final_sampling: Any,
        target_probs: Any,
        draft_probs: Any,
        threshold_single: float = 1.0,
        threshold_acc: float = 1.0,
        deterministic: bool = True,
    ) -> None:
        for row in range(candidates.shape[0]):
            slot, kept, total = 0, 0, torch.zeros(())
            accept_index[row, 0] = retrive_index[row, 0]
            child = int(retrive_next_token[row, 0])
            while child != -1:
                token = candidates[row, child]
                p = target_probs[row, slot, token]
                total = total + p
                coin = uniform_samples[row, slot]
                if p > 0 and (coin < total / threshold_acc or p >= threshold_single):
                    predicts[retrive_index[row, slot]] = token
                    kept, slot, total = kept + 1, child, torch.zeros(())
                    accept_index[row, kept] = retrive_index[row, child]
                    child = int(retrive_next_token[row, child])
                else:
                    draft_probs[row, slot, token] = p
                    child = int(retrive_next_sibling[row, child])
            accept_token_num[row] = kept
            rest = (target_probs[row, slot] - draft_probs[row, slot]).clamp(min=0).cumsum(-1)
            last = (rest > uniform_samples_for_final_sampling[row] * rest[-1]).int().argmax()
            predicts[retrive_index[row, slot]] = last

    def chain_speculative_sampling_triton(
        predicts: Any,
        accept_index: Any,
        accept_token_num: Any,
        candidates: Any,
        retrive_index: Any,
        retrive_next_token: Any,
        retrive_next_sibling: Any,
        uniform_samples: Any,
        uniform_samples_for_final_sampling: Any,
        target_probs: Any,
        draft_probs: Any,
        threshold_single: Any,
        threshold_acc: Any,
        deterministic: Any,
        *,
        block_verification: bool = False,
    ) -> None:
        for row in range(candidates.shape[0]):
            kept = 0
            accept_index[row, 0] = retrive_index[row, 0]
            while kept < candidates.shape[1] - 1:
                token = candidates[row, kept + 1]
                p, q = target_probs[row, kept, token], draft_probs[row, kept, token]
                if not uniform_samples[row, kept] * q < p:
                    break
                predicts[retrive_index[row, kept]] = token
                kept += 1
                accept_index[row, kept] = retrive_index[row, kept]
            accept_token_num[row] = kept
            predicts[retrive_index[row, kept]] = target_probs[row, kept].argmax()

    def verify_tree_greedy_func(
        predicts: Any,
        accept_index: Any,
        accept_token_num: Any,
        candidates: Any,
        retrieve_index: Any,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        target_predict: Any,
        topk: int = -1,
    ) -> Any:
        for row in range(candidates.shape[0]):
            slot, kept = 0, 0
            accept_index[row, 0] = retrieve_index[row, 0]
            child = int(retrieve_next_token[row, 0])
            while child != -1:
                if candidates[row, child] == target_predict[row, slot]:
                    predicts[retrieve_index[row, slot]] = candidates[row, child]
                    kept, slot = kept + 1, child
                    accept_index[row, kept] = retrieve_index[row, child]
                    child = int(retrieve_next_token[row, child])
                else:
                    child = int(retrieve_next_sibling[row, child])
            accept_token_num[row] = kept
            predicts[retrieve_index[row, slot]] = target_predict[row, slot]
        return predicts, accept_index, accept_token_num

    return [
        module(f"{KERNELS}.sampling", tree_speculative_sampling_target_only=tree_speculative_sampling_target_only),
        module(f"{KERNELS}.reject_sampling", chain_speculative_sampling_triton=chain_speculative_sampling_triton),
        module(f"{KERNELS}.spec_tree", verify_tree_greedy_func=verify_tree_greedy_func),
    ]


def topology(n: int, chain: bool) -> dict[str, Any]:
    """Indices, children and siblings of `n` requests."""
    child, sibling = ([1, 2, 3, 4, 5, -1], [-1] * SLOTS) if chain else (CHILD, SIBLING)
    return {
        "retrieve_index": torch.arange(n * SLOTS).view(n, SLOTS),
        "retrieve_next_token": torch.tensor([child] * n),
        "retrieve_next_sibling": torch.tensor([sibling] * n),
    }


def _eagle(kernels: list[types.ModuleType]) -> Callable[..., Any]:
    tree, chain, greedy = kernels

    def eagle_sample(
        verify_input: Any,
        batch: Any,
        logits_output: Any,
        grammar_mask: Any = None,
        uno_target_max_top_k: Any = None,
        *,
        watermark_state: Any = None,
        watermark_full_mask: bool = True,
    ) -> Any:
        n = len(batch.reqs)
        predict = torch.zeros(n * SLOTS, dtype=torch.int32)
        index, count = torch.full((n, SLOTS), -1, dtype=torch.int32), torch.zeros(n, dtype=torch.int32)
        shape = topology(n, verify_input.draft_probs is not None)
        shared = {
            "predicts": predict,
            "accept_index": index,
            "accept_token_num": count,
            "candidates": verify_input.draft_token,
        }
        logits = logits_output.next_token_logits
        if batch.sampling_info.is_all_greedy:
            greedy.verify_tree_greedy_func(**shared, **shape, target_predict=logits.argmax(-1), topk=2)
        else:
            sample = tree.tree_speculative_sampling_target_only
            if verify_input.draft_probs is not None:
                sample = chain.chain_speculative_sampling_triton
            sample(
                **shared,
                **{name.replace("retrieve", "retrive"): tensor for name, tensor in shape.items()},
                uniform_samples=verify_input.coins,
                uniform_samples_for_final_sampling=verify_input.coins[:, -1],
                target_probs=logits.softmax(-1),
                draft_probs=torch.zeros_like(logits) if verify_input.draft_probs is None else verify_input.draft_probs,
                threshold_single=verify_input.limits[0],
                threshold_acc=verify_input.limits[1],
                deterministic=True,
            )
        return predict, count + 1, index

    return eagle_sample


def _block(kernels: list[types.ModuleType]) -> type:
    class DFlashWorkerV2:
        """`step`: what it drafts and what the target gives it next."""

        step: Any

        def forward_batch_generation(
            self, batch: Any, on_publish: Any = None, grammar_barrier: Any = None, pp_proxy_tensors: Any = None
        ) -> Any:
            return self._accept_block(
                candidates=self.step.candidates,
                next_token_logits=self.step.logits,
                sampling_info=batch.sampling_info,
                draft_input=None,
                prefix_lens=None,
                bs=len(batch.reqs),
            )

        def _accept_block(
            self,
            *,
            candidates: Any,
            next_token_logits: Any,
            sampling_info: Any,
            draft_input: Any,
            prefix_lens: Any,
            bs: Any,
            target_predict: Any = None,
        ) -> Any:
            likeliest = next_token_logits.argmax(-1)
            same = (candidates[:, 1:] == likeliest[:, :-1]).int().cumprod(-1).sum(-1)
            bonus = likeliest.gather(1, same[:, None].long())
            out = torch.cat([candidates[:, 1:], torch.zeros(bs, 1, dtype=torch.int64)], 1)
            return same, same + 1, bonus[:, 0], out.scatter(1, same[:, None].long(), bonus), None

    return DFlashWorkerV2
