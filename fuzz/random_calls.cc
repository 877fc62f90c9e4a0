// SPDX-License-Identifier: Apache-2.0
#include "fuzz/random_calls.h"

namespace keel::fuzz {

// ---- devices --------------------------------------------------------------------

void RandomCalls::ask_device() {
  const keel_device asked = device();
  keel_device_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_DEVICE_INFO);
  check("keel_device_info_get", keel_device_info_get(asked, &info));
  keel_device_health health = {};
  health.header = header(sizeof(health), KEEL_STRUCT_DEVICE_HEALTH);
  check("keel_device_health_get", keel_device_health_get(asked, &health));
  uint64_t free = 0;
  uint64_t total = 0;
  check("keel_device_memory_info", keel_device_memory_info(asked, &free, &total));
  std::array<char, 80> name;
  check("keel_device_name", keel_device_name(asked, name.data(), bytes_->below(81)));
  const std::string wanted = text(8);
  keel_device found = {};
  check("keel_device_find", keel_device_find(wanted.c_str(), &found));
  check("keel_device_get", keel_device_get(bytes_->byte(), &found));
}

void RandomCalls::ask_backend() {
  keel_backend_info info = {};
  info.header = header(sizeof(info), KEEL_STRUCT_BACKEND_INFO);
  check("keel_backend_get", keel_backend_get(bytes_->below(8), &info));
  uint32_t count = 0;
  check("keel_backend_count", keel_backend_count(&count));
  uint64_t fallbacks = 0;
  check("keel_op_fallback_count", keel_op_fallback_count(&fallbacks));
}

void RandomCalls::load_plugin() {
  const std::string path = "/nonexistent/" + text(16);
  const std::string digest = text(70);
  uint32_t backend = 0;
  check("keel_plugin_load",
        keel_plugin_load(path.c_str(), nullptr, bytes_->one_in(2) ? nullptr : digest.c_str(),
                         &backend));
}

void RandomCalls::load_module() {
  // No shared objects from random bytes: the host would execute them.
  keel_binary_format format = bytes_->below(8);
  if (format == KEEL_BINARY_SHARED_OBJECT) format = KEEL_BINARY_SPIRV;
  const std::string binary = text(64);
  keel_module module = {};
  check("keel_module_load",
        keel_module_load(device(), format, binary.data(), binary.size(), &module));
  keel_kernel kernel = {};
  check("keel_kernel_find", keel_kernel_find(module, binary.c_str(), &kernel));
  keel_launch launch = {};
  launch.header = header(sizeof(launch), KEEL_STRUCT_LAUNCH);
  for (uint32_t& extent : launch.grid) extent = bytes_->below(3);
  for (uint32_t& extent : launch.block) extent = bytes_->below(3);
  const keel_kernel wrong = {handle(kernel.id)};
  check("keel_kernel_launch", keel_kernel_launch(stream(), wrong, &launch));
  check("keel_module_unload", keel_module_unload(module));
}

void RandomCalls::synchronize_device() {
  const keel_device target = device();
  check("keel_device_synchronize", keel_device_synchronize(target, timeout()));
}

// ---- the draw -------------------------------------------------------------------

const std::vector<RandomCalls::Weighted>& RandomCalls::table() {
  static const std::vector<Weighted> weighted = {
      {&RandomCalls::create_stream, 10},
      {&RandomCalls::destroy_stream, 1},
      {&RandomCalls::query_stream, 6},
      {&RandomCalls::synchronize_stream, 6},
      {&RandomCalls::recover_stream, 12},
      {&RandomCalls::create_event, 4},
      {&RandomCalls::destroy_event, 1},
      {&RandomCalls::record_event, 20},
      {&RandomCalls::query_event, 8},
      {&RandomCalls::wait_event, 6},
      {&RandomCalls::stream_waits_for_event, 16},
      {&RandomCalls::elapsed, 2},
      {&RandomCalls::create_gate, 3},
      {&RandomCalls::destroy_gate, 1},
      {&RandomCalls::open_gate, 6},
      {&RandomCalls::stream_waits_for_gate, 3},
      {&RandomCalls::allocate, 16},
      {&RandomCalls::free_block, 14},
      {&RandomCalls::trim, 1},
      {&RandomCalls::find_memory, 4},
      {&RandomCalls::register_host, 1},
      {&RandomCalls::memory_statistics, 2},
      {&RandomCalls::copy_host, 20},
      {&RandomCalls::copy_blocks, 20},
      {&RandomCalls::fill, 16},
      {&RandomCalls::ask_path, 1},
      {&RandomCalls::run_op, 24},
      {&RandomCalls::plan_op, 2},
      {&RandomCalls::explain_op, 1},
      {&RandomCalls::register_kernel, 1},
      {&RandomCalls::create_comm, 1},
      {&RandomCalls::end_comm, 1},
      {&RandomCalls::ask_comm, 1},
      {&RandomCalls::collective, 8},
      {&RandomCalls::ask_device, 1},
      {&RandomCalls::ask_backend, 1},
      {&RandomCalls::load_plugin, 1},
      {&RandomCalls::synchronize_device, 1},
      {&RandomCalls::load_module, 1},
  };
  return weighted;
}

void RandomCalls::run(Bytes bytes) {
  // A table of 256 entries, so that one byte draws a call by weight.
  static const std::vector<Call> drawn = [] {
    std::vector<Call> row;
    for (const Weighted& each : table()) row.insert(row.end(), each.weight, each.call);
    return row;
  }();
  bytes_ = &bytes;
  while (!bytes.empty()) (this->*drawn[bytes.below(static_cast<uint32_t>(drawn.size()))])();
  bytes_ = nullptr;
}

}  // namespace keel::fuzz
