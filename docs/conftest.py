"""pytest reads the examples of the pages; the programs that build the site, and what they wrote, are no pages."""

collect_ignore_glob = ["generated/*", "conf.py", "_*.py"]
