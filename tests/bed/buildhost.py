"""What an image build takes over from the host: its certificate authorities and package indexes.

So a Dockerfile names no index, no proxy and no certificate, and builds behind a company's wall all
the same. The settings are mounted for the time of a build only. Proxies given by environment pass
through buildah by themselves.
"""

from __future__ import annotations

import configparser
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# The names that a pip.conf and pip's environment have for the same setting.
_PIP_SETTINGS: Mapping[str, str] = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
    "timeout": "PIP_DEFAULT_TIMEOUT",
}


@dataclass(frozen=True, slots=True)
class BuildHost:
    """The host's certificate authorities and its settings of pip."""

    authorities: Path | None
    settings: Mapping[str, str]

    def pip_conf(self) -> str:
        """Return a pip.conf for builds."""
        parser = configparser.ConfigParser(interpolation=None)
        parser["global"] = {**self.settings}
        if self.authorities:
            parser["global"]["cert"] = _AUTHORITIES
        text = io.StringIO()
        parser.write(text)
        return text.getvalue()

    def uv_toml(self) -> str:
        """Return a uv.toml for builds."""
        lines = ["native-tls = true"]  # the system's authorities, not those that uv carries
        if index := self.settings.get("index-url"):
            lines.append(f"index-url = {json.dumps(index)}")
        if extra := self.settings.get("extra-index-url"):
            lines.append(f"extra-index-url = {json.dumps(extra.split())}")
        return "\n".join(lines) + "\n"

    def volumes(self, folder: Path) -> list[str]:
        """Write the settings to a folder and return buildah's options that mount them."""
        (folder / "pip.conf").write_text(self.pip_conf())
        (folder / "uv.toml").write_text(self.uv_toml())
        mounts = {folder / "pip.conf": "/etc/pip.conf", folder / "uv.toml": "/etc/uv/uv.toml"}
        if self.authorities:
            mounts[self.authorities] = _AUTHORITIES
        return [f"--volume={outside}:{inside}:ro" for outside, inside in mounts.items()]


def pip_settings(files: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that matter to a build; later files, then the environment, win."""
    parser = configparser.ConfigParser(interpolation=None)
    for text in files:
        parser.read_string(text)
    found = dict(parser["global"]) if parser.has_section("global") else {}
    found |= {key: environment[var] for key, var in _PIP_SETTINGS.items() if var in environment}
    return {key: value for key, value in found.items() if key in _PIP_SETTINGS}


def this_host() -> BuildHost:
    """Read the host's own settings."""
    home = Path.home()
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    texts = [file.read_text() for file in files if file.is_file()]
    named = Path(os.environ.get("SSL_CERT_FILE", _AUTHORITIES))
    return BuildHost(named if named.is_file() else None, pip_settings(texts, os.environ))
