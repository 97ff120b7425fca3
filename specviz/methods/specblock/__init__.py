"""The block drafter of SpecBlock: network, rank head, tree growing, files (specblock.md 3 to 5)."""
