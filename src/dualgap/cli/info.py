"""``dualgap info``: what runs here, for bug reports and for finding out why something is slow."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from importlib import metadata
from pathlib import Path

from dualgap.cli.output import fact

# Flags of x86 processors that numerical libraries make use of, the slowest first.
_VECTOR_FLAGS = ("sse4_2", "avx", "fma", "avx2", "avx512f")
# Optional extras, and the module that each brings.
_EXTRAS = {
    "report": "matplotlib",
    "dask": "distributed",
    "gpu": "torch",
    "onnx": "onnxruntime",
    "bench": "sklearnex",
}


def info() -> None:
    """Show versions, processor, threads and folders in use."""
    from dualgap import __version__

    fact("dualgap", __version__)
    fact("python", f"{platform.python_version()} on {platform.platform(terse=True)}")
    for package in ("numpy", "scipy", "numba", "scikit-learn"):
        fact(package, metadata.version(package))
    fact("processor", _processor())
    fact("cores", _cores())
    for library in _blas():
        fact("blas", library)
    layers, selected = _threading_layers()
    fact("numba", f"threading layers {', '.join(layers) or 'none'}; {selected} would be used")
    fact("", f"compiled code in {_cache_folder()}")
    fact("data", f"DUALGAP_DATA {_data_folder()}")
    fact("extras", ", ".join(_extras()))


def _processor() -> str:
    """Name and vector instructions of the processor, where the system tells."""
    described = Path("/proc/cpuinfo")
    text = described.read_text(errors="replace") if described.is_file() else ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    shown = name.group(1) if name else platform.processor() or platform.machine()
    found = [flag for flag in _VECTOR_FLAGS if flags and flag in flags.group(1).split()]
    return f"{shown} ({', '.join(found)})" if found else shown


def _cores() -> str:
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return f"{usable} usable of {total}"


def _blas() -> list[str]:
    """Libraries behind numpy's and scipy's matrix products, with their threads."""
    import numpy  # noqa: F401  # loading it is what loads the library
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    found = [
        f"{pool['internal_api']} {pool.get('version') or ''} ({pool.get('architecture') or 'generic'}), "
        f"{pool['num_threads']} threads"
        for pool in pools
    ]
    # numpy and scipy mostly bring the same library, each its own copy.
    return sorted(set(found)) or ["not recognised"]


def _threading_layers() -> tuple[list[str], str]:
    """Threading layers that can be loaded, and the one that a parallel function would get."""
    from numba import config

    modules = {"tbb": "tbbpool", "omp": "omppool", "workqueue": "workqueue"}
    layers = [layer for layer, module in modules.items() if _loads(f"numba.np.ufunc.{module}")]
    preferred = [layer for layer in config.THREADING_LAYER_PRIORITY if layer in layers]
    asked = str(config.THREADING_LAYER)
    if asked in modules:
        return layers, asked if asked in layers else f"{asked} is asked for and missing: none"
    return layers, preferred[0] if preferred else "none"


def _loads(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _cache_folder() -> str:
    from dualgap.solvers import _pair_steps

    return str(_pair_steps.pair_chunk.stats.cache_path)


def _data_folder() -> str:
    folder = os.environ.get("DUALGAP_DATA")
    if not folder:
        return "is not set: dualgap.datasets.find has nowhere to look"
    return f"is {folder}" + ("" if Path(folder).is_dir() else ", which does not exist")


def _extras() -> list[str]:
    return [
        f"{extra} {'installed' if importlib.util.find_spec(module) else 'not installed'}"
        for extra, module in _EXTRAS.items()
    ]
