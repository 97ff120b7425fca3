"""What a draft is, by its files, and what engines call it."""

from dataclasses import dataclass, replace

from specviz import model_folder
from specviz.check.side import ModelSide, whole_numbers
from specviz.mtp_layers import layout_words, own_mtp, own_mtp_layers

LLAMA_DFLASH = "dflash"  # what llama.cpp calls that architecture
_TAPS = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids", "taps")


@dataclass(frozen=True, slots=True)
class DraftKind:
    """`name`: the field's. `vllm`, `sglang`, `llama`: what the engine's option is called for it (`method`,
    `--speculative-algorithm`, `--spec-type`); "" where it has none. `seen`: by what it was told; `since`: since when
    engines read it, where older ones that take drafts of its family do not."""

    name: str
    vllm: str = ""
    sglang: str = ""
    llama: str = ""
    seen: str = ""
    since: str = ""

    @property
    def named(self) -> str:
        """With its article."""
        return f"an {self.name}" if self.name.startswith(("EAGLE", "MTP")) else f"a {self.name}"

    @property
    def served(self) -> str:
        """How each engine names this kind of draft on its command line, as `vLLM method eagle3, SGLang EAGLE3`."""
        options = (("vLLM method", self.vllm), ("SGLang", self.sglang), ("llama.cpp --spec-type", self.llama))
        return ", ".join(f"{engine} {name}" for engine, name in options if name)


EAGLE3 = DraftKind("EAGLE-3 head", "eagle3", "EAGLE3", "draft-eagle3")
EAGLE = DraftKind("EAGLE head", "eagle", "EAGLE", "")
MEDUSA = DraftKind("set of Medusa heads", "medusa")
DFLASH = DraftKind("DFlash block drafter", "dflash", "DFLASH", "draft-dflash")
DFLASH2 = DraftKind(
    "DFlash2 block drafter",
    "dflash",
    "DFLASH2",
    "draft-dflash",
    since="August 2026 (vllm-project/vllm#52816, sgl-project/sglang#35371, ggml-org/llama.cpp#27342)",
)
P_EAGLE = DraftKind("P-EAGLE head, which drafts all tokens in one call", "eagle3 with parallel_drafting")
MTP = DraftKind("set of MTP layers", "mtp", "NEXTN", "draft-mtp")
ASSISTANT = DraftKind("MTP assistant that reads its target's states", "mtp", "", "draft-mtp")
PARD = DraftKind("PARD draft model, which drafts all tokens in one call", "draft_model with parallel_drafting")
BORROWS = DraftKind("draft model that takes its target's embedding, head and tokenizer")
ITSELF = DraftKind("draft model made of the target's own weights in fewer bits", seen="specviz alone makes such")
MODEL = DraftKind("draft model", "draft_model", "STANDALONE", "draft-simple")
KINDS = (EAGLE3, EAGLE, MEDUSA, DFLASH, DFLASH2, P_EAGLE, MTP, ASSISTANT, MODEL, PARD)


def kind_of_draft(target: ModelSide, draft: ModelSide) -> DraftKind:
    """What the draft is. A target that is given twice drafts with its own MTP layers, where it has some."""
    kind, seen = _kind(target, draft)
    return replace(kind, seen=seen)


def _kind(target: ModelSide, draft: ModelSide) -> tuple[DraftKind, str]:
    names = " ".join(map(str, draft.get("architectures") or ()))
    if draft.same_as(target) and (n := own_mtp_layers(target.config, target.tensors)):
        layout = f", {layout_words(own_mtp(target.tensors))}" if target.tensors else ""
        return MTP, f"{n} of the target's own{layout}"
    if "DFlash" in names or draft.config.get("dflash_config") is not None:
        second = draft.tensor("predecessor_codebook") is not None or draft.count("selector_rank") is not None
        return (DFLASH2, "it has a selector of candidates") if second or "DFlash2" in names else (DFLASH, "block_size")
    if draft.count("medusa_num_heads") is not None:
        return MEDUSA, f"medusa_num_heads {draft.count('medusa_num_heads')}"
    if draft.count("backbone_hidden_size") is not None or draft.tensor("pre_projection.weight") is not None:
        return ASSISTANT, "it projects from and to its target's width"
    if draft.tensor("eh_proj.weight") is not None or (own_mtp_layers(draft.config) and draft.is_head):
        return MTP, "eh_proj joins embedding and state"
    joined = draft.tensor("fc.weight")
    if joined is not None or draft.is_head:
        return _head(target, draft)
    if draft.get("parallel_drafting", "pard_token", "pard_token_id") is not None:
        return PARD, "parallel_drafting"
    if (draft.folder / model_folder.BORROWS).is_file():
        return BORROWS, f"{model_folder.BORROWS}; specviz alone reads such"
    return MODEL, "it is a language model of its own"


def _head(target: ModelSide, draft: ModelSide) -> tuple[DraftKind, str]:
    """EAGLE's family: by how many states it joins, and whether it drafts in one call."""
    joined, taps = draft.tensor("fc.weight"), whole_numbers(draft.get(*_TAPS))
    n = joined.shape[1] // target.width if joined is not None and len(joined.shape) == 2 and target.width else 0
    seen = [f"fc joins {n} states"] if n else []
    seen += ["d2t"] if draft.tensor("d2t") is not None else []
    seen += [f"layers {list(taps)}"] if taps else []
    if draft.get("parallel_drafting", "ptd_token_id") is not None or draft.tensor("mask_hidden") is not None:
        return P_EAGLE, "parallel_drafting"
    named = "Eagle3" in str(draft.get("architectures"))
    third = n >= 3 or bool(taps) or draft.tensor("d2t") is not None or named
    return (EAGLE3 if third else EAGLE), ", ".join(seen) or "it reads its target's states"
