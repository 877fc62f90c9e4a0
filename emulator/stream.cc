// SPDX-License-Identifier: Apache-2.0
#include "emulator/stream.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace keel::emulator {

Status Stream::create(std::shared_ptr<Device> device, int priority,
                      std::unique_ptr<Stream>* out_stream) {
  Injection injection;
  Status status = device->count_call(CallKind::kStream, &injection);
  if (status.ok()) out_stream->reset(new Stream(std::move(device), priority));
  return status;
}

Stream::Stream(std::shared_ptr<Device> device, int priority)
    : device_(std::move(device)),
      state_(std::make_shared<StreamState>(priority)),
      queue_(device_->queue()) {}

Stream::~Stream() {
  queue_->withdraw(*state_);
  if (!device_->options().single_queue) queue_->stop();
}

Status Stream::push_work(CallKind kind, const Work& work, Command command) {
  Status status = device_->count_call(kind, &command.injection);
  if (!status.ok()) return status;
  command.kind = Command::Kind::kWork;
  command.stream = state_;
  command.work = work;
  queue_->push(std::move(command));
  return {};
}

Status Stream::copy_from_host(Address destination, const void* source, uint64_t size) {
  Memory& memory = device_->memory();
  if (memory.is_device_address(source, size)) {
    return {Code::kInvalidArgument, fmt::format("{} is no host address", source)};
  }
  Command command;
  command.result = destination;
  command.result_size = size;
  command.result_memory = &memory;
  if (device_->options().pageable_async || memory.is_pinned(source, size)) {
    command.kernel = [=](Access& access) {
      std::byte* to = nullptr;
      Status status = access.reach(destination, size, &to);
      if (status.ok()) std::memcpy(to, source, size);
      return status;
    };
  } else {
    const auto* const bytes = static_cast<const std::byte*>(source);
    const auto staged = std::make_shared<std::vector<std::byte>>(bytes, bytes + size);
    command.kernel = [=](Access& access) {
      std::byte* to = nullptr;
      Status status = access.reach(destination, size, &to);
      if (status.ok()) std::memcpy(to, staged->data(), size);
      return status;
    };
  }
  const Work work = {EngineKind::kHostToDevice, static_cast<double>(size)};
  return push_work(CallKind::kCopy, work, std::move(command));
}

Status Stream::copy_to_host(void* destination, Address source, uint64_t size) {
  if (device_->memory().is_device_address(destination, size)) {
    return {Code::kInvalidArgument, fmt::format("{} is no host address", destination)};
  }
  Command command;
  command.result = address_of(destination);
  command.result_size = size;
  command.kernel = [=](Access& access) {
    std::byte* from = nullptr;
    Status status = access.reach(source, size, &from);
    if (status.ok()) std::memcpy(destination, from, size);
    return status;
  };
  const Work work = {EngineKind::kDeviceToHost, static_cast<double>(size)};
  return push_work(CallKind::kCopy, work, std::move(command));
}

Status Stream::copy_within(Address destination, Address source, uint64_t size) {
  Command command;
  command.result = destination;
  command.result_size = size;
  command.result_memory = &device_->memory();
  command.kernel = [=](Access& access) {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    Status status = access.reach(source, size, &from);
    if (status.ok()) status = access.reach(destination, size, &to);
    if (status.ok()) std::memmove(to, from, size);
    return status;
  };
  // read once and written once
  const Work work = {EngineKind::kCompute, 2 * static_cast<double>(size)};
  return push_work(CallKind::kCopy, work, std::move(command));
}

Status Stream::copy_peer(Device& destination_device, Address destination, Device& source_device,
                         Address source, uint64_t size) {
  const auto to_device = destination_device.shared_from_this();
  const auto from_device = source_device.shared_from_this();
  Command command;
  command.result = destination;
  command.result_size = size;
  command.result_memory = &destination_device.memory();
  command.kernel = [=](Access&) -> Status {
    for (const auto& peer : {to_device, from_device}) {
      // The loss of a peer fails the stream, but this device continues.
      const Status alive = peer->alive();
      if (!alive.ok()) return {Code::kUnavailable, alive.text()};
    }
    Access to_access(to_device->memory());
    Access from_access(from_device->memory());
    std::byte* to = nullptr;
    std::byte* from = nullptr;
    Status status = from_access.reach(source, size, &from);
    if (status.ok()) status = to_access.reach(destination, size, &to);
    if (status.ok()) std::memmove(to, from, size);
    return status;
  };
  const Work work = {EngineKind::kPeer, static_cast<double>(size)};
  return push_work(CallKind::kCopy, work, std::move(command));
}

Status Stream::fill(Address destination, const void* pattern, uint32_t pattern_size,
                    uint64_t size) {
  std::array<std::byte, 8> value = {};
  std::memcpy(value.data(), pattern, pattern_size);
  Command command;
  command.result = destination;
  command.result_size = size;
  command.result_memory = &device_->memory();
  command.kernel = [=](Access& access) {
    std::byte* to = nullptr;
    Status status = access.reach(destination, size, &to);
    if (!status.ok()) return status;
    // Doubles the filled part: all copies except the first few are long, up to 1 MiB.
    uint64_t filled = std::min<uint64_t>(pattern_size, size);
    std::memcpy(to, value.data(), filled);
    while (filled < size) {
      const uint64_t more = std::min({filled, size - filled, uint64_t{1} << 20});
      std::memcpy(to + filled, to, more);
      filled += more;
    }
    return status;
  };
  const Work work = {EngineKind::kCompute, static_cast<double>(size)};
  return push_work(CallKind::kFill, work, std::move(command));
}

Status Stream::launch(const Work& work, const Result& result, Kernel kernel) {
  Command command;
  command.result = result.address;
  command.result_size = result.size;
  command.result_memory = &device_->memory();
  command.kernel = std::move(kernel);
  return push_work(CallKind::kOp, work, std::move(command));
}

Status Stream::launch_part(const Work& work, const Result& result, Kernel kernel,
                           const Injection& injection) {
  Status status = device_->alive();
  if (!status.ok()) return status;
  Command command;
  command.kind = Command::Kind::kWork;
  command.stream = state_;
  command.injection = injection;
  command.work = work;
  command.kernel = std::move(kernel);
  command.result = result.address;
  command.result_size = result.size;
  command.result_memory = &device_->memory();
  queue_->push(std::move(command));
  return {};
}

Status Stream::record(std::shared_ptr<Completion> completion) {
  Command command;
  Status status = device_->count_call(CallKind::kRecord, &command.injection);
  if (!status.ok()) return status;
  command.kind = Command::Kind::kRecord;
  command.stream = state_;
  command.completion = std::move(completion);
  queue_->push(std::move(command));
  return {};
}

Status Stream::wait(std::shared_ptr<Completion> completion) {
  Status status = device_->alive();
  if (!status.ok()) return status;
  Command command;
  command.kind = Command::Kind::kWait;
  command.stream = state_;
  command.completion = std::move(completion);
  queue_->push(std::move(command));
  return {};
}

Status Stream::query() const {
  Status status = device_->alive();
  return status.ok() ? state_->query() : status;
}

Status Stream::synchronize(Time deadline) const {
  // Work on a lost device ends at once, so the wait is short then, too.
  Status status = state_->synchronize(deadline);
  if (status.code() == Code::kTimedOut) return status;
  Status alive = device_->alive();
  return alive.ok() ? status : alive;
}

}  // namespace keel::emulator
