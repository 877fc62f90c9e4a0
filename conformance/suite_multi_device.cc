// SPDX-License-Identifier: Apache-2.0
// Level multi_device: the device under test together with every other loaded device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <mutex>

#include "conformance/harness.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Converts "cpu#2:0" to a part of an id.
std::string id_part(const NamedDevice& device) {
  std::string part = device.name;
  std::replace(part.begin(), part.end(), ':', '_');
  std::replace(part.begin(), part.end(), '#', '_');
  return part;
}

std::string route(const NamedDevice& to, const NamedDevice& from) {
  keel_copy_path path = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  must(keel_copy_path_get(to.handle, from.handle, &path), "keel_copy_path_get");
  return observe_text(path.text);
}

void copy_on(const Context& context, const NamedDevice& to, const NamedDevice& from,
             const NamedDevice& streams_device, uint64_t size) {
  constexpr uint64_t kToOffset = 3;
  constexpr uint64_t kFromOffset = 1;
  const Stream source_stream(context, from.handle);
  const Stream stream(context, streams_device.handle);
  const Stream destination_stream(context, to.handle);
  const Buffer source(from.handle, KEEL_MEMORY_DEVICE, size + kFromOffset);
  const Buffer destination(to.handle, KEEL_MEMORY_DEVICE, size + 64);
  const std::vector<std::byte> sent = random_bytes(context, 0, source.size());
  std::vector<std::byte> wanted(destination.size(), kRedZone);
  std::vector<std::byte> received(destination.size());
  const Event ready;
  const Event cleared;
  const Event done;
  source_stream.upload(source.data(), sent);
  ready.record(source_stream);
  destination_stream.upload(destination.data(), wanted);
  cleared.record(destination_stream);
  must(keel_stream_wait_event(stream.get(), ready.get()), "keel_stream_wait_event");
  must(keel_stream_wait_event(stream.get(), cleared.get()), "keel_stream_wait_event");
  must(keel_copy(stream.get(), to.handle, destination.at(kToOffset), from.handle,
                 source.at(kFromOffset), size),
       "keel_copy between devices");
  done.record(stream);
  must(keel_stream_wait_event(destination_stream.get(), done.get()), "keel_stream_wait_event");
  destination_stream.download(received, destination.data());
  destination_stream.synchronize();
  std::copy_n(sent.begin() + kFromOffset, size, wanted.begin() + kToOffset);
  check_equal(received, wanted,
              fmt::format("{}, on a stream of {}", route(to, from), streams_device.name));
}

void copy_between(const Context& context, const NamedDevice& to, const NamedDevice& from,
                  uint64_t size) {
  copy_on(context, to, from, /*streams_device=*/to, size);
  copy_on(context, to, from, /*streams_device=*/from, size);
}

// A stream of one device waits for slow work of another device. Keel transfers the event by
// event_notify.
void event_between(const Context& context, const NamedDevice& to, const NamedDevice& from) {
  constexpr uint64_t kBytes = 8 * kMiB;
  constexpr uint32_t kWord = 0x5eed0002;
  const Stream first(context, from.handle);
  const Stream second(context, to.handle);
  const Buffer source(from.handle, KEEL_MEMORY_DEVICE, kBytes);
  const Buffer destination(to.handle, KEEL_MEMORY_DEVICE, kBytes);
  std::vector<std::byte> received(kBytes);
  const Event written;
  keep_busy(first, source, kWord, /*rounds=*/12);
  written.record(first);
  must(keel_stream_wait_event(second.get(), written.get()), "keel_stream_wait_event");
  must(keel_copy(second.get(), to.handle, destination.data(), from.handle, source.data(), kBytes),
       "keel_copy between devices");
  second.download(received, destination.data());
  second.synchronize();
  check_filled(received, kWord, fmt::format("{} behind an event of {}", to.name, from.name));
}

// Writes to one device's memory must not appear in the other device's memory, even at equal
// addresses.
void memory_is_separate(const Context& context, const NamedDevice& other) {
  constexpr uint64_t kBytes = 700'000;
  constexpr uint32_t kBuffers = 4;
  const Stream streams[2] = {Stream(context), Stream(context, other.handle)};
  std::vector<Buffer> buffers[2];
  for (uint32_t i = 0; i < kBuffers; ++i) {
    buffers[0].emplace_back(context.device(), KEEL_MEMORY_DEVICE, kBytes);
    buffers[1].emplace_back(other.handle, KEEL_MEMORY_DEVICE, kBytes);
  }
  for (uint32_t side = 0; side < 2; ++side) {
    for (uint32_t i = 0; i < kBuffers; ++i) {
      streams[side].fill(buffers[side][i].data(), side << 16 | i, kBytes);
    }
    streams[side].synchronize();
  }
  std::vector<std::byte> received(kBytes);
  for (uint32_t side = 0; side < 2; ++side) {
    for (uint32_t i = 0; i < kBuffers; ++i) {
      streams[side].download(received, buffers[side][i].data());
      streams[side].synchronize();
      check_filled(received, side << 16 | i,
                   fmt::format("buffer {} of {}", i, side == 0 ? "the device" : other.name));
    }
  }
}

