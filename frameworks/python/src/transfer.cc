// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "in_flight.h"
#include "runtime.h"

namespace nb = nanobind;

namespace keel_python {
namespace {

Buffer::Extents shape_of(const nb::ndarray<>& array) {
  Buffer::Extents shape(array.ndim());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    shape[axis] = static_cast<int64_t>(array.shape(axis));
  }
  return shape;
}

// An array over |data|, the memory of |owner|, with |buffer|'s shape.
template <typename Framework>
nb::ndarray<Framework> array_of(const Buffer& buffer, void* data, nb::handle owner,
                                nb::dlpack::device device) {
  std::array<size_t, KEEL_MAX_RANK> shape{};
  std::array<int64_t, KEEL_MAX_RANK> strides{};
  const size_t rank = buffer.shape().size();
  for (size_t axis = 0; axis < rank; ++axis) {
    shape[axis] = static_cast<size_t>(buffer.shape()[axis]);
    strides[axis] = buffer.strides()[axis];
  }
  return nb::ndarray<Framework>(data, rank, shape.data(), owner, strides.data(),
                                buffer.dtype().dlpack, device.device_type, device.device_id);
}

}  // namespace

Buffer from_numpy(const HostArray& array, const keel::Device& device) {
  const Dtype& dtype = find_dtype(array.dtype());
  const Buffer::Extents shape = shape_of(nb::ndarray<>(array));
  const uint64_t bytes = bytes_of(dtype, shape);
  Buffer buffer(Memory::allocate(device.get(), KEEL_MEMORY_DEVICE, bytes), dtype, shape);
  if (bytes == 0) return buffer;
  const nb::gil_scoped_release released;
  keel::Stream stream(device);
  stream.copy(device, buffer.memory()->data(), keel::Device(), array.data(), bytes);
  stream.synchronize();
  return buffer;
}

nb::object to_numpy(const Buffer& buffer, const Stream* stream) {
  if (!buffer.dtype().is_numpy) {
    throw keel::Error(KEEL_UNSUPPORTED, std::string("NumPy has no ") + buffer.dtype().name +
                                            ": view(dtype=) the bits as another type, or use "
                                            "another library's from_dlpack");
  }
  const keel::Device device = buffer.device();
  const uint64_t bytes = buffer.extent();
  const char* const source =
      static_cast<const char*>(buffer.memory()->data()) + buffer.tensor().byte_offset;
  const keel_stream given = stream == nullptr ? keel_stream{} : stream->get();
  std::unique_ptr<void, decltype(&std::free)> data(std::malloc(bytes == 0 ? 1 : bytes), std::free);
  if (data == nullptr) throw std::bad_alloc();
  if (bytes != 0) {
    std::optional<keel::Stream> own;
    if (stream == nullptr) {
      const nb::gil_scoped_release released;
      device.synchronize();
      own.emplace(device);
    }
    const keel_stream used = own ? own->get() : given;
    const keel_device side = buffer.memory()->copy_side();
    if (side.id != KEEL_HOST.id) {
      keel::check(keel_copy(used, KEEL_HOST, data.get(), side, source, bytes));
    }
    // A wait that a signal ends leaves the copy running, into memory that must then stay.
    try {
      wait_for(
          std::nullopt, [&](int64_t timeout) { return keel_stream_synchronize(used, timeout); },
          [&] { return keel_stream_query(used); });
    } catch (...) {
      (void)data.release();
      throw;
    }
    if (side.id == KEEL_HOST.id) std::memcpy(data.get(), source, bytes);
  }
  const nb::capsule owner(data.release(), [](void* pointer) noexcept { std::free(pointer); });
  nb::object array = array_of<nb::numpy>(buffer, owner.data(), owner, {nb::device::cpu::value, 0})
                         .cast(nb::rv_policy::reference);
  return buffer.is_dense() ? array : array.attr("copy")();
}

