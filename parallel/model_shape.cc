// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <functional>
#include <keel/parallel/model.hpp>
#include <numeric>

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr int64_t kMaxHeadSize = 256;  // limit of the attention operator

void require(bool holds, const std::string& complaint) {
  if (!holds) throw Error(KEEL_INVALID_ARGUMENT, "model: " + complaint);
}

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::string ModelShape::text() const {
  char figures[96];
  std::snprintf(figures, sizeof(figures), " norm_epsilon=%.9g rope_theta=%.9g dropout=%.9g",
                norm_epsilon, rope_theta, dropout);
  const auto field = [](const char* name, int64_t value) {
    return std::string(" ") + name + "=" + std::to_string(value);
  };
  return std::string(is_llama() ? "llama" : "gpt2") + field("vocabulary", vocabulary) +
         field("layers", layers) + field("width", width) + field("heads", heads) +
         field("kv_heads", kv_heads) + field("mlp_width", mlp_width) + field("context", context) +
         figures;
}

void check(const ModelShape& shape, int64_t tensor_parts) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  require(shape.vocabulary >= 1 && shape.layers >= 1 && shape.width >= 1 && shape.heads >= 1 &&
              shape.kv_heads >= 1 && shape.mlp_width >= 1 && shape.context >= 1,
          "all sizes must be at least 1");
  require(shape.width % shape.heads == 0,
          "width " + text(shape.width) + " is not a multiple of heads " + text(shape.heads));
  require(shape.head_size() <= kMaxHeadSize,
          "width over heads is " + text(shape.head_size()) + ", above " + text(kMaxHeadSize));
  require(shape.heads % shape.kv_heads == 0,
          "kv_heads " + text(shape.kv_heads) + " do not divide heads " + text(shape.heads));
  if (shape.is_llama()) {
    require(shape.head_size() % 2 == 0,
            "width over heads is " + text(shape.head_size()) + ": rotary positions turn pairs");
  } else {
    require(shape.kv_heads == shape.heads, "GPT-2 has as many kv_heads as heads");
  }
  require(shape.dropout >= 0 && shape.dropout < 1, "dropout is not in [0, 1)");
  // Philox counts four elements.
  require(shape.dropout == 0 || shape.width % 4 == 0,
          "width " + text(shape.width) + " is not a multiple of 4, as dropout needs");
  // Shards need not be equal: they differ by a head, a column or a row. Query heads go with the
  // key/value head that they read.
  const auto divides = [&](const char* name, int64_t size) {
    require(size >= tensor_parts, std::string(name) + " " + text(size) +
                                      " cannot be divided by the " + text(tensor_parts) +
                                      " ranks of axis tp");
  };
  divides("heads", shape.heads);
  divides("kv_heads", shape.kv_heads);
  divides("mlp_width", shape.mlp_width);
  divides("vocabulary", shape.vocabulary);
}

double training_flops_per_token(const ModelShape& shape) {
  const auto width = static_cast<double>(shape.width);
  const double attention = 2 * width * (width + static_cast<double>(shape.kv_width()));
  const double mlp = width * static_cast<double>((shape.is_llama() ? 3 : 2) * shape.mlp_width);
  const double keys = (static_cast<double>(shape.context) + 1) / 2;  // mean keys of a query
  const double layer = 2 * (attention + mlp) + 4 * width * keys;
  return 3 * (static_cast<double>(shape.layers) * layer +
              2 * width * static_cast<double>(shape.vocabulary));
}

std::vector<int64_t> Parameter::shard_shape() const {
  std::vector<int64_t> own = shape;
  if (shard_axis >= 0) own[static_cast<size_t>(shard_axis)] = shard_end - shard_begin;
  return own;
}

int64_t Parameter::size() const {
  return product(shard_shape());
}

int64_t Parameter::full_size() const {
  return product(shape);
}

}  // namespace v0
}  // namespace keel::parallel
