"""Proofs by enumeration: every draft, every accept or reject, every drawn token, summed with its probability."""
