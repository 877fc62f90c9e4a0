// SPDX-License-Identifier: Apache-2.0
// The device's part of the Python module keel_torch._C.
#include <keel/keel.h>
#include <pybind11/stl.h>

#include "device_allocator.h"
#include "devices.h"
#include "fallback.h"
#include "generator.h"
#include "register.h"

namespace keel_torch::device {

namespace {

std::map<std::string, uint64_t> memory_stats(c10::DeviceIndex index) {
  keel_memory_stats stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  check(keel_memory_stats_get(handle(resolve(index)), &stats), "reading memory statistics");
  return {{"allocated", stats.allocated},        {"allocated_peak", stats.allocated_peak},
          {"reserved", stats.reserved},          {"reserved_peak", stats.reserved_peak},
          {"requested", stats.requested},        {"live_blocks", stats.live_blocks},
          {"allocations", stats.allocations},    {"native_allocs", stats.native_allocs},
          {"out_of_memory", stats.out_of_memory}};
}

}  // namespace

void bind(pybind11::module_& module) {
  namespace py = pybind11;
  module.def("device_count", [] { return static_cast<int>(count()); });
  module.def("device_name", [](int index) { return name(static_cast<c10::DeviceIndex>(index)); });
  module.def("device_find", [](const std::string& name) { return static_cast<int>(find(name)); });
  module.def("current_device", [] { return static_cast<int>(current()); });
  module.def("set_device", [](int index) {
    (void)handle(static_cast<c10::DeviceIndex>(index));
    set_current(static_cast<c10::DeviceIndex>(index));
  });
  module.def("is_initialized", &is_initialized);
  module.def("is_forked", &is_forked);
  module.def(
      "synchronize",
      [](int index) {
        check(keel_device_synchronize(handle(resolve(static_cast<c10::DeviceIndex>(index))),
                                      KEEL_TIMEOUT_DEFAULT),
              "waiting for a device");
      },
      py::arg("index") = -1, py::call_guard<py::gil_scoped_release>());
  module.def("default_generator",
             [](int index) { return default_generator(static_cast<c10::DeviceIndex>(index)); });
  module.def("empty_cache", &empty_cache, py::call_guard<py::gil_scoped_release>());
  module.def("memory_stats",
             [](int index) { return memory_stats(static_cast<c10::DeviceIndex>(index)); });
  module.def("reset_peak_memory_stats", [](int index) {
    check(keel_memory_stats_reset_peaks(handle(resolve(static_cast<c10::DeviceIndex>(index)))),
          "resetting memory statistics");
  });
  module.def("fallbacks", &fallbacks,
             "Number of calls that the CPU ran for keel devices, by operator; 'keel': those inside "
             "Keel.");
  module.def("reset_fallbacks", &reset_fallbacks, "Sets the counts of fallbacks() to 0.");
  module.def("forbid_fallback", &forbid_fallback, py::arg("forbid") = true,
             "Refuses every later fallback to the CPU with an error that names the operator.");
}

}  // namespace keel_torch::device
