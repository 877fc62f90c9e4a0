// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace keel_python {
namespace {

constexpr int kDLExtDev = 12;

std::string backend_of(const Device& device) {
  const std::string name = device.name();
  return name.substr(0, name.rfind(':'));
}

const char* type_name(keel_device_type type) {
  switch (type) {
    case KEEL_DEVICE_CPU:
      return "cpu";
    case KEEL_DEVICE_GPU:
      return "gpu";
    case KEEL_DEVICE_NPU:
      return "npu";
    default:
      return "other";
  }
}

// Returns abi.h's capability names, in the order of their bits.
std::vector<std::string> capability_names(uint64_t capabilities) {
  static constexpr const char* kNames[] = {
      "pinned",  "managed", "host_register", "host_alias",  "export",      "peer_copy",
      "async",   "timing",  "notify",        "priority",    "native_gate", "stream_alloc",
      "kernels", "ops",     "ccl",           "memory_info", "fill",        "pageable_async"};
  std::vector<std::string> names;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if ((capabilities >> bit & 1u) == 0) continue;
    names.push_back(bit < std::size(kNames) ? kNames[bit] : "bit_" + std::to_string(bit));
  }
  return names;
}

nb::dict info_of(const Device& device) {
  const keel_device_info info = device.info();
  nb::dict out;
  out["description"] = info.name;
  out["type"] = type_name(info.type);
  out["architecture"] = info.architecture;
  out["driver"] = info.driver;
  out["pci_address"] = info.pci_address;
  out["numa_node"] = info.numa_node;
  out["memory_bytes"] = info.memory_bytes;
  out["max_alloc_bytes"] = info.max_alloc_bytes;
  out["alignment"] = info.alignment;
  out["compute_units"] = info.compute_units;
  out["hardware_queues"] = info.hardware_queues;
  out["capabilities"] = capability_names(info.capabilities);
  return out;
}

nb::object health_of(const Device& device) {
  const auto health = device.health();
  if (!health) return nb::none();
  nb::dict out;
  out["ok"] = health->ok != 0;
  out["throttled"] = health->throttled != 0;
  out["corrected_ecc"] = health->corrected_ecc;
  out["uncorrected_ecc"] = health->uncorrected_ecc;
  out["text"] = health->text;
  return out;
}

nb::dict memory_stats_of(const Device& device) {
  const keel_memory_stats stats = device.memory_stats();
  nb::dict out;
  out["allocated"] = stats.allocated;
  out["allocated_peak"] = stats.allocated_peak;
  out["reserved"] = stats.reserved;
  out["reserved_peak"] = stats.reserved_peak;
  out["requested"] = stats.requested;
  out["live_blocks"] = stats.live_blocks;
  out["allocations"] = stats.allocations;
  out["cache_hits"] = stats.cache_hits;
  out["out_of_memory"] = stats.out_of_memory;
  return out;
}

std::vector<nb::dict> backends() {
  start();
  std::vector<nb::dict> all;
  for (const keel_backend_info& backend : keel::backends()) {
    nb::dict out;
    out["name"] = backend.name;
    out["vendor"] = backend.vendor;
    out["version"] = backend.version;
    out["path"] = backend.path;
    out["device_count"] = backend.device_count;
    out["status"] = keel_status_name(backend.status);
    out["reason"] = backend.reason;
    all.push_back(out);
  }
  return all;
}

}  // namespace

Device device_of(nb::handle given) {
  if (nb::isinstance<Device>(given)) return nb::cast<Device>(given);
  if (!nb::isinstance<nb::str>(given))
    throw nb::type_error("the device is no keel.Device and no name");
  start();
  return Device::find(nb::cast<std::string>(given));
}

nb::dlpack::device dlpack_device(const Device& device) {
  const std::string name = device.name();
  const size_t colon = name.rfind(':');
  const std::string backend = name.substr(0, std::min(name.find('#'), colon));
  const int ordinal = std::stoi(name.substr(colon + 1));
  if (backend == "cpu") return {nb::device::cpu::value, 0};
  if (backend == "vulkan") return {nb::device::vulkan::value, ordinal};
  if (backend == "cuda") return {nb::device::cuda::value, ordinal};
  if (backend == "hip") return {nb::device::rocm::value, ordinal};
  return {kDLExtDev, ordinal};
}

