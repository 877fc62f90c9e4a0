// SPDX-License-Identifier: Apache-2.0
// Cases of the operators with tensors of different shapes: sum, matmul, embedding, cross entropy.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

CaseTensor result(keel_dtype dtype, std::vector<int64_t> shape) {
  return dense(dtype, std::move(shape), D::kNaN);
}

// ---- matmul ---------------------------------------------------------------------------

struct MatmulOptions {
  bool bias = false;
  double alpha = 1;
  double beta = 0;
  D distribution = D::kNormal;
  bool a_is_zero = false;
  int64_t padding = 0;  // between the rows of a, b and c
  uint64_t shift = 0;   // elements before each tensor's first
  const char* name = "";
  int64_t activation = 0;
};

constexpr const char* kActivations[] = {"", "/gelu", "/gelu_erf", "/silu"};

Case matmul_case(uint32_t combination, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                 const MatmulOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_MATMUL)->dtypes[combination];
  using Shape = std::vector<int64_t>;
  const auto place = [&](CaseTensor tensor) {
    if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
    return shifted(std::move(tensor), options.shift);
  };
  std::string suffix = std::string(trans_a ? "t" : "n") + (trans_b ? "t" : "n") + "/m" +
                       std::to_string(m) + "_n" + std::to_string(n) + "_k" + std::to_string(k);
  if (options.bias) suffix += "/bias";
  suffix += kActivations[options.activation];
  if (*options.name != '\0') suffix += std::string("/") + options.name;
  return make_case(
      KEEL_OP_MATMUL, combination, suffix,
      {place(dense(dtypes.inputs[0], trans_a ? Shape{k, m} : Shape{m, k},
                   options.a_is_zero ? D::kZeroes : options.distribution)),
       place(dense(dtypes.inputs[1], trans_b ? Shape{n, k} : Shape{k, n}, options.distribution)),
       options.bias ? shifted(dense(dtypes.inputs[2], {n}), options.shift) : absent()},
      {place(dense(dtypes.outputs[0], {m, n}, options.beta == 0 ? D::kNaN : D::kNormal))},
      {int_attribute(trans_a ? 1 : 0), int_attribute(trans_b ? 1 : 0),
       float_attribute(options.alpha), float_attribute(options.beta),
       int_attribute(options.activation)});
}

// Adds one combination of dtypes with each activation.
void add_activated(std::vector<Case>* cases, uint32_t c) {
  for (int64_t activation = 1; activation <= 3; ++activation) {
    const auto add = [&](bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                         MatmulOptions options = {}) {
      options.activation = activation;
      cases->push_back(matmul_case(c, trans_a, trans_b, m, n, k, options));
    };
    // Reaches both ends of an activation: sums are normal with a deviation of sqrt(k).
    for (int transposes = 0; transposes < 4; ++transposes) {
      add((transposes & 2) != 0, (transposes & 1) != 0, 33, 65, 17, {.bias = true});
    }
    add(false, false, 33, 65, 17);
    add(false, false, 33, 65, 17, {.bias = true, .alpha = -0.7, .beta = 0.3, .name = "alpha_beta"});
    add(false, false, 33, 65, 17, {.alpha = 0.25, .beta = 1, .name = "accumulate"});
    add(false, true, 33, 65, 17, {.bias = true, .padding = 3, .name = "padded"});
    add(false, true, 33, 65, 17, {.bias = true, .shift = 1, .name = "unaligned"});
    add(false, false, 33, 65, 17, {.distribution = D::kWide, .name = "wide"});
    // Few terms, so that some infinities do not become NaN.
    add(false, false, 33, 65, 2, {.distribution = D::kNonFinite, .name = "non_finite"});
    add(false, false, 7, 5, 0, {.bias = true, .beta = 0.5});
    add(false, true, 1, 129, 64);
    add(false, true, 130, 258, 66, {.bias = true});
  }
}

// ---- embedding -----------------------------------------------------------------------------

