// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_bench.h"

#include <fmt/format.h>

#include <chrono>
#include <keel/thread_start.hpp>
#include <utility>

namespace keel::conformance {

namespace {

// Work for devices that cannot be held: fills of 16 MiB, 2 ms each at 8 GB/s. A device with an
// eighth of a second of them done gets larger ones, since its queue takes no more: at 2.5 TB/s 512
// fills of 16 MiB last 3 ms, and of 1 GiB 220 ms.
constexpr uint64_t kBusyBytes = 16 << 20;
constexpr uint64_t kMostBusyBytes = 1 << 30;
constexpr uint32_t kFirstRounds = 4;
constexpr uint32_t kMostRounds = 512;
constexpr int64_t kLongNs = 125'000'000;
// Fills of occupy() where no stream can be held.
constexpr uint32_t kOccupiedRounds = 16;

}  // namespace

// Holds a stream. After |limit_ns| a thread releases the stream, so that a call that wrongly waits
// for the device returns and the case reports the call.
class TableBench::Hold {
 public:
  Hold(std::function<void()> let_go, int64_t limit_ns) : let_go_(std::move(let_go)) {
    if (judging()) return;
    thread_ = kit::start_thread<std::thread>("keel-hold", [this, limit_ns] { run(limit_ns); });
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Releases the stream; returns false if the thread had already released it.
  bool release() {
    if (!thread_.joinable()) return true;
    {
      const std::lock_guard lock(mutex_);
      released_ = true;
    }
    changed_.notify_one();
    thread_.join();
    return in_time_;
  }

 private:
  void run(int64_t limit_ns) {
    {
      std::unique_lock lock(mutex_);
      in_time_ =
          changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [this] { return released_; });
    }
    let_go_();
  }

