// SPDX-License-Identifier: Apache-2.0
// Matrix products through keel.h, compared element by element, for the tests of the plugins that
// call a vendor's library for some.
#ifndef KEEL_BACKENDS_GPU_TESTING_MATMUL_TEST_H_
#define KEEL_BACKENDS_GPU_TESTING_MATMUL_TEST_H_

#include <gtest/gtest.h>

#include <cmath>
#include <keel/keel.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace keel::testing {

struct Question {
  int64_t m = 5, n = 7, k = 9;
  bool trans_a = false, trans_b = false, bias = false;
  double alpha = 1, beta = 0;
  int64_t activation = 0;
  int64_t batch = 0;    // 0: matmul
  int64_t padding = 0;  // between rows, and between the matrices of a batch
  uint64_t shift = 0;   // elements before the first
};

template <typename Type>
Type rounded(double value) {
  if constexpr (std::is_same_v<Type, bfloat16_t>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Type, float16_t>) {
    return to_float16(static_cast<float>(value));
  } else {
    return static_cast<float>(value);
  }
}
inline double number(float value) {
  return value;
}
template <typename Type>
double number(Type value) {
  return to_float(value);
}

inline double activated(int64_t activation, double t) {
  switch (activation) {
    case 1:
      return t / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (t + 0.044715 * t * t * t)));
    case 2:
      return t / 2 * std::erfc(-t / std::sqrt(2));
    case 3:
      return t / (1 + std::exp(-t));
    default:
      return t;
  }
}

// Matrices in host memory with the device layout. Elements and gaps are small integers: sums of
// their products are exact.
template <typename Type>
class Matrices {
 public:
  Matrices(int64_t batch, int64_t rows, int64_t columns, const Question& question, int seed)
      : rows_(rows),
        columns_(columns),
        row_(columns + question.padding),
        step_(rows * row_ + question.padding),
        shift_(question.shift),
        is_batch_(question.batch != 0) {
    const auto count = static_cast<size_t>(batch * step_) + shift_ + 1;
    for (size_t i = 0; i < count; ++i) {
      values_.push_back(
          rounded<Type>(static_cast<int>((i * 7 + static_cast<size_t>(seed)) % 7) - 3));
    }
    batch_ = batch;
  }

  std::vector<Type>& values() { return values_; }
  size_t place(int64_t i, int64_t row, int64_t column) const {
    return shift_ + static_cast<size_t>(i * step_ + row * row_ + column);
  }
  double at(int64_t i, int64_t row, int64_t column) const {
    return number(values_[place(i, row, column)]);
  }
  keel_tensor tensor(const Buffer& buffer) const {
    keel_tensor tensor = is_batch_ ? buffer.tensor<Type>({batch_, rows_, columns_})
                                   : buffer.tensor<Type>({rows_, columns_});
    tensor.byte_offset = shift_ * sizeof(Type);
    if (is_batch_) tensor.strides[0] = step_;
    tensor.strides[tensor.rank - 2] = row_;
    return tensor;
  }

 private:
  int64_t batch_ = 0;
  int64_t rows_;
  int64_t columns_;
  int64_t row_;
  int64_t step_;
  uint64_t shift_;
  bool is_batch_;
  std::vector<Type> values_;
};

// |Fixture| with a device and a stream. The test sets both.
template <typename Fixture>
class MatmulRuns : public Fixture {
 protected:
  void TearDown() override {
    stream_.reset();
    Fixture::TearDown();
  }

  // Runs the product, which must be exact without an activation and must not touch gaps. Returns
  // the kernel's name.
  template <typename In, typename Out = In>
  std::string run(const Question& q) {
    const int64_t batch = q.batch == 0 ? 1 : q.batch;
    Matrices<In> a(batch, q.trans_a ? q.k : q.m, q.trans_a ? q.m : q.k, q, 1);
    Matrices<In> b(batch, q.trans_b ? q.n : q.k, q.trans_b ? q.k : q.n, q, 2);
    Matrices<Out> c(batch, q.m, q.n, q, 3);
    Matrices<In> bias(1, 1, q.n, q, 4);
    const Buffer a_memory = upload(a);
    const Buffer b_memory = upload(b);
    const Buffer c_memory = upload(c);
    const Buffer bias_memory = upload(bias);
    keel_tensor row = bias_memory.tensor<In>({q.n});
    row.byte_offset = q.shift * sizeof(In);
    std::optional<OpCall> call;
    if (q.batch != 0) {
      call.emplace(
          KEEL_OP_BATCHED_MATMUL,
          std::initializer_list<Operand>{a.tensor(a_memory), b.tensor(b_memory)},
          std::initializer_list<Operand>{c.tensor(c_memory)},
          std::initializer_list<Attribute>{q.trans_a ? 1 : 0, q.trans_b ? 1 : 0, q.alpha, q.beta});
    } else {
      call.emplace(KEEL_OP_MATMUL,
                   std::initializer_list<Operand>{a.tensor(a_memory), b.tensor(b_memory),
                                                  q.bias ? Operand(row) : Operand(nullptr)},
                   std::initializer_list<Operand>{c.tensor(c_memory)},
                   std::initializer_list<Attribute>{q.trans_a ? 1 : 0, q.trans_b ? 1 : 0, q.alpha,
                                                    q.beta, q.activation});
    }
    const std::string kernel = call->plan(device_).kernel;
    call->run(*stream_);
    std::vector<Out> got(c.values().size());
    stream_->download(got, c_memory);
    stream_->synchronize();
    std::vector<Out> wanted = c.values();
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t row_index = 0; row_index < q.m; ++row_index) {
        for (int64_t column = 0; column < q.n; ++column) {
          double sum = 0;
          for (int64_t l = 0; l < q.k; ++l) {
            sum += (q.trans_a ? a.at(i, l, row_index) : a.at(i, row_index, l)) *
                   (q.trans_b ? b.at(i, column, l) : b.at(i, l, column));
          }
          double value = q.alpha * sum + q.beta * c.at(i, row_index, column);
          if (q.bias) value += bias.at(0, 0, column);
          wanted[c.place(i, row_index, column)] = rounded<Out>(activated(q.activation, value));
        }
      }
    }
    expect_same(got, wanted, q.activation == 0 ? 0 : std::is_same_v<Out, float> ? 1e-5 : 1e-2);
    return kernel;
  }

  template <typename Type>
  Buffer upload(Matrices<Type>& matrices) {
    Buffer memory = Buffer::of<Type>(device_, matrices.values().size());
    stream_->upload(memory, matrices.values());
    return memory;
  }
  template <typename Type>
  static void expect_same(const std::vector<Type>& got, const std::vector<Type>& wanted,
                          double tolerance) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const double value = number(wanted[i]);
      ASSERT_NEAR(number(got[i]), value, tolerance * (0.1 + std::abs(value))) << "element " << i;
    }
  }

  Device device_;
  std::optional<Stream> stream_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_GPU_TESTING_MATMUL_TEST_H_
