#!/usr/bin/env python3
"""The database tier: a file with a table of goods, and as the output `path` where it is."""

import os
import pathlib
import sqlite3

folder = pathlib.Path(os.environ["folder"])
folder.mkdir(parents=True, exist_ok=True)
path = folder / "shop.sqlite"
with sqlite3.connect(path) as database:
    database.execute("CREATE TABLE IF NOT EXISTS goods (name TEXT PRIMARY KEY)")
    database.execute("DELETE FROM goods")
    database.executemany(
        "INSERT INTO goods VALUES (?)",
        [[each] for each in os.environ["goods"].split(",")],
    )
pathlib.Path(os.environ["heat_outputs_path"] + ".path").write_text(str(path))
