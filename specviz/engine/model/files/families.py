"""Model types that `transformers` lacks but can load as a known type, leaving some tensors out."""

from pathlib import Path

from specviz import model_folder

RENAMED = {"mimo": "qwen2"}  # a Qwen2 with MTP layers


def introduce(folder: Path) -> None:
    """Let the library load a folder of such a family. Raises ModelError for a config that cannot be read."""
    name = str(model_folder.read_config(folder).get("model_type"))
    known = RENAMED.get(name)
    if known is None:
        return
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    if name in CONFIG_MAPPING:
        return
    config = type(f"{name}Config", (CONFIG_MAPPING[known],), {"model_type": name})
    model = type(f"{name}ForCausalLM", (MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[known]],), {"config_class": config})
    AutoConfig.register(name, config)
    AutoModelForCausalLM.register(config, model)
