// SPDX-License-Identifier: Apache-2.0
// Processes without further threads: each thread start of Keel fails in turn. The call that needs
// the thread returns the reason and the remedy; no call hangs, and all ends in order.
#include <keel/keel.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/keel_test.h"
#include "core/testing/refused_threads.h"

namespace keel::testing {
namespace {

// One lifetime of Keel, up to the first failed call. For one thread.
class Life {
 public:
  Life() = default;
  ~Life() {
    for (const keel_comm comm : comms_) keel_comm_destroy(comm);
    for (const keel_stream stream : streams_) keel_stream_destroy(stream);
    for (const auto& [device, pointer] : memory_) keel_free(device, pointer);
    if (is_up_) {
      EXPECT_KEEL_OK(keel_shutdown());
    }
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  bool begin() {
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    options.default_timeout_ns = kTestTimeout;
    is_up_ = is_ok(keel_init(&options));
    return is_up_;
  }
  // Two ranks on two devices of |plugin|.
  bool reduce(const std::string& plugin) {
    auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    const char* const keys[] = {"devices"};
    const char* const values[] = {"2"};
    settings.count = 1;
    settings.keys = keys;
    settings.values = values;
    uint32_t first = 0;
    uint32_t backend = 0;
    if (!is_ok(keel_device_count(&first)) ||
        !is_ok(keel_plugin_load(plugin_path(plugin).c_str(), &settings, nullptr, &backend))) {
      return false;
    }
    keel_device devices[2];
    keel_stream streams[2];
    for (uint32_t rank = 0; rank < 2; ++rank) {
      if (!is_ok(keel_device_get(first + rank, &devices[rank])) ||
          !is_ok(keel_stream_create(devices[rank], 0, &streams[rank]))) {
        return false;
      }
      streams_.push_back(streams[rank]);
    }
    keel_comm comms[2];
    if (!is_ok(keel_comm_init_all(devices, 2, nullptr, comms))) return false;
    comms_.insert(comms_.end(), comms, comms + 2);
    void* memory[2] = {};
    bool is_done = true;
    for (uint32_t rank = 0; rank < 2 && is_done; ++rank) {
      is_done = is_ok(keel_alloc(devices[rank], KEEL_MEMORY_DEVICE, kBytes, &memory[rank])) &&
                is_ok(keel_all_reduce(comms[rank], memory[rank], memory[rank], kBytes, KEEL_UINT8,
                                      KEEL_MAX, streams[rank]));
      if (memory[rank] != nullptr) memory_.emplace_back(devices[rank], memory[rank]);
      // The peer has called, and its thread would wait.
      if (!is_done) keel_comm_abort(comms[rank]);
    }
    for (uint32_t rank = 0; rank < 2 && is_done; ++rank) {
      is_done = is_ok(keel_stream_synchronize(streams[rank], kTestTimeout));
    }
    return is_done;
  }
  // A rendezvous with a single rank.
  bool meet() {
    keel_unique_id id = {};
    keel_device device = {};
    keel_comm comm = {};
    if (!is_ok(keel_unique_id_create(&id)) || !is_ok(keel_device_get(0, &device)) ||
        !is_ok(keel_comm_init_rank(device, &id, 0, 1, nullptr, &comm))) {
      return false;
    }
    comms_.push_back(comm);
    return true;
  }
  bool trace(const std::string& path) {
    return is_ok(keel_trace_start(path.c_str())) && is_ok(keel_trace_stop());
  }

  keel_status status() const { return status_; }
  const std::string& text() const { return text_; }

 private:
  static constexpr uint64_t kBytes = 1 << 20;

  bool is_ok(keel_status status) {
    if (status == KEEL_OK) return true;
    status_ = status;
    text_ = keel_last_error();
    return false;
  }

  bool is_up_ = false;
  std::vector<keel_stream> streams_;
  std::vector<keel_comm> comms_;
  std::vector<std::pair<keel_device, void*>> memory_;
  keel_status status_ = KEEL_OK;
  std::string text_;
};

TEST(ThreadLimitsTest, EachThreadThatIsRefusedIsToldWithTheLimits) {
  const std::filesystem::path trace =
      std::filesystem::temp_directory_path() / ("keel-threads-" + std::to_string(getpid()));
  constexpr int64_t kFewest = 8;  // progress, trace, service, streams, ranks
  int64_t threads = 0;
  for (bool is_enough = false; !is_enough; ++threads) {
    SCOPED_TRACE(threads);
    ASSERT_LT(threads, 200);
    Life life;
    const RefusedThreads refused(threads);
    is_enough = life.begin() && life.trace(trace) && life.reduce("cpu") && life.reduce("sim") &&
                life.meet();
    EXPECT_EQ(is_enough, refused.refused() == 0) << life.text();
    if (is_enough) continue;
    EXPECT_EQ(life.status(), KEEL_OUT_OF_MEMORY) << life.text();
    for (const char* said : {"no thread for keel-", "RLIMIT_NPROC", "pids.max of the cgroup"}) {
      EXPECT_NE(life.text().find(said), std::string::npos) << life.text();
    }
  }
  EXPECT_GT(threads, kFewest);
  std::filesystem::remove(trace);
}

}  // namespace
}  // namespace keel::testing
