// SPDX-License-Identifier: Apache-2.0
// A forked child gets KEEL_FORKED from every function of keel.h, and does no harm to the parent.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/testing/keel_test.h"
#include "core/testing/test_backend.h"

namespace keel::testing {
namespace {

// The text of a call, and the call.
struct Call {
  std::string text;
  std::function<keel_status()> make;
};
#define KEEL_CALL(call)               \
  Call {                              \
#call, [=, this] { return call; } \
  }

void never(void*, keel_status) {
  ADD_FAILURE() << "a refused callback was called";
}

class ForkTest : public KeelTest {
 protected:
  static constexpr uint64_t kCount = 64;
  static constexpr uint64_t kBytes = 2 * kCount * sizeof(uint32_t);

  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(test_backend(), {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
    event_ = record(stream_);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
    memory_ = alloc(device_, kBytes);
    ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm_));
    ASSERT_KEEL_OK(keel_unique_id_create(&id_));
    call_.op = KEEL_OP_ADD;
  }
  void TearDown() override {
    EXPECT_KEEL_OK(keel_comm_destroy(comm_));
    EXPECT_KEEL_OK(keel_gate_destroy(gate_));
    EXPECT_KEEL_OK(keel_event_destroy(event_));
    EXPECT_KEEL_OK(keel_stream_destroy(stream_));
    EXPECT_KEEL_OK(keel_free(device_, memory_));
    KeelTest::TearDown();
  }

