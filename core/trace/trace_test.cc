// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Row {
  int64_t pid;
  int64_t tid;
  auto operator<=>(const Row&) const = default;
};

Row row_of(const json& event) {
  return {event.at("pid").get<int64_t>(), event.at("tid").get<int64_t>()};
}

// Returns whole nanoseconds: the file has microseconds with three decimals.
int64_t ns(const json& event, const char* key) {
  return std::llround(event.at(key).get<double>() * 1000);
}

class TraceTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    std::string folder = (fs::temp_directory_path() / "keel-trace-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ / "trace.json";
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  }
  void TearDown() override {
    KeelTest::TearDown();
    fs::remove_all(folder_);
  }

  json read_trace() const {
    std::ifstream file(path_);
    json trace = json::parse(file, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(trace.is_discarded()) << path_;
    return trace;
  }
  static std::vector<json> select(const json& trace, const std::string& phase,
                                  const std::string& name = "") {
    std::vector<json> found;
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != phase) continue;
      if (name.empty() || event.at("name") == name) found.push_back(event);
    }
    return found;
  }
  // On each row, slices begin in the order of the file and do not overlap; on rows of the host they
  // may nest.
  static void expect_in_order(const json& trace) {
    std::map<Row, int64_t> ends;
    for (const json& slice : select(trace, "X")) {
      if (slice.at("cat") == "host") continue;
      int64_t& end = ends[row_of(slice)];
      EXPECT_GE(ns(slice, "ts"), end) << slice;
      EXPECT_GE(ns(slice, "dur"), 0) << slice;
      end = ns(slice, "ts") + ns(slice, "dur");
    }
  }
  // Each arrow starts inside a slice, ends at the start of one, and does not go back.
  static void expect_arrows_hold(const json& trace) {
    std::map<int64_t, json> starts;
    for (const json& start : select(trace, "s")) {
      EXPECT_TRUE(starts.emplace(start.at("id").get<int64_t>(), start).second) << start;
    }
    const std::vector<json> slices = select(trace, "X");
    const std::vector<json> ends = select(trace, "f");
    EXPECT_EQ(starts.size(), ends.size());
    for (const json& end : ends) {
      ASSERT_TRUE(starts.contains(end.at("id").get<int64_t>())) << end;
      const json& start = starts.at(end.at("id").get<int64_t>());
      EXPECT_LE(ns(start, "ts"), ns(end, "ts"));
      const auto holds = [&](const json& point) {
        return std::any_of(slices.begin(), slices.end(), [&](const json& slice) {
          return row_of(slice) == row_of(point) && ns(slice, "ts") <= ns(point, "ts") &&
                 ns(point, "ts") < ns(slice, "ts") + ns(slice, "dur");
        });
      };
      EXPECT_TRUE(holds(start)) << start;
      EXPECT_TRUE(holds(end)) << end;
    }
  }

  fs::path folder_;
  fs::path path_;
  keel_device device_ = {};
};

TEST_P(TraceTest, HasASliceAnOperationAndAnArrowAWait) {
  const keel_stream first = new_stream(device_);
  const keel_stream second = new_stream(device_);
  void* const memory = alloc(device_, 4096);
  std::vector<uint32_t> words(1024);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(fill(first, memory, 7, 1024));
  const keel_event event = record(first);
  ASSERT_KEEL_OK(keel_stream_wait_event(second, event));
  ASSERT_KEEL_OK(keel_copy(second, KEEL_HOST, words.data(), device_, memory, 4096));
  ASSERT_KEEL_OK(keel_stream_synchronize(second, kTestTimeout));
  ASSERT_KEEL_OK(keel_trace_stop());
  EXPECT_EQ(words, std::vector<uint32_t>(1024, 7));

  const json trace = read_trace();
  expect_in_order(trace);
  expect_arrows_hold(trace);
  EXPECT_EQ(trace.at("metadata").at("dropped_events"), 0);
  const json copy = select(trace, "X", "copy").back();  // a fill before it may consist of copies
  EXPECT_EQ(copy.at("args").at("bytes_read"), 4096);
  EXPECT_EQ(copy.at("args").at("bytes_written"), 4096);
  char address[32];
  std::snprintf(address, sizeof(address), "%p + 4096", memory);
  EXPECT_TRUE(copy.at("args").at("reads").at(0).get<std::string>().ends_with(address)) << copy;
  EXPECT_TRUE(copy.at("args").at("writes").at(0).get<std::string>().starts_with("host "));

  const std::vector<json> ends = select(trace, "f");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(row_of(ends[0]), row_of(copy));
  EXPECT_EQ(ns(ends[0], "ts"), ns(copy, "ts"));
  const json start = select(trace, "s").at(0);
  EXPECT_NE(row_of(start), row_of(copy));
  EXPECT_EQ(start.at("pid"), copy.at("pid"));

  const std::vector<json> waits = select(trace, "X", "keel_stream_synchronize");
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].at("tid"), gettid());

  std::set<std::string> names;
  for (const json& name : select(trace, "M", "process_name")) {
    names.insert(name.at("args").at("name").get<std::string>());
  }
  EXPECT_TRUE(names.contains("host"));
  EXPECT_EQ(names.size(), 2u);
  EXPECT_GE(select(trace, "M", "thread_name").size(), 3u);
}

