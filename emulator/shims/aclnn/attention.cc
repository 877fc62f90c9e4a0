// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/aclnn/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace keel::emulator::aclnn {
namespace {

// Which keys a query sees.
class Visibility {
 public:
  // Reads |mask|, which is NULL if every query sees every key.
  static Status read(const Attention& attention, const Operand* mask, Visibility* out_visibility) {
    out_visibility->attention_ = &attention;
    if (mask == nullptr) return {};
    std::vector<double> values = mask->read();
    if (attention.is_causal) return check_causal(values);
    const Dims& dims = mask->tensor().dims;
    out_visibility->has_batches_ = dims.size() == 4 && dims[0] != 1;
    out_visibility->has_heads_ = dims.size() == 4 && dims[1] != 1;
    out_visibility->mask_ = std::move(values);
    return out_visibility->check_band();
  }

  bool sees(int64_t batch, int64_t head, int64_t i, int64_t j) const {
    if (attention_->is_causal) return j <= i + attention_->keys - attention_->queries;
    if (mask_.empty()) return true;
    int64_t matrix = has_batches_ ? batch : 0;
    if (has_heads_) matrix = matrix * attention_->heads + head;
    return mask_[static_cast<size_t>((matrix * attention_->queries + i) * attention_->keys + j)] ==
           0;
  }

 private:
  static Status check_causal(const std::vector<double>& mask) {
    constexpr auto kExtent = static_cast<size_t>(ACLNN_CAUSAL_MASK_EXTENT);
    for (size_t i = 0; i < mask.size(); ++i) {
      if ((mask[i] != 0) != (i % kExtent > i / kExtent)) {
        return {Code::kFailed, "a mask that is not the causal one"};
      }
    }
    return {};
  }

  // The library computes only the keys from i - preTokens to i + nextTokens; the mask must hide all
  // others.
  Status check_band() const {
    const int64_t queries = attention_->queries;
    const int64_t keys = attention_->keys;
    for (size_t at = 0; at < mask_.size(); ++at) {
      const auto index = static_cast<int64_t>(at);
      const int64_t ahead = index % keys - index / keys % queries;
      if (mask_[at] != 0) continue;
      if (ahead > attention_->next_tokens || -ahead > attention_->pre_tokens) {
        return {Code::kFailed, "a mask that exceeds preTokens or nextTokens"};
      }
    }
    return {};
  }

  const Attention* attention_ = nullptr;
  bool has_batches_ = false;
  bool has_heads_ = false;
  std::vector<double> mask_;  // empty: none is needed
};

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* to, double factor, const double* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

// Calls |each| with the batch, head and position of every query.
template <typename Each>
void for_each_query(const Attention& attention, Each&& each) {
  for (int64_t batch = 0; batch < attention.batches; ++batch) {
    for (int64_t head = 0; head < attention.heads; ++head) {
      for (int64_t i = 0; i < attention.queries; ++i) each(batch, head, i);
    }
  }
}

}  // namespace

Status attend(const Attention& attention, std::vector<Operand>& operands) {
  const size_t first_output = operands.size() - 3;
  Visibility visibility;
  Status status =
      Visibility::read(attention, first_output == 4 ? &operands[3] : nullptr, &visibility);
  if (!status.ok()) return status;
  const std::vector<double> q = operands[0].read();
  const std::vector<double> k = operands[1].read();
  const std::vector<double> v = operands[2].read();
  std::vector<double> most(static_cast<size_t>(count_of(attention.statistics())));
  std::vector<double> sums(most.size());
  std::vector<double> out(q.size());
  std::vector<double> scores(static_cast<size_t>(attention.keys));
  for_each_query(attention, [&](int64_t batch, int64_t head, int64_t i) {
    const size_t row = attention.query_row(batch, head, i);
    double largest = -HUGE_VAL;
    for (int64_t j = 0; j < attention.keys; ++j) {
      if (!visibility.sees(batch, head, i, j)) continue;
      double& score = scores[static_cast<size_t>(j)];
      score =
          attention.scale * dot(&q[row], &k[attention.key_row(batch, head, j)], attention.depth);
      largest = std::isnan(largest) || std::isnan(score) ? NAN : std::max(largest, score);
    }
    largest = static_cast<float>(largest);  // as stored: the gradient subtracts this value
    double sum = 0;
    for (int64_t j = 0; j < attention.keys; ++j) {
      if (!visibility.sees(batch, head, i, j)) continue;
      const double power = std::exp(scores[static_cast<size_t>(j)] - largest);
      sum += power;
      add_scaled(&out[row], power, &v[attention.key_row(batch, head, j)], attention.depth);
    }
    for (int64_t d = 0; d < attention.depth; ++d) out[row + static_cast<size_t>(d)] /= sum;
    const size_t first = attention.query_index(batch, head, i) * ACLNN_SOFTMAX_COPIES;
    std::fill_n(most.begin() + static_cast<ptrdiff_t>(first), ACLNN_SOFTMAX_COPIES, largest);
    std::fill_n(sums.begin() + static_cast<ptrdiff_t>(first), ACLNN_SOFTMAX_COPIES, sum);
  });
  operands[first_output].write(most);
  operands[first_output + 1].write(sums);
  operands[first_output + 2].write(out);
  return {};
}

Status differentiate(const Attention& attention, std::vector<Operand>& operands) {
  const size_t first_output = operands.size() - 3;
  Visibility visibility;
  Status status =
      Visibility::read(attention, first_output == 8 ? &operands[7] : nullptr, &visibility);
  if (!status.ok()) return status;
  const std::vector<double> q = operands[0].read();
  const std::vector<double> k = operands[1].read();
  const std::vector<double> v = operands[2].read();
  const std::vector<double> dy = operands[3].read();
  const std::vector<double> most = operands[4].read();
  const std::vector<double> sums = operands[5].read();
  const std::vector<double> y = operands[6].read();
  std::vector<double> dq(q.size());
  std::vector<double> dk(k.size());
  std::vector<double> dv(v.size());
  for_each_query(attention, [&](int64_t batch, int64_t head, int64_t i) {
    const size_t row = attention.query_row(batch, head, i);
    const size_t statistic = attention.query_index(batch, head, i) * ACLNN_SOFTMAX_COPIES;
    const double product = dot(&dy[row], &y[row], attention.depth);
    for (int64_t j = 0; j < attention.keys; ++j) {
      if (!visibility.sees(batch, head, i, j)) continue;
      const size_t at = attention.key_row(batch, head, j);
      const double score = attention.scale * dot(&q[row], &k[at], attention.depth);
      const double p = std::exp(score - most[statistic]) / sums[statistic];
      const double ds = p * (dot(&dy[row], &v[at], attention.depth) - product);
      add_scaled(&dv[at], p, &dy[row], attention.depth);
      add_scaled(&dq[row], attention.scale * ds, &k[at], attention.depth);
      add_scaled(&dk[at], attention.scale * ds, &q[row], attention.depth);
    }
  });
  operands[first_output].write(dv);
  operands[first_output + 1].write(dk);
  operands[first_output + 2].write(dq);
  return {};
}

}  // namespace keel::emulator::aclnn
