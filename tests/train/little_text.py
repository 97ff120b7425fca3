"""A little text for tests of trainers: the same whatever changes around it, some of it held out."""

import json
from pathlib import Path

from specviz_train.common import corpus


def little_corpus() -> list[corpus.Document]:
    """The library's `json` package as code, and pages of sums."""
    files = [path.read_text(encoding="utf-8") for path in sorted(Path(json.__file__).parent.glob("*.py"))]
    parts = [text[at : at + 3_000] for text in files for at in range(0, len(text), 3_000)]
    code = [
        corpus.Document("code", "stdlib", f"{'f' if number % 4 else '00'}{corpus.key_of(text)}", text)
        for number, text in enumerate(parts)
    ]
    return code + [corpus.Document("sums", "sums", corpus.key_of(page), page) for page in corpus.sum_pages(300, seed=0)]
