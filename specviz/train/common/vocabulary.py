"""The pair's tokenizer: byte-level BPE, so that any text goes in and comes back unchanged.

Digits are single tokens, which lets a small model learn sums. One special token, `<|endoftext|>`, separates
documents and stands for beginning, end and padding alike.
"""

from collections.abc import Iterable
from itertools import islice

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 4_096
END = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], context: int) -> PreTrainedTokenizerFast:
    """Learn the merges from `texts` and wrap them the way `AutoTokenizer` expects."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _wrap(tokenizer, context)


def _wrap(tokenizer: Tokenizer, context: int) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def sample(texts: Iterable[str], n_chars: int) -> Iterable[str]:
    """Enough text to learn merges from, in pieces: a long file should not outweigh many short ones."""
    room = n_chars
    for text in texts:
        piece = text[:20_000]
        room -= len(piece)
        if room < 0:
            return
        yield piece


def batches(texts: Iterable[str], size: int = 256) -> Iterable[list[str]]:
    """Lists of at most `size` texts, for the tokenizer's parallel encoder."""
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch
