// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "buffer.h"
#include "device.h"
#include "in_flight.h"
#include "runtime.h"
#include "transfer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace keel_python {

Stream::~Stream() {
  try {
    close();
  } catch (const keel::Error&) {
  }
}

void Stream::close() {
  if (handle_.is_closed()) return;
  const keel_stream stream = handle_.get("stream");
  handle_.close();
  InFlight::get().release(stream);
}

namespace {

struct Event {
  Event(bool timing) {
    start();
    keel_event event;
    keel::check(keel_event_create(timing ? uint32_t{KEEL_EVENT_TIMING} : 0, &event));
    handle.set(event);
  }
  keel_event get() const { return handle.get("event"); }

  Handle<keel_event, keel_event_destroy> handle;
};

struct Gate {
  Gate() {
    start();
    keel_gate gate;
    keel::check(keel_gate_create(&gate));
    handle.set(gate);
  }
  keel_gate get() const { return handle.get("gate"); }

  Handle<keel_gate, keel_gate_destroy> handle;
};

keel_stream create(const Device& device, int32_t priority) {
  keel_stream stream;
  keel::check(keel_stream_create(device.get(), priority, &stream));
  return stream;
}

void synchronize(const Stream& stream, std::optional<double> timeout) {
  const keel_stream handle = stream.get();
  wait_for(
      timeout, [&](int64_t limit) { return keel_stream_synchronize(handle, limit); },
      [&] { return keel_stream_query(handle); });
  InFlight::get().sweep();
}

void wait(const Event& event, std::optional<double> timeout) {
  const keel_event handle = event.get();
  wait_for(
      timeout, [&](int64_t limit) { return keel_event_wait(handle, limit); },
      [&] { return keel_event_query(handle); });
  InFlight::get().sweep();
}

void recover(const Stream& stream, std::optional<double> timeout) {
  const keel_stream handle = stream.get();
  const int64_t limit = nanoseconds(timeout);
  {
    const nb::gil_scoped_release released;
    keel::check(keel_stream_recover(handle, limit));
  }
  InFlight::get().release(handle);
}

Buffer empty(const Stream& stream, const Buffer::Extents& shape, nb::handle dtype) {
  const Dtype& type = find_dtype(dtype);
  const uint64_t bytes = bytes_of(type, shape);
  return {Memory::allocate(stream.get(), stream.device().get(), bytes), type, shape};
}

// As bytes: every dtype has 0 as zeros.
void zero(const Stream& stream, const Buffer& buffer) {
  void* const data = buffer.dense_data("zero: the buffer");
  const uint8_t pattern = 0;
  keel::check(keel_fill(stream.get(), data, &pattern, 1, buffer.bytes()));
  if (buffer.memory()->is_borrowed()) InFlight::get().hold(stream.get(), buffer.memory());
}

void* native(const Stream& stream) {
  void* handle = nullptr;
  keel::check(keel_stream_unwrap(stream.get(), &handle));
  return handle;
}

// The end of `with`: failures of the work are raised, unless another exception is.
void leave(Stream& stream, nb::handle exception) {
  if (exception.is_none() && !stream.is_closed()) synchronize(stream, std::nullopt);
  stream.close();
}

}  // namespace

