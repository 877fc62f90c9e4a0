// SPDX-License-Identifier: Apache-2.0
// Tensors made, viewed and copied: between devices, to and from the CPU.
#include "copies.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <keel/keel.h>
#include <torch/library.h>

#include "device_allocator.h"
#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

const char* const kCopying = "copying a tensor";

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> type,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
              "keel: only dense tensors are supported, not of layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "keel: only tensors of the CPU can be pinned");
  const c10::DeviceIndex index = resolve(device.has_value() ? device->index() : -1);
  (void)handle(index);
  const c10::DeviceGuard guard(c10::Device(kType, index));
  return at::detail::empty_generic(size, device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
              "keel: only dense tensors are supported, not of layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "keel: only tensors of the CPU can be pinned");
  const c10::DeviceIndex index = resolve(device.has_value() ? device->index() : -1);
  (void)handle(index);
  const c10::DeviceGuard guard(c10::Device(kType, index));
  return at::detail::empty_strided_generic(size, stride, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::get_default_dtype_as_scalartype()));
}

keel_device handle_of(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? KEEL_HOST : handle(tensor.device().index());
}

// The memory of tensors of one layout: both dense in the same order of dimensions.
bool have_one_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

void synchronize(c10::DeviceIndex index) {
  check(keel_stream_synchronize(stream_of(index), KEEL_TIMEOUT_DEFAULT), kCopying);
}

// Copies the bytes of tensors of one layout, in the order of |stream|'s device.
void copy_bytes(const at::Tensor& destination, const at::Tensor& source, c10::DeviceIndex stream) {
  check(keel_copy(stream_of(stream), handle_of(destination), destination.mutable_data_ptr(),
                  handle_of(source), source.const_data_ptr(), source.nbytes()),
        kCopying);
}

