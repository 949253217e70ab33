"""Writes the type stubs of the kernels, ``craftc/_kernels/NAME.pyi``: ``python src/stubs.py``.

A memoryview, a number and an extension type of NAME.pyx say their type themselves. For what Cython knows as
`object`, the type stands in the source: as an annotation of an argument or a result (annotations type nothing
in the C), and behind an attribute or a constant as a comment ``# type: Floats``. An argument without one has
the type of the attribute of the same name of its class, or that of `USUAL`. `ARRAYS` explains the names of
array types. A function without ``->`` returns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110

ARRAYS = {
    "Array": "NDArray[Any]",
    "Floats": "NDArray[np.float64]",
    "Floats32": "NDArray[np.float32]",
    "Integers": "NDArray[np.int64]",
    "Integers32": "NDArray[np.int32]",
    "Masks": "NDArray[np.uint64]",
    "Flags": "NDArray[np.uint8]",
    "Positions": "NDArray[np.intp]",
}
USUAL = {"X": "Array", "codes": "Array", "weight": "Integers"}
NUMBERS = {
    "bint": "bool",
    "double": "float",
    "float": "float",
    **dict.fromkeys(["int", "Py_ssize_t", "int32_t", "int64_t", "uint64_t"], "int"),
}
CELLS = {
    "double": "Floats",
    "float": "Floats32",
    "int64_t": "Integers",
    "int32_t": "Integers32",
    "uint64_t": "Masks",
    "uint8_t": "Flags",
    "Py_ssize_t": "Positions",
}


def python_type(c_type: str, may_be_none: bool) -> str:
    """The type of a C argument or attribute: a memoryview, a number, `str`, or an extension type."""
    view = re.fullmatch(r"(?:const )?(\w+)\[.*\]", c_type)
    if view:
        found = f"_{CELLS[view[1]]}"
    else:
        found = NUMBERS.get(c_type, c_type)
        may_be_none &= c_type not in NUMBERS
    return f"{found} | None" if may_be_none else found


def spelled(annotation: str) -> str:
    """An annotation with the names of array types as they are in stubs, whose own names start with "_"."""
    return re.sub(r"\w+", lambda word: f"_{word[0]}" if word[0] in ARRAYS else word[0], annotation.strip())


def split(text: str) -> list[str]:
    """The parts of a text between its commas, those within brackets excepted."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def argument(text: str, attributes: dict[str, str]) -> str:
    """One argument of a stub."""
    text, _, default = (part.strip() for part in text.partition("="))
    default = f" = {default}" if default else ""
    found = re.fullmatch(r"(?:((?:const )?\w+(?:\[[^\]]*\])?) )?(\w+|\*)( not None)?(?:: (.*))?", text)
    if found is None:
        raise ValueError(f"no argument: {text}")
    c_type, name, never_none, annotation = found.groups()
    if name in ("self", "*"):
        return name
    if annotation:
        kind = spelled(annotation)
    elif c_type:
        kind = python_type(c_type, not never_none)
    elif name in attributes:
        kind = attributes[name]
    elif name in USUAL:
        kind = spelled(USUAL[name])
    else:
        raise ValueError(f"{name} needs an annotation")
    return f"{name}: {kind}{default}"


def function(head: str, attributes: dict[str, str], indent: str) -> str:
    """The stub of ``def name(...) -> type:``, as ruff would format it."""
    found = re.fullmatch(r"def (\w+)\((.*)\)(?: -> (.*))?", " ".join(head.split()))
    if found is None:
        raise ValueError(f"no function: {head}")
    name = {"__cinit__": "__init__"}.get(found[1], found[1])
    arguments = [argument(each, attributes) for each in split(found[2])]
    start, end = f"{indent}def {name}(", f") -> {spelled(found[3] or 'None')}: ..."
    inside = ", ".join(arguments)
    if len(start + inside + end) <= WIDTH:
        return start + inside + end
    inner = f"\n{indent}    "
    if len(inner + inside) - 1 <= WIDTH:
        return f"{start}{inner}{inside}\n{indent}{end}"
    return start + "".join(f"{inner}{each}," for each in arguments) + f"\n{indent}{end}"


def attributes_of(body: str) -> dict[str, str]:
    """Types of the attributes that Python sees of a class, by name."""
    found = {}
    for line in body.splitlines():
        shown = re.match(r"    cdef (?:readonly|public) ([\w.]+) ([\w, ]+?)(?: +# type: (.*))?$", line)
        literal = re.match(r"    ([a-z]\w*) = (\d+)$", line)
        if literal:
            found[literal[1]] = "int"
        elif shown:
            for name in shown[2].split(", "):
                found[name] = spelled(shown[3]) if shown[3] else python_type(shown[1], False)
                if found[name] == "object":
                    raise ValueError(f"{name} needs a comment '# type: ...'")
    return found