  std::vector<Call> of_process() {
    return {
        KEEL_CALL(keel_set_log(KEEL_LOG_ERROR, nullptr, nullptr)),
        KEEL_CALL(keel_init(nullptr)),
        KEEL_CALL(keel_plugin_load(path_.c_str(), nullptr, nullptr, &index_)),
        KEEL_CALL(keel_validation_count(&number_)),
        KEEL_CALL(keel_backend_count(&index_)),
        KEEL_CALL(keel_backend_get(0, &backend_)),
        KEEL_CALL(keel_trace_start("/dev/null")),
        KEEL_CALL(keel_trace_stop()),
        KEEL_CALL(keel_profiler_set(nullptr)),
        KEEL_CALL(keel_topology_get(nullptr, text_, &number_)),
        KEEL_CALL(keel_flight_read(nullptr, text_, &number_)),
        KEEL_CALL(keel_launch_info_get(&launcher_)),
        KEEL_CALL(keel_shutdown()),
    };
  }
  std::vector<Call> of_devices() {
    return {
        KEEL_CALL(keel_device_count(&index_)),
        KEEL_CALL(keel_device_get(0, &device_)),
        KEEL_CALL(keel_device_find("cpu", &device_)),
        KEEL_CALL(keel_device_name(device_, text_, sizeof(text_))),
        KEEL_CALL(keel_device_info_get(device_, &info_)),
        KEEL_CALL(keel_device_memory_info(device_, &number_, &number_)),
        KEEL_CALL(keel_device_health_get(device_, &health_)),
        KEEL_CALL(keel_device_native_handle(device_, 0, &pointer_)),
        KEEL_CALL(keel_device_synchronize(device_, kTestTimeout)),
        KEEL_CALL(keel_device_chip(device_, &index_)),
        KEEL_CALL(keel_module_load(device_, KEEL_BINARY_VENDOR, "kernels", 7, &module_)),
        KEEL_CALL(keel_module_unload(module_)),
        KEEL_CALL(keel_kernel_find(module_, "store", &kernel_)),
        KEEL_CALL(keel_kernel_launch(stream_, kernel_, &launch_)),
    };
  }
  std::vector<Call> of_memory() {
    return {
        KEEL_CALL(keel_alloc(device_, KEEL_MEMORY_DEVICE, 8, &pointer_)),
        KEEL_CALL(keel_free(device_, memory_)),
        KEEL_CALL(keel_alloc_on_stream(stream_, 8, &pointer_)),
        KEEL_CALL(keel_free_on_stream(stream_, memory_)),
        KEEL_CALL(keel_memory_trim(device_)),
        KEEL_CALL(keel_memory_stats_get(device_, &stats_)),
        KEEL_CALL(keel_memory_stats_reset_peaks(device_)),
        KEEL_CALL(keel_memory_snapshot(device_, text_, &number_)),
        KEEL_CALL(keel_host_register(device_, text_, sizeof(text_))),
        KEEL_CALL(keel_host_unregister(device_, text_)),
        KEEL_CALL(keel_memory_find(device_, memory_, &found_)),
        KEEL_CALL(keel_copy(stream_, device_, memory_, KEEL_HOST, text_, 8)),
        KEEL_CALL(keel_fill(stream_, memory_, text_, 4, 8)),
        KEEL_CALL(keel_copy_path_get(device_, device_, &copy_path_)),
    };
  }
  std::vector<Call> of_streams() {
    return {
        KEEL_CALL(keel_stream_create(device_, 0, &new_stream_)),
        KEEL_CALL(keel_stream_destroy(stream_)),
        KEEL_CALL(keel_stream_wrap(device_, nullptr, &new_stream_)),
        KEEL_CALL(keel_stream_unwrap(stream_, &pointer_)),
        KEEL_CALL(keel_stream_query(stream_)),
        KEEL_CALL(keel_stream_synchronize(stream_, kTestTimeout)),
        KEEL_CALL(keel_stream_recover(stream_, kTestTimeout)),
        KEEL_CALL(keel_stream_on_done(stream_, &never, nullptr)),
        KEEL_CALL(keel_event_on_done(event_, &never, nullptr)),
        KEEL_CALL(keel_event_create(0, &new_event_)),
        KEEL_CALL(keel_event_destroy(event_)),
        KEEL_CALL(keel_event_record(event_, stream_)),
        KEEL_CALL(keel_event_query(event_)),
        KEEL_CALL(keel_event_wait(event_, kTestTimeout)),
        KEEL_CALL(keel_event_elapsed(event_, event_, &number_)),
        KEEL_CALL(keel_stream_wait_event(stream_, event_)),
        KEEL_CALL(keel_gate_create(&new_gate_)),
        KEEL_CALL(keel_gate_open(gate_, KEEL_OK, nullptr)),
        KEEL_CALL(keel_gate_destroy(gate_)),
        KEEL_CALL(keel_stream_wait_gate(stream_, gate_)),
    };
  }
  std::vector<Call> of_operators() {
    return {
        KEEL_CALL(keel_op_run(stream_, &call_)),
        KEEL_CALL(keel_op_plan_get(device_, &call_, &plan_)),
        KEEL_CALL(keel_op_explain(device_, &call_, text_, &number_)),
        KEEL_CALL(keel_op_find("add", &op_)),
        KEEL_CALL(keel_op_register(&custom_)),
        KEEL_CALL(keel_op_fallback_count(&number_)),
        KEEL_CALL(keel_op_forbid_fallback(0)),
    };
  }
  std::vector<Call> of_communicators() {
    return {
        KEEL_CALL(keel_comm_init_all(&device_, 1, nullptr, &new_comm_)),
        KEEL_CALL(keel_unique_id_create(&id_)),
        KEEL_CALL(keel_comm_init_rank(device_, &id_, 0, 1, nullptr, &new_comm_)),
        KEEL_CALL(keel_comm_init_env(device_, nullptr, &new_comm_)),
        KEEL_CALL(keel_comm_split(comm_, 0, 0, nullptr, &new_comm_)),
        KEEL_CALL(keel_comm_duplicate(comm_, nullptr, &new_comm_)),
        KEEL_CALL(keel_comm_finalize(comm_, kTestTimeout)),
        KEEL_CALL(keel_comm_abort(comm_)),
        KEEL_CALL(keel_comm_destroy(comm_)),
        KEEL_CALL(keel_comm_rank(comm_, &index_, &index_)),
        KEEL_CALL(keel_comm_timeout_set(comm_, kTestTimeout)),
        KEEL_CALL(keel_comm_timeout_next(comm_, kTestTimeout)),
        KEEL_CALL(keel_comm_async_error(comm_)),
        KEEL_CALL(keel_comm_explain(comm_, text_, &number_)),
        KEEL_CALL(keel_comm_stats_get(comm_, &comm_stats_)),
        KEEL_CALL(keel_premul_sum_create(comm_, 2, &reduction_)),
        KEEL_CALL(keel_premul_sum_destroy(comm_, reduction_)),
        KEEL_CALL(keel_group_start()),
        KEEL_CALL(keel_group_end()),
    };
  }
  std::vector<Call> of_collectives() {
    constexpr keel_dtype kType = KEEL_UINT32;
    void* const there = static_cast<char*>(memory_) + kBytes / 2;
    return {
        KEEL_CALL(keel_all_reduce(comm_, memory_, there, kCount, kType, KEEL_SUM, stream_)),
        KEEL_CALL(keel_reduce(comm_, memory_, there, kCount, kType, KEEL_SUM, 0, stream_)),
        KEEL_CALL(keel_broadcast(comm_, memory_, there, kCount, kType, 0, stream_)),
        KEEL_CALL(keel_all_gather(comm_, memory_, there, kCount, kType, stream_)),
        KEEL_CALL(keel_all_gather_v(comm_, memory_, there, &count_, nullptr, kType, stream_)),
        KEEL_CALL(keel_reduce_scatter(comm_, memory_, there, kCount, kType, KEEL_SUM, stream_)),
        KEEL_CALL(keel_reduce_scatter_v(comm_, memory_, there, &count_, nullptr, kType, KEEL_SUM,
                                        stream_)),
        KEEL_CALL(keel_all_to_all(comm_, memory_, there, kCount, kType, stream_)),
        KEEL_CALL(keel_all_to_all_v(comm_, memory_, &count_, nullptr, there, &count_, nullptr,
                                    kType, stream_)),
        KEEL_CALL(keel_gather(comm_, memory_, there, kCount, kType, 0, stream_)),
        KEEL_CALL(keel_gather_v(comm_, memory_, there, &count_, nullptr, kType, 0, stream_)),
        KEEL_CALL(keel_scatter(comm_, memory_, there, kCount, kType, 0, stream_)),
        KEEL_CALL(keel_scatter_v(comm_, memory_, there, &count_, nullptr, kType, 0, stream_)),
        KEEL_CALL(keel_all_gather_list(comm_, memory_, &pointer_, kCount, kType, stream_)),
        KEEL_CALL(
            keel_all_to_all_list(comm_, &pointer_, &count_, &pointer_, nullptr, kType, stream_)),
        KEEL_CALL(
            keel_reduce_scatter_list(comm_, &pointer_, there, kCount, kType, KEEL_SUM, stream_)),
        KEEL_CALL(keel_barrier(comm_, stream_)),
        KEEL_CALL(keel_send(comm_, memory_, kCount, kType, 0, stream_)),
        KEEL_CALL(keel_recv(comm_, there, kCount, kType, 0, stream_)),
        KEEL_CALL(keel_send_recv(comm_, memory_, kCount, 0, there, kCount, 0, kType, stream_)),
    };
  }
  std::vector<Call> all() {
    std::vector<Call> calls;
    for (const auto& part : {of_process(), of_devices(), of_memory(), of_streams(), of_operators(),
                             of_communicators(), of_collectives()}) {
      calls.insert(calls.end(), part.begin(), part.end());
    }
    return calls;
  }

  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_event event_ = {};
  keel_gate gate_ = {};
  keel_comm comm_ = {};
  void* memory_ = nullptr;