struct EmbeddingOptions {
  D indices = D::kIndices;
  D values = D::kNormal;    // of the table, or of its rows' gradient
  int64_t vocabulary = -1;  // range of the indices; -1: the table's number of rows
  int64_t first = 0;
  uint64_t shift = 0;  // elements before each tensor's first, except indices
  const char* name = "";
};

std::string table_text(int64_t v, int64_t d, int64_t n, const EmbeddingOptions& options) {
  return std::string("v") + std::to_string(v) + "_d" + std::to_string(d) + "_n" +
         std::to_string(n) + options.name;
}

CaseTensor indices_tensor(int64_t v, int64_t n, const EmbeddingOptions& options) {
  return dense(KEEL_INT32, {n}, options.indices, options.vocabulary < 0 ? v : options.vocabulary);
}

Case embedding_case(uint32_t combination, int64_t v, int64_t d, int64_t n,
                    const EmbeddingOptions& options) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_EMBEDDING)->dtypes[combination];
  return make_case(KEEL_OP_EMBEDDING, combination, table_text(v, d, n, options),
                   {shifted(dense(dtypes.inputs[0], {v, d}, options.values), options.shift),
                    indices_tensor(v, n, options)},
                   {shifted(result(dtypes.outputs[0], {n, d}), options.shift)},
                   {int_attribute(options.first)});
}

Case embedding_backward_case(uint32_t combination, int64_t v, int64_t d, int64_t n,
                             const EmbeddingOptions& options) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_EMBEDDING_BACKWARD)->dtypes[combination];
  return make_case(KEEL_OP_EMBEDDING_BACKWARD, combination, table_text(v, d, n, options),
                   {shifted(dense(dtypes.inputs[0], {n, d}, options.values), options.shift),
                    indices_tensor(v, n, options)},
                   {shifted(result(dtypes.outputs[0], {v, d}), options.shift)},
                   {int_attribute(options.first)});
}

// Tables that are a range of a larger vocabulary, by |add(v, d, n, options)|.
template <typename Add>
void add_ranges(Add&& add) {
  add(17, 64, 129, {.vocabulary = 51, .first = 17, .name = "/middle"});
  add(17, 64, 129, {.vocabulary = 51, .first = 34, .name = "/last"});
  add(17, 5, 129,
      {.indices = D::kIndicesSomeOutside,
       .vocabulary = 51,
       .first = 17,
       .name = "/middle/outside"});
  add(17, 5, 33, {.first = 17, .name = "/elsewhere"});
  add(0, 4, 9, {.vocabulary = 51, .first = 17, .name = "/middle"});
  // The last row's index is the largest int32; the smallest int32 minus |first| overflows.
  add(17, 5, 33,
      {.indices = D::kIndicesSomeOutside, .first = (int64_t{1} << 31) - 17, .name = "/end"});
}

// ---- cross entropy -------------------------------------------------------------------------

struct LogitsOptions {
  D logits = D::kLogits;
  D labels = D::kIndices;
  D logsumexp = D::kLogSumExp;  // input of the gradient
  int64_t padding = 0;
  const char* name = "";
};

std::string rows_text(int64_t n, int64_t v, const LogitsOptions& options) {
  return std::string("n") + std::to_string(n) + "_v" + std::to_string(v) + options.name;
}

CaseTensor logits_tensor(keel_dtype dtype, int64_t n, int64_t v, const LogitsOptions& options) {
  CaseTensor tensor = dense(dtype, {n, v}, options.logits, v);
  return options.padding == 0 ? tensor : padded(std::move(tensor), options.padding);
}

Case cross_entropy_case(uint32_t combination, int64_t n, int64_t v, const LogitsOptions& options) {
  const keel_dtype dtype = find_schema(KEEL_OP_CROSS_ENTROPY)->dtypes[combination].inputs[0];
  return make_case(KEEL_OP_CROSS_ENTROPY, combination, rows_text(n, v, options),
                   {logits_tensor(dtype, n, v, options), dense(KEEL_INT32, {n}, options.labels, v)},
                   {result(KEEL_FLOAT32, {n}), result(KEEL_FLOAT32, {n})});
}

