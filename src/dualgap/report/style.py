"""How the page and its drawings look: wide and narrow, light and dark, on screen and on paper."""

from __future__ import annotations

PAGE_CSS = """\
:root { --paper: #f6f8fa; --card: #fff; --ink: #1f2328; --dim: #57606a; --rule: #d8dee4;
  --s0: #0b62b8; --s1: #b34700; --s2: #8fbbe3; --heat: 11 98 184;
  --k0: #b34700; --k1: #0b62b8; --k2: #1a7f37; --k3: #8250df; --k4: #9a6700; --k5: #bf3989; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --card: #161b22; --ink: #e6edf3; --dim: #9ea7b3; --rule: #30363d;
    --s0: #6cb6ff; --s1: #ffa657; --s2: #3a6894; --heat: 108 182 255;
    --k0: #ffa657; --k1: #6cb6ff; --k2: #57ab5a; --k3: #b083f0; --k4: #daaa3f; --k5: #e275ad; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
main { max-width: 66rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 0; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 1rem; margin: 0 0 1rem; }
section p { margin: .4rem 0 0; overflow-wrap: anywhere; }
.headline { border-left: 5px solid var(--s0); }
.headline .verdict { font-size: 1.25rem; line-height: 1.4; font-weight: 600; margin: 0; }
.headline.warn { border-left-color: var(--s1); }
.headline ul { margin: .6rem 0 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.whole { white-space: nowrap; }
.dim { color: var(--dim); font-size: .875rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 1.5rem 2rem; }
.beside { min-width: 0; }
.beside h3:not(:first-child), .charts + h3 { margin-top: 1.2rem; }
h3 + .scroll { margin-top: .4rem; }
.scroll { overflow-x: auto; }
details { margin-top: .8rem; }
summary { cursor: pointer; color: var(--dim); }
details > .charts { margin-top: .8rem; }
table { border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; }
tr > :last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--dim); font-weight: 600; font-size: .8125rem; vertical-align: bottom; }
tbody th { font-weight: 500; min-width: 6rem; max-width: 22rem; overflow-wrap: break-word; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.note { min-width: 14rem; }
table.pairs td { min-width: 10rem; overflow-wrap: anywhere; white-space: pre-line; }
table.matrix th, table.matrix td { padding: .3rem .6rem; border: 1px solid var(--rule); }
table.matrix tbody th { min-width: 0; }
table.matrix td { min-width: 3rem; background: rgb(var(--heat) / calc(var(--share) * .45)); }
footer { color: var(--dim); font-size: .8125rem; margin: 0 0 1rem; }
@media print {
  body { background: #fff; font-size: 10pt; }
  main { max-width: none; padding: 0; }
  section { border: 0; border-radius: 0; padding: 0; margin-bottom: 1.2rem; }
  .headline { padding-left: .8rem; border-left: 5px solid var(--s0); }
  .charts { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; }
  figure, tr, .headline { break-inside: avoid; }
  details:not([open]) { display: none; }
  h2 { break-after: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

CHART_CSS = """\
.chart { margin: 0; min-width: 0; }
.chart svg.plot { display: block; width: 100%; height: auto; }
.chart figcaption { margin-bottom: .4rem; }
.chart .legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .2rem 0 0; padding: 0;
  list-style: none; font-size: .875rem; overflow-wrap: anywhere; }
.chart .swatch { width: 30px; height: 10px; margin-right: .4rem; }
.chart text { font-size: 13px; fill: var(--dim, #57606a); }
.chart .grid { stroke: var(--rule, #d8dee4); stroke-width: 1; }
.chart .axis { stroke: var(--dim, #57606a); stroke-width: 1; }
.chart .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.chart .muted { stroke-width: 1; opacity: .5; }
.chart .line.s0 { stroke: var(--s0, #0b62b8); }
.chart .line.s1 { stroke: var(--s1, #b34700); stroke-dasharray: 7 4; }
.chart .dot.s0 { fill: var(--s0, #0b62b8); }
.chart .dot.s1 { fill: var(--s1, #b34700); }
.chart .bar.b0 { fill: var(--s1); }
.chart .bar.b1 { fill: var(--s2); }
.chart .bar.b2 { fill: var(--s0); }
.chart .mark { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 4 3; }
.chart text.name { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.chart .area { fill: var(--k); fill-opacity: .17; }
.chart .pt { fill: var(--k, var(--dim)); stroke: var(--card); stroke-width: .8; }
.chart .ring { fill: none; stroke: var(--ink); stroke-width: .9; opacity: .75; }
.chart .boundary { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linecap: round; }
.chart .edge { fill: none; stroke: var(--ink); stroke-width: .9; stroke-linecap: round; opacity: .8; }
.chart .k0 { --k: var(--k0); }
.chart .k1 { --k: var(--k1); }
.chart .k2 { --k: var(--k2); }
.chart .k3 { --k: var(--k3); }
.chart .k4 { --k: var(--k4); }
.chart .k5 { --k: var(--k5); }
@media (max-width: 640px) { .chart text { font-size: 17px; } }
"""
