"""python -m db: see command.py."""

import sys

from db.command import main

sys.exit(main())
