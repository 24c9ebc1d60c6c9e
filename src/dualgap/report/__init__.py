"""A run on one HTML page that needs nothing but a browser to be read."""

from __future__ import annotations

from dualgap.report.chart import Axis, Series, line_chart
from dualgap.report.page import ReportData, render_page, write_page

__all__ = ["Axis", "ReportData", "Series", "line_chart", "render_page", "write_page"]
