// SPDX-License-Identifier: Apache-2.0
// keel_shutdown beside threads that are inside Keel, through keel.h: waiting calls return, short
// calls finish or are refused.
#include <keel/shrink.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kCount = 1 << 20;
constexpr uint64_t kMiB = 1 << 20;
// Minutes away: a call that returned earlier was cut off.
constexpr int64_t kFarNs = 600 * kSecond;

using Call = std::function<keel_status()>;

// A thread that makes one call.
class Caller {
 public:
  explicit Caller(const Call& call)
      : thread_([this, call] {
          thread_id_.store(gettid());
          status_ = call();
          text_ = keel_last_error();
          has_returned_.store(true);
        }) {}
  // Returns once the thread sleeps, most likely in its call. A call refused because it had not
  // begun is reported by was_refused().
  void await_sleep() const {
    while (thread_id_.load() == 0) std::this_thread::yield();
    const std::string file = "/proc/self/task/" + std::to_string(thread_id_.load()) + "/stat";
    while (!has_returned_.load()) {
      std::string line;
      std::getline(std::ifstream(file), line);
      const size_t name_end = line.rfind(") ");
      if (name_end != std::string::npos && line[name_end + 2] == 'S') return;
      std::this_thread::yield();
    }
  }
  void join() { thread_.join(); }
  keel_status status() const { return status_; }
  const std::string& text() const { return text_; }
  bool was_refused() const {
    return status_ == KEEL_FAILED_PRECONDITION && text_ == "Keel is being shut down";
  }

 private:
  std::atomic<pid_t> thread_id_{0};
  std::atomic<bool> has_returned_{false};
  keel_status status_ = KEEL_OK;
  std::string text_;
  std::thread thread_;
};

// A call that waits for something that never happens.
struct Wait {
  const char* name;
  std::function<Call()> prepare;
  // True for a call that may give up its own work instead, and then has nothing left to wait for.
  bool may_succeed = false;
};

class InsidersTest : public ::testing::TestWithParam<const char*> {
 protected:
  void begin(int64_t timeout_ns = kFarNs, const Settings& settings = {{"devices", "2"}}) {
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    options.default_timeout_ns = timeout_ns;
    ASSERT_KEEL_OK(keel_init(&options));
    devices_ = load(GetParam(), settings);
    for (size_t i = 0; i < devices_.size(); ++i) {
      ASSERT_KEEL_OK(keel_stream_create(devices_[i], 0, &streams_[i]));
      ASSERT_KEEL_OK(keel_alloc(devices_[i], KEEL_MEMORY_DEVICE, kCount * 4, &memory_[i]));
    }
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
    ASSERT_KEEL_OK(keel_event_create(0, &event_));
  }
  void fill() {
    const uint32_t value = 7;
    ASSERT_KEEL_OK(keel_fill(streams_[0], memory_[0], &value, sizeof(value), 4096));
    ASSERT_KEEL_OK(keel_event_record(event_, streams_[0]));
  }
  void hold_behind_gate() {
    ASSERT_KEEL_OK(keel_stream_wait_gate(streams_[0], gate_));
    fill();
  }
  // The first of two ranks calls a collective, the second rank never does.
  void call_alone() {
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), 2, nullptr, comms_.data()));
    ASSERT_KEEL_OK(keel_all_reduce(comms_[0], memory_[0], memory_[0], kCount, KEEL_FLOAT32,
                                   KEEL_SUM, streams_[0]));
  }

  // Expects each of |waits| to end with KEEL_ABORTED when Keel is shut down. |begin_case|
  // initializes Keel; |release| unblocks the shutdown itself once the call has returned.
  void expect_ended(const std::vector<Wait>& waits, const std::function<void()>& begin_case,
                    const std::function<void()>& release) {
    constexpr int kTries = 20;
    for (const Wait& wait : waits) {
      SCOPED_TRACE(wait.name);
      for (int tries = 0;; ++tries) {
        ASSERT_LT(tries, kTries) << "the call never began before the shutdown";
        begin_case();
        Caller caller(wait.prepare());
        caller.await_sleep();
        std::thread ending([] { EXPECT_KEEL_OK(keel_shutdown()); });
        caller.join();
        release();
        ending.join();
        if (caller.was_refused()) continue;
        if (wait.may_succeed && caller.status() == KEEL_OK) break;
        EXPECT_EQ(caller.status(), KEEL_ABORTED) << caller.text();
        EXPECT_NE(caller.text().find("Keel was shut down"), std::string::npos) << caller.text();
        break;
      }
    }
  }

  std::vector<keel_device> devices_;
  std::array<keel_stream, 2> streams_{};
  std::array<void*, 2> memory_{};
  std::array<keel_comm, 2> comms_{};
  keel_gate gate_ = {};
  keel_event event_ = {};
};

