// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/scripted_job.h"

#include <keel/rank_status.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "collectives/bootstrap/testing/scripted_rank.h"

namespace keel::testing {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kCount = 5000;  // several rounds of the smallest chunk
constexpr uint64_t kMessageCount =
    20'000;  // too large to be buffered: a send waits for its receive

class Rank {
 public:
  explicit Rank(bool staged) : staged_(staged) {
    keel_device_get(0, &device_);
    keel_stream_create(device_, 0, &stream_);
    keel_alloc(device_, KEEL_MEMORY_DEVICE, kMessageCount * sizeof(float), &data_);
  }
  ~Rank() {
    keel_stream_destroy(stream_);
    keel_free(device_, data_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  keel_status obey(const std::string& command, int64_t timeout_ns) {
    if (command == "join") return join(timeout_ns);
    if (command == "join with wait_context") return join_before_deadline(timeout_ns);
    if (command == "all_reduce") return all_reduce(kCount);
    if (command == "all_reduce less") return all_reduce(kCount - 1);
    if (command == "all_reduce by sum") {
      return all_reduce(comm_, kCount, KEEL_FLOAT32, KEEL_SUM);
    }
    if (command == "all_reduce of int32") {
      return all_reduce(comm_, kCount, KEEL_INT32, KEEL_MAX);
    }
    if (command == "broadcast") return broadcast(/*root=*/0);
    if (command == "broadcast from 1") return broadcast(/*root=*/1);
    if (command.starts_with("send ")) {
      return keel_send(comm_, data_, kMessageCount, KEEL_FLOAT32, command.back() - '0', stream_);
    }
    if (command.starts_with("receive ")) {
      return keel_recv(comm_, data_, kMessageCount, KEEL_FLOAT32, command.back() - '0', stream_);
    }
    if (command == "synchronize") return keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "recover") return keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "abort") return keel_comm_abort(comm_);
    if (command == "destroy") return keel_comm_destroy(comm_);
    if (command == "error") return keel_comm_async_error(comm_);
    if (command.starts_with("status ")) {
      return keel_comm_rank_status(comm_, command.back() - '0');
    }
    if (command == "loop") return loop({comm_});
    if (command == "loop twice") return loop_twice();
    if (command == "loop splitting") return loop_splitting();
    if (command == "exec") execl("/bin/cat", "cat", nullptr);  // until its input ends
    return KEEL_INTERNAL;
  }

