// SPDX-License-Identifier: Apache-2.0
// Class Buffer as Python sees it.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "buffer.h"
#include "device.h"
#include "runtime.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace keel_python {
namespace {

using Extents = Buffer::Extents;

nb::tuple tuple_of(std::span<const int64_t> values) {
  return nb::tuple(nb::cast(std::vector<int64_t>(values.begin(), values.end())));
}

keel_memory_kind memory_kind(const std::string& name) {
  if (name == "device") return KEEL_MEMORY_DEVICE;
  if (name == "pinned") return KEEL_MEMORY_PINNED;
  if (name == "managed") return KEEL_MEMORY_MANAGED;
  throw keel::Error(KEEL_INVALID_ARGUMENT,
                    "no memory '" + name + "'; there are: device, pinned, managed");
}

Buffer empty(nb::handle on, const Extents& shape, nb::handle dtype, const std::string& memory) {
  const Device device = device_of(on);
  const Dtype& type = find_dtype(dtype);
  const uint64_t bytes = bytes_of(type, shape);
  return {Memory::allocate(device.get(), memory_kind(memory), bytes), type, shape};
}

Buffer view(const Buffer& buffer, const std::optional<Extents>& shape,
            const std::optional<Extents>& strides, int64_t offset, nb::handle dtype) {
  const Dtype& type = dtype.is_none() ? buffer.dtype() : find_dtype(dtype);
  const auto own = buffer.shape();
  Extents extents = shape.value_or(Extents(own.begin(), own.end()));
  if (!buffer.is_dense() && !strides) {
    throw keel::Error(KEEL_INVALID_ARGUMENT,
                      "view: the buffer is not dense; pass strides= in elements");
  }
  return buffer.view(type, extents, strides.value_or(Extents()), offset);
}

// By NumPy's rule: axes are added in front, and extents of 1 repeat.
Buffer broadcast_to(const Buffer& buffer, const Extents& shape) {
  const auto own = buffer.shape();
  Extents strides(shape.size(), 0);
  bool fits = own.size() <= shape.size();
  for (size_t back = 1; fits && back <= own.size(); ++back) {
    const size_t from = own.size() - back;
    const size_t to = shape.size() - back;
    fits = own[from] == shape[to] || own[from] == 1;
    if (own[from] == shape[to]) strides[to] = buffer.strides()[from];
  }
  if (!fits) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "broadcast_to: " + text_of(buffer.dtype(), own) +
                                                 " into " + text_of(buffer.dtype(), shape));
  }
  return buffer.view(buffer.dtype(), shape, strides, 0);
}

Buffer permute(const Buffer& buffer, const std::vector<size_t>& axes) {
  std::vector<size_t> sorted = axes;
  std::ranges::sort(sorted);
  Extents shape;
  Extents strides;
  for (size_t axis = 0; axis < sorted.size(); ++axis) {
    if (axes.size() != buffer.shape().size() || sorted[axis] != axis) break;
    shape.push_back(buffer.shape()[axes[axis]]);
    strides.push_back(buffer.strides()[axes[axis]]);
  }
  if (shape.size() != buffer.shape().size()) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "permute: the axes are not 0 to " +
                                                 std::to_string(buffer.shape().size() - 1) +
                                                 ", each once");
  }
  return buffer.view(buffer.dtype(), shape, strides, 0);
}

std::string repr(const Buffer& buffer) {
  const std::string text = "keel.Buffer(" + text_of(buffer.dtype(), buffer.shape());
  if (buffer.memory()->is_closed()) return text + ", closed)";
  return text + " on " + buffer.device().name() + ")";
}

}  // namespace

