"""Medusa (Cai et al. 2024): heads on the target's last hidden state, a fixed tree of ranks."""