 private:
  keel_status join(int64_t timeout_ns) {
    options_.timeout_ns = timeout_ns;
    options_.chunk_bytes = 4096;
    options_.forbid_alias = staged_ ? 1 : 0;
    return keel_comm_init_env(device_, &options_, &comm_);
  }
  // Joins without a short deadline, however busy the machine is; |timeout_ns| applies to later
  // calls.
  keel_status join_before_deadline(int64_t timeout_ns) {
    const keel_status status = join(/*timeout_ns=*/0);
    if (status != KEEL_OK || timeout_ns == 0) return status;
    options_.timeout_ns = timeout_ns;
    return keel_comm_timeout_set(comm_, timeout_ns);
  }
  keel_status all_reduce(uint64_t count) { return all_reduce(comm_, count); }
  keel_status all_reduce(keel_comm comm, uint64_t count, keel_dtype dtype = KEEL_FLOAT32,
                         keel_reduction reduction = KEEL_MAX) {
    return keel_all_reduce(comm, data_, data_, count, dtype, reduction, stream_);
  }
  keel_status broadcast(uint32_t root) {
    return keel_broadcast(comm_, data_, data_, kCount, KEEL_FLOAT32, root, stream_);
  }
  // Runs large and small operations, and messages around the ring, on each communicator in turn,
  // until an operation fails.
  keel_status loop(const std::vector<keel_comm>& comms) {
    uint32_t rank = 0;
    uint32_t world = 0;
    keel_comm_rank(comm_, &rank, &world);
    for (uint32_t round = 0;; ++round) {
      const keel_comm comm = comms[round % comms.size()];
      keel_status status = all_reduce(comm, round % 3 == 0 ? 10 : kCount);
      if (status == KEEL_OK && round % 4 == 0) {
        status = keel_send_recv(comm, data_, kCount, (rank + 1) % world,
                                static_cast<float*>(data_) + kCount, kCount,
                                (rank + world - 1) % world, KEEL_FLOAT32, stream_);
      }
      if (status == KEEL_OK && round % 5 != 4) continue;
      // Both a refused call and the stream report the failure.
      const keel_status waited = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
      if (waited != KEEL_OK) return waited;
      if (status != KEEL_OK) return keel_comm_async_error(comm);
    }
  }
  // The second communicator fails like the first: no peer is left to continue with.
  keel_status loop_twice() {
    keel_comm second = {};
    keel_status status = keel_comm_duplicate(comm_, &options_, &second);
    if (status != KEEL_OK) return status;
    status = loop({comm_, second});
    for (const keel_comm comm : {comm_, second}) {
      // The failure may reach the two communicators at slightly different times.
      if (keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) return KEEL_INTERNAL;
      status = loop({comm});
      if (status != KEEL_RANK_FAILED) return status;
    }
    return status;
  }
  // Creates a communicator for each operation.
  keel_status loop_splitting() {
    while (true) {
      keel_comm part = {};
      keel_status status = keel_comm_duplicate(comm_, &options_, &part);
      if (status != KEEL_OK) return status;
      status = all_reduce(part, kCount);
      const keel_status waited = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
      if (status == KEEL_OK) status = waited;
      // The parent communicator fails too, possibly a little later.
      if (status != KEEL_OK && status != KEEL_RANK_FAILED) return status;
      keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
      keel_comm_destroy(part);
    }
  }

  const bool staged_;
  keel_comm_options options_ = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  void* data_ = nullptr;
};

// Arguments: rank, world, rendezvous, timeout in milliseconds, backend, "staged" or nothing.
int run_worker(const std::vector<std::string>& arguments) {
  enter_job(arguments[0], arguments[1], arguments[2]);
  setenv("KEEL_SIM_DEVICES", "1", 1);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 50 * kSecond;
  init.backends = arguments[4].c_str();
  const keel_status begun = keel_init(&init);
  keel_device device = {};
  const bool has_device = begun == KEEL_OK && keel_device_get(0, &device) == KEEL_OK;
  say(has_device ? "ready" : keel_last_error());
  if (!has_device) return 1;
  auto rank = std::make_unique<Rank>(arguments[5] == "staged");
  answer_commands([&](const std::string& command) {
    return rank->obey(command, std::stoll(arguments[3]) * 1'000'000);
  });
  rank.reset();
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}

// ---- test side ------------------------------------------------------------------

std::string new_rendezvous() {
  static int rendezvous_count = 0;
  return "failures-" + std::to_string(getpid()) + "-" + std::to_string(++rendezvous_count);
}

ChildProcess start(uint32_t rank, uint32_t world, const std::string& rendezvous, int timeout_ms,
                   const Kind& kind) {
  return {"rank",
          {std::to_string(rank), std::to_string(world), rendezvous, std::to_string(timeout_ms),
           kind.backend, kind.staged ? "staged" : ""}};
}

std::string ask(ChildProcess& child, const std::string& command) {
  child.write_line(command);
  return child.read_line();
}

Job::Job(uint32_t world, int timeout_ms, const Kind& kind, const std::string& rendezvous,
         bool joins) {
  for (uint32_t rank = 0; rank < world; ++rank) {
    children_.push_back(start(rank, world, rendezvous, timeout_ms, kind));
  }
  for (ChildProcess& child : children_) EXPECT_EQ(child.read_line(), "ready");
  if (!joins) return;
  tell_all("join with wait_context");
  for (ChildProcess& child : children_) EXPECT_EQ(child.read_line(), "KEEL_OK");
}

void Job::tell_all(const std::string& command) {
  for (ChildProcess& child : children_) child.write_line(command);
}

}  // namespace keel::testing
