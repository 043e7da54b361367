"""`python -m npaccel` is the command `npaccel`."""

import sys

from npaccel.cli import main

sys.exit(main())
