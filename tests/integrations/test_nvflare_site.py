"""A site's privacy.json: our filters in the right places, everybody else's as they were, and no scope left open."""

import json

import pytest

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.integrations.nvflare_site import install, open_scopes, policies, privacy_file, read_privacy

ARGUMENTS = {"policy": "/etc/fluoroscope/appetite.toml"}
THEIRS = {
    "scopes": [
        {
            "name": "public",
            "properties": {"train_dataset": "/data"},
            "task_data_filters": [{"name": "BadModelDetector"}],
            "task_result_filters": [{"name": "PercentilePrivacy", "args": {"gamma": 0.02}}, {"name": "SVTPrivacy"}],
        },
        {"name": "private", "task_result_filters": [{"name": "SVTPrivacy"}]},
    ],
    "default_scope": "public",
    "components": [{"id": "c", "path": "some.Component"}],
}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "local").mkdir()
    return privacy_file(tmp_path)


def written(path) -> dict:
    return json.loads(path.read_text())


def names(filters) -> list[str]:
    return [(each.get("name") or each["path"].rpartition(".")[2], each.get("direction")) for each in filters]


def test_a_site_without_scopes_gets_one_that_every_job_falls_into(path):
    assert install(path, ARGUMENTS) is None
    (scope,) = written(path)["scopes"]
    assert written(path)["default_scope"] == scope["name"] == "fluoroscope"
    assert names(scope["task_data_filters"]) == [("Guard", "in"), ("Meter", "out")]
    assert names(scope["task_result_filters"]) == [("Meter", "out")]
    assert scope["task_result_filters"][0]["args"] == ARGUMENTS
    assert policies(written(path)) == [ARGUMENTS["policy"]]


def test_the_filters_of_others_stay_and_ours_stand_at_the_ends(path):
    path.write_text(json.dumps(THEIRS))
    kept = install(path, ARGUMENTS)
    assert json.loads(kept.read_text()) == THEIRS
    now = written(path)
    public, private = now["scopes"]
    assert names(public["task_data_filters"]) == [("Guard", "in"), ("BadModelDetector", None), ("Meter", "out")]
    assert names(public["task_result_filters"]) == [("PercentilePrivacy", None), ("SVTPrivacy", None), ("Meter", "out")]
    assert names(private["task_result_filters"]) == [("SVTPrivacy", None), ("Meter", "out")]
    assert public["properties"] == {"train_dataset": "/data"}
    assert (now["default_scope"], now["components"]) == ("public", THEIRS["components"])
    assert open_scopes(now) == []


def test_twice_is_once_and_another_policy_takes_the_place_of_the_first(path):
    path.write_text(json.dumps(THEIRS))
    install(path, ARGUMENTS)
    first = path.read_bytes()
    assert install(path, ARGUMENTS) is None
    assert path.read_bytes() == first
    assert len(list(path.parent.iterdir())) == 2
    install(path, {"policy": "/other.toml"})
    assert policies(written(path)) == ["/other.toml"]
    assert len(written(path)["scopes"][0]["task_result_filters"]) == 3
    assert len(list(path.parent.iterdir())) == 3, "each file as it was before is kept"


def test_one_scope_alone_leaves_the_others_open(path):
    path.write_text(json.dumps(THEIRS))
    install(path, ARGUMENTS, "private")
    assert open_scopes(written(path)) == ["public"]
    install(path, ARGUMENTS, "hospital")
    assert open_scopes(written(path)) == ["public"]
    assert written(path)["default_scope"] == "public"


def test_a_filter_at_the_wrong_end_is_none(path):
    install(path, ARGUMENTS)
    content = written(path)
    content["scopes"][0]["task_result_filters"][0]["direction"] = "in"
    assert open_scopes(content) == ["fluoroscope"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"scopes": 5}', '{"scopes": [{}]}', '{"scopes": [{"name": "a", "task_data_filters": {}}]}']
)
def test_a_file_that_is_not_understood_stays_as_it_is(path, text):
    path.write_text(text)
    with pytest.raises(BadInput, match=r"privacy\.json"):
        install(path, ARGUMENTS)
    assert path.read_text() == text


def test_a_variable_of_nvflare_in_a_path_is_refused(path):
    with pytest.raises(Misconfigured, match="brace"):
        install(path, {"policy": "/etc/{HOME}/appetite.toml"})
    assert read_privacy(path) == {}


def test_a_servers_workspace_and_any_other_folder_are_refused(tmp_path):
    with pytest.raises(BadInput, match="local/"):
        privacy_file(tmp_path)
    (tmp_path / "local").mkdir()
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_server.json").write_text("{}")
    with pytest.raises(BadInput, match="server"):
        privacy_file(tmp_path)


def test_nvflare_reads_it_as_it_is_meant(path, tmp_path):
    """Built by NVFlare's own configurator: the client has our filters, the server of a shared file has none."""
    pytest.importorskip("nvflare")
    from nvflare.apis.workspace import Workspace
    from nvflare.private.fed.app.fl_conf import create_privacy_manager

    install(path, ARGUMENTS)
    (tmp_path / "startup").mkdir()
    workspace = Workspace(str(tmp_path), "site-1")
    scope = create_privacy_manager(workspace, names_only=False).default_scope
    kinds = {
        (chain, direction): [type(each).__name__ for each in filters]
        for chain in ("task_data_filters", "task_result_filters")
        for direction, filters in getattr(scope, chain).items()
    }
    assert kinds == {
        ("task_data_filters", "in"): ["Guard"],
        ("task_data_filters", "out"): ["Meter"],
        ("task_result_filters", "in"): [],
        ("task_result_filters", "out"): ["Meter"],
    }
    assert scope.task_result_filters["out"][0].policy == ARGUMENTS["policy"]
