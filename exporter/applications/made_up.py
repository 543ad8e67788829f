"""Whether a part of an id is random: hex, base32, base36 or base62, a ULID, a nanoid. Pure.

Names have digits, too (``log4j2kafka``). Random text has few letters in a row that one could say as a word.
"""

from __future__ import annotations

import re
from itertools import pairwise

LONGEST = 64
"""Characters of a part that is looked at."""
_FEWEST_HEX = 7
_FEWEST = 8
_MOST_WORDS = 0.4
"""Share of the characters that may belong to words."""
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_HEX_NAME = re.compile(r"(?=[0-9]*[^0-9]*[aeAE])[a-fA-F]{4,}[0-9]+(?:[a-fA-F]{4,})?")  # cafe2024
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z]+")
_LETTERS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_CHANGES = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]")
_VOWELS = frozenset("aeiouy")
_TERMS = frozenset(
    ("db", "grpc", "http", "https", "jdbc", "json", "kafka", "mqtt", "pg", "prd", "sql", "srv", "stg", "svc", "xml")
)
"""Words of the field that one cannot say."""
_FOLLOWERS = {
    "q": "l",
    "b": "blrs",
    "c": "chklrst",
    "d": "dglmrsw",
    "f": "flrstk",
    "g": "ghlmnrs",
    "h": "mnrt",
    "k": "lnrs",
    "l": "bcdfgklmnpstv",
    "m": "blmnprs",
    "n": "bcdfgklmnprstvz",
    "p": "hlprst",
    "r": "bcdfgklmnprstvw",
    "s": "cdfhklmnprstvwq",
    "t": "chlmnrstw",
    "v": "r",
    "w": "hlnrsf",
    "x": "cpt",
    "z": "z",
}
"""Consonants that come after a consonant in words."""


def is_made_up(part: str) -> bool:
    """Return whether a part without separators is random."""
    if not _FEWEST_HEX <= len(part) <= LONGEST or not any(map(str.isdigit, part)) or part.isdigit():
        return False
    if _HEX.fullmatch(part):
        return _HEX_NAME.fullmatch(part) is None
    if len(part) < _FEWEST or not _ALPHANUMERIC.fullmatch(part):
        return False
    if len(_CHANGES.findall(part)) < 2:
        return False
    words = sum(len(letters) for letters in _LETTERS.findall(part) if _is_word(letters.lower()))
    return words < _MOST_WORDS * len(part)


def _is_word(letters: str) -> bool:
    """Return whether three letters or more could be said as a word, or are a term."""
    if letters in _TERMS:
        return True
    if len(letters) < 3 or not _VOWEL.search(letters):
        return False
    return all(
        first in _VOWELS or second in _VOWELS or second in _FOLLOWERS.get(first, "")
        for first, second in pairwise(letters)
    )