  const std::function<void()> let_go_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  bool in_time_ = true;
  std::thread thread_;
};

namespace {

// Builds an environment for the device that |context| has open. If the plugin has a test table, the
// environment owns a second opening of the device.
Environment environment_of(const Context& context, const Where& where) {
  const Environment& given = context.environment;
  Environment own;
  own.target = given.target;
  own.emulated = given.emulated;
  own.seed = given.seed;
  own.wait_ns = given.wait_ns;
  own.info = given.info;
  const PluginDevice& open = *given.tables;
  if (!observe(open.test_table() != nullptr, where)) return own;
  std::string error;
  own.tables = judging() ? PluginDevice::stand_in(given.info) : open.open_for_tests(&error);
  if (!observe(own.tables != nullptr, where)) {
    fail_case(
        "the device with the setting conformance=1, which a plugin with a test table takes: " +
            observe_text(error, where),
        where);
  }
  return own;
}

}  // namespace

TableBench::TableBench(const Context& context, uint32_t streams, Where where)
    : own_(environment_of(context, where)),
      context_(own_.tables == nullptr ? context : Context{own_, context.id}) {
  if (own_.tables != nullptr) {
    tests_ = own_.tables->test_table();
    check(observe(KEEL_HAS(keel_test_table, tests_, fail_work) &&
                      KEEL_HAS(keel_test_table, tests_, hold) &&
                      KEEL_HAS(keel_test_table, tests_, release),
                  where),
          "a test table without fail_work, hold and release", where);
  }
  by_gate_ = has(KEEL_CAPABILITY_NATIVE_GATE);
  for (uint32_t i = 0; i < streams; ++i) streams_.emplace_back(context_, where);
  front_ = event();
  if (!can_hold()) busy_ = memory(busy_bytes_ = kBusyBytes);
}

TableBench::~TableBench() {
  occupied_.reset();
  const bool ended = settle_unobserved();
  streams_.clear();
  for (keel_plugin_gate* const gate : gates_) table().gate_destroy(gate);
  if (ended) return;
  static_cast<void>(own_.tables.release());
}

std::byte* TableBench::memory(uint64_t size, keel_memory_kind kind) {
  return buffers_.emplace_back(context_, size, kind).at(0);
}

std::byte* TableBench::host_memory(uint64_t size) {
  return host_.emplace_back(size).data();
}

keel_plugin_event* TableBench::event(uint32_t flags) {
  return events_.emplace_back(context_, flags).get();
}

void TableBench::settle(Where where) const {
  for (uint32_t i = 0; i < streams(); ++i) {
    need(streams_[i].settle(where), fmt::format("what was enqueued on stream {}", i), where);
  }
}

bool TableBench::settle_unobserved() const {
  bool ended = true;
  for (const TableStream& stream : streams_) {
    ended = stream.settle_unobserved() != KEEL_NOT_READY && ended;
  }
  return ended;
}

std::unique_ptr<TableBench::Hold> TableBench::hold(uint32_t index, int64_t limit_ns,
                                                   const Where& where) {
  if (by_gate_) {
    keel_plugin_gate* gate = nullptr;
    need(table().gate_create(device(), &gate), "stream.gate_create", where);
    gates_.push_back(gate);
    need(table().stream_wait_gate(stream(index), gate), "stream.stream_wait_gate", where);
    return std::make_unique<Hold>([this, gate] { (void)table().gate_open(gate); }, limit_ns);
  }
  keel_plugin_hold* held = nullptr;
  need(tests_->hold(stream(index), &held), "hold of the test table", where);
  return std::make_unique<Hold>([this, held] { tests_->release(held); }, limit_ns);
}

void TableBench::work(uint32_t index, uint32_t rounds, const Where& where) const {
  const bool has_fill = has(KEEL_CAPABILITY_FILL);
  Tally enqueued;
  for (uint32_t round = 0; round < rounds; ++round) {
    enqueued.add(has_fill ? table().fill(stream(index), busy_, &round, sizeof(round), busy_bytes_)
                          : table().copy(stream(index), KEEL_COPY_DEVICE_TO_DEVICE, busy_,
                                         busy_ + busy_bytes_ / 2, busy_bytes_ / 2));
  }
  need(enqueued.first(), fmt::format("{} pieces of work", rounds), where);
}

void TableBench::occupy(uint32_t index, int64_t limit_ns, Where where) {
  occupied_.reset();
  if (can_hold()) {
    occupied_ = hold(index, limit_ns, where);
  } else {
    work(index, kOccupiedRounds, where);
  }
}

void TableBench::behind_work(uint32_t index, const std::function<void()>& body, Where where) {
  if (can_hold()) {
    // Half of the wait timeout, and so an eighth of the case's deadline.
    const int64_t limit_ns = context_.environment.wait_ns / 2;
    const std::unique_ptr<Hold> held = hold(index, limit_ns, where);
    record(front_, index, where);
    body();
    const keel_status front = query(front_, where);
    const bool in_time = observe(held->release(), where);
    check(in_time,
          fmt::format("calls behind work that the device was kept from came back only when it went "
                      "on, after {} ms: one of them waits for the device",
                      limit_ns / 1'000'000),
          where);
    need_be(KEEL_NOT_READY, front, "event_query of an event behind work that is not done", where);
    return;
  }
  while (true) {
    int64_t took_ns = 0;  // the longest work, and |body|
    for (uint32_t rounds = kFirstRounds; rounds <= kMostRounds; rounds *= 2) {
      const int64_t start = observe_now();
      work(index, rounds, where);
      record(front_, index, where);
      body();
      const keel_status front = query(front_, where);
      if (front == KEEL_NOT_READY) return;
      need(front, "event_query", where);
      settle(where);
      took_ns = observe_now() - start;
    }
    const uint64_t more = 8 * busy_bytes_;
    if (took_ns > kLongNs || more > kMostBusyBytes ||
        more > context_.environment.info.memory_bytes / 16) {
      break;
    }
    busy_ = memory(more);
    busy_bytes_ = more;
  }
  fail_case(fmt::format("behind {} fills of {} bytes, calls came back only when those were done",
                        kMostRounds, busy_bytes_),
            where);
}

const keel_test_table& TableBench::failing() const {
  if (tests_ == nullptr) {
    unsupported("failures: untested, for want of a test table (keel_test_table in keel/abi.h)");
  }
  note("failures: injected");
  return *tests_;
}

void TableBench::copy(uint32_t index, keel_copy_kind kind, void* destination, const void* source,
                      uint64_t size, Where where) const {
  need(table().copy(stream(index), kind, destination, source, size), "stream.copy", where);
}

void TableBench::fill(uint32_t index, void* destination, uint32_t word, uint64_t size,
                      Where where) const {
  need(table().fill(stream(index), destination, &word, sizeof(word), size), "stream.fill", where);
}

void TableBench::record(keel_plugin_event* event, uint32_t index, Where where) const {
  need(table().event_record(event, stream(index)), "stream.event_record", where);
}

void TableBench::wait_event(uint32_t index, keel_plugin_event* event, Where where) const {
  need(table().stream_wait_event(stream(index), event), "stream.stream_wait_event", where);
}

void TableBench::check_memory(uint32_t index, const std::byte* device, uint32_t word, uint64_t size,
                              const std::string& what, Where where) const {
  std::vector<std::byte> got(size);
  streams_[index].copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), device, size, where);
  check_filled(got, word, what, where);
}

keel_status TableBench::query(keel_plugin_event* event, Where where) const {
  return observe_status(table().event_query(event), where);
}

keel_status TableBench::await(keel_plugin_event* event) const {
  return poll_unobserved([&] { return table().event_query(event); }, context_.environment.wait_ns);
}

keel_status TableBench::poll(keel_plugin_event* event, Where where) const {
  return observe_status(await(event), where);
}

uint32_t await_calls(const Heard& heard, uint32_t times, int64_t limit_ns, Where where) {
  poll([&] { return heard.count.load() >= times ? KEEL_OK : KEEL_NOT_READY; }, limit_ns, where);
  return observe(heard.count.load(), where);
}

int64_t steady_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause_ns(int64_t nanoseconds) {
  if (!judging()) std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

}  // namespace keel::conformance
