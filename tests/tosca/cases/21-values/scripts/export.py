#!/usr/bin/env python3
import os, sys
answer = 42
things = ["a", {"b": 1}]
with open(os.environ["log"], "a") as f:
    print("py", __name__, os.path.basename(__file__), file=f)
sys.exit(0)
