"""pytest collects the examples of the pages, but not the programs that build the site or their output."""

collect_ignore_glob = ["generated/*", "conf.py", "_*.py"]
