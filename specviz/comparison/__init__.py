"""Verifiers and settings on the same prompts, seeds and drafts; and the tables of words that such reports are."""