// Returns the new |tensor| with the conjugate and negative bits of |like|.
at::Tensor with_bits_of(const at::Tensor& like, at::Tensor tensor) {
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

// An uninitialised contiguous tensor with the conjugate and negative bits of |tensor|.
at::Tensor plain_like(const at::Tensor& tensor) {
  return with_bits_of(tensor, at::empty(tensor.sizes(), tensor.options()));
}

// Copies as copy_elements does, on the CPU, by whole spans. Waits.
void copy_through_cpu(const at::Tensor& destination, const at::Tensor& source) {
  at::Tensor values = span_to_cpu(source);
  if (!destination.is_non_overlapping_and_dense()) {
    at::Tensor whole = span_to_cpu(destination);
    whole.copy_(values);
    span_from_cpu(destination, whole);
    return;
  }
  const at::Tensor converted = with_bits_of(
      destination, at::empty_strided(destination.sizes(), destination.strides(),
                                     values.options().dtype(destination.scalar_type())));
  converted.copy_(values);
  copy_bytes(destination, converted, destination.device().index());
  synchronize(destination.device().index());
}

// The elements of |tensor| as they lie, on the CPU. Waits.
at::Tensor to_cpu(const at::Tensor& tensor) {
  at::Tensor plain = tensor;
  if (!tensor.is_non_overlapping_and_dense()) {
    plain = plain_like(tensor);
    if (tensor.numel() != 0 && !copy_on_device(plain, tensor)) return span_to_cpu(tensor);
  }
  at::Tensor copy =
      with_bits_of(plain, at::empty_strided(plain.sizes(), plain.strides(),
                                            plain.options().device(at::kCPU).pinned_memory(false)));
  const c10::DeviceIndex index = tensor.device().index();
  copy_bytes(copy, plain, index);
  synchronize(index);
  return copy;
}

// Makes |later|'s device's stream wait for the work of |earlier|'s.
void order(c10::DeviceIndex earlier, c10::DeviceIndex later) {
  if (earlier == later) return;
  keel_event event;
  check(keel_event_create(0, &event), kCopying);
  const keel_status recorded = keel_event_record(event, stream_of(earlier));
  const keel_status waits =
      recorded == KEEL_OK ? keel_stream_wait_event(stream_of(later), event) : recorded;
  (void)keel_event_destroy(event);
  check(waits, kCopying);
}

void copy_from_cpu(const at::Tensor& destination, const at::Tensor& source, bool is_async) {
  const c10::DeviceIndex index = destination.device().index();
  // The CPU converts and orders: fewer bytes than the device would get may travel, none more often.
  at::Tensor ready = source;
  const bool is_dense = destination.is_non_overlapping_and_dense();
  if (!is_dense || !have_one_layout(destination, source)) {
    ready = is_dense
                ? at::empty_strided(destination.sizes(), destination.strides(),
                                    source.options().dtype(destination.scalar_type()))
                : at::empty(destination.sizes(), source.options().dtype(destination.scalar_type()));
    ready.copy_(source.expand(destination.sizes()));
    if (destination.is_conj()) ready.conj_physical_();
    if (destination.is_neg()) ready.neg_();
    is_async = false;
  }
  if (is_dense) {
    check(keel_copy(stream_of(index), handle(index), destination.mutable_data_ptr(), KEEL_HOST,
                    ready.const_data_ptr(), ready.nbytes()),
          kCopying);
  } else {
    // With the bits of |destination|, so that a copy between the two changes no value.
    const at::Tensor moved = plain_like(destination);
    check(keel_copy(stream_of(index), handle(index), moved.mutable_data_ptr(), KEEL_HOST,
                    ready.const_data_ptr(), ready.nbytes()),
          kCopying);
    if (!copy_on_device(destination, moved)) copy_through_cpu(destination, moved);
  }
  if (!is_async || !is_pinned(ready.const_data_ptr())) synchronize(index);
}

void copy_to_cpu(const at::Tensor& destination, const at::Tensor& source, bool is_async) {
  const c10::DeviceIndex index = source.device().index();
  if (have_one_layout(destination, source)) {
    copy_bytes(destination, source, index);
    if (!is_async || !is_pinned(destination.const_data_ptr())) synchronize(index);
    return;
  }
  destination.copy_(to_cpu(source));
}

void copy_between(const at::Tensor& destination, const at::Tensor& source) {
  const c10::DeviceIndex from = source.device().index();
  const c10::DeviceIndex to = destination.device().index();
  if (from == to) {
    copy_elements(destination, source);
    return;
  }
  // Converted and ordered on the source's device, moved, then ordered on the destination's.
  at::Tensor ready = source;
  if (!have_one_layout(destination, source)) {
    ready = at::empty(source.sizes(), source.options().dtype(destination.scalar_type()));
    copy_elements(ready, source);
  }
  at::Tensor arrived =
      have_one_layout(destination, ready)
          ? destination
          : at::empty_strided(ready.sizes(), ready.strides(), destination.options());
  order(from, to);
  copy_bytes(arrived, ready, to);
  order(to, from);  // |ready|'s memory may be reused in the order of its own stream
  if (!arrived.is_same(destination)) copy_elements(destination, arrived);
}

void copy_any(const at::Tensor& destination, const at::Tensor& source, bool is_async) {
  if (destination.is_same(source) || destination.numel() == 0) return;
  const bool to_device = destination.device().type() == kType;
  const bool from_device = source.device().type() == kType;
  TORCH_CHECK(
      (to_device || destination.device().is_cpu()) && (from_device || source.device().is_cpu()),
      "keel: there is no copy from ", source.device(), " to ", destination.device());
  if (to_device && from_device) {
    copy_between(destination, source.expand(destination.sizes()));
  } else if (to_device) {
    copy_from_cpu(destination, source, is_async);
  } else {
    copy_to_cpu(destination, source.expand(destination.sizes()), is_async);
  }
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool is_async) {
  copy_any(destination, self, is_async);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  if (destination.sizes() != self.sizes()) at::native::resize_output(destination, self.sizes());
  copy_any(destination, self, false);
  return destination;
}

at::Tensor& copy_in_place(at::Tensor& self, const at::Tensor& source, bool is_async) {
  copy_any(self, source, is_async);
  return self;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  alignas(16) char bytes[16];
  const c10::DeviceIndex index = self.device().index();
  check(keel_copy(stream_of(index), KEEL_HOST, bytes, handle(index), self.const_data_ptr(),
                  self.itemsize()),
        "reading a tensor's number");
  check(keel_stream_synchronize(stream_of(index), KEEL_TIMEOUT_DEFAULT),
        "reading a tensor's number");
  at::Tensor number = at::empty({}, self.options().device(at::kCPU).pinned_memory(false));
  std::memcpy(number.mutable_data_ptr(), bytes, self.itemsize());
  if (self.is_conj()) number = number.conj_physical();
  if (self.is_neg()) number = number.neg();
  return number.item();
}

// Gives |storage| the memory of a tensor, which PyTorch's own functions would take from the CPU.
void make_room(const at::Storage& storage, at::IntArrayRef size, size_t bytes) {
  if (c10::multiply_integers(size) != 0 && bytes > storage.nbytes()) resize_storage(storage, bytes);
}

at::Tensor& set_storage_view(at::Tensor& self, at::Storage source, int64_t offset,
                             at::IntArrayRef size, at::IntArrayRef stride) {
  at::detail::check_size_nonnegative(size);
  make_room(source, size,
            stride.data() == nullptr
                ? at::detail::computeStorageNbytesContiguous(size, self.itemsize(), offset)
                : at::detail::computeStorageNbytes(size, stride, self.itemsize(), offset));
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, {elements}, {});
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  at::Storage storage(at::Storage::use_byte_size_t(), 0, device_allocator(), true);
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {0}, {});
}

