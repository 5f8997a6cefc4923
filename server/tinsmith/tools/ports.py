"""What the tools were made with: the files, what was shown of them, the runner of commands."""

import os
from dataclasses import dataclass

from tinsmith.domain.ports import Documents
from tinsmith.domain.redaction import redact
from tinsmith.domain.tool import CallScope
from tinsmith.proc.environment import known_values
from tinsmith.proc.runner import Runner
from tinsmith.proc.sandbox import Sandbox
from tinsmith.workspace.ledger import Ledger
from tinsmith.workspace.paths import Place, locate
from tinsmith.workspace.protected import ProtectedPaths
from tinsmith.workspace.snapshots import Snapshots

RESULT_CHARACTERS = 20_000
"""Bound of a result that the model sees."""


@dataclass(frozen=True, slots=True)
class ToolPorts:
    """Made once for all conversations. `output_folder` is where long outputs go, which `read` may look at unasked."""

    documents: Documents
    snapshots: Snapshots
    ledger: Ledger
    runner: Runner
    sandbox: Sandbox
    protected_paths: ProtectedPaths
    output_folder: str
    protected: tuple[str, ...]
    secret_variables: frozenset[str]
    secrets: tuple[str, ...]

    async def locate(self, path: str, scope: CallScope) -> Place:
        """As `workspace.paths.locate`, off the loop."""
        return await self.snapshots.off_loop(locate, path, scope.root, (self.output_folder,))

    def redact(self, text: str) -> str:
        """The text without what is known to be secret."""
        return redact(text, self.secrets)


def open_ports(
    documents: Documents,
    cache_dir: str,
    secret_variables: frozenset[str],
    protected: tuple[str, ...],
    sandbox: Sandbox | None = None,
) -> ToolPorts:
    """The ports of this process. Threads are started when first used."""
    output_folder = os.path.join(cache_dir, "output")
    return ToolPorts(
        documents=documents,
        snapshots=Snapshots(documents),
        ledger=Ledger(),
        runner=Runner(output_folder),
        sandbox=sandbox or Sandbox(os.path.join(cache_dir, "sandbox"), os.environ),
        protected_paths=ProtectedPaths(os.path.expanduser("~"), protected),
        output_folder=output_folder,
        protected=protected,
        secret_variables=secret_variables,
        secrets=known_values(os.environ, secret_variables),
    )
