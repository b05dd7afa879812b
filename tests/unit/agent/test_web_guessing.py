from __future__ import annotations

import subprocess
import sys


def test_nothing_is_loaded_to_guess_encodings() -> None:
    """Whoever speaks HTTP, or to a cloud, works without; others in the same process can still have it."""
    code = """if True:
        import sys
        from heat_config_agent import keystone, web
        import requests
        assert not [each for each in sys.modules if each.startswith(("chardet", "charset_normalizer"))]
        answer = requests.Response()
        answer._content = b"{}"
        assert (answer.text, answer.json()) == ("{}", {})
        import charset_normalizer
        assert charset_normalizer.from_bytes
    """
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
