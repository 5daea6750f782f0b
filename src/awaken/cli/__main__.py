"""`python -m awaken.cli`."""

import sys

from awaken.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
