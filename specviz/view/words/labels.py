"""Names that both front-ends and several panels show, each in the words of papers and engines."""

BRANCH_MASS = "p of branches"  # what the target gave all branch tokens of a round together
LAYERS_PASSED = "Layers passed"  # by the rows of an early-exit round, after each climb
LAYER_CALLS = "Layer calls paid and earned"  # by each of them
PREFIX_RATIO = "Prefix ratio"  # p/q of the whole prefix, position by position
RECORDED = {"full": "everything", "summary": "without whole rows", "none": "counts and text"}  # by `--level`