TEST_P(TraceTest, ArrowsChainThroughStreamsWithoutWork) {
  const keel_stream streams[] = {new_stream(device_), new_stream(device_), new_stream(device_)};
  void* const memory = alloc(device_, 64);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(fill(streams[0], memory, 1, 16));
  ASSERT_KEEL_OK(keel_stream_wait_event(streams[1], record(streams[0])));
  ASSERT_KEEL_OK(keel_stream_wait_event(streams[2], record(streams[1])));
  ASSERT_KEEL_OK(keel_stream_synchronize(streams[2], kTestTimeout));
  ASSERT_KEEL_OK(keel_trace_stop());
  const json trace = read_trace();
  expect_in_order(trace);
  expect_arrows_hold(trace);
  EXPECT_EQ(select(trace, "f").size(), 2u);
}

TEST_P(TraceTest, ShowsWhatAGateHolds) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc(device_, 64);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  ASSERT_KEEL_OK(fill(stream, memory, 1, 16));
  EXPECT_EQ(keel_stream_synchronize(stream, 1'000'000), KEEL_TIMED_OUT);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  ASSERT_KEEL_OK(keel_trace_stop());
  const json trace = read_trace();
  expect_in_order(trace);
  const std::vector<json> held = select(trace, "X", "gate");
  ASSERT_EQ(held.size(), 1u);
  EXPECT_GE(ns(held[0], "dur"), 1'000'000);
  for (const json& slice : select(trace, "X")) {
    if (slice.at("cat") != "work") continue;
    EXPECT_GE(ns(slice, "ts"), ns(held[0], "ts") + 1'000'000);
  }
}

TEST_P(TraceTest, HasAllThatManyThreadsDo) {
  constexpr int kThreads = 4;
  constexpr int kOperations = 200;
  void* const memory = alloc(device_, 128 * kThreads);
  const keel_stream shared = new_stream(device_);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const keel_stream own = new_stream(device_);
      uint32_t words[16] = {};
      char* const mine = static_cast<char*>(memory) + 128 * t;
      for (int i = 0; i < kOperations; ++i) {
        EXPECT_KEEL_OK(
            i % 2 == 0 ? keel_copy(own, device_, mine, KEEL_HOST, words, sizeof(words))
                       : keel_copy(shared, device_, mine + 64, KEEL_HOST, words, sizeof(words)));
        if (i % 10 != 0) continue;
        EXPECT_KEEL_OK(keel_stream_wait_event(shared, record(own)));
      }
      EXPECT_KEEL_OK(keel_stream_synchronize(own, kTestTimeout));
      EXPECT_KEEL_OK(keel_stream_synchronize(shared, kTestTimeout));
      EXPECT_KEEL_OK(keel_stream_destroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_KEEL_OK(keel_trace_stop());
  const json trace = read_trace();
  expect_in_order(trace);
  expect_arrows_hold(trace);
  EXPECT_EQ(select(trace, "X", "copy").size(), size_t{kThreads * kOperations});
  EXPECT_EQ(select(trace, "X", "keel_stream_destroy").size(), size_t{kThreads});
}

// Start and stop beside enqueueing threads: each trace is complete in itself.
TEST_P(TraceTest, StartsAndStopsInMidStream) {
  void* const memory = alloc(device_, 128);
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const keel_stream stream = new_stream(device_);
      while (!stopping.load()) {
        EXPECT_KEEL_OK(fill(stream, static_cast<char*>(memory) + 64 * t, 1, 16));
        EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      }
      EXPECT_KEEL_OK(keel_stream_destroy(stream));
    });
  }
  for (int round = 0; round < 20; ++round) {
    ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
    EXPECT_KEEL_OK(keel_trace_stop());
    const json trace = read_trace();
    expect_in_order(trace);
    expect_arrows_hold(trace);
  }
  stopping.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TraceTest, CountsMemoryInUse) {
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  void* const memory = alloc(device_, 1 << 20);
  ASSERT_KEEL_OK(keel_free(device_, memory));
  ASSERT_KEEL_OK(keel_trace_stop());
  const std::vector<json> counters = select(read_trace(), "C", "memory allocated");
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_GE(counters[0].at("args").at("bytes"), 1 << 20);
  EXPECT_LE(counters[1].at("args").at("bytes").get<int64_t>() + (1 << 20),
            counters[0].at("args").at("bytes").get<int64_t>());
}

