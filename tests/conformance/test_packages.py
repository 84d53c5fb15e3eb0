import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kvassay.conformance import discovery
from kvassay.conformance.evidence import deviations
from kvassay.conformance.packages import packages, read

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "conformance" / "adapters"
FILES = sorted(ADAPTERS.glob("*.toml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
RECIPE = (ROOT / "docs" / "recipes" / "package.md").read_text()
CLI = [sys.executable, "-m", "kvassay.conformance.doors.cli"]
RUN = [sys.executable, "-m", "kvassay.conformance.adapters.run"]


def outcome(command, **settings):
    return subprocess.run(command, capture_output=True, text=True, **settings)


def makes_a_backend(path):
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.FunctionDef) and node.name == "backend" for node in tree.body)


def test_every_adapter_has_a_file_beside_it_or_is_announced_and_every_file_an_adapter():
    announced = str(PROJECT["entry-points"]["kvassay.backends"])
    adapters = {path.stem for path in ADAPTERS.glob("*.py") if makes_a_backend(path)}
    of_packages = {stem for stem in adapters if f"adapters.{stem}:" not in announced}
    assert of_packages == {path.stem for path in FILES}


def test_every_package_has_an_extra_that_pins_it_and_every_such_extra_a_package():
    pinning = [name for name, (first, *_) in EXTRAS.items() if "==" in first]
    assert sorted(read(path).name for path in FILES) == sorted(pinning)


def test_discovery_finds_all_that_the_checkout_has():  # also where the wheel is installed
    assert {package.path.name for package in packages()} == {path.name for path in FILES}
    for package in packages():
        assert package.name in discovery.names()
        assert discovery.target(package.name) == package.target


def test_discovery_imports_no_adapter():
    code = """if True:
        import sys
        from kvassay.conformance import discovery
        assert "faiss" in discovery.names() and discovery.target("faiss")
        assert "kvassay.conformance.adapters" not in sys.modules
    """
    assert outcome([sys.executable, "-c", code]).stderr == ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_adapter_says_what_it_must_and_its_deviations_load(path):
    text = path.with_suffix(".py").read_text()
    for word in (
        "b counts",
        "rotates",
        "normalises",
        "decode",
        "sketch",
        "table",
        "seed",
        "stored",
    ):
        assert f"\n{word} " in text, word
    for known in deviations.load(path):
        assert known.reason.endswith(".")


def test_the_table_is_current():
    done = outcome([sys.executable, str(ROOT / "docs" / "packages.py")])
    assert done.returncode == 0, done.stderr


TABLE = '[package]\nname = "a"\nkinds = "mse"\nviolates = "nothing"\ncause = "conforms"\n'


def test_options_of_a_package_are_optional(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(TABLE)
    assert read(path).options == ()
    path.write_text(TABLE + 'options = ["--dim", "64"]\n')
    assert read(path).options == ("--dim", "64")
    assert deviations.load(path) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("package = 1", "package must be a table, got 1"),
        (TABLE + 'version = "1"', "package: no key is called 'version'"),
        (TABLE.replace('cause = "conforms"', ""), "package must have a cause, a text"),
        (TABLE.replace('"mse"', '["mse"]'), "package must have a kinds, a text"),
        (TABLE + 'options = "--dim 64"', "options must be a list of texts, got '--dim 64'"),
    ],
)
@pytest.mark.parametrize("reader", [read, deviations.load])
def test_a_package_table_that_cannot_be_meant_is_refused(tmp_path, reader, text, words):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.toml', package") as caught:
        reader(path)
    assert words in str(caught.value)