Device device_of_dlpack(int type, int ordinal) {
  const std::string number = ":" + std::to_string(ordinal);
  switch (type) {
    case nb::device::cpu::value:
      return Device::find("cpu");
    case nb::device::vulkan::value:
      return Device::find("vulkan" + number);
    case nb::device::cuda::value:
      return Device::find("cuda" + number);
    case nb::device::rocm::value:
      return Device::find("hip" + number);
    default:
      throw keel::Error(KEEL_UNSUPPORTED, "from_dlpack: no device for DLPack's device (" +
                                              std::to_string(type) + ", " +
                                              std::to_string(ordinal) + "); pass device=");
  }
}

void add_device(nb::module_& module) {
  nb::class_<Device>(module, "Device",
                     "A device of the machine, by name: \"cpu:0\", \"vulkan:1\", or \"vulkan\" for "
                     "the first of that backend.\n\nA function that takes a Device takes the name "
                     "too.")
      .def(
          "__init__",
          [](Device* self, const std::string& name) {
            start();
            new (self) Device(Device::find(name));
          },
          "name"_a)
      .def_prop_ro("name", &Device::name, "\"backend:ordinal\"")
      .def_prop_ro("backend", &backend_of, "Name of the plugin, \"vulkan\"")
      .def_prop_ro("chip", &Device::chip,
                   "Number of the physical chip, which devices of two backends may share")
      .def("info", &info_of,
           "Fixed properties: description, type, architecture, driver, pci_address, numa_node, "
           "memory_bytes, max_alloc_bytes, alignment, compute_units, hardware_queues, "
           "capabilities",
           nb::sig("def info(self) -> dict[str, typing.Any]"))
      .def("health", &health_of,
           "ok, throttled, corrected_ecc, uncorrected_ecc, text; None where the plugin cannot tell",
           nb::sig("def health(self) -> dict[str, typing.Any] | None"))
      .def(
          "memory_use",
          [](const Device& device) -> std::optional<std::pair<uint64_t, uint64_t>> {
            const auto use = device.memory_use();
            if (!use) return std::nullopt;
            return std::pair(use->free, use->total);
          },
          "Free and total device memory in bytes; None where the plugin cannot tell")
      .def("memory_stats", &memory_stats_of,
           "Counters of Keel's allocator; bytes, and numbers of blocks and calls",
           nb::sig("def memory_stats(self) -> dict[str, int]"))
      .def("trim_memory", &Device::trim_memory, nb::call_guard<nb::gil_scoped_release>(),
           "Returns free, idle memory that Keel caches to the device")
      .def(
          "synchronize",
          [](const Device& device, std::optional<double> timeout) {
            const int64_t limit = nanoseconds(timeout);
            const nb::gil_scoped_release released;
            keel::check(keel_device_synchronize(device.get(), limit));
          },
          "timeout"_a = nb::none(),
          "Waits for all streams of the device, |timeout| seconds or the default deadline")
      .def("__eq__", [](const Device& a, const Device& b) { return a == b; })
      .def(
          "__eq__", [](const Device&, nb::handle) { return false; }, "other"_a.none())
      .def("__hash__", [](const Device& device) { return std::hash<uint64_t>()(device.get().id); })
      .def("__str__", &Device::name)
      .def("__repr__", [](const Device& device) { return "keel.Device('" + device.name() + "')"; });

  module.def(
      "devices",
      [] {
        start();
        const nb::gil_scoped_release released;  // opening a device takes long
        return Device::all();
      },
      "All devices of the machine, opened.");
  module.def("backends", &backends,
             "Every plugin, with those that failed to load: name, vendor, version, path, "
             "device_count, status, reason.",
             nb::sig("def backends() -> list[dict[str, typing.Any]]"));
}

}  // namespace keel_python
