"""The decoding core: the only place, with drafters and trainers, where torch is imported."""
