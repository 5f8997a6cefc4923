"""Where our files are: the platform's places for an application, unless the environment names others."""

import os
from collections.abc import Mapping

import msgspec


class Directories(msgspec.Struct, frozen=True):
    """Absolute paths; none of them is made here."""

    data: str
    config: str
    cache: str

    @property
    def user_file(self) -> str:
        """The user's settings."""
        return os.path.join(self.config, "tinsmith.json")

    @property
    def store(self) -> str:
        """The directory of the store."""
        return os.path.join(self.data, "store")


def find_directories(environment: Mapping[str, str]) -> Directories:
    """The directories, from TINSMITH_DATA_DIR, TINSMITH_CONFIG_DIR and TINSMITH_CACHE_DIR where these are set."""
    return Directories(
        *(_named(environment, kind) or _platform_directory(kind) for kind in ("data", "config", "cache"))
    )


def _named(environment: Mapping[str, str], kind: str) -> str | None:
    path = environment.get(f"TINSMITH_{kind.upper()}_DIR")
    return os.path.abspath(os.path.expanduser(path)) if path else None


def _platform_directory(kind: str) -> str:
    import platformdirs

    places = platformdirs.PlatformDirs("tinsmith", appauthor=False)
    return os.path.abspath(
        {"data": places.user_data_dir, "config": places.user_config_dir}.get(kind, places.user_cache_dir)
    )
