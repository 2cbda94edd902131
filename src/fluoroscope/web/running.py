"""Starting the server: a socket on loopback, a token, and an end that waits for nobody."""

import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from fluoroscope.errors import BadInput
from fluoroscope.web.access import answered_hosts, new_token
from fluoroscope.web.app import Watched, guarded


@dataclass(frozen=True)
class Address:
    """Where the server listens, and under which other names it answers."""

    host: str = "127.0.0.1"
    port: int = 8765
    """0 takes any that is free."""
    names: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def serve(watched: Watched, address: Address, ready: Callable[[str], None]) -> None:
    """Answer until Ctrl-C; `ready` is told the address with its token, once it is listened at.

    Raises:
        BadInput: the port is taken, or the address is not this machine's.
    """
    listening = _listen(address)
    port = listening.getsockname()[1]
    token, hosts = new_token(), answered_hosts(address.host, port, address.names)
    app = guarded(watched, token, hosts, port, lambda: server.should_exit)
    # No access log: the first address that is asked for has the token in it.
    config = uvicorn.Config(
        app, log_level=logging.ERROR, access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=3, lifespan="off",
    )  # fmt: skip
    server = uvicorn.Server(config)
    name = address.names[0] if address.names else address.host
    ready(f"http://{f'[{name}]' if ':' in name else name}:{port}/?token={token}")
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn passes it on, after it has closed everything
        return
    finally:
        listening.close()


def _listen(address: Address) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where[:2], family=family)
    except OSError as problem:
        raise BadInput(
            f"cannot listen at {address.host} port {address.port} ({problem.strerror}): choose another --port, 0 for "
            "any that is free."
        ) from problem
