"""The papers' experiments, one command each: ``dualgap reproduce rosen``, ``sesop``, ``lecture``, ``dcd``, ``mpd``.

Each experiment is a module with ``run(quick, clock, **settings) -> Record``: tables and curves beside the printed
ones, and a verdict on every claim, with the figure behind it. `record` says what a record is, `claims` what a verdict.
"""
