// SPDX-License-Identifier: Apache-2.0
#include "conformance/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <keel/thread_start.hpp>
#include <mutex>
#include <thread>
#include <utility>

#include "conformance/levels.h"
#include "conformance/needed_slots.h"
#include "conformance/plugin_device.h"
#include "ops/testing/case_data.h"

namespace keel::conformance {

namespace {

// The streams of the running case. A stopped case frees host memory that copies in flight may still
// read or write, so drain() waits for these copies first.
struct LiveStreams {
  std::mutex mutex;
  std::vector<std::pair<keel_stream, int64_t>> streams;  // with the timeout of each

  void drain() {
    std::unique_lock lock(mutex);
    const auto waited = streams;
    lock.unlock();
    for (const auto& [stream, wait_ns] : waited) keel_stream_synchronize(stream, wait_ns);
  }
};

thread_local std::string t_notes;

LiveStreams& live_streams() {
  static LiveStreams& live = *new LiveStreams;
  return live;
}

}  // namespace

void fail_case(const std::string& what, Where where) {
  live_streams().drain();
  throw CaseFailure(fmt::format("{} ({})", what, where.text()));
}

void check(bool holds, const std::string& what, Where where) {
  if (!holds) fail_case(what, where);
}

void must_be(keel_status wanted, keel_status status, std::string_view what, Where where) {
  expect_status(wanted, status, what, keel_last_error, where);
}

void expect_status(keel_status wanted, keel_status status, std::string_view what,
                   const char* (*last_text)(), const Where& where) {
  status = observe_status(status, where);
  if (status == wanted) return;
  const std::string instead =
      wanted == KEEL_OK ? "" : fmt::format(" instead of {}", keel_status_name(wanted));
  const std::string text = status == KEEL_OK ? "" : observe_text(last_text(), where);
  fail_case(fmt::format("{}: {}{}{}{}", what, keel_status_name(status), instead,
                        status == KEEL_OK ? "" : ": ", text),
            where);
}

void unsupported(const std::string& reason) {
  live_streams().drain();
  throw CaseUnsupported(reason);
}

void note(const std::string& text) {
  t_notes += (t_notes.empty() ? "" : "\n") + text;
}

std::string take_notes() {
  return std::exchange(t_notes, {});
}

void run_body(const Case& each, const Context& context) {
  t_notes.clear();
  const uint64_t missing = each.capabilities & ~context.environment.info.capabilities;
  if (missing != 0) throw CaseUnsupported("not claimed: " + capability_text(missing));
  context.has(each.capabilities);  // checks the slots
  each.body(context);
}

bool Context::has(uint64_t bits) const {
  if ((environment.info.capabilities & bits) != bits) return false;
  // Called through a slot that is not there, a body would end the worker without a word.
  if (is_on_tables(id) && needs_slots(bits)) {
    const std::string absent =
        observe_text(claims_without_slots(environment.tables->plugin(), bits));
    check(absent.empty(), absent);
  }
  return true;
}

keel_status poll(const std::function<keel_status()>& query, int64_t wait_ns, Where where) {
  return observe_status(poll_unobserved(query, wait_ns), where);
}

keel_status poll_unobserved(const std::function<keel_status()>& query, int64_t wait_ns) {
  if (judging()) return KEEL_OK;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
  keel_status status = query();
  while (status == KEEL_NOT_READY && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    status = query();
  }
  return status;
}

void run_threads(uint32_t count, const std::function<void(uint32_t index)>& body) {
  if (judging()) return;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](uint32_t index) {
    try {
      body(index);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> pool;  // joins the started threads if a later one fails to start
  for (uint32_t index = 0; index < count; ++index) {
    pool.push_back(kit::start_thread<std::jthread>("keel-conform", work, index));
  }
  pool.clear();
  if (failure) std::rethrow_exception(failure);
}

// ---- objects --------------------------------------------------------------------------

namespace {

// Memory in the runner: for device memory an address that is never accessed, for host-accessible
// memory a host allocation.
void* stand_in(keel_memory_kind kind, uint64_t size) {
  constexpr uintptr_t kNowhere = 1 << 20;
  return kind == KEEL_MEMORY_DEVICE ? reinterpret_cast<void*>(kNowhere) : std::calloc(size, 1);
}

}  // namespace

Buffer::Buffer(keel_device device, keel_memory_kind kind, uint64_t size, Where where)
    : device_(device), size_(size) {
  if (judging()) {
    must(KEEL_OK, fmt::format("keel_alloc of {} bytes", size), where);
    pointer_ = static_cast<std::byte*>(stand_in(kind, size));
    stands_in_ = kind == KEEL_MEMORY_DEVICE ? nullptr : pointer_;
    check(observe(true, where), "keel_alloc gave a NULL pointer", where);
    return;
  }
  void* pointer = nullptr;
  must(keel_alloc(device, kind, size, &pointer), fmt::format("keel_alloc of {} bytes", size),
       where);
  pointer_ = static_cast<std::byte*>(pointer);
  check(observe(pointer != nullptr, where), "keel_alloc gave a NULL pointer", where);
}

Buffer::~Buffer() {
  std::free(stands_in_);
  if (pointer_ != nullptr && !judging()) keel_free(device_, pointer_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      pointer_(std::exchange(other.pointer_, nullptr)),
      stands_in_(std::exchange(other.stands_in_, nullptr)),
      size_(other.size_) {}

Stream::Stream(const Context& context, keel_device device, int32_t priority, Where where)
    : device_(device), wait_ns_(context.environment.wait_ns) {
  must(judging() ? KEEL_OK : keel_stream_create(device, priority, &stream_), "keel_stream_create",
       where);
  if (judging()) return;
  const std::lock_guard lock(live_streams().mutex);
  live_streams().streams.emplace_back(stream_, wait_ns_);
}

Stream::~Stream() {
  if (stream_.id == 0) return;
  {
    const std::lock_guard lock(live_streams().mutex);
    std::erase_if(live_streams().streams,
                  [&](const auto& entry) { return entry.first.id == stream_.id; });
  }
  keel_stream_destroy(stream_);
}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_),
      wait_ns_(other.wait_ns_),
      stream_(std::exchange(other.stream_, keel_stream{})) {}

void Stream::synchronize(Where where) const {
  must(keel_stream_synchronize(stream_, wait_ns_), "keel_stream_synchronize", where);
}

void Stream::upload(std::byte* device, std::span<const std::byte> host, Where where) const {
  must(keel_copy(stream_, device_, device, KEEL_HOST, host.data(), host.size()),
       "keel_copy host to device", where);
}

void Stream::download(std::span<std::byte> host, const std::byte* device, Where where) const {
  must(keel_copy(stream_, KEEL_HOST, host.data(), device_, device, host.size()),
       "keel_copy device to host", where);
}

void Stream::copy(std::byte* destination, const std::byte* source, uint64_t size,
                  Where where) const {
  must(keel_copy(stream_, device_, destination, device_, source, size),
       "keel_copy within the device", where);
}

void Stream::fill(std::byte* destination, uint32_t word, uint64_t size, Where where) const {
  must(keel_fill(stream_, destination, &word, sizeof(word), size), "keel_fill", where);
}

Event::Event(uint32_t flags, Where where) {
  must(judging() ? KEEL_OK : keel_event_create(flags, &event_), "keel_event_create", where);
}

void Event::record(const Stream& stream, Where where) const {
  must(keel_event_record(event_, stream.get()), "keel_event_record", where);
}

Gate::Gate(Where where) {
  must(judging() ? KEEL_OK : keel_gate_create(&gate_), "keel_gate_create", where);
}

void Gate::open(keel_status status, Where where) const {
  must(keel_gate_open(gate_, status, "opened with a failure by keel conform"), "keel_gate_open",
       where);
}

// ---- data -------------------------------------------------------------------------------

std::vector<std::byte> random_bytes(const Context& context, uint32_t tensor, uint64_t size) {
  std::vector<std::byte> bytes(size);
  const uint64_t key = ops::case_key(context.id);
  for (uint64_t offset = 0; offset < size; offset += sizeof(uint64_t)) {
    const uint64_t bits =
        ops::random_bits(context.environment.seed, key, tensor, offset / sizeof(uint64_t));
    std::memcpy(bytes.data() + offset, &bits, std::min<uint64_t>(sizeof(bits), size - offset));
  }
  return bytes;
}

void check_equal(std::span<const std::byte> got, std::span<const std::byte> wanted,
                 const std::string& what, Where where) {
  std::vector<std::byte> observed(got.begin(), got.end());
  observe_bytes(observed, where);
  compare(observed, wanted, what, where);
}

void compare(std::span<const std::byte> got, std::span<const std::byte> wanted,
             const std::string& what, Where where) {
  check(got.size() == wanted.size(), what + ": sizes differ", where);
  if (got.empty() || std::memcmp(got.data(), wanted.data(), got.size()) == 0) return;
  uint64_t first = got.size();
  uint64_t wrong = 0;
  for (uint64_t i = got.size(); i-- > 0;) {
    if (got[i] == wanted[i]) continue;
    first = i;
    ++wrong;
  }
  fail_case(fmt::format("{}: {} of {} bytes differ, first byte {}: {:#04x} instead of {:#04x}{}",
                        what, wrong, got.size(), first, std::to_integer<int>(got[first]),
                        std::to_integer<int>(wanted[first]),
                        first + 16 >= got.size() ? " (only the tail is wrong)" : ""),
            where);
}

std::vector<std::byte> words(uint32_t word, uint64_t size) {
  std::vector<std::byte> bytes(size);
  for (uint64_t offset = 0; offset < size; offset += sizeof(word)) {
    std::memcpy(bytes.data() + offset, &word, std::min<uint64_t>(sizeof(word), size - offset));
  }
  return bytes;
}

void check_filled(std::span<const std::byte> got, uint32_t word, const std::string& what,
                  Where where) {
  check_equal(got, words(word, got.size()), what, where);
}

void keep_busy(const Stream& stream, const Buffer& buffer, uint32_t word, uint32_t rounds) {
  for (uint32_t round = 1; round <= rounds; ++round) {
    stream.fill(buffer.data(), word + rounds - round, buffer.size());
  }
}

}  // namespace keel::conformance
