// SPDX-License-Identifier: Apache-2.0
// Cases of operators that move elements.
#include <cstdio>
#include <keel/plugin_kit.hpp>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

struct Transposition {
  Shape shape;     // of x
  uint64_t order;  // one hexadecimal digit per axis
};

// All orders of three axes; for more axes: heads to the front, channels last and back, axes that
// can be merged, axes that cannot; planes just above a kernel's tiles, and thin planes.
const Transposition kTranspositions[] = {
    {{}, 0},
    {{7}, 0},
    {{1, 1}, 0x10},
    {{31, 17}, 0x01},
    {{31, 17}, 0x10},
    {{4, 0, 3}, 0x210},
    {{32, 64}, 0x10},
    {{33, 65}, 0x10},
    {{3, 257}, 0x10},
    {{257, 2}, 0x10},
    {{5, 8, 11}, 0x021},
    {{5, 8, 11}, 0x102},
    {{5, 8, 11}, 0x120},
    {{5, 8, 11}, 0x201},
    {{5, 8, 11}, 0x210},
    {{2, 9, 3, 16}, 0x0213},
    {{2, 33, 34, 3}, 0x0312},
    {{2, 3, 33, 34}, 0x0231},
    {{2, 3, 33, 34}, 0x2301},
    {{3, 2, 13, 2}, 0x1023},
    {{2, 1, 3, 1, 2, 1, 2, 3}, 0x76543210},
    {{2, 3, 2, 3, 2, 3, 2, 3}, 0x10325476},
    {{3, 2, 2, 3, 2, 2, 11, 10}, 0x27061534},
    {{521, 1031}, 0x10},
};

bool is_float(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT64 || dtype == KEEL_FLOAT16 ||
         dtype == KEEL_BFLOAT16 || dtype == KEEL_FLOAT8_E4M3FN || dtype == KEEL_FLOAT8_E5M2;
}

std::string order_text(const Transposition& transposition) {
  char text[32];
  std::snprintf(text, sizeof(text), "/order_%0*llx", static_cast<int>(transposition.shape.size()),
                static_cast<unsigned long long>(transposition.order));
  return text;
}

Case transpose_case(uint32_t combination, const Transposition& transposition, CaseTensor x,
                    const char* name = "") {
  Shape shape;
  for (size_t axis = transposition.shape.size(); axis-- > 0;) {
    shape.push_back(transposition.shape[transposition.order >> 4 * axis & 15]);
  }
  const std::string text = shape_text(transposition.shape) + order_text(transposition) + name;
  const keel_dtype dtype = x.dtype;
  return make_case(KEEL_OP_TRANSPOSE, combination, text, {std::move(x)},
                   {dense(dtype, shape, D::kNaN)},
                   {int_attribute(static_cast<int64_t>(transposition.order))});
}

}  // namespace

std::vector<Case> transpose_cases() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_TRANSPOSE)->dtypes;
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype dtype = dtypes[c].inputs[0];
    const D values = is_float(dtype) ? D::kNormal : D::kIntegers;
    const auto add = [&](const Transposition& transposition, CaseTensor x, const char* name = "") {
      cases.push_back(transpose_case(c, transposition, std::move(x), name));
    };
    for (const Transposition& each : kTranspositions) add(each, dense(dtype, each.shape, values));
    if (is_float(dtype)) {
      add({{67, 35}, 0x10}, dense(dtype, {67, 35}, D::kSpecial), "/special");
    }

    const Transposition plane = {{67, 35}, 0x10};
    // Rows of 16 bytes, which a kernel can move as one element each.
    const Transposition rows = {{33, 34, int64_t{16} / kit::dtype_size(dtype)}, 0x102};
    add(rows, dense(dtype, rows.shape, values));
    const CaseTensor x = dense(dtype, plane.shape, values);
    add(plane, shifted(x, 3), "/x_unaligned");
    cases.push_back(transpose_case(c, plane, x, "/y_unaligned"));
    cases.back().outputs[0] = shifted(cases.back().outputs[0], 1);
    add(plane, padded(x, 5), "/x_padded");
    add(plane, transposed(x), "/x_transposed");
    add(plane, broadcast(x), "/x_broadcast");
    const Transposition heads = {{6, 5, 3, 16}, 0x0213};
    add(heads, padded(dense(dtype, heads.shape, values), 16), "/x_padded");
    add({{6, 10}, 0x01}, transposed(dense(dtype, {6, 10}, values)), "/x_transposed");
    add({{101}, 0}, padded(dense(dtype, {101}, values), 2), "/x_padded");

    const Case whole = transpose_case(c, plane, x, "/y_padded");
    std::vector<CaseTensor> outputs = {padded(whole.outputs[0], 3)};
    cases.push_back(make_case(KEEL_OP_TRANSPOSE, c, "67x35/order_10/y_padded", {x},
                              std::move(outputs), whole.attributes));
  }
  return cases;
}

}  // namespace keel::ops
