"""An environment of tox for each published package, beside those in tox.ini."""

import tomllib
from pathlib import Path

from tox.config.loader.memory import MemoryLoader
from tox.config.sets import ConfigSet
from tox.config.types import Command
from tox.plugin import impl
from tox.session.state import State

ROOT = Path(__file__).parent
NAMES = sorted(
    tomllib.loads(path.read_text(encoding="utf-8"))["package"]["name"]
    for path in (ROOT / "conformance" / "adapters").glob("*.toml")
)


@impl(optionalhook=True)  # a tox before 4.29 has no such hook: it fetches one that has
def tox_extend_envs() -> list[str]:
    return NAMES


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    options = state.conf.pos_args(ROOT) or ()
    for name in NAMES:
        run = ["python", "-m", "kvassay.conformance.adapters.run", name, *options]
        state.conf.memory_seed_loaders[name].append(
            MemoryLoader(
                description=f"the suite over {name}: its findings must be the known ones",
                labels=["packages"],
                commands=[Command(run)],
            )
        )