def test_a_file_without_a_package_is_none(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("")
    with pytest.raises(ValueError, match=r"a\.toml' must have a \[package\] table"):
        read(path)


@pytest.fixture
def announce(monkeypatch):
    def announced(name, value):
        points = (EntryPoint(name, value, discovery.GROUP),)
        monkeypatch.setattr(discovery, "_entry_points", lambda: points)

    return announced


def test_another_backend_of_a_package_s_name_is_refused(announce):
    announce("faiss", "mine:backend")
    assert discovery.names().count("faiss") == 1
    with pytest.raises(discovery.BackendError) as caught:
        discovery.load("faiss")
    assert str(caught.value) == (
        "2 backends are called 'faiss': name the one that you mean, "
        "kvassay.conformance.adapters.faiss:backend or mine:backend"
    )


def test_a_package_that_is_announced_as_well_is_the_same_backend(announce):
    announce("faiss", "kvassay.conformance.adapters.faiss:backend")
    assert discovery.target("faiss") == "kvassay.conformance.adapters.faiss:backend"


def test_a_package_that_is_gone_is_reported_and_fails_nothing():
    done = outcome([*RUN, "tqdb"], env={**os.environ, "PIP_NO_INDEX": "1"})
    assert done.returncode == 0, done.stderr
    assert f"NOT CHECKED: {EXTRAS['tqdb'][0]} cannot be installed: " in done.stdout


def test_a_package_that_nobody_knows_is_refused():
    done = outcome([*RUN, "nobody"])
    assert done.returncode == 2
    assert "no package is called 'nobody'; known are aither-kvcache, faiss, " in done.stderr


@pytest.fixture
def recipe_done(tmp_path):
    """A copy of the checkout, its name kvassay, to which the recipe has added a package."""
    tree, installed = tmp_path / "kvassay", tmp_path / "installed"
    for name in ("conformance", "reference", "docs/packages.py", "docs/packages.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tree / name)
    blocks = re.findall(r"```toml\n(.*?)```", RECIPE, re.DOTALL)
    extra, table = (re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in blocks)
    head = "[project.optional-dependencies]\n"
    project = (ROOT / "pyproject.toml").read_text().replace(head, head + extra)
    (tree / "pyproject.toml").write_text(project)
    (tree / "conformance" / "adapters" / "example_quant.toml").write_text(table)
    (tree / "conformance" / "adapters" / "example_quant.py").write_text(ADAPTER)
    about = installed / "example_quant-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: example-quant\nVersion: 1.0\n")
    (installed / "example_quant.py").write_text(PACKAGE)
    path = os.pathsep.join(map(str, (tmp_path, installed)))
    return tree, {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}


PACKAGE = """
from kvassay.reference.codecs import codec

def quantizer(dim, bits, seed):
    return codec("turboquant-mse", dim, bits, seed)
"""
ADAPTER = """
from importlib.metadata import version

from kvassay.conformance.protocol import Capabilities

class Backend:
    name = "example-quant"
    capabilities = Capabilities(kinds=("turboquant-mse",), sketches=())

    def __init__(self):
        self.version = version(self.name)

    def codec(self, kind, dim, bits, seed, **options):
        import example_quant

        return example_quant.quantizer(dim, bits, seed)

def backend():
    return Backend()
"""


@pytest.mark.once
def test_the_recipe_adds_a_package(recipe_done):
    tree, environment = recipe_done
    listed = outcome([*CLI, "backends"], env=environment, cwd=tree).stdout
    assert re.search(r"^ *example-quant +1\.0 +turboquant-mse", listed, re.MULTILINE), listed

    known = ["--deviations", str(tree / "conformance" / "adapters" / "example_quant.toml")]
    cell = ["--dim", "64", "--bits", "2", "--effort", "quick", "--workers", "1"]
    for isolated in ([], ["--isolate"]):
        check = [*CLI, "check", "example-quant", *known, *cell, *isolated]
        done = outcome(check, env=environment, cwd=tree)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "example-quant 1.0" in done.stdout

    table = [sys.executable, str(tree / "docs" / "packages.py")]
    assert outcome(table, env=environment).returncode == 1
    assert outcome([*table, "--write"], env=environment).returncode == 0
    assert outcome(table, env=environment).returncode == 0
    row = "| [example-quant 1.0](../conformance/adapters/example_quant.toml) | mse | nothing | "
    assert row in (tree / "docs" / "packages.md").read_text()
