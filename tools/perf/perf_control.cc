// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_control.h"

#include <algorithm>
#include <cstring>

namespace keel::cli {

PerfControl::PerfControl(Device device, uint32_t process, uint32_t processes, int64_t timeout_ns)
    : process_(process), processes_(processes), device_(device), timeout_ns_(timeout_ns) {
  if (processes == 1) return;
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = timeout_ns < 0 ? 0 : timeout_ns;
  keel_comm comm{};
  check(keel_comm_init_env(device.get(), &options, &comm));
  comm_ = PerfComm(comm);
  stream_.emplace(device);
}

template <typename Function>
void PerfControl::on_device(std::span<std::byte> send, std::span<std::byte> receive,
                            const Function& function) {
  const Buffer from(device_, KEEL_MEMORY_DEVICE, send.size());
  const Buffer to(device_, KEEL_MEMORY_DEVICE, receive.size());
  const keel_stream stream = stream_->get();
  check(keel_copy(stream, device_.get(), from.data(), KEEL_HOST, send.data(), send.size()));
  check(function(from.data(), to.data(), stream));
  check(keel_copy(stream, KEEL_HOST, receive.data(), device_.get(), to.data(), receive.size()));
  check(keel_stream_synchronize(stream, timeout_ns_));
}

double PerfControl::max(double value) {
  if (processes_ == 1) return value;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  on_device(bytes, bytes, [&](void* from, void* to, keel_stream stream) {
    return keel_all_reduce(comm_.get(), from, to, 1, KEEL_FLOAT64, KEEL_MAX, stream);
  });
  return value;
}

uint64_t PerfControl::sum(uint64_t value) {
  if (processes_ == 1) return value;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  on_device(bytes, bytes, [&](void* from, void* to, keel_stream stream) {
    return keel_all_reduce(comm_.get(), from, to, 1, KEEL_UINT64, KEEL_SUM, stream);
  });
  return value;
}

void PerfControl::broadcast(std::span<std::byte> bytes) {
  if (processes_ == 1) return;
  on_device(bytes, bytes, [&](void* from, void* to, keel_stream stream) {
    return keel_broadcast(comm_.get(), from, to, bytes.size(), KEEL_UINT8, 0, stream);
  });
}

std::vector<std::string> PerfControl::gather(const std::string& text) {
  if (processes_ == 1) return {text};
  constexpr size_t kRoom = 16384;
  std::vector<std::byte> mine(kRoom);
  std::memcpy(mine.data(), text.data(), std::min(text.size(), kRoom - 1));
  std::vector<std::byte> all(kRoom * processes_);
  on_device(mine, all, [&](void* from, void* to, keel_stream stream) {
    return keel_all_gather(comm_.get(), from, to, kRoom, KEEL_UINT8, stream);
  });
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < processes_; ++i) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + i * kRoom));
  }
  return texts;
}

}  // namespace keel::cli
