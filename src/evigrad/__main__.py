"""``python -m evigrad`` is the command ``evigrad``."""

import sys

from evigrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
