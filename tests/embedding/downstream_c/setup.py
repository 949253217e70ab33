"""A plain C extension over craftc.h: no Cython, no NumPy, nothing linked.

The tests compile it against other headers by PLAIN_INCLUDE.
"""

import os

from setuptools import Extension, setup

import craftc

include = os.environ.get("PLAIN_INCLUDE") or craftc.get_include()
setup(name="plain", ext_modules=[Extension("plain", ["plain.c"], include_dirs=[include])])
