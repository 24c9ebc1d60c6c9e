"""What a result was computed with."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of dualgap, Python and the packages below, and the machine."""
    from dualgap import __version__

    found = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    return {
        "Versions": f"dualgap {__version__}, Python {platform.python_version()}, {found}",
        "Machine": f"{platform.system()} {platform.machine()}",
    }