TEST_P(InsidersTest, WaitsForAGateOrARankEnd) {
  const auto behind_gate = [this](const Call& call) {
    hold_behind_gate();
    return call;
  };
  const auto behind_rank = [this](const Call& call) {
    call_alone();
    return call;
  };
  keel_comm made = {};
  keel_unique_id id = {};
  const std::vector<Wait> waits = {
      {"keel_stream_synchronize",
       [&] {
         return behind_gate([this] { return keel_stream_synchronize(streams_[0], kFarNs); });
       }},
      {"keel_event_wait",
       [&] { return behind_gate([this] { return keel_event_wait(event_, kFarNs); }); }},
      {"keel_device_synchronize",
       [&] {
         return behind_gate([this] { return keel_device_synchronize(devices_[0], kFarNs); });
       }},
      {"keel_stream_recover",
       [&] { return behind_gate([this] { return keel_stream_recover(streams_[0], kFarNs); }); }},
      {"keel_stream_synchronize behind a collective",
       [&] {
         return behind_rank([this] { return keel_stream_synchronize(streams_[0], kFarNs); });
       }},
      {"keel_event_wait behind a collective",
       [&] {
         return behind_rank([this] {
           const keel_status recorded = keel_event_record(event_, streams_[0]);
           return recorded == KEEL_OK ? keel_event_wait(event_, KEEL_TIMEOUT_DEFAULT) : recorded;
         });
       }},
      {"keel_stream_destroy behind a collective",
       [&] { return behind_rank([this] { return keel_stream_destroy(streams_[0]); }); },
       /*may_succeed=*/true},
      {"keel_comm_finalize",
       [&] { return behind_rank([this] { return keel_comm_finalize(comms_[0], kFarNs); }); }},
      {"keel_comm_destroy",
       [&] { return behind_rank([this] { return keel_comm_destroy(comms_[0]); }); }},
      {"keel_comm_split",
       [&]() -> Call {
         EXPECT_KEEL_OK(keel_comm_init_all(devices_.data(), 2, nullptr, comms_.data()));
         return [&] { return keel_comm_split(comms_[1], 0, 0, nullptr, &made); };
       }},
      {"keel_comm_shrink",
       [&]() -> Call {
         EXPECT_KEEL_OK(keel_comm_init_all(devices_.data(), 2, nullptr, comms_.data()));
         return [&] { return keel_comm_shrink(comms_[1], kFarNs, 0, nullptr, &made); };
       }},
      {"keel_comm_duplicate",
       [&]() -> Call {
         EXPECT_KEEL_OK(keel_comm_init_all(devices_.data(), 2, nullptr, comms_.data()));
         return [&] { return keel_comm_duplicate(comms_[1], nullptr, &made); };
       }},
      {"keel_comm_init_rank",
       [&]() -> Call {
         EXPECT_KEEL_OK(keel_unique_id_create(&id));
         return [&] { return keel_comm_init_rank(devices_[0], &id, 0, 2, nullptr, &made); };
       }},
      {"keel_comm_init_env before rank 0 serves",
       [&]() -> Call {
         setenv("KEEL_BOOTSTRAP", ("insiders_test-" + std::to_string(getpid())).c_str(), 1);
         setenv("KEEL_RANK", "1", 1);
         setenv("KEEL_WORLD", "2", 1);
         setenv("KEEL_LOCAL_RANK", "1", 1);
         setenv("KEEL_LOCAL_WORLD", "2", 1);
         return [&] { return keel_comm_init_env(devices_[0], nullptr, &made); };
       }},
  };
  expect_ended(
      waits, [this] { begin(); }, [] {});
  for (const char* name :
       {"KEEL_BOOTSTRAP", "KEEL_RANK", "KEEL_WORLD", "KEEL_LOCAL_RANK", "KEEL_LOCAL_WORLD"}) {
    unsetenv(name);
  }
}

