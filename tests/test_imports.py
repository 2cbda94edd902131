"""What importing costs: nothing in the host process, and no library before it is needed."""

import subprocess
import sys

import pytest

import fluoroscope

HEAVY = ("torch", "flwr", "opacus", "dp_accounting", "tenseal", "matplotlib", "ray", "monai", "nvflare")


def python(code: str) -> str:
    """What a fresh interpreter prints, on stderr too."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_importing_the_package_changes_nothing_in_the_process():
    code = """
import ctypes, logging, os, signal, sys, warnings
def touched(*_): raise SystemExit("something was loaded or set")
ctypes.CDLL = touched
before = dict(os.environ), logging.getLogger().handlers[:], logging.getLogger().level, warnings.filters[:], sys.path[:]
import fluoroscope
dir(fluoroscope)
after = dict(os.environ), logging.getLogger().handlers[:], logging.getLogger().level, warnings.filters[:], sys.path[:]
assert before == after
assert [name for name in sys.modules if name.startswith("fluoroscope")] == ["fluoroscope"]
"""
    assert python(code) == ""


def test_a_public_name_brings_what_it_needs_and_no_more():
    code = f"""
import sys
import fluoroscope as fl
fl.BadInput, fl.__version__
assert not set({HEAVY}) & set(sys.modules)
"""
    assert python(code) == ""


@pytest.mark.parametrize("name", fluoroscope.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fluoroscope, name) is getattr(fluoroscope, name)
    assert name in dir(fluoroscope)


def test_public_names_have_a_docstring():
    public = set(fluoroscope.__all__) - {"__version__"}
    assert not [name for name in public if not getattr(fluoroscope, name).__doc__]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fluoroscope.nonsense


def test_a_room_does_not_hide_a_public_function_of_its_name():
    """`fluoroscope.audit` is both: whoever imports from the room first still finds the function."""
    code = """
import fluoroscope as fl
fl._MODULES["audit"] = "fluoroscope.audit"
from fluoroscope.audit import AuditPlan, audit
assert fl.audit is audit
from fluoroscope import audit as again
assert again is audit
import fluoroscope.audit.plan
assert fl.audit is audit
"""
    assert python(code) == ""


def test_the_guard_needs_no_privacy_library_and_leaves_logging_alone():
    """Opacus' import calls logging.basicConfig: Flower's lines would come twice in a hospital's log."""
    code = """
import logging, sys
for name in ("opacus", "dp_accounting", "tenseal"):
    sys.modules[name] = None  # importing it fails
root = logging.getLogger()
before = root.handlers[:], root.level
import fluoroscope
fluoroscope.inspect, fluoroscope.DpSgd, fluoroscope.ClipAndNoise
import fluoroscope.defences.guard, fluoroscope.federation.guard
assert (root.handlers, root.level) == before
"""
    assert python(code) == ""


def test_without_nvflare_one_sentence_says_what_to_install():
    code = """
import sys
sys.modules["nvflare"] = None  # importing it fails
import fluoroscope as fl, fluoroscope.integrations.nvflare_site
try:
    import fluoroscope.integrations.nvflare
except fl.Unsupported as problem:
    print(problem)
"""
    assert python(code) == (
        "the filters for NVFlare need it, and it is not installed here: pip install 'fluoroscope[nvflare]'.\n"
    )


def test_help_and_version_need_no_heavy_library():
    code = f"""
import sys
import click
import typer
from fluoroscope.cli.app import main, program

def leaves(command, path):
    if isinstance(command, click.Group):
        yield path
        for name, inner in command.commands.items():
            yield from leaves(inner, [*path, name])
    else:
        yield path

asked = [[*path, "--help"] for path in leaves(typer.main.get_command(program()), [])]
assert len(asked) > 15
for arguments in [["--version"], *asked]:
    sys.argv = ["fluoroscope", *arguments]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, arguments
    assert not set({HEAVY}) & set(sys.modules), (arguments, set({HEAVY}) & set(sys.modules))
"""
    said = python(code)
    assert said.startswith(f"fluoroscope {fluoroscope.__version__}\n")
    assert "RDLV" in said
