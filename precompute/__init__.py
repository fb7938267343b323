"""From checkpoints and held-out text to one DuckDB file. Run it: python -m precompute --help"""
