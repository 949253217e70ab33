"""Modules of craftc that are imported by name or by compiled code, data files and the metadata."""

from PyInstaller.utils.hooks import check_requirement, collect_data_files, collect_submodules, copy_metadata

hiddenimports = collect_submodules("craftc")
datas = collect_data_files("craftc", excludes=["**/*.pxd", "**/*.pyi", "**/*.h"])
for package in ("craftc", "narwhals"):  # narwhals reads its version from it
    if check_requirement(package):  # a checkout that is built in place has none
        datas += copy_metadata(package)
