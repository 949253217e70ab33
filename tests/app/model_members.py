"""Members of model files, written anew for tests: with the checksum of their contents, or with that of the
contents before a change.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np


def npy(array):
    """An array as a member."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def members_of(path):
    """The contents of the members, by name without ".npy"; the last of each name."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename.removesuffix(".npy"): archive.read(info) for info in archive.infolist()}


def arrays_of(path):
    """The arrays of a model file without its checksum."""
    return {
        name: np.load(io.BytesIO(member)) for name, member in members_of(path).items() if name != "checksum"
    }


def checksum_of(members):
    """The checksum of members, as a member."""
    return checksum_of_digests(
        {name: hashlib.sha256(member).hexdigest() for name, member in members.items() if name != "checksum"}
    )


def checksum_of_digests(digests):
    """SHA-256 over the JSON texts [name, SHA-256 of the member] in the order of the names, as a member."""
    total = hashlib.sha256()
    for pair in sorted(digests.items()):
        total.update(json.dumps(pair).encode())
    return npy(np.frombuffer(total.digest(), np.uint8))


def write_members(path, members, *, checksum=True):
    """Write members; their checksum is computed anew, or left as it is among them."""
    content = {**members, "checksum": checksum_of(members)} if checksum else members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in content.items():
            archive.writestr(f"{name}.npy", member)


def write_arrays(path, arrays, head=None, **how):
    """Write arrays, with another head if it is given."""
    text = {} if head is None else {"model": np.frombuffer(json.dumps(head).encode(), np.uint8)}
    write_members(path, {name: npy(array) for name, array in (arrays | text).items()}, **how)