// A callback before enqueueing that blocks until the test releases it.
struct Blocking {
  std::atomic<bool> is_there{false};
  std::atomic<bool> may_go{false};
  std::atomic<bool> ends_keel{false};
  keel_status ended = KEEL_OK;
  keel_profiler profiler = [this] {
    auto made = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
    made.user = this;
    made.begin = [](void* user, const char*, keel_device, keel_stream) -> uint64_t {
      auto& self = *static_cast<Blocking*>(user);
      if (self.ends_keel.load()) self.ended = keel_shutdown();
      self.is_there.store(true);
      while (!self.may_go.load()) std::this_thread::yield();
      return 0;
    };
    return made;
  }();
};

TEST_P(InsidersTest, WaitForAnotherThreadsCallbackEnds) {
  std::optional<Blocking> blocking;
  std::optional<Caller> blocked;
  const Wait wait = {"keel_profiler_set", [&]() -> Call {
                       EXPECT_KEEL_OK(keel_profiler_set(&blocking->profiler));
                       blocked.emplace([this] {
                         const uint32_t value = 7;
                         return keel_fill(streams_[0], memory_[0], &value, sizeof(value), 4096);
                       });
                       while (!blocking->is_there.load()) std::this_thread::yield();
                       return [] { return keel_profiler_set(nullptr); };
                     }};
  const auto begin_case = [&] {
    begin();
    blocking.emplace();
  };
  const auto release = [&] {
    blocking->may_go.store(true);
    blocked->join();
    EXPECT_KEEL_OK(blocked->status()) << "what had begun is done";
  };
  expect_ended({wait}, begin_case, release);
}

TEST_P(InsidersTest, NothingGoesWhileACallRuns) {
  begin(/*timeout_ns=*/kSecond / 10);
  Blocking blocking;
  ASSERT_KEEL_OK(keel_profiler_set(&blocking.profiler));
  Caller blocked([this] {
    const uint32_t value = 7;
    return keel_fill(streams_[0], memory_[0], &value, sizeof(value), 4096);
  });
  while (!blocking.is_there.load()) std::this_thread::yield();
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_OFF, nullptr, nullptr));
  EXPECT_FAILS(KEEL_TIMED_OUT, "keel_fill", keel_shutdown());
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "being shut down", keel_stream_query(streams_[0]));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "being shut down", keel_event_query(event_));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "keel_shutdown", keel_init(nullptr));
  blocking.may_go.store(true);
  blocked.join();
  EXPECT_KEEL_OK(blocked.status());
  EXPECT_KEEL_OK(keel_shutdown());
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "keel_init", keel_stream_query(streams_[0]));
}

TEST_P(InsidersTest, AGroupThatIsOpenAtShutdownIsForgotten) {
  begin();
  ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), 1, nullptr, comms_.data()));
  ASSERT_KEEL_OK(keel_group_start());
  ASSERT_KEEL_OK(keel_barrier(comms_[0], streams_[0]));
  ASSERT_KEEL_OK(keel_shutdown());
  begin();
  EXPECT_FAILS(KEEL_ABORTED, "since keel_group_start", keel_group_end());
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "without a keel_group_start", keel_group_end());
  EXPECT_KEEL_OK(keel_shutdown());
}

