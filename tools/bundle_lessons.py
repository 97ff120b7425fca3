"""Make the recordings that lessons alone are over, in assets.

    python -m tools.bundle_lessons [--out DIR] [--model]

`two-tokens` is a vocabulary of two, by arithmetic: the same bytes every time but for the run's name. `--model` records
two stories as well, by a draft model that is much weaker than its target, so that much is rejected (SmolLM2 and its own
small draft must be here: `specviz models get smollm2`).
"""

from importlib.resources import files
from itertools import count
from pathlib import Path
from random import Random

import click

from specviz.trace import Writer

P, Q = (0.8, 0.2), (0.3, 0.7)  # of A and B: what the target wants, what the draft offers
NAMES = ("A", "B")
ROUNDS = 14
STORIES = {
    "story-weak": "64 --verifier tokenwise --gamma 8 --temperature 0.8 --seed 7",
    "story-scan": "56 --verifier hsd --gamma 5 --temperature 1 --seed 11",
}
STORY = "Tell a very short story about an old lighthouse keeper."


def two_tokens(path: Path) -> None:
    """One drafted token a round, tested by p/q, replaced from max(0, p - q), followed by one of the target's own."""
    random, clock = Random(3), count(0, 1000)
    with Writer(
        path,
        "arithmetic",
        rule="tokenwise",
        temperature=1.0,
        target="A .8, B .2",
        draft="A .3, B .7",
        clock=lambda: next(clock),
    ) as writer:
        writer.request([0], "A or B?", seed=3)
        for _ in range(ROUNDS):
            writer.round()
            drafted = int(random.random() >= Q[0])
            u = round(random.random(), 6)
            kept = u < P[drafted] / Q[drafted]
            writer.drafted(drafted, NAMES[drafted], q=Q[drafted], p=P[drafted], u=u, kept=kept)
            own = int(random.random() >= P[0]) if kept else 0  # of p - q A alone is left
            tokens = [drafted, own] if kept else [own]
            writer.committed(tokens, [NAMES[token] for token in tokens], n_accepted=int(kept), took_ns=1000)


@click.command(help=__doc__)
@click.option("--out", type=click.Path(path_type=Path), default=None)
@click.option("--model", is_flag=True)
def main(out: Path | None, model: bool) -> None:
    folder = out or Path(str(files("specviz_assets"))) / "lessons"
    two_tokens(folder / "two-tokens.sv.jsonl")
    if model:
        from specviz.cli import main as specviz

        pair = ["--target", "smollm2", "--draft", "smollm2-draft", "--method", "draft", "--max-new-tokens"]
        for name, knobs in STORIES.items():
            record = ["--record", str(folder / f"{name}.sv.jsonl"), "--prompt", STORY]
            specviz(["run", *pair, *knobs.split(), *record])


if __name__ == "__main__":
    main()
