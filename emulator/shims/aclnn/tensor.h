// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_ACLNN_TENSOR_H_
#define KEEL_EMULATOR_SHIMS_ACLNN_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/memory.h"
#include "emulator/status.h"
#include "vendor/ascend/acl.h"

namespace keel::emulator::aclnn {

using Dims = std::vector<int64_t>;

// Bytes of one element; 0 for a type that the library lacks.
uint32_t size_of(aclDataType type);
bool is_float(aclDataType type);
// Types that casts alone take, and not on each chip.
bool is_float8(aclDataType type);
inline int64_t count_of(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}
// Returns whether |from| broadcasts to |to|: aligned at the last axis, each extent equal or 1.
bool broadcasts(const Dims& from, const Dims& to);

// Rows and columns of a block of FRACTAL_NZ, of 16-bit elements: [n/16, k/16, 16, 16] for [k,n].
inline constexpr int64_t kFractal = 16;
inline int64_t fractals(int64_t extent) {
  return (extent + kFractal - 1) / kFractal;
}

// A view of device memory. |offset| and |strides| are in elements.
struct Tensor {
  Dims dims;
  Dims strides;
  int64_t offset = 0;
  aclDataType type = ACL_DT_UNDEFINED;
  Address data = 0;
  bool is_fractal = false;  // FRACTAL_NZ: a matrix in blocks of kFractal x kFractal

  int64_t count() const { return count_of(dims); }
};

// Returns whether |tensor| is row-major without gaps.
bool is_contiguous(const Tensor& tensor);

// A tensor of running work, with its memory on the host.
class Operand {
 public:
  explicit Operand(const Tensor& tensor);

  const Tensor& tensor() const { return tensor_; }
  // Returns kIllegalAddress if an element lies outside of device memory.
  Status reach(Access& access);
  // The elements in row-major order, of the tensor broadcast to |dims|.
  std::vector<double> read(const Dims& dims) const;
  std::vector<double> read() const { return read(tensor_.dims); }
  // Rounds each value to the type: floats to nearest, integers toward zero, saturated.
  void write(const std::vector<double>& values);
  void write_whole(int64_t value);
  // Copies the bytes of element |from_index| of |from|, of one size, to element |index|.
  void copy(int64_t index, const Operand& from, const Dims& from_dims, int64_t from_index);

 private:
  // The place of row-major element |index| of the tensor broadcast to |dims|.
  int64_t place(const Dims& dims, int64_t index) const;

  const Tensor& tensor_;
  bool is_dense_;              // row-major without gaps
  std::byte* data_ = nullptr;  // of element place 0
};

}  // namespace keel::emulator::aclnn

#endif  // KEEL_EMULATOR_SHIMS_ACLNN_TENSOR_H_
