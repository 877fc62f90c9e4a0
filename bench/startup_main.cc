// SPDX-License-Identifier: Apache-2.0
// One process of the job that startup.py times: joins ranks on threads of its own, waits for one
// barrier, and prints when it had come how far.
#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

// Reads the clock of Python's time.monotonic_ns().
int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

double processor_seconds() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void raise_to(std::atomic<int64_t>& latest, int64_t value) {
  int64_t known = latest.load();
  while (known < value && !latest.compare_exchange_weak(known, value)) {
  }
}

bool failed(const char* what, uint32_t rank) {
  std::fprintf(stderr, "rank %u: %s: %s\n", rank, what, keel_last_error());
  return false;
}

struct Job {
  keel_unique_id id = {};
  uint32_t first_rank = 0;
  uint32_t world = 0;
  keel_device device = {};
  std::atomic<int64_t> joined{0};   // the last rank of this process
  std::atomic<int64_t> barrier{0};  // same
  std::atomic<bool> failed{false};
};

bool run_rank(Job& job, uint32_t rank, keel_comm* out_comm) {
  keel_stream stream = {};
  if (keel_stream_create(job.device, 0, &stream) != KEEL_OK) return failed("stream", rank);
  if (keel_comm_init_rank(job.device, &job.id, rank, job.world, nullptr, out_comm) != KEEL_OK) {
    return failed("joining", rank);
  }
  raise_to(job.joined, now_ns());
  if (keel_barrier(*out_comm, stream) != KEEL_OK ||
      keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return failed("barrier", rank);
  }
  raise_to(job.barrier, now_ns());
  return true;
}

int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

// Arguments: "-" or the id, first rank, threads, world. With "-" prints an id and serves it. Leaves
// when its input ends, so that no rank leaves before the last one has come.
int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: %s -|ID FIRST_RANK THREADS WORLD\n", arguments[0]);
    return 2;
  }
  const int64_t begun = now_ns();
  Job job;
  const std::string id = arguments[1];
  job.first_rank = static_cast<uint32_t>(std::atoi(arguments[2]));
  const auto threads = static_cast<uint32_t>(std::atoi(arguments[3]));
  job.world = static_cast<uint32_t>(std::atoi(arguments[4]));
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.backends = "cpu";
  init.default_timeout_ns = int64_t{120} * 1'000'000'000;
  if (keel_init(&init) != KEEL_OK || keel_device_get(0, &job.device) != KEEL_OK) {
    return failed("starting Keel", job.first_rank) ? 0 : 1;
  }
  if (id == "-") {
    if (keel_unique_id_create(&job.id) != KEEL_OK) return failed("id", 0) ? 0 : 1;
    std::printf("%s\n", job.id.text);
    std::fflush(stdout);
  } else {
    id.copy(job.id.text, sizeof(job.id.text) - 1);
  }
  const int64_t started = now_ns();
  std::vector<keel_comm> comms(threads);
  std::vector<std::thread> ranks;
  for (uint32_t i = 0; i < threads; ++i) {
    ranks.emplace_back([&job, &comms, i] {
      if (!run_rank(job, job.first_rank + i, &comms[i])) job.failed = true;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (job.failed) return 1;
  std::printf(
      "{\"begun\": %ld, \"started\": %ld, \"joined\": %ld, \"barrier\": %ld, \"descriptors\": %ld, "
      "\"processor_seconds\": %.4f}\n",
      begun, started, job.joined.load(), job.barrier.load(), open_descriptors(),
      processor_seconds());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  // The end of the process closes all connections at once, which no rank waits for any more.
  std::_Exit(0);
}
