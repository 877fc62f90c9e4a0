// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/instance.h"

#include <hwy/highway.h>
#include <keel/fork_settings.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <keel/plugin_kit.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "backends/cpu/gemm/gemm_bf16.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/runtime/fork_memory.h"

namespace keel::cpu {
namespace {

constexpr uint32_t kMaxDevices = 64;
constexpr uint32_t kMaxCores = 1024;

// The versions of Highway and oneDNN, reported as the driver.
std::string libraries() {
  const std::string highway = "Highway " + std::to_string(HWY_MAJOR) + "." +
                              std::to_string(HWY_MINOR) + "." + std::to_string(HWY_PATCH);
  const std::string_view bf16 = gemm::bf16_library();
  return bf16.empty() ? highway : highway + ", " + std::string(bf16);
}

keel_status parse(const char* name, std::string_view text, uint32_t least, uint32_t limit,
                  uint32_t* out_value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *out_value);
  if (error == std::errc() && rest == end && *out_value >= least && *out_value <= limit) {
    return KEEL_OK;
  }
  return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: %s is '%.*s', not a number from %u to %u", name,
                   static_cast<int>(std::min<size_t>(text.size(), 64)), text.data(), least, limit);
}

uint64_t physical_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// 0 on a machine with one node; the devices of a machine with several nodes are not bound to a
// node.
int numa_node() {
  return access("/sys/devices/system/node/node0", F_OK) == 0 &&
                 access("/sys/devices/system/node/node1", F_OK) != 0
             ? 0
             : -1;
}

}  // namespace

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  uint32_t devices = 1;
  uint32_t cores = 0;
  uint32_t register_huge_pages = 0;
  uint32_t conformance = 0;
  struct Setting {
    std::string_view key;
    const char* variable;  // NULL: none
    uint32_t least;
    uint32_t limit;
    uint32_t* value;
  };
  const Setting known[] = {
      {"devices", "KEEL_CPU_DEVICES", 1, kMaxDevices, &devices},
      {"cores", "KEEL_CPU_CORES", 1, kMaxCores, &cores},
      {"register_huge_pages", "KEEL_CPU_REGISTER_HUGE_PAGES", 0, 1, &register_huge_pages},
      {"conformance", nullptr, 1, 1, &conformance}};

  for (const Setting& setting : known) {
    if (setting.variable == nullptr) continue;
    const char* const text = secure_getenv(setting.variable);
    if (text == nullptr || *text == '\0') continue;
    const keel_status status =
        parse(setting.variable, text, setting.least, setting.limit, setting.value);
    if (status != KEEL_OK) return status;
  }
  for (uint32_t i = 0; settings != nullptr && i < settings->count; ++i) {
    const auto setting =
        std::find_if(std::begin(known), std::end(known),
                     [&](const Setting& candidate) { return candidate.key == settings->keys[i]; });
    if (setting == std::end(known)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: setting '%s' is not known", settings->keys[i]);
    }
    const keel_status status = parse(settings->keys[i], settings->values[i], setting->least,
                                     setting->limit, setting->value);
    if (status != KEEL_OK) return status;
  }

  for (auto* link = settings == nullptr ? nullptr
                                        : static_cast<const keel_header*>(settings->header.next);
       link != nullptr; link = static_cast<const keel_header*>(link->next)) {
    if (link->type != KEEL_STRUCT_FORK_SETTINGS || link->size < sizeof(keel_fork_settings))
      continue;
    const uint32_t choice = reinterpret_cast<const keel_fork_settings*>(link)->fork_memory;
    if (choice > static_cast<uint32_t>(ForkMemory::kShared)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: fork_memory is %u", choice);
    }
    set_fork_memory(static_cast<ForkMemory>(choice));
  }

  const char* const guard = secure_getenv("KEEL_CPU_GUARD");
  std::unique_ptr<Instance> instance(new Instance);
  instance->devices_ = devices;
  instance->cores_ = cores != 0 ? cores : std::max(1u, usable_cores() / devices);
  instance->memory_bytes_ = physical_memory() / devices;
  instance->guarded_ = guard != nullptr && std::string_view(guard) == "1";
  instance->register_huge_pages_ = register_huge_pages == 1;
  instance->conformance_ = conformance == 1;
  *out_instance = std::move(instance);
  return KEEL_OK;
}

void Instance::describe(keel_device_info* out_info) const {
  kit::copy_text(out_info->name, processor_name().c_str());
  kit::copy_text(out_info->architecture, kernels::architecture());
  kit::copy_text(out_info->pci_address, "");
  kit::copy_text(out_info->driver, libraries().c_str());
  std::fill(std::begin(out_info->uuid), std::end(out_info->uuid), uint8_t{0});
  out_info->type = KEEL_DEVICE_CPU;
  out_info->numa_node = numa_node();
  out_info->capabilities =
      KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_MANAGED | KEEL_CAPABILITY_HOST_REGISTER |
      KEEL_CAPABILITY_EXPORT | KEEL_CAPABILITY_PEER_COPY | KEEL_CAPABILITY_ASYNC |
      KEEL_CAPABILITY_TIMING | KEEL_CAPABILITY_NOTIFY | KEEL_CAPABILITY_KERNELS |
      KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_MEMORY_INFO | KEEL_CAPABILITY_FILL |
      KEEL_CAPABILITY_PAGEABLE_ASYNC;
  if (!guarded_) out_info->capabilities |= KEEL_CAPABILITY_HOST_ALIAS;
  out_info->memory_bytes = memory_bytes_;
  out_info->max_alloc_bytes = 0;
  out_info->alignment = ArenaPool::kAlignment;
  out_info->compute_units = cores_;
  out_info->hardware_queues = 0;
  out_info->copy_alignment = ArenaPool::kAlignment;
}

std::unique_ptr<Device> Instance::open() const {
  return std::make_unique<Device>(static_cast<int>(cores_), memory_bytes_, guarded_, conformance_,
                                  register_huge_pages_);
}

}  // namespace keel::cpu
