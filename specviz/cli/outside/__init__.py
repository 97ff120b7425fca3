"""Commands that look at what other engines did."""
