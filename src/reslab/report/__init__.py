"""Reports: a study's records as one page that opens offline, figures and tables. No torch."""

from reslab.report.page import ReportPaths, write_report

__all__ = ["ReportPaths", "write_report"]
