"""A trend, a season of known period and a kernel for what is left: one semi-parametric regression.

Draws docs/pictures/semi_parametric.svg where matplotlib is installed (``pip install 'dualgap[report]'``).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from dualgap import SVR

PERIOD, SLOPE, AMPLITUDE = 12.0, 0.05, 0.8
PICTURE = Path("docs/pictures/semi_parametric.svg")


def trend(X: Any) -> Any:
    """Grows for ever."""
    return X[:, 0]


def season_sine(X: Any) -> Any:
    """With the cosine, a wave of any phase."""
    return np.sin(2 * np.pi * X[:, 0] / PERIOD)


def season_cosine(X: Any) -> Any:
    """See `season_sine`."""
    return np.cos(2 * np.pi * X[:, 0] / PERIOD)


def observations(seed: int = 0) -> tuple[Any, Any]:
    """Ten years of months: trend, season, a bump in year six that nobody has a formula for, noise."""
    X = np.arange(120.0)[:, None]
    bump = 1.5 * np.exp(-(((X[:, 0] - 68.0) / 6.0) ** 2))
    noise = 0.15 * np.random.default_rng(seed).normal(size=120)
    return X, SLOPE * X[:, 0] + AMPLITUDE * np.sin(2 * np.pi * X[:, 0] / PERIOD) + bump + noise


def main() -> None:
    """Fit with and without the functions, and say what each found."""
    X, y = observations()
    settings: dict[str, Any] = {"gamma": 0.01, "C": 1.0, "epsilon": 0.1, "gap_tol": 1e-6}
    plain = SVR(**settings).fit(X, y)
    semi = SVR(parametric=[trend, season_sine, season_cosine], **settings).fit(X, y)
    slope, sine, cosine = semi.parametric_coef_[0]
    print(f"slope {slope:.3f} (true {SLOPE}), amplitude {np.hypot(sine, cosine):.2f} (true {AMPLITUDE})")
    print(f"relative gap {semi.certificate_.relative_gap:.1e}, solver {semi.solver_}")
    ahead = np.arange(120.0, 144.0)[:, None]
    truth = SLOPE * ahead[:, 0] + AMPLITUDE * np.sin(2 * np.pi * ahead[:, 0] / PERIOD)
    for name, model in (("kernel alone", plain), ("with the functions", semi)):
        print(f"two years ahead, {name}: mean error {np.abs(model.predict(ahead) - truth).mean():.2f}")
    if importlib.util.find_spec("matplotlib") and PICTURE.parent.is_dir():
        draw(X, y, plain, semi)


def draw(X: Any, y: Any, plain: SVR, semi: SVR) -> None:
    """Observations, both fits and two years ahead; below, the parts of the semi-parametric one."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    months = np.linspace(0.0, 144.0, 721)[:, None]
    figure = Figure(figsize=(8, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    above.plot(X, y, ".", color="#999999", markersize=4, label="observations")
    above.plot(months, plain.predict(months), color="#c44e52", linewidth=1.2, label="kernel alone")
    above.plot(months, semi.predict(months), color="#2a6f97", linewidth=1.6, label="trend + season + kernel")
    above.axvspan(120, 144, color="#f0f0f0", zorder=0)
    above.annotate("ahead", (132, above.get_ylim()[0]), ha="center", va="bottom", color="#777777")
    above.legend(frameon=False, loc="upper left")
    functions = np.column_stack([phi(months) for phi in (trend, season_sine, season_cosine)])
    parts = functions * semi.parametric_coef_[0]
    below.plot(months, parts[:, 0], color="#55a868", label="trend")
    below.plot(months, parts[:, 1:].sum(axis=1), color="#8172b3", label="season")
    below.plot(months, semi.predict(months) - parts.sum(axis=1), color="#333333", label="kernel and bias")
    below.set_xlabel("month")
    below.legend(frameon=False, ncols=3, loc="upper left")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": "dualgap", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