void upload(const Stream& stream, const Buffer& destination, const HostArray& array) {
  const Dtype& dtype = find_dtype(array.dtype());
  const Buffer::Extents shape = shape_of(nb::ndarray<>(array));
  const auto wanted = destination.shape();
  if (dtype.code != destination.tensor().dtype ||
      !std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end())) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "upload: the array is " + text_of(dtype, shape) +
                                                 ", the buffer " +
                                                 text_of(destination.dtype(), wanted));
  }
  const keel_device side = destination.memory()->copy_side();
  if (side.id == KEEL_HOST.id) {
    throw keel::Error(KEEL_UNSUPPORTED, "upload: the buffer is an array's memory on the host");
  }
  void* const data = destination.dense_data("upload: the buffer");
  keel::check(keel_copy(stream.get(), side, data, KEEL_HOST, array.data(), destination.bytes()));
  InFlight::get().hold(stream.get(), std::make_shared<HostArray>(array));
  if (destination.memory()->is_borrowed()) {
    InFlight::get().hold(stream.get(), destination.memory());
  }
}

void copy(const Stream& stream, const Buffer& destination, const Buffer& source) {
  if (destination.bytes() != source.bytes()) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "copy: " + text_of(source.dtype(), source.shape()) +
                                                 " into " +
                                                 text_of(destination.dtype(), destination.shape()));
  }
  void* const to = destination.dense_data("copy: the destination");
  const void* const from = source.dense_data("copy: the source");
  const keel_stream handle = stream.get();
  {
    const nb::gil_scoped_release released;
    keel::check(keel_copy(handle, destination.memory()->copy_side(), to,
                          source.memory()->copy_side(), from, source.bytes()));
  }
  for (const Buffer* buffer : {&destination, &source}) {
    if (buffer->memory()->is_borrowed()) InFlight::get().hold(stream.get(), buffer->memory());
  }
}

Buffer from_dlpack(nb::handle given, std::optional<keel::Device> device) {
  start();
  InFlight::get().sweep();
  nb::ndarray<> array;
  if (!nb::try_cast(given, array, /*convert=*/false)) {
    if (nb::ndarray<nb::ro> constant; nb::try_cast(given, constant, /*convert=*/false)) {
      throw keel::Error(KEEL_UNSUPPORTED,
                        "from_dlpack: the array may not be written; from_numpy() "
                        "copies instead");
    }
    throw nb::type_error("from_dlpack: no object of the DLPack protocol");
  }
  const Dtype& dtype = find_dtype(array.dtype());
  const Buffer::Extents shape = shape_of(array);
  Buffer::Extents strides(array.ndim());
  for (size_t axis = 0; axis < strides.size(); ++axis) strides[axis] = array.stride(axis);
  for (const int64_t stride : strides) {
    if (stride < 0) throw keel::Error(KEEL_UNSUPPORTED, "from_dlpack: negative strides");
  }
  const keel_tensor tensor = keel::make_tensor(array.data(), dtype.code, shape, strides);
  const keel::Device on =
      device ? *device : device_of_dlpack(array.device_type(), array.device_id());
  const nb::dlpack::device expected = dlpack_device(on);
  if (array.device_type() != expected.device_type) {
    throw keel::Error(KEEL_UNSUPPORTED, "from_dlpack: the memory is not of " + on.name() +
                                            ", but of DLPack's device (" +
                                            std::to_string(array.device_type()) + ", " +
                                            std::to_string(array.device_id()) +
                                            "); from_numpy() copies instead");
  }
  void* const data = array.data();
  const uint64_t extent = Buffer(nullptr, tensor).extent();
  return {Memory::borrow(std::move(array), on.get(), data, extent), tensor};
}

nb::dlpack::device dlpack_device_of(const Buffer& buffer) {
  if (buffer.memory()->is_host_memory()) return {nb::device::cpu::value, 0};
  return dlpack_device(buffer.device());
}

nb::object to_dlpack(const Buffer& buffer, nb::kwargs arguments) {
  const nb::dlpack::device device = dlpack_device_of(buffer);
  char* data = static_cast<char*>(buffer.memory()->data());
  if (device.device_type == nb::device::cpu::value && data != nullptr) {
    data = static_cast<char*>(buffer.memory()->host_alias());
    if (data == nullptr) {
      throw keel::Error(KEEL_UNSUPPORTED, "__dlpack__: the host cannot reach this memory");
    }
  }
  if (data != nullptr) data += buffer.tensor().byte_offset;
  const auto array =
      array_of<nb::array_api>(buffer, data, Memory::new_export(buffer.memory()), device);
  return nb::cast(array, nb::rv_policy::reference).attr("__dlpack__")(**arguments);
}

}  // namespace keel_python