TEST_P(TraceTest, OneAtATime) {
  EXPECT_EQ(keel_trace_stop(), KEEL_FAILED_PRECONDITION);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  const std::string other = folder_ / "other.json";
  EXPECT_EQ(keel_trace_start(other.c_str()), KEEL_ALREADY_EXISTS);
  EXPECT_FALSE(fs::exists(other));
  EXPECT_KEEL_OK(keel_trace_stop());
  EXPECT_EQ(keel_trace_stop(), KEEL_FAILED_PRECONDITION);
  EXPECT_KEEL_OK(keel_trace_start(other.c_str()));
  EXPECT_KEEL_OK(keel_trace_stop());
}

TEST_P(TraceTest, RefusesPathsThatCannotBeWritten) {
  EXPECT_EQ(keel_trace_start(nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_trace_start((folder_ / "none" / "trace.json").c_str()), KEEL_NOT_FOUND);
  EXPECT_EQ(keel_trace_start(folder_.c_str()), KEEL_INVALID_ARGUMENT);
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(keel_trace_start(pipe.c_str()), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(keel_last_error()).find(pipe.string()), std::string::npos);
  EXPECT_EQ(keel_trace_stop(), KEEL_FAILED_PRECONDITION);
}

// Another user who knows the path of traces may have put a file there.
TEST_P(TraceTest, LeavesWhatALinkLeadsTo) {
  const fs::path victim = folder_ / "victim";
  const auto expect_refused = [&](const char* why) {
    EXPECT_EQ(keel_trace_start(path_.c_str()), KEEL_PERMISSION_DENIED);
    const std::string text = keel_last_error();
    EXPECT_NE(text.find(path_.string()), std::string::npos) << text;
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_EQ(fs::file_size(victim), 8U);
    fs::remove(path_);
  };
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, path_);
  expect_refused("symbolic link");
  fs::create_hard_link(victim, path_);
  expect_refused("hard link");
  fs::create_symlink(folder_ / "not_there", path_);
  expect_refused("symbolic link");
  EXPECT_FALSE(fs::exists(folder_ / "not_there"));

  fs::create_symlink(victim, path_);
  ASSERT_KEEL_OK(keel_shutdown());
  ASSERT_EQ(setenv("KEEL_TRACE", path_.c_str(), 1), 0);
  KeelTest::SetUp();
  ASSERT_EQ(unsetenv("KEEL_TRACE"), 0);
  EXPECT_EQ(keel_trace_stop(), KEEL_FAILED_PRECONDITION) << "a warning, and no trace";
  EXPECT_EQ(fs::file_size(victim), 8U);
}

TEST_P(TraceTest, AFullDiskHarmsNothingElse) {
  void* const memory = alloc(device_, 64);
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_trace_start("/dev/full"));
  for (int i = 0; i < 1000; ++i) ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(keel_trace_stop(), KEEL_DATA_LOSS);
  EXPECT_NE(std::string(keel_last_error()).find("/dev/full"), std::string::npos);
  EXPECT_EQ(read(device_, memory, 16), std::vector<uint32_t>(16, 5));
  // The next trace starts afresh.
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(fill(stream, memory, 6, 16));
  EXPECT_KEEL_OK(keel_trace_stop());
  EXPECT_FALSE(select(read_trace(), "X").empty());
}

