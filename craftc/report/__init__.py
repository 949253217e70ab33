"""The report of a fitted model, one page of HTML for the people who use its clusters.

It needs Jinja2: ``pip install 'craftc[app]'``.
"""

from craftc.report.write import write

__all__ = ["write"]
