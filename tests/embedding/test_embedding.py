"""Extensions of other packages over craftc's C surface: compiled here, against the checkout and against a
wheel built from it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import craftc
from craftc._kernels import embed
from tests.common import ROOT, need

HERE = ROOT / "tests" / "embedding"
MODULES = {"downstream_cython": "rider", "downstream_c": "plain"}
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

#: What `from craftc.api cimport ...` gives, as the compiler wrote it down. A line that changes or goes is a
#: new major version.
SURFACE = {
    "craftc_api_version": "uint32_t (void)",
    "craftc_craft_assign": "int (craftc_costs const *, void const *, int, Py_ssize_t, void const *, int, "
    "Py_ssize_t, Py_ssize_t, "
    "int32_t *, double *, double *, Py_ssize_t, double *)",
    "craftc_craft_scratch_size": "Py_ssize_t (craftc_costs const *)",
    "craftc_craft_shape": "int (craftc_costs const *, Py_ssize_t *, Py_ssize_t *, Py_ssize_t *)",
    "craftc_edges_check": "int (int32_t const *, Py_ssize_t, Py_ssize_t)",
    "craftc_edges_pass": "int (craftc_edges const *, Py_ssize_t, Py_ssize_t, double *, double *)",
    "craftc_moments_add": "int (craftc_grid const *, int64_t *, void const *, int, void const *, int, "
    "int64_t)",
    "craftc_moments_grid": "int (double const *, double const *, Py_ssize_t, double *, double *)",
    "craftc_moments_mean": "int (craftc_grid const *, int64_t const *, double *, double *)",
    "craftc_moments_merge": "int (craftc_grid const *, int64_t *, int64_t const *, int64_t)",
    "craftc_moments_size": "Py_ssize_t (craftc_grid const *)",
    "craftc_nearest": "int (void const *, int, Py_ssize_t, Py_ssize_t, Py_ssize_t, double const *, "
    "Py_ssize_t, Py_ssize_t, int32_t *, "
    "double *, double *)",
    "craftc_nearest_scratch_size": "Py_ssize_t (Py_ssize_t, Py_ssize_t)",
    "craftc_simd_level": "int (void)",
}


def run(command, cwd, **environment):
    """A command in an environment without what would lead it to another craftc; fails with all it said."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CFLAGS", "LDFLAGS")
    }
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean | environment, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def compiled(downstream, at, craftc_folder, **environment):
    """Folder of the built extension of a downstream package, compiled against the craftc in a folder."""
    shutil.copytree(HERE / downstream, at / "source")
    flags = (
        ""
        if os.name == "nt"
        else "-O0 -Wall -Wextra -Werror -Wno-type-limits"
        if downstream == "downstream_c"
        else "-O0"
    )
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", at / "lib"]
    code, said = run(command, at / "source", PYTHONPATH=str(craftc_folder), CFLAGS=flags, **environment)
    assert code == 0, said
    return at / "lib"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Folder of an unpacked wheel: CRAFTC_WHEEL where that is set, else built from this tree (what is up to
    date is taken as it is).
    """
    unpacked = tmp_path_factory.mktemp("wheel")
    if "CRAFTC_WHEEL" in os.environ:
        return extracted(os.environ["CRAFTC_WHEEL"], unpacked)
    need("setuptools", "Cython")
    tree = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    for folder in ("craftc", "src"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tree / name)
    if (ROOT / "build" / "cython").is_dir():
        shutil.copytree(
            ROOT / "build" / "cython", tree / "build" / "cython", ignore=shutil.ignore_patterns("*.o")
        )
    kernels = tree / "build" / "lib" / "craftc" / "_kernels"
    kernels.mkdir(parents=True)
    for built in (ROOT / "craftc" / "_kernels").glob(f"*{SUFFIX}"):
        shutil.copy2(built, kernels / built.name)
    code, said = run(
        [
            sys.executable,
            "setup.py",
            "-q",
            "build",
            "--build-lib",
            "build/lib",
            "bdist_wheel",
            "--dist-dir",
            "dist",
        ],
        tree,
    )
    assert code == 0, said
    [found] = (tree / "dist").glob("*.whl")
    return extracted(found, unpacked)


def extracted(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(params=["checkout", "wheel"])
def installed(request):
    return ROOT if request.param == "checkout" else request.getfixturevalue("wheel")


@pytest.mark.slow
@pytest.mark.parametrize("downstream", MODULES)
def test_a_downstream_extension_computes_what_craftc_computes(downstream, installed, tmp_path):
    need("setuptools", *(["Cython"] if downstream == "downstream_cython" else []))
    library = compiled(downstream, tmp_path, installed)
    command = [sys.executable, HERE / "checks.py", MODULES[downstream], installed]
    code, said = run(command, tmp_path, PYTHONPATH=os.pathsep.join(map(str, (installed, library))))
    assert code == 0, said
    assert re.search(r"^\d\d checks$", said, re.MULTILINE), said


@pytest.mark.slow
def test_every_instruction_set_gives_the_same(tmp_path):
    need("setuptools")
    library = compiled("downstream_c", tmp_path, ROOT)
    for level in ("baseline", "v3"):
        command = [sys.executable, HERE / "checks.py", "plain", ROOT]
        code, said = run(
            command, tmp_path, PYTHONPATH=os.pathsep.join(map(str, (ROOT, library))), CRAFTC_SIMD=level
        )
        assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize(("language", "source"), [("cython", "shops.pyx"), ("c", "assign.c")])
def test_the_examples_of_the_documentation_run(language, source, tmp_path):
    need("setuptools", *(["Cython"] if language == "cython" else []))
    page = (ROOT / "docs" / "embedding.md").read_text()
    [setup] = [
        block
        for block in re.findall(r"```python\n(import craftc\n.*?)```", page, re.DOTALL)
        if source in block
    ]
    [code] = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    (tmp_path / "setup.py").write_text(setup)
    (tmp_path / source).write_text(code)
    status, said = run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        tmp_path,
        PYTHONPATH=str(ROOT),
        CFLAGS="-O0",
    )
    assert status == 0, said
    script = {
        "cython": """
            import shops
            rows, centres = np.array([[0.0, 1.0], [4.0, 4.0]]), np.array([[5.0, 5.0], [0.0, 0.0]])
            labels, squared = np.zeros(2, np.int32), np.zeros(2)
            shops.nearest(rows, centres, labels, squared)
            assert (labels.tolist(), squared.tolist()) == ([1, 0], [1.0, 2.0])
        """,
        "c": """
            import assign
            heart = craftc.datasets.load_heart().data
            of_levels, of_numbers = craftc.CRAFT(covariance="diagonal", random_state=0), craftc.PaperCRAFT(3)
            for model in (of_levels, of_numbers):
                model.fit(heart)
                costs = craftc.embed.CraftCosts(model)
                table, labels = costs.encode(heart), np.full(len(heart), -1, np.int32)
                assign.assign(costs.capsule, table.numeric, table.codes, labels)
                assert np.array_equal(labels, model.predict(heart))
        """,
    }[language]
    script = "import craftc, numpy as np\n" + textwrap.dedent(script)
    status, said = run(
        [sys.executable, "-c", script], tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path)])
    )
    assert status == 0, said


def test_the_wheel_holds_what_embedders_compile_against(wheel):
    files = {
        path.relative_to(wheel / "craftc").as_posix()
        for path in (wheel / "craftc").rglob("*")
        if path.is_file()
    }
    assert files >= {
        "craftc.h",
        "api.pxd",
        "embed.py",
        "_kernels/embed.pxd",
        "_kernels/embed.pyi",
        f"_kernels/embed{SUFFIX}",
    }
    assert not [name for name in files if name.endswith((".pyx", ".c"))]


@pytest.fixture(scope="session")
def altered(tmp_path_factory):
    """Imports the plain extension compiled against a header in which some text was replaced; returns exit
    status and what was said.
    """
    need("setuptools")

    def build_and_import(old, new):
        at = tmp_path_factory.mktemp("altered")
        header = (ROOT / "craftc" / "craftc.h").read_text()
        assert header.count(old) == 1
        (at / "include" / "craftc").mkdir(parents=True)
        (at / "include" / "craftc" / "craftc.h").write_text(header.replace(old, new))
        library = compiled("downstream_c", at, ROOT, PLAIN_INCLUDE=str(at / "include"))
        script = "import plain; print('version', plain.version()[0])"
        return run([sys.executable, "-c", script], at, PYTHONPATH=os.pathsep.join(map(str, (ROOT, library))))

    return build_and_import


def test_an_extension_built_against_a_later_interface_says_what_to_do(altered):
    code, said = altered("#define CRAFTC_API_VERSION 1u", "#define CRAFTC_API_VERSION 9u")
    assert code == 1
    assert re.search(
        r"ImportError: The installed craftc offers version 1 of its C interface \(\d+ bytes\), and this "
        r"extension was compiled against "
        r"version 9 \(\d+ bytes\): upgrade craftc, or rebuild the extension against the craftc that is "
        r"installed\.",
        said,
    ), said


def test_an_extension_that_expects_more_functions_says_what_to_do(altered):
    code, said = altered("} craftc_api;", "    int (*later)(void);\n} craftc_api;")
    assert code == 1
    sizes = re.search(r"ImportError: .*\((\d+) bytes\).*\((\d+) bytes\): upgrade craftc", said)
    assert sizes is not None, said
    assert int(sizes[2]) == int(sizes[1]) + ctypes.sizeof(ctypes.c_void_p)


def test_an_extension_built_against_another_interface_says_what_to_do(altered):
    code, said = altered('"craftc._C_API.v1"', '"craftc._C_API.v2"')
    assert code == 1
    assert (
        "offers the C interface 'craftc._C_API.v1', and this extension was compiled against "
        "'craftc._C_API.v2': rebuild" in said
    ), said


def test_an_extension_built_against_an_earlier_interface_runs(altered):
    assert altered("#define CRAFTC_API_VERSION 1u", "#define CRAFTC_API_VERSION 0u") == (0, "version 1\n")


@pytest.mark.skipif(os.name == "nt", reason="the flags are those of gcc and clang")
@pytest.mark.parametrize("python", [True, False], ids=["with Python.h", "alone"])
@pytest.mark.parametrize(("compiler", "language"), [("cc", "c -std=c11"), ("c++", "c++ -std=c++17")])
def test_the_header_compiles_without_a_warning(compiler, language, python, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on the path")
    source = tmp_path / "source"
    before = "#include <Python.h>\n" if python else ""
    use = (
        "const craftc_api *use(void) { return craftc_import(); }\n"
        if python
        else "int use(const craftc_api *api);\n"
    )
    source.write_text(before + '#include "craftc/craftc.h"\n#include "craftc/craftc.h"\n' + use)
    folders = [f"-isystem{sysconfig.get_path('include')}", f"-I{craftc.get_include()}"]
    command = [
        compiler,
        "-x",
        *language.split(),
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        *folders,
        "-fsyntax-only",
        source,
    ]
    code, said = run(command, tmp_path)
    assert code == 0, said


def test_the_surface_stands_still():
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    assert {name: name_of(capsule).decode() for name, capsule in embed.__pyx_capi__.items()} == SURFACE
    assert name_of(embed._C_API) == b"craftc._C_API.v1"
    listed = (ROOT / "craftc" / "api.pxd").read_text()
    types = {"craftc_costs", "craftc_costs_of", "craftc_edges", "craftc_grid"}
    assert set(re.findall(r"^    (craftc_\w+),$", listed, re.MULTILINE)) == set(SURFACE) | types


def test_include_leads_to_the_header():
    assert (Path(craftc.get_include()) / "craftc" / "craftc.h").is_file()


def test_costs_of_something_else():
    with pytest.raises(TypeError, match="CraftCosts reads a fitted CRAFT, got DPMeans"):
        craftc.embed.CraftCosts(craftc.DPMeans())
    with pytest.raises(NotFittedError):
        craftc.embed.CraftCosts(craftc.CRAFT())


def test_costs_outlive_the_next_fit():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(60, 2)) + 9 * rng.integers(0, 2, (60, 1)), rng.normal(size=(50, 3))
    model = craftc.CRAFT(covariance="diagonal", n_init=2, random_state=0).fit(first)
    costs, n_clusters = craftc.embed.CraftCosts(model), model.n_clusters_
    codes = costs.encode(first).codes
    model.fit(second)
    assert (costs.n_clusters, costs.n_numeric, costs.n_categorical) == (n_clusters, 0, 2)
    np.testing.assert_array_equal(costs.encode(first).codes, codes)
    with pytest.raises(ValueError, match="X has 3 features, but CRAFT is expecting 2"):
        costs.encode(second)


def test_rows_of_a_raw_model_can_be_written_by_hand():
    heart = craftc.datasets.load_heart().data
    model = craftc.PaperCRAFT(3, random_state=0).fit(heart)
    table = craftc.embed.CraftCosts(model).encode(heart)
    np.testing.assert_array_equal(table.numeric, heart[list(model.numeric_features_in_)].to_numpy(float))
    for d, name in enumerate(model.categorical_features_in_):
        assert [list(model.levels_[d]).index(level) for level in heart[name]] == table.codes[:, d].tolist()


class Grid(ctypes.Structure):
    """craftc_grid."""

    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("n_numeric", "n_categorical", "n_levels")),
        *((name, ctypes.c_void_p) for name in ("centre", "scale", "level_start")),
    )


def function(name, *types, returns=ctypes.c_int):
    """A function of the C surface."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(returns, *types)(pointer(embed.__pyx_capi__[name], SURFACE[name].encode()))


