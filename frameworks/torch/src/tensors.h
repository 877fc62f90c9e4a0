// SPDX-License-Identifier: Apache-2.0
// PyTorch's tensors as the flat memory and types of keel.h.
#ifndef FRAMEWORKS_TORCH_SRC_TENSORS_H_
#define FRAMEWORKS_TORCH_SRC_TENSORS_H_

#include <ATen/ATen.h>
#include <keel/keel.h>

#include <cstdint>
#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace keel_torch {

// A tensor's elements as |units| units of |dtype| each.
struct Type {
  keel_dtype dtype;
  uint64_t units;
};

// For operations that only move data: any type, those that Keel lacks as bytes.
Type type_for_copies(at::ScalarType type);

// For reductions: complex numbers as two real ones where that is the same, bool as uint8. Throws
// for a type that Keel cannot reduce by |op|; |name|: of the operation, for the message.
Type type_for_reductions(at::ScalarType type, const c10d::ReduceOp& op, const char* name);

// Returns whether |op| is bitwise, for integers and bool alone.
bool is_bitwise(const c10d::ReduceOp& op);

// The reduction of keel.h for |op|, other than PREMUL_SUM. Sums of bool are `or`, products `and`.
keel_reduction reduction_of(const c10d::ReduceOp& op, at::ScalarType type);

// Throws unless |tensor| is a dense tensor of the CPU or of a keel device.
void check_tensor(const at::Tensor& tensor, const char* name);
// Throws unless both tensors are of one device.
void check_one_device(const at::Tensor& one, const at::Tensor& other, const char* name);

// The tensor itself if it is of |place| and its elements lie one after the other, else a copy there
// whose elements do. Another |place| than the tensor's is the CPU: the call then waits for the work
// of the calling thread's current stream.
at::Tensor flat_input(const at::Tensor& tensor, c10::Device place);
// The tensor itself if it is of |place| and its elements lie one after the other, else
// uninitialised memory of its shape at |place|, to be copied to the tensor later.
at::Tensor flat_output(const at::Tensor& tensor, c10::Device place);

// Returns whether |tensors| lie one after the other in memory, as the parts of one flat tensor.
bool are_adjacent(const std::vector<at::Tensor>& tensors);
// All elements of |tensors|, one tensor after the other: their own memory if they are adjacent,
// else memory that holds a copy. At |place|, as in flat_input.
at::Tensor joined_input(const std::vector<at::Tensor>& tensors, c10::Device place);
// The same for outputs, uninitialised.
at::Tensor joined_output(const std::vector<at::Tensor>& tensors, c10::Device place);
// Copies the parts of |joined| to |tensors|, unless |joined| is their own memory.
void copy_parts(const at::Tensor& joined, const std::vector<at::Tensor>& tensors);

// The step that remains after an operation on flat_output: copies |flat| to |tensor|. Empty if
// |flat| is the tensor's own memory. A copy from the CPU to a keel device runs in the order of the
// stream that is current at the call.
std::function<void()> copy_back(const at::Tensor& flat, const at::Tensor& tensor);
// The same after an operation on joined_output.
std::function<void()> copy_parts_back(const at::Tensor& joined,
                                      const std::vector<at::Tensor>& tensors);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_TENSORS_H_
