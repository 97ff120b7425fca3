"""What is measured and proved of specviz itself: speeds beside other engines, ablations, identity, laws enumerated."""