def functions(text: str, indent: str) -> Iterator[tuple[int, str, str]]:
    """Position, decorator and head of the functions that Python sees."""
    pattern = rf"^((?:{indent}@[\w.]+\n)?){indent}(def \w+\((?:[^#()]|#.*|\([^()]*\))*\)(?: -> .*)?):\n"
    for found in re.finditer(pattern, text, re.MULTILINE):
        name = found[2][4:].partition("(")[0]
        if not name.startswith("_") or name in ("__init__", "__cinit__", "__len__", "__getitem__"):
            yield found.start(), found[1], re.sub(r"#.*", "", found[2])


def stub(pyx: str, pxd: str) -> str:
    """The text of the stub of a module."""
    constants = ""
    for found in re.finditer(r"^(_?[A-Z][A-Z_, ]*) = .*?(?:# type: (.*))?$", pyx, re.MULTILINE):
        kind = spelled(found[2] or "int")
        constants += "".join(f"{name}: {kind}\n" for name in found[1].split(", "))
    parts: list[tuple[int, str]] = []
    outside = pyx
    for found in re.finditer(r"^cdef class ([A-Z]\w*):\n((?:    .*\n|\n)*)", pyx, re.MULTILINE):
        declared = re.search(rf"^cdef class {found[1]}:\n((?:    .*\n|\n)*)", pxd, re.MULTILINE)
        attributes = attributes_of((declared[1] if declared else "") + found[2])
        lines = [f"    {name}: {what}" for name, what in attributes.items()]
        for _, decorator, head in functions(found[2], "    "):
            lines.append(decorator + function(head, attributes, "    "))
        parts.append((found.start(), f"\n@disjoint_base\nclass {found[1]}:\n" + "\n".join(lines) + "\n\n"))
        outside = outside.replace(found[0], "\n" * len(found[0]))
    parts += [(at, function(head, {}, "") + "\n") for at, _, head in functions(outside, "")]
    body = constants + "\n" + "".join(text for _, text in sorted(parts))
    body = re.sub(r"\n{3,}", "\n\n", body).strip("\n") + "\n"
    arrays = [f"_{name} = {kind}\n" for name, kind in ARRAYS.items() if re.search(rf"\b_{name}\b", body)]
    body = "".join(arrays) + "\n" * bool(arrays) + body
    return imports(body) + body


def imports(body: str) -> str:
    """The imports of the names in a stub."""
    used = set(re.findall(r"\w+", re.sub(r"^class \w+", "", body, flags=re.MULTILINE)))
    lines = {
        "Iterable": "from collections.abc import Iterable",
        "Event": "from threading import Event",
        "Any": "from typing import Any",
    }
    standard = [line for name, line in lines.items() if name in used]
    lines = {
        "np": "import numpy as np",
        "NDArray": "from numpy.typing import NDArray",
        "disjoint_base": "from typing_extensions import disjoint_base",
    }
    others = [line for name, line in lines.items() if name in used]
    own = set(re.findall(r"^class (\w+)", body, re.MULTILINE))
    kernels = []
    for pyx in sorted((ROOT / "src").rglob("*.pyx"), key=lambda path: path.stem):
        classes = re.findall(r"^cdef class ([A-Z]\w*)", pyx.read_text(encoding="utf-8"), re.MULTILINE)
        wanted = sorted(set(classes) & used - own)
        if wanted:
            kernels.append(f"from craftc._kernels.{pyx.stem} import {', '.join(wanted)}")
    groups = [standard, others, kernels]
    return "".join("\n".join(group) + "\n\n" for group in groups if group)


def stubs() -> dict[Path, str]:
    """The text of every stub by its path."""
    found = {}
    for pyx in sorted((ROOT / "src").rglob("*.pyx")):
        pxd = ROOT / "craftc" / "_kernels" / f"{pyx.stem}.pxd"
        try:
            text = stub(
                pyx.read_text(encoding="utf-8"), pxd.read_text(encoding="utf-8") if pxd.exists() else ""
            )
        except ValueError as error:
            raise ValueError(f"{pyx}: {error}") from error
        if text.strip():
            found[pxd.with_suffix(".pyi")] = text
    return found


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
