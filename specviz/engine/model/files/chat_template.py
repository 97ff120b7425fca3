"""Chat templates: whether a model was made for chats, and messages as token ids."""

from typing import Any


def speaks_chat(tokenizer: Any) -> bool:
    """Whether its template marks turns with tokens of their own: its model was made for chats. That of the embedded one
    marks none: it goes on with texts and follows no instructions."""
    if not getattr(tokenizer, "chat_template", None):
        return False
    try:
        ids = rendered(tokenizer, [{"role": "user", "content": "x"}])
    except Exception:  # a chat template is foreign code: one that raises marks no turns
        return False
    return any(token in tokenizer.all_special_ids for token in ids)


def rendered(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """Token ids of messages through the chat template, up to where the answer begins. Raises what the template does."""
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"])