Case cross_entropy_backward_case(uint32_t combination, int64_t n, int64_t v, double scale,
                                 const LogitsOptions& options) {
  const keel_dtype dtype =
      find_schema(KEEL_OP_CROSS_ENTROPY_BACKWARD)->dtypes[combination].inputs[0];
  return make_case(KEEL_OP_CROSS_ENTROPY_BACKWARD, combination, rows_text(n, v, options),
                   {logits_tensor(dtype, n, v, options), dense(KEEL_INT32, {n}, options.labels, v),
                    dense(KEEL_FLOAT32, {n}, options.logsumexp)},
                   {result(dtype, {n, v})}, {float_attribute(scale)});
}

// Shapes and contents of both directions of cross entropy, for logits of |dtype|, by |make(n, v,
// options)|.
template <typename Make>
std::vector<Case> logits_cases(keel_dtype dtype, Make&& make) {
  std::vector<Case> cases;
  const std::pair<int64_t, int64_t> shapes[] = {{0, 11},  {1, 1},     {5, 7},     {33, 129},
                                                {257, 2}, {64, 1000}, {3, 50257}, {1, 65536}};
  for (const auto& [n, v] : shapes) cases.push_back(make(n, v, LogitsOptions{}));
  cases.push_back(make(67, 31, {.labels = D::kIndicesSomeOutside, .name = "/ignored"}));
  cases.push_back(make(67, 131, {.logits = D::kMaskedLogits, .name = "/masked"}));
  if (dtype != KEEL_FLOAT16) cases.push_back(make(67, 131, {.logits = D::kWide, .name = "/wide"}));
  for (const int64_t v : {2, 131, 10007}) {
    cases.push_back(make(16, v, {.logits = D::kOffsetLogits, .name = "/offset"}));
  }
  cases.push_back(make(67, 131, {.logits = D::kSomeNaN, .name = "/some_nan"}));
  cases.push_back(make(67, 131, {.padding = 5, .name = "/padded"}));
  cases.push_back(make(67, 131, {.logits = D::kSubnormal, .name = "/subnormal"}));
  cases.push_back(make(67, 131, {.logits = D::kZeroes, .name = "/zeroes"}));
  cases.push_back(make(67, 31, {.logits = D::kNonFinite, .name = "/non_finite"}));
  cases.push_back(make(257, 2, {.logits = D::kMaskedLogits, .name = "/all_masked"}));
  // Among so many rows, some have NaN before minus infinity and some after.
  cases.push_back(make(8209, 2, {.logits = D::kNonFinite, .name = "/non_finite"}));
  return cases;
}

}  // namespace

std::vector<Case> sum_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_SUM)->dtypes.size(); ++c) {
    const DtypeCombination& dtypes = find_schema(KEEL_OP_SUM)->dtypes[c];
    const keel_dtype dtype = dtypes.inputs[0];
    const auto add = [&](CaseTensor x, const char* name) {
      const int64_t rows = x.shape[0];
      const int64_t cols = x.shape[1];
      const std::pair<const char*, int64_t> axes[] = {{"rows", 0}, {"cols", 1}, {"all", -1}};
      for (const auto& [axis_name, axis] : axes) {
        std::vector<int64_t> shape;
        if (axis == 0) shape = {cols};
        if (axis == 1) shape = {rows};
        cases.push_back(make_case(KEEL_OP_SUM, c,
                                  std::string(axis_name) + "/" + shape_text(x.shape) + name, {x},
                                  {result(dtypes.outputs[0], shape)}, {int_attribute(axis)}));
      }
    };
    const std::pair<int64_t, int64_t> shapes[] = {{1, 1},     {7, 13},    {0, 5},      {5, 0},
                                                  {0, 0},     {1, 65537}, {65537, 1},  {3, 10007},
                                                  {10007, 3}, {128, 256}, {257, 1025}, {512, 512}};
    for (const auto& [rows, cols] : shapes) add(dense(dtype, {rows, cols}), "");
    // Limited by float16 if the sum is rounded to it.
    const int64_t many = dtypes.outputs[0] == KEEL_FLOAT16 ? 16411 : 65537;
    add(dense(dtype, {3, many}, D::kPositive), "/growing");
    add(dense(dtype, {many, 3}, D::kPositive), "/growing");
    if (dtype != KEEL_FLOAT16) add(dense(dtype, {61, 67}, D::kWide), "/wide");
    add(dense(dtype, {61, 67}, D::kNonFinite), "/non_finite");
    add(shifted(dense(dtype, {61, 67}), 3), "/unaligned");
    add(padded(dense(dtype, {61, 67}), 3), "/padded");
    add(transposed(dense(dtype, {61, 67})), "/transposed");
    add(broadcast(dense(dtype, {61, 67})), "/broadcast");
  }
  return cases;
}

