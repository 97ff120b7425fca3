"""A run over time, and which tokens and rounds fail most: charts and tables that lead to the place."""
