"""EAGLE-3 (Li et al. 2025): one decoder layer over target features, a tree grown level by level."""
