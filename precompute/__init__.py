"""From checkpoints and held-out text to one DuckDB file. Run it: python -m precompute --help"""

VERSION = "0.1.0"
