// SPDX-License-Identifier: Apache-2.0
// PyTorch's tensors of a keel device as keel_tensor, and calls of Keel's operators on them.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_VIEWS_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_VIEWS_H_

#include <ATen/core/Tensor.h>
#include <keel/keel.h>

#include <initializer_list>
#include <optional>

namespace keel_torch::device {

// Keel's dtype of |type|, bool as uint8; KEEL_DTYPE_INVALID where Keel has none.
keel_dtype dtype_of(at::ScalarType type);

// Describes |tensor| to Keel; valid while |tensor| lives. Keel's strides are those of PyTorch.
struct View : keel_tensor {
  View() : keel_tensor{} {}
  // Throws if Keel lacks the dtype, the tensor has over 8 dimensions or is not of a keel device.
  explicit View(const at::TensorBase& tensor);

  // Sets size, dtype and memory, not the layout. Throws as the constructor does.
  void set_memory(const at::TensorBase& tensor, keel_dtype of_type);

  c10::DeviceIndex device = -1;
};

// Returns whether Keel can describe |tensor|.
bool is_describable(const at::TensorBase& tensor);

// Returns whether bits_of can describe |tensor|: items of 1, 2, 4 or 8 bytes.
bool is_describable_bits(const at::TensorBase& tensor);
// |tensor| as unsigned integers of its items' size, for copies of bits.
View bits_of(const at::TensorBase& tensor);

// Runs |op| on the calling thread's stream of |device|. Inputs may be null. Returns false where no
// kernel can run the call, so that the caller falls back; throws for other failures and for a
// tensor of another device, whose addresses may be those of a tensor of |device|.
bool run(c10::DeviceIndex device, keel_op_id op, at::ArrayRef<const View*> inputs,
         at::ArrayRef<const View*> outputs, const void* attributes = nullptr,
         uint32_t attribute_count = 0);

// The same with an attribute struct of keel/ops.h.
template <typename Attributes>
bool run(c10::DeviceIndex device, keel_op_id op, std::initializer_list<const View*> inputs,
         std::initializer_list<const View*> outputs, const Attributes& attributes) {
  static_assert(sizeof(Attributes) % sizeof(keel_attribute) == 0);
  return run(device, op, at::ArrayRef<const View*>(inputs.begin(), inputs.size()),
             at::ArrayRef<const View*>(outputs.begin(), outputs.size()), &attributes,
             sizeof(Attributes) / sizeof(keel_attribute));
}

// Returns whether |device| itself has a kernel for the call: run() would neither return false nor
// compute on the CPU. Throws as run does.
bool has_kernel(c10::DeviceIndex device, keel_op_id op, at::ArrayRef<const View*> inputs,
                at::ArrayRef<const View*> outputs, const void* attributes,
                uint32_t attribute_count);

// Returns |tensor| if it is contiguous, else a copy that is.
at::Tensor dense(const at::Tensor& tensor);

// Throws unless all |tensors| that are of a keel device are of one.
void check_one_device(const char* name, at::TensorList tensors);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_VIEWS_H_
