# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of operators: what operators.py is written in, and the checks of a row."""

import dataclasses
import math
import re

INFINITY = math.inf
ANY = (-INFINITY, INFINITY)  # a range: both ends are included; this one alone admits NaN
BELOW_ONE = math.nextafter(1, 0)  # the end of a range that excludes 1

DTYPES = {
    "f64": "KEEL_FLOAT64",
    "f32": "KEEL_FLOAT32",
    "f16": "KEEL_FLOAT16",
    "bf16": "KEEL_BFLOAT16",
    "e4m3": "KEEL_FLOAT8_E4M3FN",
    "e5m2": "KEEL_FLOAT8_E5M2",
    "i64": "KEEL_INT64",
    "i32": "KEEL_INT32",
    "i16": "KEEL_INT16",
    "i8": "KEEL_INT8",
    "u64": "KEEL_UINT64",
    "u32": "KEEL_UINT32",
    "u16": "KEEL_UINT16",
    "u8": "KEEL_UINT8",
}

# Allowed errors, as functions of ops/schema_parts.h. The mean-square error follows from the dtype
# of the first output.
TOLERANCES = {
    "rounded_once", "rounded_once unbounded", "few_roundings", "amplified", "matrix_unit",
    "transcendental", "update", "long_sum", "copied", "moved",
}

# The values of an enumerator attribute, from 0.
ENUMERATIONS = {
    "activation": ["none", "gelu_tanh", "gelu_erf", "silu"],
    "gelu_form": ["tanh", "erf"],
    "elementwise_function": [
        "copy", "arange",
        "neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "reciprocal",
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "sigmoid", "relu",
        "silu", "erf", "gelu", "is_nan", "logical_not", "bitwise_not",
        "add", "sub", "mul", "div", "floor_div", "remainder", "fmod", "pow", "maximum", "minimum",
        "atan2", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
        "bitwise_and", "bitwise_or", "bitwise_xor",
        "tanh_backward", "sigmoid_backward", "threshold_backward", "silu_backward",
        "gelu_backward", "clamp", "where", "addcmul", "addcdiv", "lerp",
        "uniform", "normal", "bernoulli",
    ],
    "reduce_function": [
        "sum", "mean", "prod", "max", "min", "argmax", "argmin", "any", "all", "sum_of_squares",
        "norm", "abs_sum", "abs_max", "log_sum_exp",
    ],
}


@dataclasses.dataclass
class Tensor:
    name: str
    shape: str  # display text
    optional: bool
    packed: bool
    may_be: list[str]
    read_if: str


@dataclasses.dataclass
class Attribute:
    name: str
    kind: str  # "number" (float64), "integer" (int64), "boolean", or a name of ENUMERATIONS
    default: float
    minimum: float
    maximum: float
    doc: str


@dataclasses.dataclass
class Dtypes:
    inputs: list[str]
    outputs: list[str]
    tolerance: str
    optional: bool


@dataclasses.dataclass
class Operator:
    name: str
    number: int
    doc: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    attributes: list[Attribute]
    dtypes: list[Dtypes]
    accumulation: str | None
    shapes: str
    mixed: list[str]

    @property
    def upper(self):
        return self.name.upper()

    @property
    def camel(self):
        return self.name.title().replace("_", "")


OPERATORS = []


def tensor(name, shape, optional=False, packed=False, may_be=(), read_if=""):
    """|optional|: may be NULL. |packed|: element order private to the device. For outputs,
    |may_be|: inputs that the output may alias exactly; |read_if|: when the old content is read."""
    return Tensor(name, shape, optional, packed, list(may_be), read_if)


def number(name, default, limits, doc):
    return Attribute(name, "number", default, *limits, doc)


def integer(name, default, limits, doc):
    return Attribute(name, "integer", default, *limits, doc)


def boolean(name, doc):
    return Attribute(name, "boolean", 0, 0, 1, doc)


def enumerator(name, enumeration, doc):
    return Attribute(name, enumeration, 0, 0, len(ENUMERATIONS[enumeration]) - 1, doc)


def of_floats(text):
    """Dtypes of |text| with float32, bfloat16 and float16 for t; the 16-bit ones are optional."""
    return [re.sub(r"\bt\b", dtype, text) + ("" if dtype == "f32" else ", optional")
            for dtype in ("f32", "bf16", "f16")]


def of_other_pairs(dtypes, but):
    """Conversions between each ordered pair of |dtypes| except those of |but|, all optional."""
    pairs = [(a, b) for a in dtypes.split() for b in dtypes.split()
             if a != b and f"{a}_{b}" not in but.split()]
    return [f"{a} -> {b}: {'moved' if b[0] in 'iu' else 'rounded_once'}, optional"
            for a, b in pairs]


def operator(name, number, doc, *, outputs, dtypes, inputs=(), attributes=(), accumulation=None,
             shapes=None, mixed=""):
    """Adds a row. |dtypes|: "INPUT... -> OUTPUT...: TOLERANCE[, optional]", where optional leaves
    the combination to the backend. |accumulation|: the narrowest dtype of sums. |shapes|: the shape
    rule check_<shapes> of ops/shape_rules.h; the operator's own name unless given. |mixed|: dtypes
    that each tensor may have whatever the others have; |dtypes| are then the combinations that
    conformance tries."""
    row = Operator(name, number, doc, list(inputs), list(outputs), list(attributes),
                   [_combination(text) for text in dtypes], accumulation, shapes or name,
                   mixed.split())
    _check(row)
    OPERATORS.append(row)


def _combination(text):
    match = re.fullmatch(r"([a-z0-9 ]*)-> ([a-z0-9 ]+): ([a-z_ ]+)(, optional)?", text)
    if match is None:
        raise ValueError(f"dtypes: {text!r}")
    return Dtypes(match[1].split(), match[2].split(), match[3], match[4] is not None)


def _check(row):
    def require(condition, what):
        if not condition:
            raise ValueError(f"{row.name}: {what}")

    require(row.number == len(OPERATORS) + 1, f"number {row.number} is not the next")
    require(len(row.inputs) <= 9 and 1 <= len(row.outputs) <= 3, "9 inputs and 3 outputs at most")
    require(len(row.attributes) <= 16, "16 attributes at most")
    names = [each.name for each in row.inputs + row.outputs + row.attributes]
    require(len(set(names)) == len(names), "two arguments of one name")
    for output in row.outputs:
        for name in output.may_be:
            require(name in [each.name for each in row.inputs], f"{output.name} may be no {name}")
    for each in row.dtypes:
        require(len(each.inputs) == len(row.inputs), f"dtypes of {len(each.inputs)} inputs")
        require(len(each.outputs) == len(row.outputs), f"dtypes of {len(each.outputs)} outputs")
        require(set(each.inputs + each.outputs) <= DTYPES.keys(), f"no dtypes {each}")
        require(each.tolerance in TOLERANCES, f"no tolerance {each.tolerance}")
        if row.mixed:
            require(set(each.inputs + each.outputs) <= set(row.mixed), f"{each} is not mixed")
    require(set(row.mixed) <= DTYPES.keys(), "no dtypes to mix")
    require(not row.dtypes[0].optional, "the first dtypes are optional")
