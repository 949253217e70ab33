"""How the bytes of a text file become characters."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

_WIDE = (  # the first bytes of texts with a mark of their order
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MOST_BYTES = 1 << 16  # of lines with other bytes than ASCII, from which an encoding is guessed
_FEWEST_ZEROS = 0.1  # share of the characters of UTF-16 whose first byte is 0: digits, delimiters, line ends
_KEPT_WHOLE = 5  # characters of UTF-8 for each broken one, at least
#: The encodings that are guessed, the more frequent first.
_CANDIDATES = (
    *(
        "cp1250",
        "cp1251",
        "cp932",
        "gb18030",
        "big5",
        "cp949",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
    ),
    *("koi8_r", "euc_jp", "cp1252", "cp874", "cp850", "cp852", "cp866", "cp437", "mac_roman", "mac_cyrillic"),
)
#: Encodings that differ in a few letters, from which the one with the most letters is taken.
_ALIKE = {"cp1250": ("cp1250", "iso8859_2"), "cp1257": ("cp1257", "cp1254"), "cp1254": ("cp1254", "cp1250")}
#: Letters of languages written as cp1252, and letters that Hungarian and Turkish have not, one at least.
_WESTERN = (
    *(("äöüß", ""), ("éèêëàâçîïôùûüÿœæ", ""), ("áéíóúüñªº", ""), ("ãõáâàéêíóôúç", "ãç"), ("åäöéæøü", "")),
    *(("àèéìíòóùú", ""), ("ëïéèêöüáóíäâçû", ""), ("äöüõšž", "ä"), ("áéíóúýðþæö", "áíóúæ")),
)
_SIGNS = "\ufffd\u00a0€£¥§°²µ©®™½±×÷·«»„“”‘‚–—…•´¨¡¿†"
#: Characters that are not ASCII, without signs and bytes of no character, which stand inside a word where the
#: encoding is another one.
_SPECIAL = re.compile(rf"[^\x00-\x7f{_SIGNS}’]|(?<=[a-z])[{_SIGNS}](?=[a-z])")
_SHARE_KNOWN = 0.9
_OTHER = "encoding='...' names another encoding."


class Encoding(NamedTuple):
    """How bytes become text."""

    name: str
    errors: str = "strict"


def wide_encoding(head: bytes) -> str:
    """The encoding of a text of two or four bytes for each character, by its first bytes; "" if it has one.

    Without a mark, every other byte of ASCII characters is 0.
    """
    for mark, name in _WIDE:
        if head.startswith(mark):
            return name
    zeros = head[0::2].count(0), head[1::2].count(0)
    few, many = sorted(zeros)
    if few > 0 or len(head) % 2 or many < _FEWEST_ZEROS * len(head) / 2:
        return ""
    name = "utf-16-le" if zeros[1] == many else "utf-16-be"
    text = codecs.getincrementaldecoder(name)("replace").decode(head)
    printed = all(character.isprintable() or character in "\t\r\n" for character in text)
    return name if printed and "\ufffd" not in text else ""


def other_encoding(content: bytes) -> tuple[Encoding, str]:
    """An encoding that reads bytes that are not UTF-8, and a note about it.

    UTF-8 where few of its characters are broken; the one that charset-normalizer finds; Windows text;
    Latin-1, which every byte has.
    """
    text = content.decode("utf-8", errors="replace")
    n_broken = text.count("\ufffd")
    n_whole = sum(len(run) for run in re.findall(r"[^\x00-\x7f\ufffd]+", text))
    if n_whole >= _KEPT_WHOLE * n_broken:
        return Encoding("utf-8-sig", "replace"), (
            f"{_characters(n_broken)} of the file cannot be read as UTF-8 and became '\ufffd'; "
            "encoding='cp1252' reads it as Windows text."
        )
    guessed = _guessed(content)
    if guessed:
        return _checked(content, guessed)
    if _reads(content, "cp1252"):
        return Encoding("cp1252"), (
            "The file is not UTF-8; it was read as Windows (cp1252) text; "
            + (_OTHER if guessed is not None else f"{_OTHER} charset-normalizer, if installed, finds it.")
        )
    return Encoding("latin-1"), (
        f"The file is neither UTF-8 nor Windows text; it was read as Latin-1, which may be wrong; {_OTHER}"
    )


def _guessed(content: bytes) -> str | None:
    """The encoding that charset-normalizer finds; "" if it is Windows text or none, None if it is missing."""
    sample = _telling_lines(content)
    if _is_western(sample):
        return ""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    best = from_bytes(sample, cp_isolation=list(_CANDIDATES)).best()
    if best is None:
        return ""
    return max(_ALIKE.get(best.encoding, [best.encoding]), key=lambda name: _n_letters(sample, name))


def _is_western(sample: bytes) -> bool:
    """Whether the letters of a text read as cp1252 are those of a single language of Western Europe."""
    text = sample.decode("cp1252", errors="replace").lower()
    letters = [found[0] for found in _SPECIAL.finditer(text)]
    return any(
        sum(letter in language for letter in letters) >= _SHARE_KNOWN * len(letters)
        for language, telling in _WESTERN
        if not telling or any(letter in telling for letter in letters)
    )


def _n_letters(sample: bytes, name: str) -> int:
    """Letters among the characters of a text that are not ASCII."""
    text = sample.decode(name, errors="replace")
    return sum(character.isalpha() for character in text if not character.isascii())


def _telling_lines(content: bytes) -> bytes:
    """Different lines with other bytes than ASCII, and the first line."""
    lines = content.splitlines(keepends=True)
    found: dict[bytes, None] = dict.fromkeys(lines[:1])
    size = 0
    for line in lines[1:]:
        if not line.isascii() and line not in found:
            found[line] = None
            size += len(line)
            if size > _MOST_BYTES:
                break
    return b"".join(found)


def _checked(content: bytes, name: str) -> tuple[Encoding, str]:
    """An encoding that was guessed from some lines, for the whole file."""
    said = f"The file is not UTF-8; it was read as {name}, by the letters that are frequent in it; {_OTHER}"
    if _reads(content, name):
        return Encoding(name), said
    n_broken = content.decode(name, errors="replace").count("\ufffd")
    return Encoding(name, "replace"), f"{said} {_characters(n_broken)} became '\ufffd'."


def _reads(content: bytes, name: str) -> bool:
    try:
        content.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _characters(n: int) -> str:
    return f"{n:,} character{'s' if n > 1 else ''}"
