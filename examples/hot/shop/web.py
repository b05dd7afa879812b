"""The web tier: whoever asks is shown the goods. `python3 web.py DATABASE PORT`."""

import http.server
import sqlite3
import sys


class Shop(http.server.BaseHTTPRequestHandler):
    """Answers with a line for each of the goods."""

    def do_GET(self):
        with sqlite3.connect(sys.argv[1]) as database:
            goods = [
                name
                for [name] in database.execute("SELECT name FROM goods ORDER BY name")
            ]
        body = "".join(f"{name}\n" for name in goods).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Shop).serve_forever()