std::vector<Case> matmul_cases() {
  struct Extents {
    int64_t m, n, k;
  };
  // One element; vectors; below, at and just above kernels' tile sizes; k of 0.
  const Extents extents[] = {{1, 1, 1},    {1, 129, 64},  {129, 1, 63},  {64, 64, 1},
                             {7, 5, 0},    {0, 5, 7},     {5, 0, 7},     {16, 16, 16},
                             {33, 65, 17}, {31, 127, 67}, {128, 64, 32}, {130, 258, 66}};
  std::vector<Case> cases;
  const auto combinations = static_cast<uint32_t>(find_schema(KEEL_OP_MATMUL)->dtypes.size());
  for (uint32_t c = 0; c < combinations; ++c) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool ta = (transposes & 2) != 0;
      const bool tb = (transposes & 1) != 0;
      for (const auto& [m, n, k] : extents) {
        cases.push_back(matmul_case(c, ta, tb, m, n, k));
      }
      cases.push_back(matmul_case(c, ta, tb, 33, 65, 17, {.bias = true}));
      cases.push_back(matmul_case(c, ta, tb, 33, 65, 17, {.beta = 1, .name = "accumulate"}));
      cases.push_back(matmul_case(
          c, ta, tb, 33, 65, 17, {.bias = true, .alpha = -0.7, .beta = 0.3, .name = "alpha_beta"}));
      cases.push_back(
          matmul_case(c, ta, tb, 33, 65, 17, {.bias = true, .padding = 3, .name = "padded"}));
      cases.push_back(
          matmul_case(c, ta, tb, 33, 65, 17, {.bias = true, .shift = 1, .name = "unaligned"}));
      // The one column of c has a stride of its own.
      cases.push_back(matmul_case(c, ta, tb, 1, 129, 64, {.padding = 3, .name = "padded"}));
      cases.push_back(matmul_case(c, ta, tb, 129, 1, 63, {.padding = 3, .name = "padded"}));
    }
    cases.push_back(matmul_case(c, false, false, 7, 5, 0, {.bias = true, .beta = 0.5}));
    cases.push_back(matmul_case(c, false, false, 3, 5, 10007, {.name = "long"}));
    cases.push_back(matmul_case(c, false, true, 5, 3, 10007,
                                {.distribution = D::kPositive, .name = "growing"}));
    cases.push_back(
        matmul_case(c, false, false, 33, 65, 17, {.distribution = D::kWide, .name = "wide"}));
    cases.push_back(matmul_case(c, false, false, 33, 65, 17,
                                {.distribution = D::kNonFinite, .name = "non_finite"}));
    // Scaled up into float16's range.
    cases.push_back(
        matmul_case(c, false, false, 33, 65, 17,
                    {.alpha = 0x1p20, .distribution = D::kSubnormal, .name = "subnormal"}));
    cases.push_back(matmul_case(c, false, true, 256, 512, 384, {.bias = true}));
    // A product with an infinity is NaN: a kernel must not skip multiplications by 0.
    cases.push_back(matmul_case(
        c, false, false, 33, 65, 17,
        {.distribution = D::kNonFinite, .a_is_zero = true, .name = "zero_and_non_finite"}));
    add_activated(&cases, c);
  }
  return cases;
}

