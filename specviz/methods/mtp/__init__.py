"""Multi-token prediction (DeepSeek-AI 2024; Gloeckle et al. 2024): one layer, applied to what it said before."""