void record_tensor_on_stream(at::Tensor& self, at::Stream stream) {
  record_stream(self.storage().data_ptr(), stream);
}

bool is_pinned_tensor(const at::Tensor& self, std::optional<at::Device>) {
  return self.device().is_cpu() && is_pinned(self.const_data_ptr());
}

const at::Tensor& resize_in_place(const at::Tensor& self, at::IntArrayRef size,
                                  std::optional<at::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  make_room(
      self.storage(), size,
      at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset()));
  return at::native::resize_(self, size, format);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty_memory_format);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("resize_", &resize_in_place);
  library.impl("set_.source_Storage_storage_offset", &set_storage_view);
  library.impl("set_.source_Storage", &set_storage);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_", &set_empty);
  library.impl("copy_", &copy_in_place);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("record_stream", &record_tensor_on_stream);
  library.impl("is_pinned", &is_pinned_tensor);
}

}  // namespace

at::Tensor new_tensor(c10::DeviceIndex index, at::IntArrayRef sizes, at::ScalarType type) {
  const c10::DeviceGuard guard(c10::Device(kType, index));
  return at::detail::empty_generic(sizes, device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type,
                                   std::nullopt);
}

at::Tensor plain_copy(const at::Tensor& tensor) {
  at::Tensor copy = plain_like(tensor);
  copy_elements(copy, tensor);
  return copy;
}

void copy_elements(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.numel() == 0) return;
  if (have_one_layout(destination, source)) {
    // DistributedDataParallel copies tensors to themselves.
    if (destination.const_data_ptr() == source.const_data_ptr()) return;
    copy_bytes(destination, source, destination.device().index());
    return;
  }
  if (copy_on_device(destination, source)) return;
  // A type that Keel lacks, or a device without a kernel.
  count_fallback("aten::copy_", destination.device().index());
  copy_through_cpu(destination, source);
}

namespace {

// Bytes from the first element of |tensor| to the end of the last.
int64_t span_bytes(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return (last + 1) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace

at::Tensor span_to_cpu(const at::Tensor& tensor) {
  const int64_t bytes = span_bytes(tensor);
  const c10::DeviceIndex index = tensor.device().index();
  at::Tensor flat = at::empty({bytes / static_cast<int64_t>(tensor.itemsize())},
                              tensor.options().device(at::kCPU).pinned_memory(false));
  check(keel_copy(stream_of(index), KEEL_HOST, flat.mutable_data_ptr(), handle(index),
                  tensor.const_data_ptr(), bytes),
        kCopying);
  synchronize(index);
  at::Tensor view = flat.as_strided(tensor.sizes(), tensor.strides(), 0);
  if (tensor.is_conj()) view._set_conj(true);
  if (tensor.is_neg()) view._set_neg(true);
  return view;
}

void span_from_cpu(const at::Tensor& tensor, const at::Tensor& span) {
  const c10::DeviceIndex index = tensor.device().index();
  check(keel_copy(stream_of(index), handle(index), tensor.mutable_data_ptr(), KEEL_HOST,
                  span.const_data_ptr(), span_bytes(tensor)),
        kCopying);
  synchronize(index);
}

}  // namespace keel_torch::device
