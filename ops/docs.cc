// SPDX-License-Identifier: Apache-2.0
#include "ops/docs.h"

#include <cmath>
#include <cstdio>
#include <keel/plugin_kit.hpp>
#include <string_view>

#include "ops/schema.h"

namespace keel::ops {
namespace {

constexpr std::string_view kIntroduction = R"(# Operators

Written from the table of operators (`ops/schema_*.cc`), and from what the backends answer, by
`keel ops list --markdown > docs/operators.md`; tests compare the page with both.

What holds for all of them:

- Tensors are row-major unless their strides say otherwise; a backend's kernel may refuse strided
  ones, and then the CPU's runs, or, where that refuses them too, none (`KEEL_UNSUPPORTED`). Every
  address is a multiple of the element size. Shapes do not broadcast: a stride of 0 does, in an
  input.
- Where the CPU's kernel runs for another device, a tensor whose elements lie in rows with one gap
  between, at most 1024 of them, is copied row by row. With other gaps the whole span is copied
  there and, of an output, back: no other stream may write the gaps meanwhile.
- Tensors are memory of the stream's device. On a CPU device they may also be memory registered with
  it (`keel_host_register`): a GPU's pinned memory, or the caller's own, in which an optimizer's
  state is stepped where it lies.
- Attributes are given by position, all of them, floats as float64.
- An output overlaps nothing, except that it may be exactly an input (same address, same layout)
  where "may be" names one. Spans of memory are compared, from first element to last.
- Integers and float64 attributes aside, arithmetic is float32 unless the row says otherwise, with
  one rounding to the output's dtype at the end; NaN and infinities propagate as IEEE 754 has it.
  float32 subnormals may be flushed to zero.
- At infinities gelu, silu and their slopes are their limits: 0 and 0 at minus infinity, infinity
  and 1 at infinity.
- "Error" is what conformance allows an element against the float64 reference: |want| is the
  reference's value, *scale* the size of what went into it (for a sum of k terms: sqrt(k) times the
  sum of |terms|). The bound is taken before rounding to the dtype, so that 0 means correctly
  rounded. "NMSE" is the allowed mean-square error of a whole output, relative to its energy.
)";

constexpr std::string_view kSupport = R"(
## Who computes what

Of each operator the combinations of dtypes that a backend has kernels of its own for, by the names
that `keel ops list` gives them: all of them, some, none (`-`), or one in part, by its shapes and
attributes. That is of dense tensors. The rest is computed by the CPU's kernels on staged copies,
or refused where that is forbidden (`keel_op_forbid_fallback`).

The backends were asked about each case of conformance, `vulkan` on lavapipe and `cuda` on the
emulated chip; a test asks again. The last row counts the cases that each takes, strided tensors
among them, which not every kernel takes either. They are what a full run of conformance's level
`ops` passes, and what the table of README.md counts there as of its date, beside two cases of the
memory that attention takes.

)";

// Returns 0x1p-22 as "2^-22", integers of many digits in hexadecimal, and other numbers in short
// form.
std::string number(double value) {
  char text[32];
  int exponent = 0;
  if (value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5 &&
      std::abs(exponent) > 12) {
    std::snprintf(text, sizeof(text), "2^%d", exponent - 1);
  } else if (value >= 1e6 && value < 0x1p53 && std::floor(value) == value) {
    std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  } else {
    std::snprintf(text, sizeof(text), "%g", value);
  }
  return text;
}

std::string range(const AttributeSpec& attribute) {
  if (std::isinf(attribute.minimum) && std::isinf(attribute.maximum)) return "any";
  // The largest double below 1 stands for an open end.
  const bool open = attribute.maximum < 1 && attribute.maximum > 0.999999;
  return std::string("[") + number(attribute.minimum) + ", " +
         (open ? "1)" : number(attribute.maximum) + "]");
}

std::string bound(const Tolerance& tolerance) {
  std::string text;
  const auto add = [&](const std::string& term) {
    if (!text.empty()) text += " + ";
    text += term;
  };
  if (tolerance.relative != 0) add(number(tolerance.relative) + " abs(want)");
  if (tolerance.scale != 0) add(number(tolerance.scale) + " scale");
  return text.empty() ? "0" : text;
}

void append_tensors(const Schema& schema, std::string* out) {
  *out += "| tensor | shape | |\n|---|---|---|\n";
  for (const InputSpec& input : schema.inputs) {
    *out += std::string("| in `") + input.name + "` | " + input.shape + " | " +
            (input.optional ? "optional"
             : input.packed ? "in the device's own order"
                            : "") +
            " |\n";
  }
  for (const OutputSpec& output : schema.outputs) {
    std::string note;
    for (size_t i = 0; i < schema.inputs.size(); ++i) {
      if ((output.in_place >> i & 1u) == 0) continue;
      note += std::string(note.empty() ? "may be `" : " or `") + schema.inputs[i].name + "`";
    }
    if (output.packed) note = "in the device's own order";
    if (*output.reads != '\0') note += std::string("read where ") + output.reads;
    *out += std::string("| out `") + output.name + "` | " + output.shape + " | " + note + " |\n";
  }
}

void append_attributes(const Schema& schema, std::string* out) {
  if (schema.attributes.empty()) return;
  *out += "\n| attribute | type | range | usual | |\n|---|---|---|---|---|\n";
  for (const AttributeSpec& attribute : schema.attributes) {
    *out += std::string("| `") + attribute.name + "` | " +
            (attribute.kind == AttributeKind::kInt ? "int" : "float") + " | " + range(attribute) +
            " | " + number(attribute.default_value) + " | " + attribute.doc + " |\n";
  }
}

void append_dtypes(const Schema& schema, std::string* out) {
  *out += "\n| dtypes | error | NMSE | |\n|---|---|---|---|\n";
  for (const DtypeCombination& dtypes : schema.dtypes) {
    std::string names;
    for (size_t i = 0; i < schema.inputs.size(); ++i) {
      names += std::string(i == 0 ? "" : ", ") + kit::dtype_name(dtypes.inputs[i]);
    }
    names += names.empty() ? "-> " : " -> ";
    for (size_t o = 0; o < schema.outputs.size(); ++o) {
      names += std::string(o == 0 ? "" : ", ") + kit::dtype_name(dtypes.outputs[o]);
    }
    *out += std::string("| ") + names + " | " + bound(dtypes.tolerance) + " | " +
            (std::isinf(dtypes.tolerance.nmse) ? "-" : number(dtypes.tolerance.nmse)) + " | " +
            (dtypes.optional ? "optional for a backend" : "") + " |\n";
  }
}

}  // namespace

std::string operators_markdown(std::string_view support) {
  std::string out(kIntroduction);
  out += kSupport;
  for (const std::string_view part : {kSupportBegin, support, kSupportEnd}) out += part;
  for (const Schema* row : schemas()) {
    const Schema& schema = *row;
    out += std::string("\n## ") + schema.name + " (" + std::to_string(schema.op) + ")\n\n`" +
           schema.doc + "`\n\n";
    append_tensors(schema, &out);
    append_attributes(schema, &out);
    append_dtypes(schema, &out);
    if (schema.accumulation != KEEL_DTYPE_INVALID) {
      out += std::string("\nSums are accumulated in ") + kit::dtype_name(schema.accumulation) +
             " or wider.\n";
    }
  }
  return out;
}

}  // namespace keel::ops
