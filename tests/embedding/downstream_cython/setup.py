"""A package that cimports craftc: the whole of what its build needs to know of craftc is get_include()."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import craftc

include = craftc.get_include()
setup(
    name="rider",
    ext_modules=cythonize(
        [Extension("rider", ["rider.pyx"], include_dirs=[include])],
        include_path=[include],
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False},
    ),
)
