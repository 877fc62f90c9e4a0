// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <optional>

#include "device/devices.h"

namespace keel_torch {

namespace {

using c10d::ReduceOp;

keel_dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return KEEL_INT8;
    case at::kShort:
      return KEEL_INT16;
    case at::kInt:
      return KEEL_INT32;
    case at::kLong:
      return KEEL_INT64;
    case at::kByte:
      return KEEL_UINT8;
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

const char* name_of(const ReduceOp& op) {
  switch (op.op_) {
    case ReduceOp::SUM:
      return "SUM";
    case ReduceOp::AVG:
      return "AVG";
    case ReduceOp::PRODUCT:
      return "PRODUCT";
    case ReduceOp::MIN:
      return "MIN";
    case ReduceOp::MAX:
      return "MAX";
    case ReduceOp::BAND:
      return "BAND";
    case ReduceOp::BOR:
      return "BOR";
    case ReduceOp::BXOR:
      return "BXOR";
    case ReduceOp::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "UNUSED";
  }
}

int64_t total(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

// A flat view of the memory of |tensors|, which are adjacent.
at::Tensor view_of(const std::vector<at::Tensor>& tensors, int64_t elements) {
  return tensors.front().as_strided({elements}, {1}, tensors.front().storage_offset());
}

// The stream on which a copy from |from| to |to| has to run, whichever thread runs it. None on a
// device's own lane, which runs the copy on its stream, and for tensors of the CPU.
std::optional<c10::Stream> stream_of_copy(const at::Tensor& from, const at::Tensor& to) {
  if (from.device() == to.device()) return std::nullopt;
  return device::current_stream(to.device().index());
}

}  // namespace

Type type_for_copies(at::ScalarType type) {
  const keel_dtype dtype = dtype_of(type);
  if (dtype != KEEL_DTYPE_INVALID) return {dtype, 1};
  return {KEEL_UINT8, c10::elementSize(type)};
}

Type type_for_reductions(at::ScalarType type, const ReduceOp& op, const char* name) {
  if (type == at::kBool) {
    TORCH_CHECK(op != ReduceOp::AVG && op != ReduceOp::PREMUL_SUM, "keel: ", name, ": there is no ",
                name_of(op), " of bool");
    return {KEEL_UINT8, 1};
  }
  if (at::isComplexType(type)) {
    TORCH_CHECK(op == ReduceOp::SUM || op == ReduceOp::AVG || op == ReduceOp::PREMUL_SUM,
                "keel: ", name, ": there is no ", name_of(op), " of complex numbers");
    return {dtype_of(c10::toRealValueType(type)), 2};
  }
  const keel_dtype dtype = dtype_of(type);
  TORCH_CHECK(dtype != KEEL_DTYPE_INVALID, "keel: ", name, ": tensors of type ",
              c10::toString(type), " cannot be reduced");
  TORCH_CHECK(!is_bitwise(op) || at::isIntegralType(type, /*includeBool=*/true), "keel: ", name,
              ": ", name_of(op), " is for integers and bool, not for ", c10::toString(type));
  return {dtype, 1};
}

bool is_bitwise(const ReduceOp& op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

keel_reduction reduction_of(const ReduceOp& op, at::ScalarType type) {
  const bool is_bool = type == at::kBool;
  switch (op.op_) {
    case ReduceOp::SUM:
      return is_bool ? KEEL_MAX : KEEL_SUM;
    case ReduceOp::AVG:
      return KEEL_AVG;
    case ReduceOp::PRODUCT:
      return is_bool ? KEEL_MIN : KEEL_PROD;
    case ReduceOp::MIN:
      return KEEL_MIN;
    case ReduceOp::MAX:
      return KEEL_MAX;
    case ReduceOp::BAND:
      return KEEL_BAND;
    case ReduceOp::BOR:
      return KEEL_BOR;
    case ReduceOp::BXOR:
      return KEEL_BXOR;
    default:
      TORCH_CHECK(false, "keel: there is no reduction ", name_of(op));
  }
}

void check_tensor(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.defined(), "keel: ", name, ": an undefined tensor");
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().type() == device::kType, "keel: ", name,
              ": a tensor of ", tensor.device(),
              "; this process group is for tensors of the CPU and of keel devices");
  TORCH_CHECK(tensor.layout() == at::kStrided, "keel: ", name, ": a tensor of layout ",
              tensor.layout(), "; only dense tensors are supported");
}

void check_one_device(const at::Tensor& one, const at::Tensor& other, const char* name) {
  TORCH_CHECK(one.device() == other.device(), "keel: ", name, ": tensors of ", one.device(),
              " and of ", other.device(), " in one call; all are of one device");
}

at::Tensor flat_input(const at::Tensor& tensor, c10::Device place) {
  const at::Tensor plain =
      tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
  const at::Tensor flat = plain.contiguous();
  return flat.device() == place ? flat : flat.to(place);
}

at::Tensor flat_output(const at::Tensor& tensor, c10::Device place) {
  const bool is_flat = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  if (is_flat && tensor.device() == place) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(place));
}

bool are_adjacent(const std::vector<at::Tensor>& tensors) {
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg()) return false;
    if (tensor.numel() == 0) return false;
    if (!tensor.storage().is_alias_of(tensors.front().storage())) return false;
    const auto* const begin = static_cast<const char*>(tensor.const_data_ptr());
    if (next != nullptr && begin != next) return false;
    next = begin + tensor.nbytes();
  }
  return next != nullptr;
}

at::Tensor joined_input(const std::vector<at::Tensor>& tensors, c10::Device place) {
  if (are_adjacent(tensors)) return flat_input(view_of(tensors, total(tensors)), place);
  std::vector<at::Tensor> flat;
  flat.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(flat_input(tensor, tensor.device()).view({-1}));
  }
  return flat_input(at::cat(flat), place);  // crosses to another device once
}

at::Tensor joined_output(const std::vector<at::Tensor>& tensors, c10::Device place) {
  if (tensors.front().device() == place && are_adjacent(tensors)) {
    return view_of(tensors, total(tensors));
  }
  return at::empty({total(tensors)}, tensors.front().options().device(place));
}

void copy_parts(const at::Tensor& joined, const std::vector<at::Tensor>& tensors) {
  int64_t offset = 0;
  for (at::Tensor tensor : tensors) {
    const int64_t elements = tensor.numel();
    const at::Tensor part = joined.narrow(0, offset, elements);
    offset += elements;
    // Memory of two devices may have equal addresses.
    const bool is_own = part.device() == tensor.device() && tensor.is_contiguous() &&
                        part.const_data_ptr() == tensor.const_data_ptr();
    if (!is_own) tensor.copy_(part.view(tensor.sizes()));
  }
}

std::function<void()> copy_back(const at::Tensor& flat, const at::Tensor& tensor) {
  if (flat.is_same(tensor)) return nullptr;
  return [flat, tensor, stream = stream_of_copy(flat, tensor)] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const c10::OptionalStreamGuard in_order(stream);
    tensor.copy_(flat);
  };
}

std::function<void()> copy_parts_back(const at::Tensor& joined,
                                      const std::vector<at::Tensor>& tensors) {
  return [joined, tensors, stream = stream_of_copy(joined, tensors.front())] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const c10::OptionalStreamGuard in_order(stream);
    copy_parts(joined, tensors);
  };
}

}  // namespace keel_torch
