// SPDX-License-Identifier: Apache-2.0
// Keel's elementwise operator on PyTorch's tensors.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_ELEMENTWISE_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_ELEMENTWISE_H_

#include <ATen/core/Tensor.h>
#include <keel/keel.h>

#include <initializer_list>

namespace keel_torch::device {

// How the type of an output follows from the inputs' common type.
enum class Promotion : uint8_t {
  kSame,     // the common type
  kFloat,    // the common type, the default float type for integers
  kCompare,  // bool
};

struct Elementwise {
  int64_t function = KEEL_ELEMENTWISE_FUNCTION_COPY;
  Promotion promotion = Promotion::kSame;
  double alpha = 1;
  int64_t seed = 0;
  int64_t offset = 0;
};

// Broadcasts |inputs| (at most three; those of the CPU with one element become numbers), allocates
// or resizes |output| and computes it. Returns false where no kernel can run the call; |output| is
// then as before, or allocated.
bool elementwise(const Elementwise& call, at::Tensor& output,
                 std::initializer_list<at::Tensor> inputs);

// The same on tensors of one shape whose types need no check: |output| is given, and a missing
// input is a number of |numbers|.
bool elementwise_as_given(const Elementwise& call, const at::Tensor& output,
                          at::ArrayRef<at::Tensor> inputs, const double (&numbers)[3]);

// Returns whether an attribute of float64 holds |number| as it is: float64 would round integers
// beyond 2^53.
bool is_exact(const at::Scalar& number);

// Copies |source| to |destination| of the same device and shape, converting the type. Returns false
// where no kernel can.
bool copy_on_device(const at::Tensor& destination, const at::Tensor& source);

// Sets every element of |tensor|. Returns false where no kernel can.
bool fill_on_device(const at::Tensor& tensor, const at::Scalar& value);

// A one-element tensor that holds |number|, as PyTorch's own kernels see a Python number.
at::Tensor wrapped(const at::Scalar& number);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_ELEMENTWISE_H_
