// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/operator_calls.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <new>
#include <utility>

#include "backends/ascend/types.h"

namespace keel::ascend {

View view_of(const keel_tensor& tensor) {
  View view;
  view.type = type_of(tensor.dtype);
  view.rank = tensor.rank;
  std::copy_n(tensor.shape, tensor.rank, view.dims);
  std::copy_n(tensor.strides, tensor.rank, view.strides);
  view.data = kit::first_element(tensor);
  return view;
}

View dense(void* data, aclDataType type, std::initializer_list<int64_t> dims) {
  View view;
  view.type = type;
  view.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), view.dims);
  view.data = data;
  return dense_like(data, type, view);
}

View dense_like(void* data, aclDataType type, const View& like) {
  View view = like;
  view.type = type;
  view.data = data;
  int64_t stride = 1;
  for (uint32_t axis = view.rank; axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= view.dims[axis];
  }
  return view;
}

View absent() {
  View view;
  view.rank = View::kAbsent;
  return view;
}

View with_last_axis(View view) {
  view.dims[view.rank] = 1;
  view.strides[view.rank] = 1;
  ++view.rank;
  return view;
}

View with_first_axis(const View& view) {
  View wider = view;
  std::copy_n(view.dims, view.rank, wider.dims + 1);
  std::copy_n(view.strides, view.rank, wider.strides + 1);
  wider.dims[0] = 1;
  wider.strides[0] = view.rank == 0 ? 1 : view.dims[0] * view.strides[0];
  ++wider.rank;
  return wider;
}

View reduced(View view) {
  view.dims[view.rank - 1] = 1;
  return view;
}

View transposed(View view) {
  std::swap(view.dims[view.rank - 1], view.dims[view.rank - 2]);
  std::swap(view.strides[view.rank - 1], view.strides[view.rank - 2]);
  return view;
}

OperatorCalls::Entry::~Entry() {
  // The first run consumes an executor that is not repeatable; one that never ran can be destroyed
  // only as a repeatable one.
  if (executor != nullptr && (is_repeatable_ || (!has_run && make_repeatable()))) {
    (void)functions_.aclDestroyAclOpExecutor(executor);
  }
  device_.give_executor_bytes(owned_bytes_);
  for (const aclTensor* tensor : tensors_) (void)functions_.aclDestroyTensor(tensor);
  for (const aclScalar* scalar : scalars_) (void)functions_.aclDestroyScalar(scalar);
  for (const aclIntArray* array : arrays_) (void)functions_.aclDestroyIntArray(array);
  for (const aclBoolArray* array : flags_) (void)functions_.aclDestroyBoolArray(array);
}

aclTensor* OperatorCalls::Entry::make_tensor(const int64_t* dims, uint64_t rank, int64_t type,
                                             const int64_t* strides, aclFormat format,
                                             std::initializer_list<int64_t> storage, void* data) {
  tensors_.reserve(tensors_.size() + 1);
  aclTensor* const made =
      functions_.aclCreateTensor(dims, rank, static_cast<aclDataType>(type), strides, /*offset=*/0,
                                 format, storage.begin(), storage.size(), data);
  if (made == nullptr) throw std::bad_alloc();
  tensors_.push_back(made);
  return made;
}

// The storage is the flat range from the first element to the last.
aclTensor* OperatorCalls::Entry::convert(const View& view) {
  if (view.rank == View::kAbsent) return nullptr;
  int64_t last = 0;
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    last += (view.dims[axis] - 1) * view.strides[axis];
  }
  return make_tensor(view.dims, view.rank, view.type, view.strides, ACL_FORMAT_ND, {last + 1},
                     view.data);
}

aclTensor* OperatorCalls::Entry::convert(const Fractal& weights) {
  const int64_t dims[] = {weights.k, weights.n};
  const int64_t strides[] = {weights.n, 1};
  return make_tensor(
      dims, 2, weights.type, strides, ACL_FORMAT_FRACTAL_NZ,
      {Fractal::blocks(weights.n), Fractal::blocks(weights.k), Fractal::kBlock, Fractal::kBlock},
      weights.data);
}

aclScalar* OperatorCalls::Entry::convert(const Scalar& scalar) {
  auto real = static_cast<float>(scalar.value);
  auto number = scalar.type == ACL_INT64 ? static_cast<int64_t>(scalar.value) : 0;
  void* const value = scalar.type == ACL_INT64 ? static_cast<void*>(&number) : &real;
  scalars_.reserve(scalars_.size() + 1);
  aclScalar* const made = functions_.aclCreateScalar(value, static_cast<aclDataType>(scalar.type));
  if (made == nullptr) throw std::bad_alloc();
  scalars_.push_back(made);
  return made;
}

aclIntArray* OperatorCalls::Entry::convert(const Ints& ints) {
  if (ints.size == Ints::kAbsent) return nullptr;
  arrays_.reserve(arrays_.size() + 1);
  aclIntArray* const made = functions_.aclCreateIntArray(ints.values, ints.size);
  if (made == nullptr) throw std::bad_alloc();
  arrays_.push_back(made);
  return made;
}

