// SPDX-License-Identifier: Apache-2.0
// Every kernel supported by the processor, compared bit by bit with a loop over elements.
#include "collectives/reduce/reduce_kernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <keel/float_types.hpp>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/reduce/reduce.h"

namespace keel {
namespace {

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

template <typename T>
using SumOf = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <typename T>
SumOf<T> decoded(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <typename T>
T encoded(SumOf<T> value) {
  if constexpr (std::is_same_v<T, float16_t>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, float8_e4m3_t>) {
    return to_float8_e4m3(value);
  } else if constexpr (std::is_same_v<T, float8_e5m2_t>) {
    return to_float8_e5m2(value);
  } else {
    return value;
  }
}

template <typename A>
A wrapped_product(A a, A b) {
  return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// |volatile| forces rounding of the product, even where a compiler would fuse product and sum.
template <typename A>
A product(A a, A b) {
  if constexpr (kIsInteger<A>) {
    return wrapped_product(a, b);
  } else {
    volatile A rounded = a * b;
    return rounded;
  }
}

template <typename A>
A sum_of(A a, A b) {
  if constexpr (kIsInteger<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename A>
A factor_of(double factor) {
  if constexpr (!kIsInteger<A>) {
    return static_cast<A>(factor);
  } else if (factor < 0) {
    return static_cast<A>(static_cast<int64_t>(factor));
  } else {
    return static_cast<A>(static_cast<uint64_t>(factor));
  }
}

template <typename A>
bool is_nan(A value) {
  if constexpr (kIsInteger<A>) {
    return false;
  } else {
    return std::isnan(value);
  }
}

template <typename T>
T expected(keel_reduction reduction, const std::vector<T>& values,
           const std::vector<double>& factors) {
  using A = SumOf<T>;
  A result = A(0);
  for (size_t i = 0; i < values.size(); ++i) {
    A next = decoded(values[i]);
    if (reduction == KEEL_PREMUL_SUM) next = product(next, factor_of<A>(factors[i]));
    if (i == 0) {
      result = next;
    } else if (reduction == KEEL_PROD) {
      result = product(result, next);
    } else if (reduction == KEEL_MIN) {
      if (is_nan(next) || next < result) result = next;
    } else if (reduction == KEEL_MAX) {
      if (is_nan(next) || result < next) result = next;
    } else {
      result = sum_of(result, next);
    }
  }
  if (reduction == KEEL_AVG) {
    if constexpr (!kIsInteger<A>) {
      result /= static_cast<A>(values.size());
    } else if constexpr (std::is_signed_v<A>) {
      result = static_cast<A>(int64_t{result} / static_cast<int64_t>(values.size()));
    } else {
      result = static_cast<A>(uint64_t{result} / values.size());
    }
  }
  if (is_nan(result)) {
    if constexpr (!kIsInteger<A>) result = std::numeric_limits<A>::quiet_NaN();
  }
  return encoded<T>(result);
}

class Values {
 public:
  uint64_t bits() { return engine_(); }
  uint64_t below(uint64_t limit) { return engine_() % limit; }

  // Half of the values have a magnitude that shows rounding and ties; the rest are random bits and
  // special values: zeros, infinities, NaNs (quiet, signalling, negative), subnormals.
  template <typename T>
  T next() {
    const uint64_t any = engine_();
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(any);
    } else {
      using Bits = std::conditional_t<
          sizeof(T) == 8, uint64_t,
          std::conditional_t<sizeof(T) == 4, uint32_t,
                             std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
      const uint64_t kind = below(8);
      if (kind < 4) {
        const double value = std::ldexp(static_cast<double>(static_cast<int16_t>(any)), -13);
        return encoded<T>(static_cast<SumOf<T>>(value));
      }
      if (kind < 6) return std::bit_cast<T>(static_cast<Bits>(any));
      const Bits infinity = std::bit_cast<Bits>(
          encoded<T>(std::numeric_limits<SumOf<T>>::infinity()));  // e4m3: the largest
      const Bits specials[] = {0,
                               1,
                               2,
                               infinity,
                               static_cast<Bits>(infinity + 1),
                               static_cast<Bits>(infinity - 1),
                               static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1),
                               std::bit_cast<Bits>(encoded<T>(SumOf<T>(1)))};
      const Bits sign = static_cast<Bits>((any & 1) << (8 * sizeof(Bits) - 1));
      return std::bit_cast<T>(static_cast<Bits>(specials[below(std::size(specials))] | sign));
    }
  }

  template <typename T>
  double next_factor() {
    if constexpr (kIsInteger<T>) {
      return std::ldexp(static_cast<double>(static_cast<int8_t>(engine_())),
                        static_cast<int>(below(56)));
    } else {
      return below(8) == 0 ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(static_cast<int16_t>(engine_())) / 3;
    }
  }

 private:
  std::mt19937_64 engine_{20261121};
};

// Puts |values| into |bytes|, |offset| behind a multiple of 64, followed by a pattern.
template <typename T>
char* place(std::vector<char>* bytes, const std::vector<T>& values, size_t offset) {
  bytes->assign(values.size() * sizeof(T) + 192, '\x5a');
  const auto address = reinterpret_cast<uintptr_t>(bytes->data());
  char* const first = bytes->data() + (64 - address % 64) + offset;
  std::memcpy(first, values.data(), values.size() * sizeof(T));
  return first;
}

struct Shape {
  uint64_t count;
  uint64_t sources;
  uint64_t destinations;
  bool in_place;        // the first destination is the last source
  uint64_t misaligned;  // bytes
  bool streaming;
};

template <typename T>
class Case {
 public:
  Case(keel_dtype dtype, keel_reduction reduction, const Shape& shape, Values* values)
      : dtype_(dtype), reduction_(reduction), shape_(shape) {
    sources_.resize(shape.sources);
    for (auto& source : sources_) {
      for (uint64_t i = 0; i < shape.count; ++i) source.push_back(values->next<T>());
      factors_.push_back(values->next_factor<T>());
    }
    for (uint64_t i = 0; i < shape.count; ++i) {
      std::vector<T> column;
      for (const auto& source : sources_) column.push_back(source[i]);
      expected_.push_back(expected<T>(reduction, column, factors_));
    }
  }

  void run(const ReduceKernel& kernel) const {
    std::vector<std::vector<char>> memory(shape_.sources + shape_.destinations);
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    char* last = nullptr;
    for (uint64_t s = 0; s < shape_.sources; ++s) {
      last = place(&memory[s], sources_[s], offset(s));
      sources.push_back(last);
    }
    for (uint64_t d = 0; d < shape_.destinations; ++d) {
      const uint64_t at = shape_.sources + d;
      const bool in_place = d == 0 && shape_.in_place;
      destinations.push_back(
          in_place ? last : place(&memory[at], std::vector<T>(shape_.count), offset(at)));
    }
    kernel.reduce({dtype_, reduction_, sources.data(), sources.size(), destinations.data(),
                   destinations.size(), shape_.count, factors_.data(), shape_.streaming});
    for (const void* destination : destinations) {
      const char* const bytes = static_cast<const char*>(destination);
      for (uint64_t i = 0; i < shape_.count; ++i) {
        if (std::memcmp(bytes + i * sizeof(T), &expected_[i], sizeof(T)) == 0) continue;
        ADD_FAILURE() << kernel.name << ": dtype " << dtype_ << ", reduction " << reduction_ << ", "
                      << shape_.sources << " sources, element " << i << " of " << shape_.count
                      << " is " << value_at(bytes, i) << ", not " << double(decoded(expected_[i]));
        return;
      }
      for (uint64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(bytes[shape_.count * sizeof(T) + i], '\x5a') << kernel.name << " wrote behind";
      }
    }
  }

 private:
  // Differs between the buffers, unless aligned buffers are wanted.
  uint64_t offset(uint64_t buffer) const {
    return shape_.misaligned == 0 ? 0 : (shape_.misaligned * (buffer + 1)) % 64;
  }
  static double value_at(const char* bytes, uint64_t i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    return double(decoded(value));
  }

  keel_dtype dtype_;
  keel_reduction reduction_;
  Shape shape_;
  std::vector<std::vector<T>> sources_;
  std::vector<double> factors_;
  std::vector<T> expected_;
};

template <typename T>
void check(keel_dtype dtype) {
  // Counts around a chunk (16 to 256 elements) and around the head for the destination's alignment.
  const Shape shapes[] = {
      {1, 3, 1, false, 0, false},    {63, 2, 2, false, 4, false},  {1027, 2, 1, false, 0, false},
      {1500, 1, 1, false, 8, false}, {1281, 2, 1, true, 0, false}, {1333, 3, 3, true, 24, false},
      {1999, 8, 1, false, 1, false}, {2049, 4, 1, false, 0, true}, {1777, 5, 2, false, 0, true},
      {1655, 2, 2, false, 8, true},  {1471, 4, 1, true, 0, true},  {99, 300, 1, false, 0, false}};
  Values values;
  for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
    for (const Shape& shape : shapes) {
      const Case<T> one(dtype, reduction, shape, &values);
      for (const ReduceKernel& kernel : reduce_kernels()) one.run(kernel);
    }
  }
}

TEST(ReduceKernel, IntegersMatchALoopOverElements) {
  check<int8_t>(KEEL_INT8);
  check<int16_t>(KEEL_INT16);
  check<int32_t>(KEEL_INT32);
  check<int64_t>(KEEL_INT64);
  check<uint8_t>(KEEL_UINT8);
  check<uint16_t>(KEEL_UINT16);
  check<uint32_t>(KEEL_UINT32);
  check<uint64_t>(KEEL_UINT64);
}

TEST(ReduceKernel, FloatsMatchALoopOverElements) {
  check<float>(KEEL_FLOAT32);
  check<double>(KEEL_FLOAT64);
  check<float16_t>(KEEL_FLOAT16);
  check<bfloat16_t>(KEEL_BFLOAT16);
  check<float8_e4m3_t>(KEEL_FLOAT8_E4M3FN);
  check<float8_e5m2_t>(KEEL_FLOAT8_E5M2);
}

// All pairs of 8-bit codes, and each 16-bit code with a second code for rounding.
template <typename T>
void check_codes(keel_dtype dtype) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>;
  std::vector<T> first;
  std::vector<T> second;
  for (uint32_t i = 0; i < 65536; ++i) {
    first.push_back(static_cast<T>(static_cast<Bits>(i)));
    second.push_back(static_cast<T>(static_cast<Bits>(sizeof(T) == 2 ? i * 40503 : i >> 8)));
  }
  const void* const sources[] = {first.data(), second.data()};
  for (const ReduceKernel& kernel : reduce_kernels()) {
    for (keel_reduction reduction = 0; reduction < KEEL_PREMUL_SUM; ++reduction) {
      for (uint64_t ranks = 1; ranks <= 2; ++ranks) {
        std::vector<T> results(first.size());
        void* const destination = results.data();
        kernel.reduce(
            {dtype, reduction, sources, ranks, &destination, 1, first.size(), nullptr, false});
        for (size_t i = 0; i < results.size(); ++i) {
          std::vector<T> column = {first[i]};
          if (ranks == 2) column.push_back(second[i]);
          ASSERT_EQ(static_cast<uint32_t>(results[i]),
                    static_cast<uint32_t>(expected<T>(reduction, column, {})))
              << kernel.name << ": reduction " << reduction << " of " << ranks << ", element " << i;
        }
      }
    }
  }
}

TEST(ReduceKernel, EveryCodeOfTheSmallFloats) {
  check_codes<float16_t>(KEEL_FLOAT16);
  check_codes<bfloat16_t>(KEEL_BFLOAT16);
  check_codes<float8_e4m3_t>(KEEL_FLOAT8_E4M3FN);
  check_codes<float8_e5m2_t>(KEEL_FLOAT8_E5M2);
}

}  // namespace
}  // namespace keel
