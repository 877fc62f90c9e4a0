// SPDX-License-Identifier: Apache-2.0
// libnnopbase.so: descriptors of tensors, scalars and arrays, and the state of executors.
#include <cstring>
#include <memory>
#include <new>

#include "emulator/shims/acl/runtime.h"
#include "emulator/shims/aclnn/objects.h"
#include "emulator/shims/beside.h"

namespace {

template <typename Stored>
Stored read(const void* value) {
  Stored stored;
  std::memcpy(&stored, value, sizeof(stored));
  return stored;
}

bool may_describe() {
  static const auto find = [] {
    decltype(&keel_emulated_acl_may_describe) found = nullptr;
    keel::emulator::find_beside(
        keel::emulator::open_beside(reinterpret_cast<void*>(&aclCreateTensor), "libascendcl.so"),
        "keel_emulated_acl_may_describe", &found);
    return found;
  };
  static const auto function = find();
  return function == nullptr || function();
}

}  // namespace

extern "C" {

// Strides may be 0, or NULL for a dense tensor.
aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  if ((viewDims == nullptr && viewDimsNum != 0) ||
      (storageDims == nullptr && storageDimsNum != 0) || offset < 0 ||
      (format != ACL_FORMAT_ND && format != ACL_FORMAT_FRACTAL_NZ) || !may_describe()) {
    return nullptr;
  }
  try {
    auto made = std::make_unique<aclTensor>();
    keel::emulator::aclnn::Tensor& tensor = made->tensor;
    tensor.dims.assign(viewDims, viewDims + viewDimsNum);
    tensor.strides.resize(viewDimsNum);
    int64_t dense = 1;
    for (uint64_t axis = viewDimsNum; axis-- > 0;) {
      tensor.strides[axis] = stride == nullptr ? dense : stride[axis];
      dense *= tensor.dims[axis];
    }
    tensor.offset = offset;
    tensor.type = dataType;
    tensor.data = keel::emulator::address_of(tensorData);
    if (format == ACL_FORMAT_FRACTAL_NZ) {
      using keel::emulator::aclnn::fractals;
      using keel::emulator::aclnn::kFractal;
      const bool fits = viewDimsNum == 2 && storageDimsNum == 4 && offset == 0 &&
                        (dataType == ACL_FLOAT16 || dataType == ACL_BF16) &&
                        storageDims[0] == fractals(viewDims[1]) &&
                        storageDims[1] == fractals(viewDims[0]) && storageDims[2] == kFractal &&
                        storageDims[3] == kFractal;
      if (!fits) return nullptr;
      tensor.is_fractal = true;
      return made.release();
    }
    int64_t last = offset;
    for (uint64_t axis = 0; axis < viewDimsNum; ++axis) {
      last += (tensor.dims[axis] - 1) * tensor.strides[axis];
    }
    int64_t stored = 1;
    for (uint64_t axis = 0; axis < storageDimsNum; ++axis) stored *= storageDims[axis];
    if (tensor.count() != 0 && last >= stored) return nullptr;  // beyond the storage
    return made.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  if (value == nullptr || !may_describe()) return nullptr;
  aclScalar scalar = {dataType, 0, 0};
  switch (dataType) {
    case ACL_FLOAT:
      scalar.value = read<float>(value);
      break;
    case ACL_DOUBLE:
      scalar.value = read<double>(value);
      break;
    case ACL_INT32:
      scalar.whole = read<int32_t>(value);
      scalar.value = static_cast<double>(scalar.whole);
      break;
    case ACL_INT64:
      scalar.whole = read<int64_t>(value);
      scalar.value = static_cast<double>(scalar.whole);
      break;
    default:
      return nullptr;
  }
  return new (std::nothrow) aclScalar(scalar);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  if ((value == nullptr && size != 0) || !may_describe()) return nullptr;
  try {
    return new aclIntArray{{value, value + size}};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  if ((value == nullptr && size != 0) || !may_describe()) return nullptr;
  try {
    // Parentheses: in braces the two pointers would be two values.
    return new aclBoolArray{std::vector<bool>(value, value + size)};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  if (tensor == nullptr) return 0;
  if (tensor->mark != aclTensor::kMark) {
    keel::emulator::undefined("aclDestroyTensor", "a tensor that was destroyed");
  }
  const_cast<aclTensor*>(tensor)->mark = 0;
  delete tensor;
  return 0;
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  delete scalar;
  return 0;
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return 0;
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return 0;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (executor == nullptr) return 161001;
  if (executor->mark != aclOpExecutor::kMark) {
    keel::emulator::undefined("aclSetAclOpExecutorRepeatable", "an executor that was used");
  }
  executor->is_repeatable = true;
  return 0;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (executor == nullptr) return 161001;
  if (executor->mark != aclOpExecutor::kMark || !executor->is_repeatable) {
    keel::emulator::undefined("aclDestroyAclOpExecutor", "an executor that is not repeatable");
  }
  executor->mark = 0;
  delete executor;
  return 0;
}

}  // extern "C"
