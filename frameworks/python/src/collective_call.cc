// SPDX-License-Identifier: Apache-2.0
#include "collective_call.h"

#include <nanobind/stl/string.h>

#include <utility>

namespace nb = nanobind;

namespace keel_python {

void CollectiveCall::refuse(const std::string& text) {
  {
    const nb::gil_scoped_release released;
    (void)keel_barrier(comm_, keel_stream{});  // refused for its stream
  }
  throw keel::Error(KEEL_INVALID_ARGUMENT, std::string(name_) + ": " + text);
}

void* CollectiveCall::take(const char* argument, const Buffer& buffer) {
  if (buffer.memory()->is_closed()) refuse(std::string(argument) + " is closed");
  if (!(buffer.device() == device_)) {
    refuse(std::string(argument) + " is on " + buffer.device().name() + ", the rank on " +
           device_.name());
  }
  if (!buffer.is_dense()) refuse(std::string(argument) + " is not dense");
  const Dtype& dtype = buffer.dtype();
  if (dtype_ != KEEL_DTYPE_INVALID && dtype_ != dtype.code) {
    refuse(std::string(argument) + " is " + dtype.name + ", the other buffer " +
           dtype_of(dtype_).name);
  }
  dtype_ = dtype.code;
  // In an open group Keel has not enqueued the call yet, when Python may free the buffer.
  if (buffer.memory()->is_borrowed() || InFlight::get().is_in_group()) {
    kept_.push_back(buffer.memory());
  }
  return buffer.dense_data(argument);
}

void CollectiveCall::expect(const char* argument, const Buffer& buffer, uint64_t count) {
  if (buffer.count() == count) return;
  refuse(std::string(argument) + " has " + std::to_string(buffer.count()) + " elements, not " +
         std::to_string(count));
}

keel_reduction reduction_of(CollectiveCall& call, nb::handle given) {
  static constexpr std::pair<const char*, keel_reduction> kNames[] = {
      {"sum", KEEL_SUM}, {"prod", KEEL_PROD}, {"min", KEEL_MIN}, {"max", KEEL_MAX},
      {"avg", KEEL_AVG}, {"band", KEEL_BAND}, {"bor", KEEL_BOR}, {"bxor", KEEL_BXOR},
  };
  if (keel_reduction number = 0; nb::try_cast(given, number)) return number;
  const std::string name = nb::cast<std::string>(nb::str(given));
  std::string known;
  for (const auto& [each, number] : kNames) {
    if (name == each) return number;
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  call.refuse("no reduction '" + name + "'; there are: " + known);
}

}  // namespace keel_python
