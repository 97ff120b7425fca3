"""Names that both front-ends and several panels show, each in the words of papers and engines."""

BRANCH_MASS = "p of branches"  # what the target gave all branch tokens of a round together
