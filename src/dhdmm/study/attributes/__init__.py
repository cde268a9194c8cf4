"""The types of attributes. A new one is a module here and its place in `TYPES`.

The methods of `Attribute` are all that dhdmm knows of a type; no module elsewhere asks for one.
"""

from dhdmm.study.attributes.base import Attribute, Codes
from dhdmm.study.attributes.calendar import DateAttribute, DatetimeAttribute
from dhdmm.study.attributes.category import CategoryAttribute
from dhdmm.study.attributes.integer import IntegerAttribute
from dhdmm.study.attributes.measure import MeasureAttribute
from dhdmm.study.attributes.number import NumberAttribute

__all__ = [
    "TYPES",
    "Attribute",
    "CategoryAttribute",
    "Codes",
    "DateAttribute",
    "DatetimeAttribute",
    "IntegerAttribute",
    "MeasureAttribute",
    "NumberAttribute",
]

TYPES: tuple[type[Attribute], ...] = (
    IntegerAttribute,
    DateAttribute,
    DatetimeAttribute,
    CategoryAttribute,
    NumberAttribute,
    MeasureAttribute,
)
"""In the order in which messages list them, and in which a draft offers them a column."""
