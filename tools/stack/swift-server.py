"""OpenStack Swift in one process: its proxy with the S3 face, and one server of each kind behind.

Arguments: a directory for everything, an address, the first of four ports, an account and user as
`account:user` (they are the access key), the secret key, the most keys in one page of a listing. Prints `ready` when it listens.
"""

import os
import sys

import eventlet
from swift.common import utils

utils.eventlet_monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.storage_policy import reload_storage_policies  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

PIPELINE = "s3api tempauth slo proxy-server"
BACKENDS = ("account", "container", "object")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def write_ring(directory, kind, address, port):
    builder = RingBuilder(2, 1, 1)
    device = {"id": 0, "region": 1, "zone": 1, "weight": 1, "device": "disk", "meta": ""}
    for prefix in ("", "replication_"):
        device[prefix + "ip"] = address
        device[prefix + "port"] = port
    builder.add_dev(device)
    builder.rebalance()
    builder.get_ring().save(os.path.join(directory, f"{kind}.ring.gz"))


def proxy_conf(access_key, secret, page_keys):
    account, user = access_key.split(":")
    return f"""
[pipeline:main]
pipeline = {PIPELINE}
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 60
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
max_bucket_listing = {page_keys}
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret} .admin
[filter:slo]
use = egg:swift#slo
"""


class NoCache:
    """Stands for memcached, which is only there to be faster: it has forgotten everything."""

    def get(self, *_args, **_options):
        return None

    def set(self, *_args, **_options):
        pass

    delete = set


def without_memory(app):
    def respond(environ, start_response):
        environ["swift.cache"] = NoCache()
        return app(environ, start_response)

    return respond


def serve(conf_path, sock):
    # As Swift's own run_server does it, which can't be called twice in one process.
    wsgi.server(
        sock,
        without_memory(loadapp(conf_path, global_conf={"log_name": "swift"})),
        utils.NullLogger(),
        protocol=SwiftHttpProtocol,
        capitalize_response_headers=False,
    )


def main(directory, address, first_port, access_key, secret, page_keys):
    os.makedirs(os.path.join(directory, "devices", "disk"))
    common = f"[DEFAULT]\nswift_dir = {directory}\ndevices = {directory}/devices\nmount_check = no\n"
    write(os.path.join(directory, "swift.conf"), "[swift-hash]\nswift_hash_path_suffix = test\n")
    utils.set_swift_dir(directory)
    utils.validate_hash_conf()
    reload_storage_policies()
    confs = {"proxy": proxy_conf(access_key, secret, page_keys)}
    for kind in BACKENDS:
        confs[kind] = f"[app:main]\nuse = egg:swift#{kind}\n"
    listening = []
    for port, (kind, text) in enumerate(confs.items(), int(first_port)):
        if kind != "proxy":
            write_ring(directory, kind, address, port)
        path = os.path.join(directory, f"{kind}.conf")
        write(path, common + text)
        listening.append((path, eventlet.listen((address, port))))
    running = [eventlet.spawn(serve, path, sock) for path, sock in listening]
    print("ready", flush=True)
    for server in running:
        server.wait()


main(*sys.argv[1:])