TEST_P(InsidersTest, ShutdownWithinACallbackIsRefused) {
  begin();
  Blocking blocking;
  blocking.ends_keel.store(true);
  blocking.may_go.store(true);
  ASSERT_KEEL_OK(keel_profiler_set(&blocking.profiler));
  fill();
  EXPECT_EQ(blocking.ended, KEEL_FAILED_PRECONDITION);
  EXPECT_KEEL_OK(keel_stream_synchronize(streams_[0], kTestTimeout));
  // The shutdown itself logs the remaining objects.
  keel_status within_log = KEEL_OK;
  const auto end_keel = [](void* user, keel_log_level, const char*) {
    *static_cast<keel_status*>(user) = keel_shutdown();
  };
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, end_keel, &within_log));
  EXPECT_KEEL_OK(keel_shutdown());
  EXPECT_EQ(within_log, KEEL_FAILED_PRECONDITION);
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
}

// The objects of one hammering thread, shared with no other.
struct Objects {
  keel_device device = {};
  keel_stream stream = {};
  keel_event event = {};
  keel_comm comm = {};
  char* memory = nullptr;
};

// Makes a random call and checks its result; failures for objects of an earlier shutdown, and
// refusals, are allowed.
void make_call(const Objects& own, std::vector<char>* host, std::mt19937* random) {
  constexpr uint64_t kBytes = 4096;
  const uint32_t value = 7;
  void* pointer = nullptr;
  keel_stream stream = {};
  keel_gate gate = {};
  auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  keel_status status = KEEL_OK;
  switch ((*random)() % 12) {
    case 0:
      status = keel_fill(own.stream, own.memory, &value, sizeof(value), kBytes);
      break;
    case 1:
      status =
          keel_copy(own.stream, own.device, own.memory, own.device, own.memory + kBytes, kBytes);
      break;
    case 2:
      status = keel_copy(own.stream, KEEL_HOST, host->data(), own.device, own.memory, kBytes);
      break;
    case 3:
      status = keel_event_record(own.event, own.stream);
      break;
    case 4:
      status = keel_event_query(own.event);
      break;
    case 5:
      status = keel_stream_wait_event(own.stream, own.event);
      break;
    case 6:
      status = keel_stream_query(own.stream);
      break;
    case 7:
      status = keel_stream_synchronize(own.stream, kFarNs);
      break;
    case 8:
      status = keel_alloc(own.device, KEEL_MEMORY_DEVICE, kBytes, &pointer);
      if (status == KEEL_OK) status = keel_free(own.device, pointer);
      break;
    case 9:
      status = keel_stream_create(own.device, 0, &stream);
      if (status == KEEL_OK) status = keel_stream_destroy(stream);
      break;
    case 10:
      status = keel_gate_create(&gate);
      if (status == KEEL_OK) status = keel_stream_wait_gate(own.stream, gate);
      if (status == KEEL_OK) status = keel_gate_open(gate, KEEL_OK, nullptr);
      if (status == KEEL_OK) status = keel_gate_destroy(gate);
      break;
    default:
      status = keel_all_reduce(own.comm, own.memory, own.memory, kBytes / 4, KEEL_FLOAT32, KEEL_SUM,
                               own.stream);
      if (status == KEEL_OK) status = keel_memory_stats_get(own.device, &stats);
  }
  const bool is_expected = status == KEEL_OK || status == KEEL_NOT_READY ||
                           status == KEEL_INVALID_HANDLE || status == KEEL_FAILED_PRECONDITION ||
                           status == KEEL_ABORTED || status == KEEL_CANCELLED ||
                           status == KEEL_INVALID_ARGUMENT || status == KEEL_STREAM_FAILED;
  EXPECT_TRUE(is_expected) << status << ": " << keel_last_error();
}

