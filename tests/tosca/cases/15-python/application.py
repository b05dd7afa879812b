import json
import os

ports = json.loads(os.environ["ports"])
with open(os.environ["log"], "a") as log:
    log.write("create ports=%s found=%s\n" % (os.environ["ports"], os.environ["found"]))
url = "http://x:%d/" % ports[0]
found = {"ports": ports, "is_open": True}