void add_buffer(nb::module_& module) {
  nb::class_<Buffer>(
      module, "Buffer",
      "A tensor in a device's memory: memory, shape, strides in elements, dtype by its name in "
      "NumPy or PyTorch.\n\nThe memory is freed with the last buffer that views it; Keel reuses it "
      "once the work enqueued before is done. numpy() copies. Libraries that know DLPack share the "
      "memory (numpy.from_dlpack(buffer)) where their device is the same: that orders no work, so "
      "synchronize the stream first.")
      .def_prop_ro("device", &Buffer::device)
      .def_prop_ro("dtype", [](const Buffer& buffer) { return buffer.dtype().name; })
      .def_prop_ro(
          "shape", [](const Buffer& buffer) { return tuple_of(buffer.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const Buffer& buffer) { return tuple_of(buffer.strides()); }, "In elements",
          nb::sig("def strides(self) -> tuple[int, ...]"))
      .def_prop_ro("ndim", [](const Buffer& buffer) { return buffer.shape().size(); })
      .def_prop_ro("size", &Buffer::count, "Number of elements")
      .def_prop_ro("nbytes", &Buffer::bytes, "Bytes of the elements, without gaps")
      .def_prop_ro("is_dense", &Buffer::is_dense, "Row-major without gaps")
      .def_prop_ro(
          "address",
          [](const Buffer& buffer) {
            return reinterpret_cast<uintptr_t>(buffer.memory()->data()) +
                   buffer.tensor().byte_offset;
          },
          "The device's address of the first element; two devices may have equal addresses")
      .def_prop_ro("closed", [](const Buffer& buffer) { return buffer.memory()->is_closed(); })
      .def("view", &view, "shape"_a = nb::none(), nb::kw_only(), "strides"_a = nb::none(),
           "offset"_a = 0, "dtype"_a = nb::none(),
           "Another view of the memory. |strides|: in elements, 0 repeats; none: dense. |offset|: "
           "elements of the new dtype behind this view's first.",
           nb::sig("def view(self, shape: collections.abc.Sequence[int] | None = None, *, strides: "
                   "collections.abc.Sequence[int] | None = None, offset: int = 0, dtype: "
                   "object = None) -> Buffer"))
      .def("broadcast_to", &broadcast_to, "shape"_a,
           "A view in which extents of 1, and axes added in front, repeat")
      .def("permute", &permute, "axes"_a, "A view with the axes in another order")
      .def(
          "numpy",
          [](const Buffer& buffer, const Stream* stream) { return to_numpy(buffer, stream); },
          "stream"_a.none() = nb::none(),
          "A copy as an array of NumPy, once the work on |stream| is done, or, without one, the "
          "work "
          "on all streams of the device.",
          nb::sig("def numpy(self, stream: Stream | None = None) -> numpy.typing.NDArray"))
      .def("__dlpack__", &to_dlpack, "arguments"_a,
           "A capsule over the same memory, for the DLPack protocol of Python.",
           nb::sig("def __dlpack__(self, **arguments: typing.Any) -> typing.Any"))
      .def("__dlpack_device__",
           [](const Buffer& buffer) {
             const auto device = dlpack_device_of(buffer);
             return std::pair(device.device_type, device.device_id);
           })
      .def(
          "close", [](const Buffer& buffer) { buffer.memory()->close(); },
          "Frees the memory, of every view, without a wait. Refused while arrays of other "
          "libraries "
          "share it.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Buffer"))
      .def(
          "__exit__",
          [](const Buffer& buffer, nb::handle, nb::handle, nb::handle) {
            buffer.memory()->close();
          },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none())
      .def("__repr__", &repr);

  module.def("empty", &empty, "device"_a, "shape"_a, "dtype"_a = "float32", nb::kw_only(),
             "memory"_a = "device",
             "A dense buffer, not zeroed. |memory|: \"device\", \"pinned\" or \"managed\".",
             nb::sig("def empty(device: Device | str, shape: collections.abc.Sequence[int], dtype: "
                     "object = 'float32', *, memory: str = 'device') -> Buffer"));
  module.def(
      "from_numpy",
      [](const HostArray& array, nb::handle device) {
        return from_numpy(array, device_of(device));
      },
      "array"_a, "device"_a, "A buffer on |device| with a copy of |array|. Waits for the copy.",
      nb::sig("def from_numpy(array: numpy.typing.ArrayLike, device: Device | str) -> Buffer"));
  module.def(
      "from_dlpack", &from_dlpack, "array"_a, nb::kw_only(), "device"_a = nb::none(),
      "A buffer over the memory of |array|, an object of the DLPack protocol, without a copy. "
      "|device|: for host memory the first CPU device, else the one that DLPack names. The "
      "buffer, and work in flight that uses it, keep the array alive.",
      nb::sig("def from_dlpack(array: typing.Any, *, device: Device | str | None = None) -> "
              "Buffer"));
}

}  // namespace keel_python
