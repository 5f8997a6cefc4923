"""The program: install, measure the server and the floor in turns, print the table, keep the figures."""

import argparse
import gc
import json
import os
import platform
import tempfile
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bench import scenarios
from bench.answers import READABLE_FILES
from bench.client import Agent
from bench.decoding import measure_decoding
from bench.facts import check_facts
from bench.installed import ROOT, clean_environment, installed
from bench.provider import Provider
from bench.report import keep, say, table
from bench.scenarios import Samples, Session
from bench.store import measure_store
from bench.tools import measure_tools


class Repeats(NamedTuple):
    """How often each scenario runs."""

    starts: int
    prompts: int
    tools: int
    relays: int
    cancels: int
    calls: int = 0
    decodings: int = 0
    flood: int = 0
    """Megabytes."""
    messages: int = 0
    """Of the large store."""


STREAMS = 10
FULL = Repeats(
    starts=15, prompts=40, tools=8, relays=5, cancels=12, calls=10, decodings=10, flood=1_000, messages=200_000
)
SHORT = Repeats(starts=4, prompts=10, tools=2, relays=1, cancels=3, calls=3, decodings=3, flood=1_000, messages=10_000)


def main(arguments: Sequence[str]) -> int:
    """Run; 1 when a fact that does not depend on the machine is wrong."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--short", action="store_true", help="few repeats, under a minute")
    repeats = SHORT if parser.parse_args(arguments).short else FULL
    gc.disable()  # a collection here would look like a slow agent
    with installed() as environment, stage(environment) as (server, floor, provider):
        measured = measure(environment / "bin" / "python", (server, floor), provider, repeats)
        python, place = environment / "bin" / "python", server.workspace.parent
        samples = measured[server.name], measured[floor.name]
        measure_tools(python, place, server.environment, repeats.calls, *samples)
        measure_store(python, place, server.environment, repeats.messages, repeats.calls, samples)
        measure_commands(server, provider, repeats, samples[0])
        measure_decoding(python, server.environment, repeats.decodings, *samples)
        facts = check_facts(server, measured[server.name])
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    say(table(measured[server.name], measured[floor.name]))
    say("\n".join(f"{'holds' if fact.holds else 'WRONG'}: {fact.text}" for fact in facts))
    keep(ROOT / "bench" / "results", measured[server.name], measured[floor.name], facts)
    return 0 if all(fact.holds for fact in facts) else 1


@contextmanager
def stage(environment: Path) -> Generator[tuple[Agent, Agent, Provider]]:
    """The server, the floor and the provider, with fresh directories and a workspace of small files."""
    with tempfile.TemporaryDirectory(prefix="tinsmith-bench-") as place, Provider() as provider:
        home, workspace = Path(place) / "home", Path(place) / "workspace"
        for made in (home / "config", workspace):
            made.mkdir(parents=True)
        settings = {
            "default_model": "bench",
            "permission_mode": "full",
            "llm_config": {"base_url": provider.base_url},
        }
        (home / "config" / "tinsmith.json").write_text(json.dumps(settings))
        for number in range(READABLE_FILES):
            (workspace / f"f{number}.txt").write_text("".join(f"line {line} of file {number}\n" for line in range(40)))
        variables = {
            **clean_environment(),
            "HOME": str(home),
            **{f"TINSMITH_{kind.upper()}_DIR": str(home / kind) for kind in ("data", "config", "cache")},
            "BENCH_BASE_URL": provider.base_url,
            "TINSMITH_SANDBOX": "off",  # the floor has none either
        }
        binaries = environment / "bin"
        server = Agent("tinsmith", (str(binaries / "tinsmith"), "serve"), variables, workspace)
        least = (str(binaries / "python"), str(ROOT / "bench" / "floor.py"))
        yield server, Agent("floor", least, variables, workspace), provider


def measure(python: Path, agents: Sequence[Agent], provider: Provider, repeats: Repeats) -> dict[str, Samples]:
    """Agent name → its samples. The agents take turns, so that a busy moment of the machine meets them all."""
    measured: dict[str, Samples] = {agent.name: defaultdict(list) for agent in agents}
    for agent in agents:  # the first start checks the settings and fills the kernel's file cache
        scenarios.start(agent, provider, defaultdict(list))
    for _, agent in product(range(repeats.starts), agents):
        scenarios.bare_interpreter(python, measured[agent.name])
        scenarios.durable_write(agent.workspace.parent, measured[agent.name])
        scenarios.start(agent, provider, measured[agent.name])
        scenarios.start_in_haste(agent, provider, measured[agent.name])
    plan = (
        (scenarios.prompt, repeats.prompts),
        (scenarios.read_rounds, repeats.tools),
        (scenarios.bash_rounds, repeats.tools),
        (scenarios.relay, repeats.relays),
        (scenarios.stream, STREAMS),
        (scenarios.cancel_silence, repeats.cancels),
        (scenarios.cancel_command, repeats.cancels),
    )
    with ExitStack() as stack:
        sessions = [stack.enter_context(Session(agent, provider, measured[agent.name])) for agent in agents]
        for scenario, count in plan:
            for _, session in product(range(count), sessions):
                scenario(session)
    return measured


def measure_commands(server: Agent, provider: Provider, repeats: Repeats, samples: Samples) -> None:
    """What the floor has no like of: commands in the sandbox, and one that writes without an end."""
    environment = {name: value for name, value in server.environment.items() if name != "TINSMITH_SANDBOX"}
    confined: Samples = defaultdict(list)
    with Session(server._replace(environment=environment), provider, confined) as session:
        for _ in range(repeats.tools):
            scenarios.bash_rounds(session)
        scenarios.flood(session, repeats.flood)
    samples["confined bash round"] = confined["bash round"]
    for name in ("flood, ping", "flood, memory"):
        samples[name] = confined[name]
