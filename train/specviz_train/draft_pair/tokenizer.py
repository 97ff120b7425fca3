"""The pair's tokenizer, and text encoded by it: byte-level BPE, so that any text goes in and comes back unchanged.

Digits are single tokens, which lets a small model learn sums. One special token, `<|endoftext|>`, separates
documents and stands for beginning, end and padding alike.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specviz_train.common.corpus import DOMAINS, Document
from specviz_train.common.training_text import MIX, Ids, TokenStore

VOCAB_SIZE, CONTEXT = 4_096, 1_024
END = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
LEARNT_FROM_CHARS = 30e6
STDLIB = "code, standard library only"
"""A held-out stream beside `code`: packages repeat one another, the standard library does not."""

Tokens = NDArray[np.uint16]
_DOCSTRING_WITHIN = 48


def train_tokenizer(texts: Iterable[str], context: int = CONTEXT) -> PreTrainedTokenizerFast:
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


def learnt_from(documents: Sequence[Document]) -> Iterator[str]:
    """What merges are learnt from: training text only, by the shares of the mix."""
    for domain, share in MIX.items():
        texts = (document.text for document in documents if document.domain == domain and not document.held_out)
        yield from sample(texts, int(share * LEARNT_FROM_CHARS))


def sample(texts: Iterable[str], n_chars: int) -> Iterator[str]:
    """At most `n_chars`, in pieces: a long file should not outweigh many short ones."""
    room = n_chars
    for text in texts:
        piece = text[:20_000]
        room -= len(piece)
        if room < 0:
            return
        yield piece


def encode(documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast) -> TokenStore:
    """Tokenize every document into the stream of its side and domain; domains without text are left out."""
    held_out = [document for document in documents if document.held_out]
    streams = _by_domain(held_out, tokenizer)
    stdlib = [document.text for document in held_out if document.domain == "code" and document.source == "stdlib"]
    if "code" in streams:
        streams[STDLIB] = _stream(stdlib, tokenizer)
    return TokenStore(_by_domain([document for document in documents if not document.held_out], tokenizer), streams)


def _by_domain(documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast) -> dict[str, Tokens]:
    texts = {name: [document.text for document in documents if document.domain == name] for name in DOMAINS}
    return {name: _stream(texts_of_domain, tokenizer) for name, texts_of_domain in texts.items() if texts_of_domain}


def _stream(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Tokens:
    end = np.array([tokenizer.eos_token_id], dtype=np.uint16)
    parts: list[Tokens] = []
    for batch in batches(texts):
        for encoding in tokenizer.backend_tokenizer.encode_batch(batch):
            parts += [np.array(encoding.ids, dtype=np.uint16), end]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)


def batches(texts: Iterable[str], size: int = 256) -> Iterator[list[str]]:
    """Lists of at most `size` texts, for the tokenizer's parallel encoder."""
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch


def definition_starts(stream: Ids, tokenizer: PreTrainedTokenizerFast) -> NDArray[np.int64]:
    """Positions in `stream` where a line without indentation begins with `def`, `class` or `import`.

    Those that open with a docstring are left out: a small model seldom finds the end of one, and a prompt such as
    `def fibonacci(n):` should be continued with code.
    """
    vocab = tokenizer.get_vocab()
    words = [ids[0] for ids in map(tokenizer.encode, ("def", "class", "import")) if len(ids) == 1]
    newline = "\u010a"  # as the byte alphabet of the tokenizer writes it
    ends = [number for token, number in vocab.items() if token.endswith(newline)] + [tokenizer.eos_token_id]
    quotes = np.cumsum(np.isin(stream, [number for token, number in vocab.items() if '"""' in token]))
    definitions = np.flatnonzero(np.isin(stream[1:], words) & np.isin(stream[:-1], ends)) + 1
    after = np.minimum(definitions + _DOCSTRING_WITHIN, len(stream) - 1)
    starts: NDArray[np.int64] = definitions[quotes[after] == quotes[definitions]]
    return starts