aclBoolArray* OperatorCalls::Entry::convert(const Flags& flags) {
  flags_.reserve(flags_.size() + 1);
  aclBoolArray* const made = functions_.aclCreateBoolArray(flags.values, std::size(flags.values));
  if (made == nullptr) throw std::bad_alloc();
  flags_.push_back(made);
  return made;
}

bool OperatorCalls::Entry::make_repeatable() {
  if (functions_.aclSetAclOpExecutorRepeatable == nullptr ||
      functions_.aclDestroyAclOpExecutor == nullptr) {
    return false;
  }
  is_repeatable_ = functions_.aclSetAclOpExecutorRepeatable(executor) == 0;
  return is_repeatable_;
}

uint64_t OperatorCalls::Entry::bytes(size_t key_size) const {
  constexpr uint64_t kExecutor = 4096;
  constexpr uint64_t kDescriptor = 512;
  const size_t descriptors = tensors_.size() + scalars_.size() + arrays_.size() + flags_.size();
  return sizeof(Entry) + key_size + kExecutor + kDescriptor * descriptors;
}

OperatorCalls::~OperatorCalls() {
  if (retirement_ != nullptr) {
    (void)device_.release("aclrtDestroyEvent",
                          [&](const Functions& acl) { return acl.aclrtDestroyEvent(retirement_); });
  }
  if (causal_mask_ != nullptr) (void)device_.free(KEEL_MEMORY_DEVICE, causal_mask_);
}

keel_status OperatorCalls::causal_mask(View* out_mask) {
  constexpr int64_t kExtent = ACLNN_CAUSAL_MASK_EXTENT;
  keel_status status = KEEL_OK;
  if (causal_mask_ == nullptr) {
    void* memory = nullptr;
    status = device_.alloc(KEEL_MEMORY_DEVICE, kExtent * kExtent, &memory);
    if (status != KEEL_OK) return status;
    causal_mask_ = memory;
  }
  *out_mask = dense(causal_mask_, ACL_BOOL, {kExtent, kExtent});
  if (is_causal_mask_made_) return KEEL_OK;
  status = KEEL_ACLNN(*this, InplaceFillScalar, *out_mask, Scalar{1});
  if (status == KEEL_OK) status = KEEL_ACLNN(*this, Triu, *out_mask, int64_t{1}, *out_mask);
  is_causal_mask_made_ = status == KEEL_OK;
  return status;
}

keel_status OperatorCalls::no_workspace(const char* name, uint64_t bytes, keel_status failure) {
  if (failure != KEEL_OUT_OF_MEMORY) return failure;
  return kit::fail(KEEL_OUT_OF_MEMORY,
                   "ascend: %s: the device has no room for a workspace of %" PRIu64 " bytes", name,
                   bytes);
}

keel_status OperatorCalls::check(const char* name, keel_status called) {
  const aclnnStatus result = std::exchange(result_, 0);
  if (called != KEEL_OK || result == 0) return called;
  // aclnn's numbers do not say whether the device is lost; any call of the runtime does.
  const ErrorText text = device_.sdk().text_of(name, aclError{result});
  const keel_status asked = device_.call("aclrtStreamQuery", [&](const Functions& acl) {
    aclrtStreamStatus ignored = ACL_STREAM_STATUS_COMPLETE;
    const aclError error = acl.aclrtStreamQuery(stream_, &ignored);
    return is_fatal(error) ? error : aclError{ACL_SUCCESS};
  });
  if (asked != KEEL_OK) return asked;
  return kit::fail(KEEL_INTERNAL, "ascend: %s", text.c_str());
}

bool OperatorCalls::keep(Entry& entry) {
  const uint64_t bytes = entry.bytes(key_.size());
  if (!device_.take_executor_bytes(bytes)) {
    sweep();
    if (!device_.take_executor_bytes(bytes)) return false;
  }
  entry.own(bytes);
  return entry.make_repeatable();
}

void OperatorCalls::sweep() {
  if (!retired_.empty()) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    const keel_status asked = device_.call("aclrtQueryEventStatus", [&](const Functions& acl) {
      return acl.aclrtQueryEventStatus(retirement_, &status);
    });
    if (asked == KEEL_OK && status == ACL_EVENT_RECORDED_STATUS_COMPLETE) retired_.clear();
    return;
  }
  // Fewer calls may be the part of a step that uses other executors.
  if (calls_since_sweep_ < 2 * entries_.size()) return;
  calls_since_sweep_ = 0;
  const auto is_unused = [](const auto& each) { return !each.second->is_used; };
  if (std::ranges::any_of(entries_, is_unused) && record_retirement() != KEEL_OK) return;
  retired_.reserve(entries_.size());
  for (auto each = entries_.begin(); each != entries_.end();) {
    if (std::exchange(each->second->is_used, false)) {
      ++each;
    } else {
      retired_.push_back(std::move(each->second));
      each = entries_.erase(each);
    }
  }
}

keel_status OperatorCalls::record_retirement() {
  return device_.call("aclrtRecordEvent", [&](const Functions& acl) {
    if (retirement_ == nullptr) {
      const aclError made = acl.aclrtCreateEventExWithFlag(&retirement_, ACL_EVENT_SYNC);
      if (made != ACL_SUCCESS) return made;
    }
    return acl.aclrtRecordEvent(retirement_, stream_);
  });
}

}  // namespace keel::ascend
