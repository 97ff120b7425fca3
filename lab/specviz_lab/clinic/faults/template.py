"""6: prompt or chat template differs. Healthy: messages through the model's own template, once, for both models."""

from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz_lab.clinic.plant import N_IDS, Bench, chat, questions, tokenizer, with_draft

FAULT = 6
PLANT = "the template is left out, or put in twice, or the draft model reads the prompt by another one"
HIDDEN = 48  # ids of the prompt of which a draft model with another template sees nothing
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OTHER = (
    "{% for message in messages %}### {{ message['role'] }}:\n{{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### assistant:\n{% endif %}"
)


def _another(adapter: ModelAdapter, tokens: list[int], positions: list[int]) -> Any:
    """What that template leaves of the prompt: line breaks."""
    (line,) = chat().target.tokenizer("\n")["input_ids"]
    seen = [line if place < HIDDEN else token for token, place in zip(tokens, positions, strict=True)]
    return adapter.embed(seen, positions)


def ill(bench: Bench) -> None:
    prompts, way = questions(bench.seed), bench.seed % 3
    if way == 0:
        bench.run(chat(), questions(bench.seed, 6), tokens=96, chat=False)
    elif way == 1:
        words = chat().target.tokenizer
        twice = [
            words.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
            for text in prompts
        ]
        bench.run(chat(), twice, tokens=96, chat=True)
    else:
        bench.run(with_draft(chat(), embed=_another), prompts, tokens=64, chat=True)
    _folders(bench, OTHER if way == 2 else TEMPLATE)


def well(bench: Bench) -> None:
    bench.run(chat(), questions(bench.seed), tokens=96, chat=True)
    _folders(bench, TEMPLATE)


def _folders(bench: Bench, template: str) -> None:
    """Both models; `template`: the draft's."""
    for side, its in (("target", TEMPLATE), ("draft", template)):
        tokenizer(bench.model(side, num_hidden_layers=1 if side == "draft" else 12), list(range(N_IDS)), its)
