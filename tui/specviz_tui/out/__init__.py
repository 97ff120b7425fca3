"""What the screen gives out."""
