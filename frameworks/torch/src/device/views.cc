// SPDX-License-Identifier: Apache-2.0
#include "views.h"

#include <c10/util/SmallVector.h>

#include "devices.h"

namespace keel_torch::device {

keel_dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte:
      return KEEL_UINT8;
    case at::kChar:
      return KEEL_INT8;
    case at::kShort:
      return KEEL_INT16;
    case at::kInt:
      return KEEL_INT32;
    case at::kLong:
      return KEEL_INT64;
    case at::kUInt16:
      return KEEL_UINT16;
    case at::kUInt32:
      return KEEL_UINT32;
    case at::kUInt64:
      return KEEL_UINT64;
    case at::kHalf:
      return KEEL_FLOAT16;
    case at::kBFloat16:
      return KEEL_BFLOAT16;
    case at::kFloat:
      return KEEL_FLOAT32;
    case at::kDouble:
      return KEEL_FLOAT64;
    case at::kFloat8_e4m3fn:
      return KEEL_FLOAT8_E4M3FN;
    case at::kFloat8_e5m2:
      return KEEL_FLOAT8_E5M2;
    default:
      return KEEL_DTYPE_INVALID;
  }
}

namespace {

// Sets |view|'s layout to that of |tensor|.
void set_layout(View& view, const at::TensorBase& tensor) {
  TORCH_CHECK(tensor.dim() <= KEEL_MAX_RANK, "keel: a tensor of ", tensor.dim(),
              " dimensions; at most ", static_cast<int>(KEEL_MAX_RANK), " are supported");
  view.rank = static_cast<uint32_t>(tensor.dim());
  view.byte_offset = static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
  for (uint32_t i = 0; i < view.rank; ++i) {
    view.shape[i] = tensor.size(i);
    view.strides[i] = tensor.stride(i);
  }
}

// A call of |op| on the tensors that the views describe, which outlive it.
struct OpCall {
  OpCall(c10::DeviceIndex device, keel_op_id op, at::ArrayRef<const View*> inputs,
         at::ArrayRef<const View*> outputs, const void* attributes, uint32_t attribute_count) {
    for (const auto& views : {inputs, outputs}) {
      for (const View* const view : views) {
        TORCH_CHECK(view == nullptr || view->device == device, "keel: ", keel_op_name(op),
                    ": expected all tensors to be on the same device, but found at least two "
                    "devices, keel:",
                    static_cast<int>(device), " and keel:", static_cast<int>(view->device));
        tensors.push_back(view);
      }
    }
    call.op = op;
    call.input_count = static_cast<uint32_t>(inputs.size());
    call.output_count = static_cast<uint32_t>(outputs.size());
    call.attribute_count = attribute_count;
    call.inputs = tensors.data();
    call.outputs = tensors.data() + inputs.size();
    call.attributes = static_cast<const keel_attribute*>(attributes);
  }
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  c10::SmallVector<const keel_tensor*, 8> tensors;
  keel_op_call call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
};

}  // namespace

void View::set_memory(const at::TensorBase& tensor, keel_dtype of_type) {
  TORCH_CHECK(tensor.device().type() == kType,
              "keel: expected all tensors to be on the same device, but found at least two "
              "devices, keel:",
              static_cast<int>(current()), " and ", tensor.device());
  TORCH_CHECK(of_type != KEEL_DTYPE_INVALID, "keel: tensors of type ", tensor.scalar_type(),
              " are not supported on ", tensor.device());
  size = sizeof(keel_tensor);
  dtype = of_type;
  data = const_cast<void*>(tensor.storage().data());
  device = tensor.device().index();
}

View::View(const at::TensorBase& tensor) : View() {
  set_memory(tensor, dtype_of(tensor.scalar_type()));
  set_layout(*this, tensor);
}

bool is_describable(const at::TensorBase& tensor) {
  return dtype_of(tensor.scalar_type()) != KEEL_DTYPE_INVALID && tensor.dim() <= KEEL_MAX_RANK &&
         tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg();
}

bool is_describable_bits(const at::TensorBase& tensor) {
  const size_t item = tensor.itemsize();
  return (item == 1 || item == 2 || item == 4 || item == 8) && tensor.dim() <= KEEL_MAX_RANK &&
         tensor.layout() == at::kStrided;
}

View bits_of(const at::TensorBase& tensor) {
  View view;
  const size_t item = tensor.itemsize();
  view.set_memory(tensor, item == 1   ? KEEL_UINT8
                          : item == 2 ? KEEL_UINT16
                          : item == 4 ? KEEL_UINT32
                                      : KEEL_UINT64);
  set_layout(view, tensor);
  return view;
}

bool run(c10::DeviceIndex device, keel_op_id op, at::ArrayRef<const View*> inputs,
         at::ArrayRef<const View*> outputs, const void* attributes, uint32_t attribute_count) {
  const OpCall made(device, op, inputs, outputs, attributes, attribute_count);
  const keel_status status = keel_op_run(stream_of(device), &made.call);
  if (status == KEEL_UNSUPPORTED) return false;
  if (status != KEEL_OK) check(status, keel_op_name(op));
  return true;
}

bool has_kernel(c10::DeviceIndex device, keel_op_id op, at::ArrayRef<const View*> inputs,
                at::ArrayRef<const View*> outputs, const void* attributes,
                uint32_t attribute_count) {
  const OpCall made(device, op, inputs, outputs, attributes, attribute_count);
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  const keel_status status = keel_op_plan_get(handle(device), &made.call, &plan);
  if (status == KEEL_UNSUPPORTED) return false;
  if (status != KEEL_OK) check(status, keel_op_name(op));
  return plan.fallback == 0;
}

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : tensor.contiguous();
}

void check_one_device(const char* name, at::TensorList tensors) {
  c10::DeviceIndex first = -1;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device().type() != kType) continue;
    if (first < 0) first = tensor.device().index();
    TORCH_CHECK(first == tensor.device().index(), "keel: ", name,
                ": expected all tensors to be on the same device, but found at least two devices, "
                "keel:",
                static_cast<int>(first), " and ", tensor.device());
  }
}

}  // namespace keel_torch::device
