import os
import sys
from pathlib import Path

answer = 42
things = ["a", {"b": 1}]
with Path(os.environ["log"]).open("a") as log:
    print("py", __name__, Path(__file__).name, file=log)
sys.exit(0)
