"""Model files that were changed: bits, the archive, members, arrays and the head, with and without the
checksum of the changed contents.

A file with an old checksum must be refused, or give the same results. One with a new checksum may give other
results, and no unclear error.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import resource
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import craftc
from craftc.cli import main
from tests.app.model_members import checksum_of_digests, members_of, npy
from tests.app.small_models import MODELS, fitted
from tests.fuzz.problems import Problem, Problems

AREA = "model_files"
SHARE = 1.0

METHODS = (
    "predict",
    "transform",
    "predict_proba",
    "score_samples",
    "margins",
    "decision_function",
    "explain",
)
#: Bytes that a file of at most 1 MB may take; twice as many under ASan, which keeps what was freed.
MOST_MEMORY = (1400 if "ASAN_OPTIONS" in os.environ else 700) << 20
WHOLE = (
    -1,
    0,
    1,
    2,
    3,
    7,
    255,
    256,
    65536,
    10**6,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63,
    2**64,
    10**30,
    10**400,
    -(2**63),
)
NUMBERS = (np.nan, np.inf, -1.0, 0.0, 1e300, 1e-320, -1e18, 0.5)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "auto",
    "nan",
    "\x00",
    "\ud800",
    "a" * 100_000,
    0.0,
    -1.5,
    1e-320,
    1e308,
    [],
    [[]],
    {},
    [None],
    [1, "a"],
    {"float": "nan"},
    {"float": "inf"},
    {"float": []},
    {"a": {"b": []}},
    list(range(300)),
    *WHOLE,
)
TEXTS = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"NaN",
    b'{"format": "craftc-model"}',
    b"\xff\xfe",
    b"\x00" * 100,
    b"1" * 5000,
)
SHAPES = (
    "(1099511627776,)",
    "(4611686018427387904,)",
    "(9223372036854775808,)",
    "(-1,)",
    "(3, -4)",
    f"({10**30},)",
    "(1.5,)",
    "()",
    "(0,)",
    "(0, 9223372036854775807)",
    "(65536, 65536, 65536, 65536)",
    "'abc'",
    "(2,)" * 300,
    "(True,)",
    "[3]",
)
TYPES = (
    "'|O'",
    "'<U1000000'",
    "'<U0'",
    "'|V16'",
    "[('a', '<i8')]",
    "'>f8'",
    "'<c16'",
    "'|S3'",
    "'<M8[D]'",
    "'<f2'",
    "'x'",
    "None",
    "1",
    "'|b1'",
    "'<i8'",
)
HEADERS = (
    b"{'descr'",
    b"1L",
    b"(((",
    b"'''",
    b"{}",
    b"\xff" * 20,
    b"__import__('os')",
    b"\\",
    b"{'shape': (3,), 'descr': '<f8', 'fortran_order': 2}",
)


class Entry(NamedTuple):
    """One member of a zip archive as it is written, whether its fields are true or not."""

    name: str
    data: bytes
    size: int
    crc: int
    digest: str
    method: int = zipfile.ZIP_DEFLATED
    flags: int = 0


class Model(NamedTuple):
    """A model: its rows, its file, its members, and what its methods return."""

    name: str
    X: Any
    file: bytes
    members: dict[str, bytes]
    results: dict[str, Any]


class State(NamedTuple):
    """What all cases share."""

    models: list[Model]
    bombs: list[Entry]


def prepare() -> State:
    """Fit a model of every estimator, and make members that expand to much more than they are."""
    models = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for name in MODELS:
            model, X = fitted(name)
            craftc.save_model(model, path)
            results = _results(model, X, Problems())
            models.append(Model(name, X, path.read_bytes(), members_of(path), results))
    kinds = (("<i4", ()), ("|u1", (1,)), ("<f8", (4,)), ("<f8", ()))
    bombs = [_zeros(kind, more, n_bytes << 20) for n_bytes in (30, 90, 500) for kind, more in kinds]
    return State(
        models, [*bombs, _entry("model", npy(np.frombuffer(b"[" + b"[]," * 5_000_000 + b"[]]", np.uint8)))]
    )


def case(seed: int, state: State, folder: Path) -> list[Problem]:
    """Change one file and load it."""
    rng, problems = np.random.default_rng([seed, 23]), Problems()
    model = state.models[rng.integers(len(state.models))]
    how = CHANGES[
        rng.choice(
            len(CHANGES), p=np.array([share for share, _ in CHANGES]) / sum(share for share, _ in CHANGES)
        )
    ][1]
    checked = bool(rng.random() < 0.5)
    content = how(rng, model, state, checked)
    what = how.__name__[1:] + (", with its checksum" if checked else "")
    path = folder / "model.craftc"
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = problems.attempt(f"load after {what}", craftc.load_model, path)
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if taken > MOST_MEMORY:
        problems.append(
            Problem("memory", f"load after {what}", f"{taken >> 20} MiB for {len(content) >> 10} KiB")
        )
    if not outcome.done:
        if rng.random() < 0.1:
            _command(path, str(outcome.error), problems, what)
        return problems
    forged = checked and how not in (_bits, _archive)
    found = Problems()
    results = _results(outcome.value, model.X, found)
    problems.extend(each for each in found if not forged or each.kind == "raw error")
    if not forged:
        for name, expected in model.results.items():
            problems.check(_same(results.get(name), expected), f"{name} after {what}", "differs in silence")
    return problems


def _results(fitted: Any, X: Any, problems: Problems) -> dict[str, Any]:
    calls: dict[str, Callable[[], Any]] = {
        name: lambda name=name: getattr(fitted, name)(X) for name in METHODS if hasattr(fitted, name)
    }
    if hasattr(fitted, "summary"):
        calls["summary"] = fitted.summary
    for name in ("cut", "at"):
        if hasattr(fitted, name) and len(getattr(fitted, "merge_path_", ())) > 1:
            calls[name] = lambda name=name: _plain(getattr(fitted, name)(fitted.merge_path_[1][0]))
    outcomes = {name: problems.attempt(f"{name} of a changed file", call) for name, call in calls.items()}
    return {name: outcome.value if outcome.done else str(outcome.error) for name, outcome in outcomes.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value.labels_


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, pd.DataFrame):
        return isinstance(a, pd.DataFrame) and a.equals(b)
    a, b = np.asarray(a), np.asarray(b)
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and (a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes())
    )


def _command(path: Path, error: str, problems: Problems, what: str) -> None:
    """`craftc predict` reports the same error."""
    table, stream = path.with_name("t.csv"), io.StringIO()
    table.write_text("a,b\n1,2\n")
    with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(io.StringIO()):
        outcome = problems.attempt(f"craftc predict after {what}", main, ["predict", str(path), str(table)])
    said = re.sub(r"\W", "", stream.getvalue())
    if outcome.done:
        expected = re.sub(r"\W", "", error)
        alike = outcome.value == 2 and said.endswith(expected[-40:])
        problems.check(
            alike, f"craftc predict after {what}", f"{stream.getvalue()[-200:]!r} for {error[-200:]!r}"
        )


# Zip archives, written field by field


def _entry(name: str, member: bytes, **fields: Any) -> Entry:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    data = packer.compress(member) + packer.flush()
    return Entry(name, data, len(member), zlib.crc32(member), hashlib.sha256(member).hexdigest())._replace(
        **fields
    )


def _zeros(descr: str, more: tuple[int, ...], n_bytes: int) -> Entry:
    """An array of zeros of shape (any, *more) and this many bytes."""
    buffer = io.BytesIO()
    length = n_bytes // (np.dtype(descr).itemsize * int(np.prod(more)))
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": descr, "fortran_order": False, "shape": (length, *more)}
    )
    packer, digest, parts, crc, zeros = (
        zlib.compressobj(9, zlib.DEFLATED, -15),
        hashlib.sha256(),
        [],
        0,
        bytes(1 << 20),
    )
    for chunk in [buffer.getvalue(), *[zeros] * (n_bytes >> 20)]:
        parts.append(packer.compress(chunk))
        crc = zlib.crc32(chunk, crc)
        digest.update(chunk)
    return Entry(
        "", b"".join([*parts, packer.flush()]), len(buffer.getvalue()) + n_bytes, crc, digest.hexdigest()
    )


def _archive_of(entries: list[Entry]) -> bytes:
    out, directory = io.BytesIO(), io.BytesIO()
    for entry in entries:
        name, offset = f"{entry.name}.npy".encode(), out.tell()
        fields = (
            20,
            entry.flags,
            entry.method,
            0,
            33,
            entry.crc & 0xFFFFFFFF,
            len(entry.data),
            entry.size & 0xFFFFFFFF,
            len(name),
            0,
        )
        out.write(struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields) + name + entry.data)
        directory.write(struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, offset) + name)
    start, size, count = out.tell(), directory.tell(), len(entries) & 0xFFFF
    return (
        out.getvalue()
        + directory.getvalue()
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, start, 0)
    )


def _written(
    model: Model, changed: dict[str, bytes | Entry | None], checked: bool, more: list[Entry] | None = None
) -> bytes:
    """The members of a model with some changed, or (None) left out, and their checksum or the old one."""
    entries = []
    for name, member in (model.members | changed).items():
        if name != "checksum" and member is not None:
            entries.append(_entry(name, member) if isinstance(member, bytes) else member._replace(name=name))
    entries += more or []
    checksum = (
        checksum_of_digests({each.name: each.digest for each in entries})
        if checked
        else model.members["checksum"]
    )
    return _archive_of([*entries, _entry("checksum", checksum)])


# Changes. Each gives the bytes of a file


def _bits(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """Bits are flipped, parts cut out, repeated, swapped or overwritten."""
    content = bytearray(model.file)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content)))
        match rng.integers(6):
            case 0:
                content[at] ^= 1 << rng.integers(8)
            case 1:
                content = content[: max(at, 4)]
            case 2:
                del content[at : at + int(rng.integers(1, 200))]
            case 3:
                content[at:at] = content[: int(rng.integers(300))]
            case 4:
                content[at : at + 8] = rng.bytes(8)
            case _:
                content[at : at + 4] = bytes(4)
    return bytes(content)


def _archive(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """Fields of the headers of the archive are changed."""
    content = bytearray(model.file)
    marks = [match.start() for match in re.finditer(rb"PK(\x03\x04|\x01\x02|\x05\x06)", model.file)]
    for _ in range(rng.integers(1, 3)):
        at = int(marks[rng.integers(len(marks))]) + int(rng.integers(4, 46))
        value = (
            rng.choice([0, 1, 8, 9, 12, 99, 0xFF, 0xFFFF]) if rng.random() < 0.5 else rng.integers(1 << 16)
        )
        content[at : at + 2] = int(value).to_bytes(2, "little")
    return bytes(content)


def _members(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """Members are dropped, swapped, renamed, added or overwritten."""
    one, other = rng.choice(list(model.members), 2, replace=False)
    match rng.integers(7):
        case 0:
            return _written(model, {one: None}, checked)
        case 1:
            return _written(model, {one: model.members[other], other: model.members[one]}, checked)
        case 2:
            return _written(model, {one: None, f"{one}\x00": model.members[one]}, checked)
        case 3:
            return _written(model, {}, checked, [_entry(one, model.members[other])])
        case 4:
            return _written(model, {one: rng.bytes(200)}, checked)
        case 5:
            return _written(
                model, {one: model.members[one][: int(rng.integers(len(model.members[one])))]}, checked
            )
        case _:
            names = ("../../x", "/x", "", "é", "_shape", "covariances_", "_fitted.mask", "classes_")
            return _written(model, dict.fromkeys(names, model.members[one]), checked)


def _tricks(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """Members that expand, are encrypted, claim other sizes, or are many."""
    name = str(rng.choice(list(model.members)))
    match rng.integers(8):
        case 0:
            more = (
                [_entry(f"n{i}", b"") for i in range(20_000)]
                if rng.random() < 0.1
                else [_entry(f"n{i}", b"x") for i in range(500)]
            )
            return _written(model, {}, checked, more)
        case 1:
            return _written(
                model,
                {name: _entry(name, model.members[name], flags=int(rng.choice([1, 8, 0x41, 0x800, 0x2000])))},
                checked,
            )
        case 2:
            method = int(rng.choice([0, 1, 9, 12, 14, 93, 99]))
            return _written(model, {name: _entry(name, model.members[name], method=method)}, checked)
        case 3:
            size = int(rng.choice([0, 1, 10**6, 2**31, 2**32 - 1]))
            return _written(model, {name: _entry(name, model.members[name], size=size)}, checked)
        case 4:
            return _written(model, {"more": state.bombs[rng.integers(len(state.bombs))]}, checked)
        case 5:
            return _written(model, {"model": state.bombs[-1]}, checked)
        case _:
            return _written(model, {name: state.bombs[rng.integers(len(state.bombs) - 1)]}, checked)


def _header(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """The header of an array promises another shape or type."""
    name = str(rng.choice(list(model.members)))
    member = model.members[name]
    length = int.from_bytes(member[8:10], "little")
    header, data = member[10 : 10 + length].decode("latin1"), member[10 + length :]
    match rng.integers(5):
        case 0 | 1:
            header = re.sub(r"'shape': \([^)]*\)", "'shape': " + SHAPES[rng.integers(len(SHAPES))], header)
        case 2:
            header = re.sub(r"'descr': '[^']*'", "'descr': " + TYPES[rng.integers(len(TYPES))], header)
        case 3:
            header = HEADERS[rng.integers(len(HEADERS))].decode("latin1") + "\n"
        case _:
            header = header.replace("False", str(rng.choice(["True", "None", "7"])))
    version = bytes(rng.choice([1, 1, 1, 2, 3, 0, 255], 2).tolist()) if rng.random() < 0.2 else member[6:8]
    text = header.encode("latin1")
    return _written(
        model, {name: member[:6] + version + struct.pack("<H", len(text) & 0xFFFF) + text + data}, checked
    )


def _array(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """The values or the shape of an array are changed."""
    name = str(rng.choice([each for each in model.members if each not in ("model", "checksum")]))
    array = np.load(io.BytesIO(model.members[name]))
    flat = array.reshape(-1).copy()
    match rng.integers(9):
        case 0 | 1 | 2 if flat.size and flat.dtype.kind in "if":
            values = NUMBERS if flat.dtype.kind == "f" else WHOLE
            limits = None if flat.dtype.kind == "f" else np.iinfo(flat.dtype)
            for at in rng.integers(flat.size, size=rng.integers(1, 5)):
                value = values[rng.integers(len(values))]
                flat[at] = value if limits is None else min(max(int(value), limits.min), limits.max)
            array = flat.reshape(array.shape)
        case 3 if flat.size:
            array = rng.permutation(flat).reshape(array.shape)
        case 4 if array.ndim:
            array = array[: int(rng.integers(len(array) + 1))]
        case 5:
            array = np.concatenate([array, array]) if array.ndim else array[None]
        case 6:
            array = array.T if array.ndim > 1 else array[None]
        case 7 if flat.dtype.kind != "U":
            array = (
                np.nan_to_num(array).astype(rng.choice(["f4", "i4", "i8", "u1", "?", "c16"]))
                if flat.dtype.kind in "fiu"
                else array[:0]
            )
        case _:
            array = np.zeros_like(array)
    return _written(model, {name: npy(array)}, checked)


def _text(rng: np.random.Generator, model: Model, state: State, checked: bool) -> bytes:
    """Values of the head are changed, dropped, renamed or swapped, or its text is another."""
    text = np.load(io.BytesIO(model.members["model"])).tobytes()
    if rng.random() < 0.1:
        text = TEXTS[rng.integers(len(TEXTS))]
        return _written(model, {"model": npy(np.frombuffer(text, np.uint8))}, checked)
    head = json.loads(text)
    for _ in range(rng.integers(1, 3)):
        places = list(_places(head))
        place, key = places[rng.integers(len(places))]
        match rng.integers(6):
            case 0:
                del place[key]
            case 1 if isinstance(place, dict):
                place[f"{key}x"] = place.pop(key)
            case 2:
                another, other = places[rng.integers(len(places))]
                place[key] = json.loads(json.dumps(another[other]))
            case 3 if isinstance(place[key], int | float):
                place[key] = (
                    place[key] * float(rng.choice([-1.0, 2.0, 1e10, 1e-300]))
                    if rng.random() < 0.5
                    else int(place[key]) + 1
                )
            case _:
                place[key] = VALUES[rng.integers(len(VALUES))]
    with contextlib.suppress(ValueError):  # a number of more digits than Python writes
        text = json.dumps(head).encode()
    return _written(model, {"model": npy(np.frombuffer(text, np.uint8))}, checked)


def _places(value: Any) -> Any:
    """(container, key) of every value of a head."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


#: Share of the cases, and function.
CHANGES = (
    (1.0, _bits),
    (0.7, _archive),
    (1.0, _members),
    (0.6, _tricks),
    (1.0, _header),
    (2.5, _array),
    (3.0, _text),
)