def test_sums_of_groups_are_those_of_their_rows():
    """Added, merged and taken out again, without a compiler."""
    array, number = ctypes.c_void_p, ctypes.c_int64
    add = function("craftc_moments_add", array, array, array, ctypes.c_int, array, ctypes.c_int, number)
    merge = function("craftc_moments_merge", array, array, array, number)
    mean_of = function("craftc_moments_mean", array, array, array, array)
    size_of = function("craftc_moments_size", array, returns=ctypes.c_ssize_t)
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 2)), rng.integers(0, [3, 5], (30, 2)).astype(np.uint8)
    weight, start = rng.integers(1, 5, 30), np.array([0, 3])
    centre, scale = np.zeros(2), np.full(2, 2.0**30)
    where = Grid(2, 2, 8, centre.ctypes.data, scale.ctypes.data, start.ctypes.data)
    groups = np.zeros((3, size_of(ctypes.addressof(where))), np.int64)
    mean, deviations = np.empty((2, 2))

    def check(group, rows):
        w = weight[rows]
        levels = [np.bincount(codes[rows, d], w, n) for d, n in enumerate((3, 5))]
        np.testing.assert_array_equal(group[:9], np.concatenate([[w.sum()], *levels]))
        assert (
            mean_of(ctypes.addressof(where), group.ctypes.data, mean.ctypes.data, deviations.ctypes.data) == 0
        )
        expected = np.average(X[rows], axis=0, weights=w)
        np.testing.assert_allclose(mean, expected, rtol=1e-7)
        np.testing.assert_allclose(deviations, w @ (X[rows] - expected) ** 2, rtol=1e-7)

    for i in range(30):
        row = X[i].ctypes.data, 8, codes[i].ctypes.data, 1, int(weight[i])  # CRAFTC_FLOAT64, CRAFTC_UINT8
        assert add(ctypes.addressof(where), groups[i % 2].ctypes.data, *row) == 0
    for sign, rows in ((1, slice(None)), (-1, slice(0, None, 2))):
        if sign > 0:
            groups[2] = groups[0]
        assert merge(ctypes.addressof(where), groups[2].ctypes.data, groups[1].ctypes.data, sign) == 0
        check(groups[2], rows)
