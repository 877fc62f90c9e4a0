// SPDX-License-Identifier: Apache-2.0
#include "ops/docs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <keel/plugin_kit.hpp>
#include <string_view>

#include "ops/schema.h"

namespace keel::ops {
namespace {

constexpr std::string_view kIntroduction = R"(# Operators

The reference of Keel's operators for callers and kernel authors: shapes, attributes, dtypes,
error bounds, and each backend's kernels.

`keel ops list --markdown > docs/operators.md` generates the page from the table of operators
(`ops/table/operators.py`) and from the backends' answers; tests compare the page with both.

Rules for all operators:

- **Layout.** Tensors are row-major unless their strides say otherwise. Every address is a multiple
  of the element size. Shapes do not broadcast; an input broadcasts by a stride of 0.
- **Strides.** A backend's kernel may refuse strided tensors: the CPU's kernel then runs instead.
  If the CPU's kernel refuses the tensors too, the call fails with `KEEL_UNSUPPORTED`.
- **Fallback copies.** For a CPU kernel that runs for another device, Keel copies a tensor row by
  row if its elements form at most 1024 rows with equal gaps. Otherwise Keel copies the whole span
  to the CPU and, for an output, back: no other stream may write the gaps meanwhile.
- **Memory.** Tensors are memory of the stream's device. A CPU device also accepts memory registered
  with the device (`keel_host_register`): a GPU's pinned memory, or the caller's own, so that an
  optimizer updates its state in place.
- **Attributes.** Named calls (`keel/ops.hpp`, `keel/op_calls.h`) name them and have the defaults;
  `keel_op_call` holds all of them, in the order of the tables; floats are float64.
- **Overlap.** An output overlaps no other tensor, with one exception: the output may be exactly an
  input (same address, same layout) that the output's row names after "may be". Keel compares spans
  of memory, from the first element to the last.
- **Arithmetic.** Except for integers and float64 attributes, kernels compute in float32 unless the
  operator's section says otherwise, and round once to the output's dtype at the end. NaN and
  infinities propagate as in IEEE 754. Kernels may flush float32 subnormals to zero.
- **Formulas** are mathematics. In float32, `1 + tanh(z)` and `1 + erf(z)` cancel at negative z
  (2 / (1 + exp(-2 z)) and erfc(-z) do not), and a plain loop over some thousand terms leaves the
  bounds of a sum: add in parts, or wider.
- **Infinities.** gelu, silu and their derivatives return their limits: 0 and 0 at minus infinity,
  infinity and 1 at infinity. floor_div and remainder of floats are Python's `//` and `%`, with a / b
  where b is 0: 5 // -infinity is -1, infinity // 5 is NaN.
- **Error** is the deviation from the float64 reference that conformance allows an element.
  abs(want) is the size of the reference's value; *scale* is the size of the operands (for a sum of
  k terms: sqrt(k) times the sum of |terms|). The bound applies before rounding to the dtype, so 0
  means correctly rounded. **NMSE** is the allowed mean-square error of a whole output, relative to
  the output's energy.
)";

constexpr std::string_view kSupport = R"(
## Who computes what

The table lists, for each operator, the dtype combinations for which a backend has its own kernels
for dense tensors, named as in `keel ops list`: all, some, none (`-`), or a combination "in part",
depending on shapes and attributes. For the rest, the CPU's kernels run on staged copies; a call is
refused if fallback is forbidden (`keel_op_forbid_fallback`) or a tensor is packed.

`keel ops list` asks the backends about each conformance case, `vulkan` on lavapipe, `ascend`, `cuda`
and `hip` on the emulated chip; a test asks again. The last row counts the cases that each backend takes, strided
tensors included, although some kernels refuse strides. A full run of conformance level `ops` passes
these cases and two cases for the memory use of attention; the table of README.md gives the counts
of its date.

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
  if (schema.mixed_dtypes != 0) {
    *out += "\nEach tensor may have any of";
    const char* separator = " ";
    for (keel_dtype dtype = 0; dtype < KEEL_DTYPE_COUNT; ++dtype) {
      if ((schema.mixed_dtypes >> dtype & 1u) == 0) continue;
      *out += std::string(separator) + kit::dtype_name(dtype);
      separator = ", ";
    }
    *out +=
        "; conformance tries the combinations below. The error is of functions that round "
        "once: others may have a few units, functions like exp 64 u.\n";
  }
  *out += "\n| dtypes | error | NMSE | |\n|---|---|---|---|\n";
  for (size_t c = 0; c < schema.dtypes.size(); ++c) {
    const DtypeCombination& dtypes = schema.dtypes[c];
    std::string names;
    for (size_t i = 0; i < schema.inputs.size(); ++i) {
      names += std::string(i == 0 ? "" : ", ") + kit::dtype_name(dtypes.inputs[i]);
    }
    if (schema.op == KEEL_OP_CAST) {  // has many pairs: one row for all inputs of an output
      const auto first = schema.dtypes.begin();
      const auto is_like = [&](const DtypeCombination& other) {
        return other.outputs[0] == dtypes.outputs[0] && other.optional == dtypes.optional;
      };
      if (std::any_of(first, first + static_cast<std::ptrdiff_t>(c), is_like)) continue;
      for (const DtypeCombination& later : schema.dtypes.subspan(c + 1)) {
        if (is_like(later)) names += std::string(" or ") + kit::dtype_name(later.inputs[0]);
      }
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
