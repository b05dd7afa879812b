import json
import os

with open(os.environ["HEAT_INPUTS_FILE"]) as file:
    given = json.load(file)
with open(os.environ["log"], "a") as log:
    print("python", os.environ["db_port"], given["db-port"], given["db.host"], file=log)