// The errors that Keel logs between begin() and end(). Leaked, because a late call of a plugin may
// arrive after the case.
class ErrorLog {
 public:
  static ErrorLog& get() {
    static ErrorLog& instance = *new ErrorLog;
    return instance;
  }
  void begin() {
    const std::lock_guard lock(mutex_);
    text_.clear();
    keel_set_log(KEEL_LOG_ERROR, &ErrorLog::add, this);
  }
  std::string end() {
    keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr);
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  static void add(void* self, keel_log_level, const char* text) {
    ErrorLog& log = *static_cast<ErrorLog*>(self);
    const std::lock_guard lock(log.mutex_);
    if (log.text_.size() < 400) log.text_ += (log.text_.empty() ? "" : "\n") + std::string(text);
  }

  std::mutex mutex_;
  std::string text_;
};

// Each event must notify exactly once; Keel logs an error for a second call.
void notified_once(const Context& context, const NamedDevice& other) {
  constexpr uint64_t kBytes = kMiB;
  const Stream first(context);
  const Stream second(context, other.handle);
  const Buffer memory(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const Event written;
  if (!judging()) ErrorLog::get().begin();
  for (uint32_t round = 0; round < 40; ++round) {
    keep_busy(first, memory, round, /*rounds=*/2);
    written.record(first);
    must(keel_stream_wait_event(second.get(), written.get()), "keel_stream_wait_event");
    if (round % 4 == 3) second.synchronize();
  }
  first.synchronize();
  second.synchronize();
  const std::string errors = observe_text(judging() ? "" : ErrorLog::get().end());
  check(errors.empty(), errors);
}

// An event must transfer a failure to a stream of the other device.
void failure_between(const Context& context, const NamedDevice& to, const NamedDevice& from) {
  const Stream first(context, from.handle);
  const Stream second(context, to.handle);
  const Gate gate;
  const Event event;
  must(keel_stream_wait_gate(first.get(), gate.get()), "keel_stream_wait_gate");
  event.record(first);
  must(keel_stream_wait_event(second.get(), event.get()), "keel_stream_wait_event");
  gate.open(KEEL_DATA_LOSS);
  const int64_t wait_ns = context.environment.wait_ns;
  must_be(KEEL_DATA_LOSS, keel_stream_synchronize(second.get(), wait_ns),
          "a stream behind the failed one");
  must(keel_stream_recover(second.get(), wait_ns), "keel_stream_recover");
  must(keel_stream_recover(first.get(), wait_ns), "keel_stream_recover");
  second.synchronize();
}

// Communicator handles, one per rank.
class Ranks {
 public:
  explicit Ranks(const std::vector<NamedDevice>& devices) : comms_(devices.size()) {
    std::vector<keel_device> handles;
    for (const NamedDevice& device : devices) handles.push_back(device.handle);
    must(keel_comm_init_all(handles.data(), static_cast<uint32_t>(handles.size()), nullptr,
                            comms_.data()),
         "keel_comm_init_all");
  }
  ~Ranks() {
    for (const keel_comm comm : comms_) keel_comm_destroy(comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  keel_comm operator[](size_t rank) const { return comms_[rank]; }

 private:
  std::vector<keel_comm> comms_;
};

double element(const std::vector<std::byte>& bytes, keel_dtype dtype, uint64_t index) {
  if (dtype == KEEL_FLOAT32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  bfloat16_t value{};
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return to_float(value);
}

// Small numbers divided by 3, different on each rank.
std::vector<std::byte> rank_values(const Context& context, uint32_t rank, keel_dtype dtype,
                                   uint64_t count) {
  const std::vector<std::byte> random = random_bytes(context, rank, count);
  std::vector<std::byte> bytes(count * (dtype == KEEL_FLOAT32 ? 4 : 2));
  for (uint64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(std::to_integer<int>(random[i]) - 128) / 3.0F;
    if (dtype == KEEL_FLOAT32) {
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      const bfloat16_t rounded = to_bfloat16(value);
      std::memcpy(bytes.data() + i * 2, &rounded, 2);
    }
  }
  return bytes;
}

// All ranks must hold the same bits, equal to the sum: rounded once for bfloat16, after each
// addition for float32.
void all_reduce(const Context& context, const std::vector<NamedDevice>& devices, keel_dtype dtype,
                uint64_t count) {
  const Ranks ranks(devices);
  const auto world = static_cast<uint32_t>(devices.size());
  std::vector<Stream> streams;
  std::vector<Buffer> sends;
  std::vector<Buffer> receives;
  std::vector<std::vector<std::byte>> values;
  for (uint32_t rank = 0; rank < world; ++rank) {
    values.push_back(rank_values(context, rank, dtype, count));
    streams.emplace_back(context, devices[rank].handle);
    sends.emplace_back(devices[rank].handle, KEEL_MEMORY_DEVICE, values[rank].size());
    receives.emplace_back(devices[rank].handle, KEEL_MEMORY_DEVICE, values[rank].size());
    streams[rank].upload(sends[rank].data(), values[rank]);
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    must(keel_all_reduce(ranks[rank], sends[rank].data(), receives[rank].data(), count, dtype,
                         KEEL_SUM, streams[rank].get()),
         fmt::format("keel_all_reduce on rank {}", rank));
  }
  std::vector<std::vector<std::byte>> results(world, std::vector<std::byte>(values.front().size()));
  for (uint32_t rank = 0; rank < world; ++rank) {
    streams[rank].download(results[rank], receives[rank].data());
  }
  for (const Stream& stream : streams) stream.synchronize();
  for (std::vector<std::byte>& result : results) observe_bytes(result);
  for (uint32_t rank = 1; rank < world; ++rank) {
    compare(results[rank], results[0],
            fmt::format("{} against {}", devices[rank].name, devices[0].name));
  }
  const double relative = dtype == KEEL_FLOAT32 ? 0x1p-22 : 0x1p-8;
  for (uint64_t i = 0; i < count; ++i) {
    double sum = 0;
    double magnitude = 0;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const double value = element(values[rank], dtype, i);
      sum += value;
      magnitude += std::abs(value);
    }
    const double got = element(results[0], dtype, i);
    check(std::abs(got - sum) <= relative * magnitude,
          fmt::format("element {} of {}: {} instead of {}", i, count, got, sum));
  }
}

}  // namespace

void add_multi_device_cases(const Environment& environment, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body, bool full = false) {
    cases->push_back({"multi_device/" + std::move(id), 0, full, std::move(body)});
  };
  const NamedDevice own{environment.target.device, environment.device};
  std::vector<NamedDevice> others = environment.backend_devices;
  others.insert(others.end(), environment.foreign_devices.begin(),
                environment.foreign_devices.end());
  if (others.empty()) {
    add("two_devices", [](const Context&) { unsupported("needs two devices"); });
    return;
  }
  std::vector<std::pair<NamedDevice, NamedDevice>> pairs;
  std::vector<NamedDevice> backend = environment.backend_devices;
  backend.insert(backend.begin(), own);
  for (size_t i = 0; i < backend.size(); ++i) {
    for (size_t j = i + 1; j < backend.size(); ++j) pairs.emplace_back(backend[i], backend[j]);
    for (const NamedDevice& foreign : environment.foreign_devices) {
      pairs.emplace_back(backend[i], foreign);
    }
  }
  const auto add_direction = [&](const NamedDevice& to, const NamedDevice& from) {
    const std::string name = id_part(from) + "_to_" + id_part(to);
    for (const uint64_t size : {uint64_t{1}, uint64_t{65537}, 4 * kMiB + 1, 33 * kMiB + 7}) {
      add(fmt::format("copy/{}/{}", name, size),
          [to, from, size](const Context& c) { copy_between(c, to, from, size); });
    }
    add(fmt::format("event/{}", name),
        [to, from](const Context& c) { event_between(c, to, from); });
    add(fmt::format("failure/{}", name),
        [to, from](const Context& c) { failure_between(c, to, from); });
  };
  const auto add_all_reduce = [&](const std::string& name, const std::vector<NamedDevice>& ranks) {
    for (const uint64_t count : {1ULL, 1009ULL, 1ULL << 20}) {
      add(fmt::format("all_reduce/{}/f32/{}", name, count),
          [ranks, count](const Context& c) { all_reduce(c, ranks, KEEL_FLOAT32, count); });
      add(fmt::format("all_reduce/{}/bf16/{}", name, count),
          [ranks, count](const Context& c) { all_reduce(c, ranks, KEEL_BFLOAT16, count); });
    }
  };
  for (const NamedDevice& other : others) {
    add("memory/" + id_part(other), [other](const Context& c) { memory_is_separate(c, other); });
    cases->push_back({"multi_device/notify/" + id_part(other), KEEL_CAPABILITY_NOTIFY, false,
                      [other](const Context& c) { notified_once(c, other); }});
  }
  for (const auto& [a, b] : pairs) {
    add_direction(a, b);
    add_direction(b, a);
    add_all_reduce(id_part(a) + "_" + id_part(b), {a, b});
  }
  if (others.size() > 1) {
    others.insert(others.begin(), own);
    add_all_reduce("all", others);
  }
}

}  // namespace keel::conformance
