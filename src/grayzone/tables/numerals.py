"""How numbers are written in a column of text: decimal commas, thousands separators, units.

A way of writing is taken for a column only if every value is a number that way. Where two ways are
possible ("1,234" throughout is 1234 or 1.234) the whole column decides, then the rest of the table:

1. a value that only one way allows ("12,5", "0,250", "1,234,567") decides for it;
2. so does a whole number of more than three digits without a separator, which nobody writes who
   sets thousands apart: then the sign is the decimal one;
3. then columns of the same table that are clear, and semicolons between columns (a decimal comma);
4. what is left is the English way: the point is the decimal sign, the comma sets thousands apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

Table = Any  # a pandas DataFrame

POINT, COMMA = ".", ","
DECIMALS = (POINT, COMMA)
THOUSANDS = ("", ".", ",", " ", "'")
UNITS = ("", "%", "€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF")
# what people and programs write in a column of numbers where there is none, in lower case
_WORDS = "- -- --- – — ? ?? . .. ... na n/a n.a. #n/a <na> nan none null nil missing"
GAPS = frozenset(["", *_WORDS.split(" ")])
_MOSTLY = 0.5  # share of a column's values from which on what the others are says nothing of them
_SAMPLE = 1_000  # different values that are looked at before all of them
# spaces, apostrophes and minus signs that typesetters use
_PLAIN = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "−": "-"})
_UNIT = "|".join(re.escape(unit) for unit in UNITS if unit)
_UNIT_OF = re.compile(rf"[+-]?\s*(?:({_UNIT})\s*[+-]?[\d.,].*|[\d.,].*?\s*({_UNIT}))")


@dataclass(frozen=True)
class Numerals:
    """A way to write numbers: the decimal sign, what sets thousands apart, a unit beside them.

    ``sure`` says whether the column allowed no other.
    """

    decimal: str = POINT
    thousands: str = ""
    unit: str = ""
    sure: bool = field(default=True, compare=False)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        point, apart, unit = map(re.escape, (self.decimal, self.thousands, self.unit))
        whole = rf"[1-9]\d{{0,2}}(?:{apart}\d{{3}})+|\d+" if apart else r"\d+"
        digits = rf"(?:(?:{whole})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
        return re.compile(
            rf"([+-]?)\s*(?:{unit})?\s*([+-]?)({digits})\s*(?:{unit})?", flags=re.ASCII
        )

    def number(self, text: str) -> float | None:
        """Return what a text says, with its unit or without; None if it is no number this way."""
        found = self._pattern.fullmatch(text.translate(_PLAIN).strip())
        if found is None or (found[1] and found[2]):
            return None
        digits = found[3].replace(self.thousands, "") if self.thousands else found[3]
        return float(f"{found[1]}{found[2]}{digits.replace(self.decimal, POINT)}")


PLAIN = Numerals()


def numerals_of(
    table: Table, decimal: str | None = None, semicolons: bool = False
) -> dict[str, Numerals]:
    """Return how numbers are written in each column of text that holds nothing else.

    Parameters
    ----------
    table : DataFrame
        A table.
    decimal : {".", ","}, optional
        The decimal sign of columns that allow both; without it they are read as said above.
    semicolons : bool, default=False
        Whether the file had semicolons between its columns.

    Returns
    -------
    numerals : dict
        By column, for those in which they are not as a program would write them.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.tables.numerals import numerals_of
    >>> numerals_of(pd.DataFrame({"a": ["1.234,5", "7"], "b": ["x", "y"]}))
    {'a': Numerals(decimal=',', thousands='.', unit='', sure=True)}
    """
    ways = {
        str(name): _ways(table[name].dropna().astype(str).unique())
        for name in table.columns
        if is_text(table[name])
    }
    usual = decimal or _usual_decimal(ways.values(), semicolons)
    found = {}
    for name, possible in ways.items():
        own = [way for way in possible if way.decimal == usual]
        way = (own or [*possible, PLAIN])[0]
        if way != PLAIN:
            found[name] = replace(way, sure=len(possible) == 1)
    return found


def with_numbers(table: Table, numerals: Mapping[str, Numerals]) -> Table:
    """Return a table in which columns of text that hold numbers are numbers."""
    return table.assign(
        **{name: converted(way, table[name].astype(object)) for name, way in numerals.items()}
    )


def is_gap(values: Any, words: Collection[str]) -> Any:
    """Return which values are one of some words, whatever their case, or the number of one."""
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        return pd.Series(False, index=values.index)
    if pd.api.types.is_numeric_dtype(values):
        numbers = [PLAIN.number(word) for word in words]
        return values.isin([number for number in numbers if number is not None])
    folded, texts = {word.strip().casefold() for word in words}, values.astype(str)
    same = [text for text in texts.unique() if str(text).strip().casefold() in folded]
    return texts.isin(same) & values.notna()


def numbers_with_gaps(values: Any) -> Any:
    """Return a column without the words for gaps, if all else in it are numbers, and most are.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.tables.numerals import numbers_with_gaps
    >>> numbers_with_gaps(pd.Series(["12", "-", "7.5"])).tolist()
    ['12', nan, '7.5']
    >>> numbers_with_gaps(pd.Series(["x", "-", "7.5"])) is None
    True
    """
    if not pd.api.types.is_object_dtype(values) and not is_text(values):
        return None
    gaps = is_gap(values, GAPS)
    rest = values[~gaps].dropna().infer_objects()
    if not gaps.any() or len(rest) < _MOSTLY * values.notna().sum():
        return None
    if is_text(rest):
        return values.mask(gaps) if _ways(rest.astype(str).unique()) else None
    is_number = pd.api.types.is_numeric_dtype(rest) and not pd.api.types.is_bool_dtype(rest)
    return values.mask(gaps).astype(float) if is_number else None


def converted(numerals: Numerals, text: Any) -> Any:
    """Texts as numbers; missing where they are none this way."""
    known = {value: numerals.number(str(value)) for value in text.dropna().unique()}
    return pd.to_numeric(text.map(known), errors="coerce").astype(float)


def is_some_number(text: str) -> bool:
    """Whether a text is a number in one way or another."""
    return any(way.number(text) is not None for way in _ways_with(text))


def is_text(values: Any) -> bool:
    """Whether a column holds text, and nothing else."""
    if isinstance(values.dtype, pd.CategoricalDtype) or not values.notna().any():
        return False
    return bool(pd.api.types.infer_dtype(values, skipna=True) == "string")


def _ways_with(text: str) -> list[Numerals]:
    """All ways of writing, with the unit that a text has."""
    found = _UNIT_OF.fullmatch(text.translate(_PLAIN).strip())
    unit = (found[1] or found[2]) if found else ""
    return [
        Numerals(decimal, thousands, unit)
        for decimal in DECIMALS
        for thousands in THOUSANDS
        if thousands != decimal
    ]


def _is_plainest(way: Numerals, used: set[str]) -> bool:
    """Whether no plainer way reads texts with these signs alike."""
    if way.thousands and way.thousands not in used:
        return False
    # "1 234" says nothing of a decimal comma, "1.234" may have one elsewhere
    return way.decimal == POINT or way.decimal in used or way.thousands == POINT


def _ways(texts: Any) -> list[Numerals]:
    """Return the ways in which all texts are numbers; of two that say the same, the plainer one."""
    if not len(texts):
        return []
    ways = _ways_with(texts[0])
    used = set("".join(set().union(*texts)).translate(_PLAIN))
    if not any(re.search(r"\d\s\d", text) for text in texts):
        used.discard(" ")  # beside a unit
    ways = [way for way in ways if _is_plainest(way, used)]
    for part in (texts[:_SAMPLE], texts[_SAMPLE:]):
        ways = [way for way in ways if all(way.number(text) is not None for text in part)]
    if ways and ways[0].unit and not all(ways[0].unit in text for text in texts):
        return []  # 12 % and 12 are two things
    if len(ways) > 1 and any(re.fullmatch(r"\D*\d{4,}\D*", text) for text in texts):
        ways = [way for way in ways if not way.thousands] or ways
    # where the comma is the decimal sign, a point can only set thousands apart
    return [
        Numerals(COMMA, POINT, way.unit) if (way.decimal, way.thousands) == (COMMA, "") else way
        for way in ways
    ]


def _usual_decimal(columns: Iterable[list[Numerals]], semicolons: bool) -> str:
    """Return the decimal sign of most columns that are clear, or else that of the kind of file."""
    clear = [ways[0] for ways in columns if len(ways) == 1]
    votes = Counter(way.decimal for way in clear if way != PLAIN)
    if votes[COMMA] != votes[POINT]:
        return COMMA if votes[COMMA] > votes[POINT] else POINT
    return COMMA if semicolons else POINT
