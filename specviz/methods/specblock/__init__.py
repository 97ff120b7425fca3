"""The block drafter of SpecBlock: network, rank head, tree growing, files."""