void add_stream(nb::module_& module) {
  nb::class_<Event>(module, "Event",
                    "A point in a stream of any device. Recorded again, earlier waits stay at the "
                    "earlier point; an event never recorded counts as done.")
      .def(nb::init<bool>(), nb::kw_only(), "timing"_a = false)
      .def(
          "record",
          [](const Event& event, const Stream& stream) {
            keel::check(keel_event_record(event.get(), stream.get()));
          },
          "stream"_a)
      .def_prop_ro(
          "is_done",
          [](const Event& event) {
            return keel::api_detail::is_ready(keel_event_query(event.get()));
          },
          "Raises the failure of the work before the event")
      .def("wait", &wait, "timeout"_a = nb::none(),
           "Waits |timeout| seconds or the default deadline. Raises KEEL_TIMED_OUT, or the failure "
           "of the work before the event. Other threads run meanwhile, and Ctrl-C ends the wait.")
      .def(
          "elapsed_since",
          [](const Event& end, const Event& start) {
            uint64_t nanoseconds = 0;
            keel::check(keel_event_elapsed(start.get(), end.get(), &nanoseconds));
            return static_cast<double>(nanoseconds) * 1e-9;
          },
          "start"_a, "Seconds between two events with timing=True of one device, both done")
      .def("close", [](Event& event) { event.handle.close(); });

  nb::class_<Gate>(module, "Gate",
                   "A fence that the host opens, once: work enqueued behind it is held until then. "
                   "Closing an unopened gate fails the streams behind it with KEEL_CANCELLED.")
      .def(nb::init<>())
      .def("open",
           [](const Gate& gate) { keel::check(keel_gate_open(gate.get(), KEEL_OK, nullptr)); })
      .def("close", [](Gate& gate) { gate.handle.close(); });

  nb::class_<Stream>(
      module, "Stream",
      "An in-order queue of work of one device. Its methods enqueue and return; "
      "synchronize() waits. `with keel.Stream(device) as stream:` synchronizes at the "
      "end, which raises the failures of the work, and closes the stream.")
      .def(
          "__init__",
          [](Stream* self, nb::handle on, int32_t priority) {
            const Device device = device_of(on);
            new (self) Stream(device, create(device, priority));
          },
          "device"_a, nb::kw_only(), "priority"_a = 0,
          nb::sig("def __init__(self, device: Device | str, *, priority: int = 0) -> None"))
      .def_static(
          "wrap",
          [](nb::handle on, uintptr_t native) {
            const Device device = device_of(on);
            keel_stream stream;
            keel::check(keel_stream_wrap(device.get(), reinterpret_cast<void*>(native), &stream));
            return Stream(device, stream);
          },
          "device"_a, "native"_a,
          "A stream around a native one (CUstream) by its address, which outlives it, so that "
          "another library's work and Keel's run in one order.",
          nb::sig("def wrap(device: Device | str, native: int) -> Stream"))
      .def_prop_ro("device", &Stream::device)
      .def_prop_ro("closed", &Stream::is_closed)
      .def_prop_ro(
          "native",
          [](const Stream& stream) { return reinterpret_cast<uintptr_t>(native(stream)); },
          "Address of the native stream, for another library's work; Keel owns it")
      .def_prop_ro(
          "is_done",
          [](const Stream& stream) {
            return keel::api_detail::is_ready(keel_stream_query(stream.get()));
          },
          "Raises the stream's failure")
      .def(
          "synchronize", &synchronize, "timeout"_a = nb::none(),
          "Waits |timeout| seconds or the default deadline for all work. Raises KEEL_TIMED_OUT, "
          "which leaves the work running, or the failure of the work. Other threads run meanwhile, "
          "and Ctrl-C ends the wait.")
      .def("recover", &recover, "timeout"_a = nb::none(), "Makes a failed stream usable again")
      .def(
          "wait",
          [](const Stream& stream, const Event& event) {
            keel::check(keel_stream_wait_event(stream.get(), event.get()));
          },
          "event"_a, "Later work runs after the event's last record. Does not block.")
      .def(
          "wait",
          [](const Stream& stream, const Gate& gate) {
            keel::check(keel_stream_wait_gate(stream.get(), gate.get()));
          },
          "gate"_a, "Later work is held until the gate opens. Does not block.")
      .def("copy", &copy, "destination"_a, "source"_a,
           "Copies between buffers of any two devices, one of them the stream's")
      .def("upload", &upload, "destination"_a, "array"_a,
           "Copies an array of NumPy, of the buffer's shape and dtype; do not write to the array "
           "before the copy is done.",
           nb::sig("def upload(self, destination: Buffer, array: numpy.typing.ArrayLike) -> None"))
      .def("zero", &zero, "buffer"_a, "Sets every element to 0")
      .def("empty", &empty, "shape"_a, "dtype"_a = "float32",
           "A buffer for work enqueued on this stream from now on, freed in the stream's order.",
           nb::sig("def empty(self, shape: collections.abc.Sequence[int], dtype: object = "
                   "'float32') -> Buffer"))
      .def("close", &Stream::close, "Waits for the work, and ends the stream")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Stream"))
      .def(
          "__exit__",
          [](Stream& stream, nb::handle type, nb::handle, nb::handle) { leave(stream, type); },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none());
}

}  // namespace keel_python
