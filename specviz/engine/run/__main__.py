"""`python -m specviz.engine.run` is the worker as a process of its own, which imports less and so is there sooner."""

import sys
from itertools import pairwise

from specviz import lean


def _device(arguments: list[str]) -> str | None:
    """What `--device` names."""
    return next((value for word, value in pairwise(arguments) if word == "--device"), None)


if __name__ == "__main__":
    lean.begin_process(own=True)
    with lean.lean_start(_device(sys.argv[1:])):
        from specviz.engine.run.worker import main
    main()
