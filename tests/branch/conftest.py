"""No global randomness, as for all that decodes."""

from support.fixtures import global_generator_untouched

__all__ = ["global_generator_untouched"]
