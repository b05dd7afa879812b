"""The services of `openstack.py`, each a process in OpenStack's own environment: `openstack_services.py NAME FOLDER`.

FOLDER has `lab.json`, with the port of each and how long a token lasts; a service keeps its settings and its data
there, and appends a line for each request that arrives to FOLDER/arrived/NAME.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from support.http import Answer, Request, Stub
from system.openstack_place import (
    ENDPOINTS,
    HOST,
    LOOKS,
    PASSWORD,
    REGION,
    Notes,
    Place,
    placeholder,
    serve,
    serve_eventlet,
)

# Keystone


def _keystone_settings(place: Place) -> str:
    return place.write(
        "keystone/keystone.conf",
        f"""
[database]
connection = {place.database("keystone")}
[cache]
# Without it Keystone asks its database for the same users, roles and projects again and again, at each request.
# With a copy for each: the Keystone of Heat 24 changes what it gets.
backend = dogpile.cache.memory_pickle
[identity]
# Every login computes it; nobody steals these.
password_hash_rounds = 4
[token]
expiration = {place.token_seconds}
allow_expired_window = 0
[fernet_tokens]
key_repository = {place.folder}/fernet
[fernet_receipts]
key_repository = {place.folder}/fernet
[credential]
key_repository = {place.folder}/credential
""",
    )


def _keystone_application(place: Place) -> Any:
    sys.argv[1:] = []
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = os.path.dirname(_keystone_settings(place))  # noqa: PTH120
    from keystone.server import wsgi  # type: ignore[import-not-found]  # noqa: PLC0415

    return wsgi.initialize_public_application()


def keystone(place: Place) -> None:
    """Keystone."""
    serve(_keystone_application(place), place, "keystone")


def prepare_keystone(place: Place) -> None:
    """Fill an empty database of Keystone's: the users, roles and services that Heat needs."""
    from keystone.common import fernet_utils  # type: ignore[import-not-found]  # noqa: PLC0415

    for name, section in (("fernet", "fernet_tokens"), ("credential", "credential")):
        (place.folder / name).mkdir(mode=0o700)
        fernet_utils.FernetUtils(
            str(place.folder / name), 3, section
        ).initialize_key_repository()
    manage = [
        f"{sys.prefix}/bin/keystone-manage",
        "--config-file",
        _keystone_settings(place),
    ]
    subprocess.run([*manage, "db_sync"], check=True)
    url = placeholder("keystone") + ENDPOINTS["keystone"][1]
    urls = [
        word
        for each in ("admin", "internal", "public")
        for word in (f"--bootstrap-{each}-url", url)
    ]
    first = ["--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION, *urls]
    subprocess.run([*manage, "bootstrap", *first], check=True)
    threading.Thread(
        target=serve,
        args=(_keystone_application(place), place, "keystone"),
        daemon=True,
    ).start()
    _fill(place.url("keystone") + "/v3")


def _administrator(url: str) -> Any:
    """Return a session of the administrator's."""
    from keystoneauth1 import session  # noqa: PLC0415
    from keystoneauth1.identity import v3  # noqa: PLC0415

    login = v3.Password(
        url,
        username="admin",
        password=PASSWORD,
        project_name="admin",
        user_domain_id="default",
        project_domain_id="default",
    )
    return session.Session(auth=login)


def _fill(url: str) -> None:
    from keystoneauth1.exceptions import ConnectFailure  # noqa: PLC0415
    from keystoneclient.v3 import client  # type: ignore[import-not-found]  # noqa: PLC0415

    ours = _administrator(url)
    while True:
        try:
            ours.get_token()
            break
        except ConnectFailure:
            time.sleep(0.05)
    there = client.Client(session=ours, endpoint_override=url)
    roles = {each.name: each for each in there.roles.list()}
    for name in ("heat_stack_user", "heat_stack_owner", "service"):
        # the last one is there since Keystone 25
        roles[name] = roles.get(name) or there.roles.create(name)
    service = there.projects.create("service", "default")
    heat = there.users.create(
        "heat", domain="default", password=PASSWORD, default_project=service
    )
    for name in ("admin", "service"):
        there.roles.grant(roles[name], user=heat, project=service)
    domain = there.domains.create("heat")
    administrator = there.users.create(
        "heat_domain_admin", domain=domain, password=PASSWORD
    )
    there.roles.grant(roles["admin"], user=administrator, domain=domain)
    there.roles.grant(
        roles["heat_stack_owner"],
        user=ours.get_user_id(),
        project=ours.get_project_id(),
    )
    for name, (kind, path) in ENDPOINTS.items():
        if name != "keystone":
            made = there.services.create(name, type=kind)
            for interface in ("public", "internal", "admin"):
                there.endpoints.create(
                    made, placeholder(name) + path, interface=interface, region=REGION
                )


# Heat


def _heat_settings(place: Place) -> str:
    login = place.service_user()
    # Heat's own rule for this asks whose project it is, which its CFN API does not say: it refuses every server.
    policy = place.write(
        "heat/policy.yaml",
        '"cloudformation:DescribeStackResource": "role:heat_stack_user"\n',
    )
    return place.write(
        "heat/heat.conf",
        f"""
[DEFAULT]
transport_url = fake:/
auth_encryption_key = 0123456789abcdef0123456789abcdef
stack_user_domain_name = heat
stack_domain_admin = heat_domain_admin
stack_domain_admin_password = {PASSWORD}
heat_metadata_server_url = {place.url("cfn")}
heat_waitcondition_server_url = {place.url("cfn")}/v1/waitcondition
region_name_for_services = {REGION}
[database]
connection = {place.database("heat")}
[keystone_authtoken]
{login}
[ec2authtoken]
{login}
auth_uri = {place.url("keystone")}/v3
endpoint_override = {place.url("keystone")}
[trustee]
auth_type = password
auth_url = {place.url("keystone")}
username = heat
password = {PASSWORD}
user_domain_id = default
[clients_keystone]
auth_uri = {place.url("keystone")}
[oslo_policy]
policy_file = {policy}
[paste_deploy]
api_paste_config = {sys.prefix}/etc/heat/api-paste.ini
[oslo_messaging_notifications]
driver = noop
""",
    )


def engine(place: Place) -> None:
    """All of Heat: its engine and its two APIs, behind ports of their own (see `heat`).

    They are one process, so that they need no message broker between them.
    """
    serve_app = _prepare_threads()
    from heat import version  # type: ignore[import-not-found]  # noqa: PLC0415
    from heat.common import config, messaging  # type: ignore[import-not-found]  # noqa: PLC0415
    from heat.engine import scheduler, template  # type: ignore[import-not-found]  # noqa: PLC0415
    from heat.rpc import api  # type: ignore[import-not-found]  # noqa: PLC0415
    from oslo_config import cfg  # type: ignore[import-not-found]  # noqa: PLC0415
    from oslo_log import log  # type: ignore[import-not-found]  # noqa: PLC0415

    log.register_options(cfg.CONF)
    arguments = ["--config-file", _heat_settings(place)]
    cfg.CONF(
        arguments,
        project="heat",
        prog="heat-engine",
        version=version.version_info.version_string(),
    )
    log.setup(cfg.CONF, "heat")
    messaging.setup()
    template._get_template_extension_manager()  # noqa: SLF001
    from heat.engine import service  # noqa: PLC0415

    pause = scheduler.TaskRunner._sleep  # noqa: SLF001
    scheduler.TaskRunner._sleep = lambda self, wait: pause(  # noqa: SLF001
        self, wait and min(wait, LOOKS)
    )
    _find_the_newest()
    service.EngineService(cfg.CONF.host, api.ENGINE_TOPIC).start()
    cfn = config.load_paste_app("heat-api-cfn")
    threading.Thread(
        target=serve_app, args=(cfn, place, "cfn", "engine-cfn"), daemon=True
    ).start()
    serve_app(config.load_paste_app("heat-api"), place, "heat", "engine")


def _prepare_threads() -> Callable[..., None]:
    """Prepare what Heat's threads are, before anything else of it is imported, and return what serves its APIs.

    They are threads from 27 on, and eventlet's before that.
    """
    if int(metadata.version("openstack-heat").partition(".")[0]) >= 27:
        from oslo_service import backend  # type: ignore[import-not-found]  # noqa: PLC0415

        backend.init_backend(backend.BackendType.THREADING)
        return serve
    import eventlet  # type: ignore[import-not-found]  # noqa: PLC0415

    eventlet.monkey_patch()
    return serve_eventlet


def _find_the_newest() -> None:
    """Have Heat find the newest resource of a name, as it does with its usual database.

    While one is replaced there are two. Heat asks for them in no order, and MySQL gives them by their age; PostgreSQL
    gives last whichever was last changed. Then a signal for the new one, though taken, goes to the old one.
    """
    try:
        from heat.db.sqlalchemy import api  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:  # since 21
        from heat.db import api  # type: ignore[import-not-found]  # noqa: PLC0415

    usual, current = api.resource_get_all_by_stack, api.resource_get_all_active_by_stack

    def found(context: Any, stack: str, filters: Any = None) -> dict[str, Any]:
        by_id = {} if filters else current(context, stack)
        return {by_id[each].name: by_id[each] for each in sorted(by_id)} or usual(
            context, stack, filters
        )

    api.resource_get_all_by_stack = found


def heat(place: Place) -> None:
    """The two ports at which Heat is reached, so that it can be out of reach while its engine goes on."""

    async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()

    def reached(
        name: str,
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def connect(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            try:
                there, back = await asyncio.open_connection(HOST, place.ports[name])
            except OSError:
                writer.transport.abort()
                return
            await asyncio.gather(forward(reader, back), forward(there, writer))

        return connect

    async def run() -> None:
        cfn = await asyncio.start_server(
            reached("engine-cfn"), HOST, place.ports["cfn"]
        )
        async with (
            cfn,
            await asyncio.start_server(
                reached("engine"), HOST, place.ports["heat"]
            ) as api,
        ):
            await api.serve_forever()

    asyncio.run(run())


# Swift

_PATIENCE = 10
"""Seconds in which its servers have to reach each other: half a second, as usual, is too short on a busy machine."""


def swift(place: Place) -> None:
    """Swift's four servers, in one process as in its own functional tests; one disk, one copy."""
    import eventlet.wsgi  # type: ignore[import-not-found]  # noqa: PLC0415
    from swift.common import utils, wsgi  # type: ignore[import-not-found]  # noqa: PLC0415

    utils.monkey_patch()
    folder = place.folder / "swift"
    (folder / "disks/d1").mkdir(parents=True, exist_ok=True)
    place.write(
        "swift/swift.conf",
        "[swift-hash]\nswift_hash_path_suffix = lab\n[storage-policy:0]\nname = Policy-0\ndefault = yes\n",
    )
    files = []
    for name in ("account", "container", "object"):
        _ring(folder / f"{name}.ring.gz", place.ports[f"swift-{name}"])
        files.append(
            (name, place.write(f"swift/{name}-server.conf", _storage(place, name)))
        )
    files.append(("proxy", place.write("swift/proxy-server.conf", _proxy(place))))
    eventlet.hubs.use_hub(wsgi.get_hub())
    threads = []
    for name, file in files:
        settings, _, of_all, _ = wsgi.check_config(file, f"{name}-server", verbose=True)
        server = functools.partial(
            eventlet.wsgi.server,
            log=utils.NullLogger(),
            protocol=wsgi.SwiftHttpProtocol,
        )
        app = wsgi.loadapp(file, global_conf=of_all)
        threads.append(
            eventlet.spawn(
                server,
                wsgi.get_socket(settings),
                app,
                capitalize_response_headers=False,
            )
        )
    for thread in threads:
        thread.wait()


def _ring(path: Path, port: int) -> None:
    from swift.common.ring import RingBuilder  # type: ignore[import-not-found]  # noqa: PLC0415

    builder = RingBuilder(4, 1, 1)
    disk = {
        "device": "d1",
        "region": 1,
        "zone": 1,
        "weight": 1,
        "ip": HOST,
        "port": port,
    }
    builder.add_dev({**disk, "replication_ip": HOST, "replication_port": port})
    builder.rebalance()
    builder.get_ring().save(str(path))


def _storage(place: Place, name: str) -> str:
    return f"""
[DEFAULT]
bind_ip = {HOST}
bind_port = {place.ports[f"swift-{name}"]}
swift_dir = {place.folder}/swift
devices = {place.folder}/swift/disks
mount_check = false
fallocate_reserve = 0
log_name = {name}
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
conn_timeout = {_PATIENCE}
"""


def _proxy(place: Place) -> str:
    return f"""
[DEFAULT]
bind_ip = {HOST}
bind_port = {place.ports["swift"]}
swift_dir = {place.folder}/swift
log_name = proxy
[pipeline:main]
pipeline = arrivals catch_errors proxy-logging tempurl authtoken keystoneauth proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = {_PATIENCE}
[filter:arrivals]
paste.filter_factory = system.openstack_place:arrivals
folder = {place.folder}
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:tempurl]
use = egg:swift#tempurl
[filter:keystoneauth]
use = egg:swift#keystoneauth
operator_roles = admin, member, heat_stack_user, heat_stack_owner
reseller_prefix = AUTH
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
delay_auth_decision = True
{place.service_user()}
"""


# Zaqar


def _zaqar(place: Place, transport: str) -> Any:
    """Return what starts Zaqar, with a transport."""
    from oslo_config import cfg  # noqa: PLC0415
    from oslo_log import log  # noqa: PLC0415
    from zaqar import bootstrap  # type: ignore[import-not-found]  # noqa: PLC0415

    redis = f"redis://{HOST}:{place.ports['redis']}"
    file = place.write(
        f"zaqar/{transport}.conf",
        f"""
[DEFAULT]
auth_strategy = keystone
unreliable = True
admin_mode = True
pooling = false
[storage]
message_pipeline = zaqar.notification.notifier
[drivers]
transport = {transport}
message_store = redis
management_store = redis
[drivers:transport:websocket]
bind = {HOST}
port = {place.ports["zaqar-websocket"]}
notification_bind = {HOST}
notification_port = {place.ports["zaqar-notification"]}
[drivers:message_store:redis]
uri = {redis}
[drivers:management_store:redis]
uri = {redis}
[signed_url]
secret_key = lab
[keystone_authtoken]
{place.service_user()}
[trustee]
auth_type = password
auth_url = {place.url("keystone")}
username = heat
password = {PASSWORD}
user_domain_id = default
""",
    )
    log.register_options(cfg.CONF)
    cfg.CONF(["--config-file", file], project="zaqar", prog="zaqar-server")
    log.setup(cfg.CONF, "zaqar")
    return bootstrap.Bootstrap(cfg.CONF)


def zaqar(place: Place) -> None:
    """Zaqar over HTTP."""
    serve(_zaqar(place, "wsgi").transport.app, place, "zaqar")


def zaqar_websocket(place: Place) -> None:
    """Zaqar over WebSocket. Each action arrives at its queue."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    starter = _zaqar(place, "websocket")
    note = Notes(place.folder, "zaqar-websocket")
    transport = starter.transport
    protocol = transport.factory.protocol
    answer = protocol._send_response  # noqa: SLF001

    def send(self: Any, response: Any, in_binary: bool) -> Any:
        request = response._request  # noqa: SLF001
        action, body = (
            getattr(request, "_action", ""),
            getattr(request, "_body", None) or {},
        )
        agent = self.http_headers.get("user-agent", "")
        note(
            time.time(),
            action or "",
            body.get("queue_name", ""),
            agent,
            response._headers["status"],  # noqa: SLF001
        )
        return answer(self, response, in_binary)

    protocol._send_response = send  # noqa: SLF001
    transport.listen()


# The rest


def nova(place: Place) -> None:
    """In the place of Nova: whatever server Heat asks for, before it waits for a DELETE's signal, exists."""
    notes = Notes(place.folder, "nova")
    link = {"rel": "self", "href": place.url("nova") + "/v2.1/"}
    version = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": "2.1",
        "min_version": "2.1",
        "links": [link],
    }

    def answer(request: Request) -> Answer:
        notes(
            time.time(),
            "GET",
            request.path.partition("?")[0],
            request.headers.get("User-Agent", ""),
            200,
        )
        _, _, server = request.path.partition("/servers/")
        value: dict[str, Any] = {"versions": [version], "version": version}
        if server:
            value = {
                "server": {
                    "id": server,
                    "name": server,
                    "status": "ACTIVE",
                    "links": [],
                }
            }
        return Answer(
            headers={"Content-Type": "application/json"},
            body=json.dumps(value).encode(),
        )

    Stub(answer, place.ports["nova"]).serve_forever()


def client(place: Place) -> None:
    """Heat's own client. It does what standard input says, a JSON list a line: [NUMBER, METHOD, {ARGUMENT: VALUE}].

    Each is answered with a line: {"value": …}, {"gone": TRUE} where there is no such thing, or {"error": WORDS}, and
    the number of the question: who was interrupted while waiting may ask again.
    """
    from heatclient import exc  # type: ignore[import-not-found]  # noqa: PLC0415
    from heatclient.client import Client  # type: ignore[import-not-found]  # noqa: PLC0415

    ours = _administrator(place.url("keystone") + "/v3")
    heat = Client("1", session=ours, service_type="orchestration", region_name=REGION)
    records = functools.cache(lambda: _Records(place))
    for line in sys.stdin:
        number, method, arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            if method == "password":
                _set_password(ours, place.url("keystone"), **arguments)
                answer = {"value": None}
            else:
                value = (
                    records().read(**arguments)
                    if method == "records"
                    else _call(heat, method, arguments)
                )
                answer = {"value": value}
        except exc.HTTPNotFound as error:
            answer = {"gone": str(error)}
        except Exception as error:  # noqa: BLE001  # whatever it is, the test is to say it
            answer = {"error": f"{method}: {type(error).__name__}: {error}"}
        print(json.dumps({"number": number, **answer}), flush=True)


def _set_password(administrator: Any, keystone: str, user: str, password: str) -> None:
    """Set the password of a user of Keystone's."""
    administrator.patch(
        f"{keystone}/v3/users/{user}", json={"user": {"password": password}}
    )


class _Records:
    """Heat's database. To ask it takes Heat no time, and tests ask again and again while they wait."""

    def __init__(self, place: Place) -> None:
        import psycopg2  # type: ignore[import-untyped]  # noqa: PLC0415

        self._connection = psycopg2.connect(
            host=f"{place.folder}/postgres", user="postgres", dbname="heat"
        )
        self._connection.autocommit = True

    def read(self, stack: str, resource: str = "") -> list[str]:
        """Return the status of the newest stack with a name, or the statuses of its resources with a name."""
        with self._connection.cursor() as cursor:
            query = "SELECT id, action, status FROM stack WHERE name = %s ORDER BY created_at DESC LIMIT 1"
            cursor.execute(query, [stack])
            found = cursor.fetchall()
            if found and resource:
                query = "SELECT id, action, status FROM resource WHERE stack_id = %s AND name = %s"
                cursor.execute(query, [found[0][0], resource])
                found = cursor.fetchall()
            return [f"{action}_{status}" for _, action, status in found]


def _call(heat: Any, method: str, arguments: dict[str, Any]) -> Any:
    """Call a method of a manager of heatclient's, «stacks.get» for example, and return what it says as JSON can."""
    manager, _, name = method.partition(".")
    value = getattr(getattr(heat, manager), name)(**arguments)
    if name == "list":
        return [each.to_dict() for each in value]
    return (
        value.to_dict()
        if hasattr(value, "to_dict")
        else value
        if isinstance(value, dict)
        else None
    )


def prepare_heat(place: Place) -> None:
    """Fill an empty database of Heat's."""
    from heat.cmd import manage  # type: ignore[import-not-found]  # noqa: PLC0415

    sys.argv = ["heat-manage", "--config-file", _heat_settings(place), "db_sync"]
    manage.main()


SERVICES = {
    "keystone": keystone,
    "engine": engine,
    "heat": heat,
    "swift": swift,
    "zaqar": zaqar,
    "zaqar-websocket": zaqar_websocket,
    "nova": nova,
    "client": client,
    "prepare-keystone": prepare_keystone,
    "prepare-heat": prepare_heat,
}

if __name__ == "__main__":
    SERVICES[sys.argv[1]](Place(Path(sys.argv[2])))
