"""Where a comparison was run: processor, memory and versions, without anything that names a person or a place."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

# Parts of dualgap that no fit goes through: a change there leaves results comparable.
_BESIDE = ("bench", "cli", "report", "reproduce")
# What decides how fast the libraries are, beside themselves.
_BELOW = ("numpy", "scipy", "numba", "scikit-learn")
_PACKAGES = {
    "kernel": (*_BELOW, "scikit-learn-intelex", "daal", "libsvm-official", "tbb"),
    "linear": (*_BELOW, "liblinear-official", "skglm", "snapml"),
    "l1": _BELOW,
    "papers": _BELOW,
}


def today() -> str:
    """The day in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> dict[str, Any]:
    """Processor, cores and memory."""
    from dualgap.bench.libraries import libsvm_has_openmp

    return {
        "processor": _processor(),
        "cores": available_cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "libsvm_openmp": libsvm_has_openmp(),
    }


def describe_versions(kind: str = "kernel") -> dict[str, str | None]:
    """Versions of everything that a comparison computes with; None for what is not installed."""
    from dualgap import __version__

    found: dict[str, str | None] = {"python": platform.python_version(), "dualgap": __version__}
    found["dualgap source"] = _source_digest()
    for name in _PACKAGES[kind]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _source_digest() -> str:
    """Between two releases the version does not change and the code does."""
    import dualgap

    root = Path(dualgap.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in _BESIDE:
            continue
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]  # enough to tell any two states apart


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9)
    except (AttributeError, ValueError, OSError):
        return None
