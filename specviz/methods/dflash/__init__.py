"""A parallel block drafter: masked places filled in one pass over the target's states, as far as it is sure."""