 private:
  // Arguments and outputs of the calls.
  const std::string path_ = plugin_path("cpu");
  const uint64_t count_ = kCount;
  char text_[4096] = {};
  uint64_t number_ = sizeof(text_);
  uint32_t index_ = 0;
  void* pointer_ = nullptr;
  keel_stream new_stream_ = {};
  keel_event new_event_ = {};
  keel_gate new_gate_ = {};
  keel_comm new_comm_ = {};
  keel_module module_ = {};
  keel_kernel kernel_ = {};
  keel_op_id op_ = KEEL_OP_ADD;
  keel_reduction reduction_ = KEEL_SUM;
  keel_unique_id id_ = {};
  keel_backend_info backend_ = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  keel_launch_info launcher_ = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  keel_device_info info_ = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  keel_device_health health_ = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  keel_memory_stats stats_ = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  keel_memory_info found_ = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  keel_copy_path copy_path_ = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  keel_launch launch_ = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  keel_op_call call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  keel_op_plan plan_ = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  keel_custom_kernel custom_ = KEEL_STRUCT_INIT(keel_custom_kernel, KEEL_STRUCT_CUSTOM_KERNEL);
  keel_comm_stats comm_stats_ = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
};

TEST_F(ForkTest, TheChildIsRefusedAndTheParentUnharmed) {
  const std::vector<Call> calls = all();
  int answers[2] = {};
  ASSERT_EQ(pipe(answers), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const Call& call : calls) {
      const keel_status status = call.make();
      const bool refused =
          status == KEEL_FORKED && std::strstr(keel_last_error(), "fork") != nullptr;
      if (!refused) dprintf(answers[1], "%s: %s\n", call.text.c_str(), keel_status_name(status));
    }
    _exit(0);
  }
  close(answers[1]);
  std::string taken;
  char part[512];
  for (ssize_t size = 0; (size = ::read(answers[0], part, sizeof(part))) > 0;) {
    taken.append(part, static_cast<size_t>(size));
  }
  close(answers[0]);
  EXPECT_EQ(taken, "") << "what the child was not refused";
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  void* const there = static_cast<char*>(memory_) + kBytes / 2;
  ASSERT_KEEL_OK(fill(stream_, memory_, 7, kCount));
  ASSERT_KEEL_OK(keel_all_reduce(comm_, memory_, there, kCount, KEEL_UINT32, KEEL_SUM, stream_));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(device_, there, kCount), std::vector<uint32_t>(kCount, 7));
}