TEST_P(InsidersTest, CallsBesideShutdownAreDoneOrRefused) {
  constexpr size_t kThreads = 3;
  constexpr int kRounds = 12;
  constexpr uint64_t kCallsARound = 300;
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_OFF, nullptr, nullptr));
  std::array<std::atomic<const Objects*>, kThreads> current{};
  std::vector<std::unique_ptr<Objects>> all;
  std::atomic<uint64_t> calls{0};
  std::atomic<bool> is_over{false};
  const auto begin_round = [&] {
    begin();
    for (auto& each : current) {
      auto own = std::make_unique<Objects>();
      void* memory = nullptr;
      own->device = devices_[0];
      ASSERT_KEEL_OK(keel_stream_create(own->device, 0, &own->stream));
      ASSERT_KEEL_OK(keel_event_create(0, &own->event));
      ASSERT_KEEL_OK(keel_comm_init_all(&own->device, 1, nullptr, &own->comm));
      ASSERT_KEEL_OK(keel_alloc(own->device, KEEL_MEMORY_DEVICE, 2 * 4096, &memory));
      own->memory = static_cast<char*>(memory);
      each.store(own.get());
      all.push_back(std::move(own));
    }
  };
  begin_round();
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(thread);
      std::vector<char> host(4096);
      while (!is_over.load()) {
        make_call(*current[thread].load(), &host, &random);
        calls.fetch_add(1);
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    if (round != 0) begin_round();
    const uint64_t enough = calls.load() + kCallsARound;
    while (calls.load() < enough) std::this_thread::yield();
    EXPECT_KEEL_OK(keel_shutdown());
  }
  is_over.store(true);
  for (std::thread& thread : threads) thread.join();
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}
INSTANTIATE_TEST_SUITE_P(Plugins, InsidersTest, ::testing::Values("cpu", "sim"), name_of);

// Devices that begin no work while paused.
using PausedInsidersTest = InsidersTest;

TEST_P(PausedInsidersTest, WaitsForADeviceEnd) {
  std::optional<FakePause> pause;
  const auto behind_work = [&](const Call& call) {
    pause.emplace();
    fill();
    return call;
  };
  const std::string trace = ::testing::TempDir() + "insiders_test_trace.json";
  const std::vector<Wait> waits = {
      {"keel_stream_synchronize",
       [&] {
         return behind_work([this] { return keel_stream_synchronize(streams_[0], kFarNs); });
       }},
      {"keel_event_wait",
       [&] { return behind_work([this] { return keel_event_wait(event_, kFarNs); }); }},
      {"keel_stream_destroy",
       [&] { return behind_work([this] { return keel_stream_destroy(streams_[0]); }); }},
      {"keel_stream_recover",
       [&] {
         behind_work({});
         EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[0], gate_));
         EXPECT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "none came"));
         return Call([this] { return keel_stream_recover(streams_[0], kFarNs); });
       }},
      {"keel_alloc",
       [&] {
         behind_work({});
         EXPECT_KEEL_OK(keel_free_on_stream(streams_[0], memory_[0]));
         return Call(
             [this] { return keel_alloc(devices_[0], KEEL_MEMORY_DEVICE, 3 * kMiB, &memory_[0]); });
       }},
      {"keel_trace_stop",
       [&] {
         EXPECT_KEEL_OK(keel_trace_start(trace.c_str()));
         return behind_work([] { return keel_trace_stop(); });
       }},
  };
  const bool is_sim = GetParam() == std::string("sim_paused");
  const auto begin_case = [&] {
    begin(kFarNs, {{"devices", "1"},
                   {is_sim ? "memory_mib" : "memory", std::to_string(is_sim ? 4 : 4 * kMiB)}});
  };
  expect_ended(waits, begin_case, [&] { pause.reset(); });
  std::filesystem::remove(trace);
}

INSTANTIATE_TEST_SUITE_P(Plugins, PausedInsidersTest, ::testing::Values("fake", "sim_paused"),
                         name_of);

}  // namespace
}  // namespace keel::testing
