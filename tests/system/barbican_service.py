"""Barbican beside the services of `openstack.py`, in an environment of its own: `barbican_service.py LAB FOLDER PORT`.

LAB is the folder of the other services, and FOLDER has Barbican's settings and its database.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

from system.openstack_place import HOST, Place

_SETTINGS = """
[DEFAULT]
host_href = http://{host}:{port}
db_auto_create = True
transport_url = fake://
[database]
connection = sqlite:///{folder}/barbican.sqlite
[simple_crypto_plugin]
kek = {key}
[keystone_authtoken]
{user}
"""

_PIPELINE = """
[composite:main]
use = egg:Paste#urlmap
/v1: api
[pipeline:api]
pipeline = authtoken context microversion app
[app:app]
paste.app_factory = barbican.api.app:create_main_app
[filter:context]
paste.filter_factory = barbican.api.middleware.context:ContextMiddleware.factory
[filter:microversion]
paste.filter_factory = barbican.api.middleware.microversion:MicroversionMiddleware.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
oslo_config_project = barbican
"""


def main() -> None:
    """Serve Barbican for ever."""
    place, folder, port = Place(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
    key = base64.b64encode(os.urandom(32)).decode()
    settings = _SETTINGS.format(
        host=HOST, port=port, folder=folder, key=key, user=place.service_user()
    )
    (folder / "barbican.conf").write_text(settings)
    (folder / "paste.ini").write_text(_PIPELINE)
    os.environ["HOME"] = str(folder)  # where its settings are looked for
    import waitress  # type: ignore[import-untyped]  # noqa: PLC0415
    from paste import deploy  # type: ignore[import-not-found]  # noqa: PLC0415

    waitress.serve(
        deploy.loadapp(f"config:{folder}/paste.ini", "main"),
        host=HOST,
        port=port,
        threads=2,
        ident=None,
    )


if __name__ == "__main__":
    main()