std::vector<Case> embedding_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_EMBEDDING)->dtypes.size(); ++c) {
    const auto add = [&](int64_t v, int64_t d, int64_t n, const EmbeddingOptions& options = {}) {
      cases.push_back(embedding_case(c, v, d, n, options));
    };
    add(1, 1, 1);
    add(17, 5, 33);
    add(101, 768, 7);
    add(50257, 3, 1031);
    add(5, 3, 0);
    add(5, 0, 3);
    add(17, 64, 129, {.indices = D::kIndicesSomeOutside, .name = "/outside"});
    add(0, 4, 9, {.indices = D::kIndicesSomeOutside, .name = "/outside"});
    add(17, 5, 33, {.values = D::kSpecial, .name = "/special"});
    add(17, 64, 33, {.shift = 1, .name = "/unaligned"});
    add_ranges(add);
  }
  return cases;
}

std::vector<Case> embedding_backward_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_EMBEDDING_BACKWARD)->dtypes.size(); ++c) {
    const auto add = [&](int64_t v, int64_t d, int64_t n, const EmbeddingOptions& options = {}) {
      cases.push_back(embedding_backward_case(c, v, d, n, options));
    };
    add(1, 1, 1);
    add(17, 5, 33);
    add(101, 768, 7);
    add(5003, 3, 1031);
    add(5, 3, 0);
    add(0, 3, 0);
    add(3, 33, 1009, {.name = "/repeated"});
    add(17, 64, 129, {.indices = D::kIndicesSomeOutside, .name = "/outside"});
    add(17, 64, 33, {.values = D::kSomeNaN, .name = "/some_nan"});
    add(17, 64, 33, {.values = D::kNonFinite, .name = "/non_finite"});
    add(17, 64, 33, {.values = D::kSubnormal, .name = "/subnormal"});
    add(17, 64, 33, {.values = D::kZeroes, .name = "/zeroes"});
    add(17, 64, 33, {.shift = 1, .name = "/unaligned"});
    add_ranges(add);
  }
  return cases;
}

std::vector<Case> cross_entropy_cases() {
  std::vector<Case> cases;
  const Schema& schema = *find_schema(KEEL_OP_CROSS_ENTROPY);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const auto make = [&](int64_t n, int64_t v, const LogitsOptions& options) {
      return cross_entropy_case(c, n, v, options);
    };
    for (Case& each : logits_cases(schema.dtypes[c].inputs[0], make)) {
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

std::vector<Case> cross_entropy_backward_cases() {
  std::vector<Case> cases;
  const Schema& schema = *find_schema(KEEL_OP_CROSS_ENTROPY_BACKWARD);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const auto make = [&](int64_t n, int64_t v, const LogitsOptions& options) {
      return cross_entropy_backward_case(c, n, v, 1.0 / static_cast<double>(n + 1), options);
    };
    for (Case& each : logits_cases(schema.dtypes[c].inputs[0], make)) {
      cases.push_back(std::move(each));
    }
    const auto make_quarter = [&](int64_t n, int64_t v, const LogitsOptions& options) {
      return cross_entropy_backward_case(c, n, v, 0.25, options);
    };
    // A logsumexp that matches no row: e^(logit - logsumexp) is infinity, NaN or 0.
    cases.push_back(
        make_quarter(67, 31, {.logsumexp = D::kNonFinite, .name = "/logsumexp_non_finite"}));
    cases.push_back(
        make_quarter(67, 31, {.logsumexp = D::kSomeFarBelow, .name = "/logsumexp_far_below"}));
    cases.push_back(in_place(make_quarter(33, 129, {}), 0, 0));
    cases.push_back(
        in_place(make_quarter(33, 1025, {.logits = D::kOffsetLogits, .name = "/offset"}), 0, 0));
    cases.push_back(in_place(
        make_quarter(33, 129, {.labels = D::kIndicesSomeOutside, .name = "/ignored"}), 0, 0));
  }
  return cases;
}

}  // namespace keel::ops