// A limit on the file size stands for a full disk; beyond the limit the kernel would also send a
// deadly signal.
TEST_P(TraceTest, ADiskThatFillsMidwayLeavesAValidFile) {
  void* const memory = alloc(device_, 64);
  const keel_stream stream = new_stream(device_);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit = {20'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  const auto written = [&] { return fs::file_size(path_) > 0; };
  while (!written()) std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(keel_trace_stop(), KEEL_DATA_LOSS);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_LE(fs::file_size(path_), 20'000u);
  EXPECT_TRUE(read_trace().at("traceEvents").is_array());
  EXPECT_EQ(read(device_, memory, 16), std::vector<uint32_t>(16, 5));
}

TEST_P(TraceTest, AForkedChildLeavesItAlone) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc(device_, 64);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(keel_trace_stop() == KEEL_FORKED ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_KEEL_OK(fill(stream, memory, 6, 16));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  ASSERT_KEEL_OK(keel_trace_stop());
  expect_in_order(read_trace());
}

TEST_P(TraceTest, ShutdownCompletesIt) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc(device_, 64);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  ASSERT_KEEL_OK(keel_shutdown());
  EXPECT_FALSE(select(read_trace(), "X").empty());
  KeelTest::SetUp();
}

TEST_P(TraceTest, TheEnvironmentStartsOne) {
  ASSERT_KEEL_OK(keel_shutdown());
  ASSERT_EQ(setenv("KEEL_TRACE", path_.c_str(), 1), 0);
  KeelTest::SetUp();
  EXPECT_EQ(keel_trace_start("/dev/null"), KEEL_ALREADY_EXISTS);
  EXPECT_KEEL_OK(keel_trace_stop());
  EXPECT_TRUE(read_trace().at("traceEvents").is_array());
  // A trace that cannot be written is a warning.
  ASSERT_KEEL_OK(keel_shutdown());
  ASSERT_EQ(setenv("KEEL_TRACE", "/none/trace.json", 1), 0);
  KeelTest::SetUp();
  EXPECT_EQ(keel_trace_stop(), KEEL_FAILED_PRECONDITION);
  ASSERT_EQ(unsetenv("KEEL_TRACE"), 0);
}

TEST_P(TraceTest, EachProcessOfAJobWritesItsOwn) {
  ASSERT_KEEL_OK(keel_shutdown());
  ASSERT_EQ(setenv("KEEL_TRACE", path_.c_str(), 1), 0);
  ASSERT_EQ(setenv("KEEL_RANK", "3", 1), 0);
  KeelTest::SetUp();
  ASSERT_EQ(unsetenv("KEEL_TRACE"), 0);
  ASSERT_EQ(unsetenv("KEEL_RANK"), 0);
  EXPECT_KEEL_OK(keel_trace_stop());
  std::filesystem::path own = path_;
  own.replace_extension(".3" + own.extension().string());
  EXPECT_TRUE(std::filesystem::remove(own)) << own;
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_P(TraceTest, AFileThatAnotherOneWritesIsLeftAlone) {
  const int other = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(other, 0);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_EQ(keel_trace_start(path_.c_str()), KEEL_ALREADY_EXISTS);
  EXPECT_NE(std::string(keel_last_error()).find(path_.string()), std::string::npos)
      << keel_last_error();
  close(other);
  EXPECT_KEEL_OK(keel_trace_start(path_.c_str()));
  EXPECT_KEEL_OK(keel_trace_stop());
}

INSTANTIATE_TEST_SUITE_P(Plugins, TraceTest, ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

// ---- where the device falls behind ------------------------------------------------

using SlowTraceTest = TraceTest;

TEST_P(SlowTraceTest, CountsWhatItDrops) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc(device_, 64);
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  {
    const FakePause pause;
    for (int i = 0; i < 40'000; ++i) ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  }
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(keel_trace_stop(), KEEL_DATA_LOSS);
  const json trace = read_trace();
  expect_in_order(trace);
  const auto dropped = trace.at("metadata").at("dropped_events").get<size_t>();
  EXPECT_GT(dropped, 0u);
  const size_t written = select(trace, "X", "fill").size();
  EXPECT_LT(written, 40'000u);
  EXPECT_GE(written + dropped, 40'000u);
}

INSTANTIATE_TEST_SUITE_P(Plugins, SlowTraceTest, ::testing::Values("fake", "sim_paused"),
                         [](const auto& info) { return std::string(info.param); });

// ---- collectives --------------------------------------------------------------------

using CollectiveTraceTest = TraceTest;

TEST_P(CollectiveTraceTest, CountsBridgedBytes) {
  const keel_device ranks[] = {device_, device_};
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.forbid_native = 1;  // the chip's own library would bypass the bridge
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(ranks, 2, &options, comms));
  constexpr uint64_t kCount = 1024;
  ASSERT_KEEL_OK(keel_trace_start(path_.c_str()));
  std::vector<keel_stream> streams;
  for (int rank = 0; rank < 2; ++rank) {
    void* const memory = alloc_filled(device_, std::vector<uint32_t>(kCount, 1));
    streams.push_back(new_stream(device_));
    ASSERT_KEEL_OK(
        keel_all_reduce(comms[rank], memory, memory, kCount, KEEL_INT32, KEEL_SUM, streams.back()));
  }
  for (const keel_stream stream : streams) {
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  }
  ASSERT_KEEL_OK(keel_trace_stop());
  for (const keel_comm comm : comms) ASSERT_KEEL_OK(keel_comm_destroy(comm));
  const json trace = read_trace();
  expect_in_order(trace);
  expect_arrows_hold(trace);
  // Each rank's contribution to the host, and the sum back.
  EXPECT_EQ(select(trace, "C", "bridged").back().at("args").at("bytes"), 4 * kCount * 4);
  std::set<std::string> categories;
  for (const json& slice : select(trace, "X", "all_reduce")) {
    categories.insert(slice.at("cat").get<std::string>());
  }
  EXPECT_TRUE(categories.contains("host"));
}

INSTANTIATE_TEST_SUITE_P(Plugins, CollectiveTraceTest, ::testing::Values("cpu", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