TEST_F(ForkTest, CallbackThatForksIsRefusedInTheChild) {
  struct Forked {
    keel_stream stream;
    std::promise<int> exit_status;
  } forked{stream_, {}};
  const auto fork_within = [](void* user, keel_status) {
    auto& self = *static_cast<Forked*>(user);
    const pid_t child = fork();
    if (child == 0) {
      _exit(keel_stream_on_done(self.stream, &never, nullptr) == KEEL_FORKED ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    self.exit_status.set_value(status);
  };
  ASSERT_KEEL_OK(keel_stream_on_done(stream_, fork_within, &forked));
  EXPECT_EQ(forked.exit_status.get_future().get(), 0);
  std::promise<keel_status> later;
  const auto keep = [](void* user, keel_status status) {
    static_cast<std::promise<keel_status>*>(user)->set_value(status);
  };
  ASSERT_KEEL_OK(keel_stream_on_done(stream_, keep, &later));
  EXPECT_KEEL_OK(later.get_future().get());
}

TEST_F(ForkTest, NoFunctionIsLeftOut) {
  std::set<std::string> made;
  for (const Call& call : all()) made.insert(call.text.substr(0, call.text.find('(')));
  std::ifstream file(KEEL_HEADER);
  std::stringstream header;
  header << file.rdbuf();
  const std::string text = header.str();
  const std::regex declaration("KEEL_API keel_status (keel_\\w+)\\(");
  std::set<std::string> declared;
  for (std::sregex_iterator found(text.begin(), text.end(), declaration), end; found != end;
       ++found) {
    declared.insert((*found)[1]);
  }
  EXPECT_GT(declared.size(), 80u);
  EXPECT_EQ(made, declared);
}

}  // namespace
}  // namespace keel::testing
