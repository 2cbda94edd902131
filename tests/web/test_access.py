"""The door: without the token, under another name, or with another method there is nothing to read."""

import pytest

from fluoroscope.web.access import Guarded, answered_hosts, new_token
from tests.web.conftest import BASE, TOKEN

PAGES = ("/", "/api/runs", "/compare", "/static/live.js", "/events/runs", "/nonsense", "/favicon.ico")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer " + "9" * 60_000},
        {"Cookie": f"fluoroscope={TOKEN}"},
        {"Cookie": f"fluoroscope-8766={TOKEN}"},
        {"Cookie": "fluoroscope-8765="},
        {"Cookie": "fluoroscope-8765=\u00e4".encode("latin-1")},
    ],
    ids=range(9),
)
def test_without_the_token_nothing_is_answered(client, path, shown):
    del client.headers["Authorization"]
    answer = client.get(path, headers=shown)
    assert answer.status_code == 401
    assert "needs the token" in answer.text
    assert len(answer.text) < 200


def test_the_token_in_the_address_becomes_a_cookie(client):
    del client.headers["Authorization"]
    assert client.get("/?token=wrong").status_code == 401
    answer = client.get(f"/compare?before=a&token={TOKEN}&after=b")
    assert (answer.status_code, answer.headers["location"]) == (303, "/compare?before=a&after=b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("fluoroscope-8765=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/").status_code == 200, "by the cookie alone"


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example", "/%0d%0aX-Evil: 1"])
def test_the_token_sends_nobody_elsewhere(client, path):
    answer = client.get(f"{BASE}{path}?token={TOKEN}")
    where = answer.headers.get("location", "/")
    assert where.startswith("/")
    assert not where.startswith(("//", "/\\"))
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "localhost:8766", "127.0.0.1:8765.evil", ""],
)
def test_another_name_of_the_host_is_refused(client, host):
    """A page elsewhere may point its own name at this machine (DNS rebinding)."""
    assert client.get("/", headers={"Host": host}).status_code == 421
    assert client.get(f"/?token={TOKEN}", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_names_that_are_answered():
    assert answered_hosts("0.0.0.0", 80) == {
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost",
        "localhost:80",
        "[::1]",
        "[::1]:80",
    }
    assert {"10.0.0.7:99", "viewer.clinic:99"} < answered_hosts("10.0.0.7", 99, ["Viewer.Clinic"])
    assert "proxy:444" in answered_hosts("127.0.0.1", 99, ["proxy:444"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_it_is_for_reading_only(client, method):
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", [*PAGES[:4], "/nonsense"])
def test_every_answer_has_the_headers(client, path):
    for answer in (client.get(path), client.get(path, headers={"Host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


def test_tokens_are_long_and_new_and_not_in_a_traceback():
    assert len({new_token() for _ in range(100)}) == 100
    assert min(len(new_token()) for _ in range(10)) >= 43
    assert TOKEN not in repr(Guarded(None, TOKEN, frozenset()))
