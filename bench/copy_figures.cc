// SPDX-License-Identifier: Apache-2.0
// Figures of copies between two backends that are only connected through staging buffers.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

namespace {

constexpr uint64_t kBytes = 256 << 20;

// PCIe 3.0 x4, so that the emulated chip's link is the slower one on most machines, and the copy's
// overhead is visible.
constexpr char kProfile[] = R"({
  "name": "bench", "memory_gb_per_s": 200, "launch_latency_us": 5,
  "copy_gb_per_s": {"host_to_device": 3, "device_to_host": 3, "peer": 10},
  "tflops": {"float32": 1}
})";

// Loads an instance of `sim` paced to kProfile; on failure |*out_why| is the reason.
std::optional<Device> paced_chip(std::string* out_why) {
  for (const keel_backend_info& backend : backends()) {
    if (std::string(backend.name) != "sim") continue;
    char file[] = "/tmp/keel-profile-XXXXXX";
    const int descriptor = mkstemp(file);
    if (descriptor < 0) throw std::runtime_error("no file can be made in /tmp");
    close(descriptor);
    std::ofstream(file) << kProfile;
    const char* key = "profile";
    const char* value = file;
    auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    settings.count = 1;
    settings.keys = &key;
    settings.values = &value;
    uint32_t index = 0;
    const keel_status loaded = keel_plugin_load(backend.path, &settings, nullptr, &index);
    unlink(file);
    check(loaded);
    return Device::find(backends().at(index).name);
  }
  *out_why = "there is no backend sim";
  return std::nullopt;
}

// Device memory, and pinned memory of the same size for the half-way copies alone.
struct Side {
  explicit Side(Device of)
      : device(of),
        stream(of),
        memory(of, KEEL_MEMORY_DEVICE, kBytes),
        host(of, KEEL_MEMORY_PINNED, kBytes) {
    stream.fill(memory, 1.0f);
    stream.copy(host, memory);  // touches the pages before timing
    stream.synchronize();
  }
  Device device;
  Stream stream;
  Buffer memory;
  Buffer host;
};

// Times a copy from |from| to |to| on the destination's stream, against each half of the way alone.
Figure cross_copy(const std::string& name, Side& from, Side& to, const Setup& setup) {
  const std::string out_name = fmt::format("{} to pinned memory", from.device.name());
  const std::string in_name = fmt::format("pinned memory to {}", to.device.name());
  const Contender contenders[] = {
      {"Keel", kBytes,
       [&] {
         to.stream.copy(to.memory, from.memory);
         to.stream.synchronize();
       }},
      {out_name, kBytes,
       [&] {
         from.stream.copy(from.host, from.memory);
         from.stream.synchronize();
       }},
      {in_name, kBytes,
       [&] {
         to.stream.copy(to.memory, to.host);
         to.stream.synchronize();
       }},
  };
  keel_copy_path path = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  check(keel_copy_path_get(to.device.get(), from.device.get(), &path));
  Figure figure;
  figure.name = name;
  figure.about =
      fmt::format("copy of 256 MiB ({}), against the slower of its two steps alone.", path.text);
  figure.unit = Unit::kGigabytes;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  const bool out_is_slower =
      median(figure.find(out_name).seconds) > median(figure.find(in_name).seconds);
  figure.peer = out_is_slower ? out_name : in_name;
  figure.limit = figure.peer;
  figure.target = Target{0.9};
  return figure;
}

}  // namespace

std::vector<Figure> core_cross_copy(Setup& setup) {
  const std::string name = "core_cross_copy";
  if (!setup.vulkan) return {Figure::skip(name, setup.no_vulkan)};
  std::string why;
  const std::optional<Device> chip = paced_chip(&why);
  if (!chip) return {Figure::skip(name, why)};
  Side sim(*chip);
  Side vulkan(*setup.vulkan);
  return {cross_copy(name + "/to_vulkan", sim, vulkan, setup),
          cross_copy(name + "/to_sim", vulkan, sim, setup)};
}

}  // namespace keel::bench
