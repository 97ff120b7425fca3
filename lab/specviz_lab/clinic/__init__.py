"""The clinic: sixteen faults planted in real runs, as many healthy twins, and what the judge makes of them."""
