// SPDX-License-Identifier: Apache-2.0
#include "operators.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "device.h"
#include "in_flight.h"
#include "runtime.h"
#include "stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace keel_python {
namespace {

// One call, which borrows the buffers of Python.
class Call {
 public:
  // |device|: where the operator is to run. |inputs|, |outputs|: Buffer or None. |attributes|: all,
  // in the order of the operator's table, each int or float as the operator reads it.
  Call(const Device& device, keel_op_id op, const nb::tuple& inputs, const nb::tuple& outputs,
       const nb::tuple& attributes) {
    if (inputs.size() > input_pointers_.size() || outputs.size() > output_pointers_.size() ||
        attributes.size() > attributes_.size()) {
      throw keel::Error(KEEL_INVALID_ARGUMENT, name_of(op) + ": too many arguments");
    }
    take(device, op, "input", inputs, input_tensors_.data(), input_pointers_.data());
    take(device, op, "output", outputs, output_tensors_.data(), output_pointers_.data());
    for (size_t i = 0; i < attributes.size(); ++i) {
      const nb::handle value = attributes[i];
      if (PyFloat_Check(value.ptr())) {
        attributes_[i].f = PyFloat_AsDouble(value.ptr());
      } else {
        attributes_[i].i = PyLong_AsLongLong(value.ptr());
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
      }
    }
    call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call_.op = op;
    call_.input_count = static_cast<uint32_t>(inputs.size());
    call_.output_count = static_cast<uint32_t>(outputs.size());
    call_.attribute_count = static_cast<uint32_t>(attributes.size());
    call_.inputs = input_pointers_.data();
    call_.outputs = output_pointers_.data();
    call_.attributes = attributes_.data();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const keel_op_call& get() const { return call_; }
  const std::vector<std::shared_ptr<Memory>>& borrowed() const { return borrowed_; }

 private:
  static std::string name_of(keel_op_id op) {
    const char* const name = keel_op_name(op);
    return name == nullptr ? "operator " + std::to_string(op) : name;
  }

  // Two devices may have equal addresses, and Keel sees addresses alone: the device is compared.
  void take(const Device& device, keel_op_id op, const char* kind, const nb::tuple& given,
            keel_tensor* tensors, const keel_tensor** pointers) {
    for (size_t i = 0; i < given.size(); ++i) {
      pointers[i] = nullptr;
      const nb::handle value = given[i];
      if (value.is_none()) continue;
      const Buffer* buffer = nullptr;
      if (!nb::try_cast(value, buffer) || buffer == nullptr) {
        throw nb::type_error((name_of(op) + ": " + kind + " " + std::to_string(i) + " is a " +
                              nb::cast<std::string>(nb::str(value.type().attr("__name__"))) +
                              ", no keel.Buffer")
                                 .c_str());
      }
      if (!(buffer->device() == device)) {
        throw keel::Error(KEEL_INVALID_ARGUMENT,
                          name_of(op) + ": " + kind + " " + std::to_string(i) + " is on " +
                              buffer->device().name() + ", the stream on " + device.name());
      }
      tensors[i] = buffer->tensor();
      pointers[i] = &tensors[i];
      if (buffer->memory()->is_borrowed()) borrowed_.push_back(buffer->memory());
    }
  }

  std::array<keel_tensor, 9> input_tensors_;
  std::array<keel_tensor, 8> output_tensors_;
  std::array<const keel_tensor*, 9> input_pointers_;
  std::array<const keel_tensor*, 8> output_pointers_;
  std::array<keel_attribute, 16> attributes_;
  std::vector<std::shared_ptr<Memory>> borrowed_;
  keel_op_call call_;
};

void run(const Stream& stream, keel_op_id op, const nb::tuple& inputs, const nb::tuple& outputs,
         const nb::tuple& attributes) {
  const Call call(stream.device(), op, inputs, outputs, attributes);
  const keel_stream handle = stream.get();
  {
    const nb::gil_scoped_release released;  // a short operator may run within the call
    keel::check(keel_op_run(handle, &call.get()));
  }
  for (const auto& memory : call.borrowed()) InFlight::get().hold(handle, memory);
}

std::string explain(nb::handle on, keel_op_id op, const nb::tuple& inputs, const nb::tuple& outputs,
                    const nb::tuple& attributes) {
  const Device device = device_of(on);
  const Call call(device, op, inputs, outputs, attributes);
  return keel::api_detail::read_text([&](char* text, uint64_t* size) {
    return keel_op_explain(device.get(), &call.get(), text, size);
  });
}

}  // namespace

void add_operators(nb::module_& module) {
  // Of keel.ops alone, whose functions have the names and the defaults.
  module.def("_run", &run);
  module.def("_explain", &explain);
  module.def(
      "fallback_count",
      [] {
        start();
        uint64_t count = 0;
        keel::check(keel_op_fallback_count(&count));
        return count;
      },
      "Number of operators that ran on the CPU so far, on staged copies, since their device's "
      "plugin "
      "has no kernel for them.");
  module.def(
      "forbid_fallback",
      [](bool forbid) {
        start();
        keel::check(keel_op_forbid_fallback(forbid ? 1 : 0));
      },
      "forbid"_a = true, "Whether such an operator raises KEEL_UNSUPPORTED instead.");
}

}  // namespace keel_python
