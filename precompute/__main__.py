"""python -m precompute: see command.py."""

import sys

from precompute.command import main

sys.exit(main())
