"""`python -m specviz` is the command `specviz`."""

import sys

from specviz.cli import main

sys.exit(main())
