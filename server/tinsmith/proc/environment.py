"""The environment of a command: what this process inherited, minus secrets. Pure."""

from collections.abc import Iterable, Mapping

from tinsmith.domain.redaction import is_distinctive, is_token

KNOWN_SECRETS = frozenset(
    {"LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "LINKUP_API_KEY", "GEMINI_API_KEY"}
)
"""Variables that hold keys of providers, whatever the configuration says."""


def child_environment(inherited: Mapping[str, str], secret_variables: Iterable[str] = ()) -> dict[str, str]:
    """`inherited` without `secret_variables`, known keys, every `…_API_KEY`, and values that look like tokens."""
    secret = KNOWN_SECRETS.union(secret_variables)
    return {
        name: value
        for name, value in inherited.items()
        if name not in secret and not name.upper().endswith("_API_KEY") and not is_token(value)
    }


def known_values(
    inherited: Mapping[str, str], secret_variables: Iterable[str] = (), found: Iterable[str] = ()
) -> tuple[str, ...]:
    """The values of secret variables and those `found` elsewhere, as far as they are no words; longest first."""
    names = KNOWN_SECRETS.union(secret_variables)
    values = {value for value in (*(inherited.get(name, "") for name in names), *found) if is_distinctive(value)}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


_SOCKETS = frozenset(
    {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"}
    | {"XDG_RUNTIME_DIR", "DOCKER_HOST", "NVIM", "NVIM_LISTEN_ADDRESS", "VSCODE_IPC_HOOK_CLI", "TMUX"}
)
"""Variables that name a way out of the sandbox, which is closed there."""
_CACHES = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "GOCACHE": "go-build",
    "GRADLE_USER_HOME": "gradle",
    "CCACHE_DIR": "ccache",
    "SCCACHE_DIR": "sccache",
    "COMPOSER_CACHE_DIR": "composer",
    "ZIG_GLOBAL_CACHE_DIR": "zig",
    "MPLCONFIGDIR": "matplotlib",
}
"""Where package managers, compilers and libraries keep what they made, by folder below the sandbox's caches."""


def sandbox_environment(environment: Mapping[str, str], caches: str, tmp: str) -> dict[str, str]:
    """`environment` for a command in a sandbox: caches that can be written, `tmp`, nothing that names a socket."""
    kept = {name: value for name, value in environment.items() if name not in _SOCKETS}
    moved = {name: f"{caches}/{folder}".rstrip("/") for name, folder in _CACHES.items()}
    return {**kept, **moved, "TMPDIR": tmp}
