// SPDX-License-Identifier: Apache-2.0
#include "bench/rank_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <keel/keel.hpp>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/ipc/poll.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kName[] = "ranks";
constexpr int64_t kTimeoutNs = 60'000'000'000;

int64_t now_ns() {
  return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// ---- in a process of ranks -----------------------------------------------------------

struct Place {
  uint32_t first = 0;
  uint32_t threads = 0;
  uint32_t world = 0;
  AfterBarrier then = AfterBarrier::kNothing;
  keel_unique_id id = {};

  bool is_last() const { return first + threads == world; }
};

class Rank {
 public:
  Rank(const Place& place, uint32_t rank) : device_(Device::find("cpu")) {
    keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = kTimeoutNs;
    check(keel_comm_init_rank(device_.get(), &place.id, rank, place.world, &options, &comm_));
  }
  ~Rank() { keel_comm_destroy(comm_); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  keel_status meet() const {
    const Stream stream(device_);
    check(keel_barrier(comm_, stream.get()));
    return keel_stream_synchronize(stream.get(), kTimeoutNs);
  }

 private:
  Device device_;
  keel_comm comm_ = {};
};

// Runs |body|(0 .. |count| - 1), one thread each. A failure ends the process.
template <typename Body>
void in_threads(uint32_t count, const Body& body) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "a rank of keel_bench: %s\n", error.what());
        _exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void run_ranks(const Place& place) {
  RankMilestones times;
  times.running_ns = now_ns();
  setenv("KEEL_BACKENDS", "cpu", /*overwrite=*/1);
  const Runtime runtime;
  times.up_ns = now_ns();
  std::vector<std::unique_ptr<Rank>> ranks(place.threads);
  std::vector<int64_t> joined(place.threads);
  in_threads(place.threads, [&](uint32_t i) {
    ranks[i] = std::make_unique<Rank>(place, place.first + i);
    joined[i] = now_ns();
    check(ranks[i]->meet());
  });
  times.joined_ns = *std::max_element(joined.begin(), joined.end());
  times.all_there_ns = now_ns();
  std::printf("%lld %lld %lld %lld\n", static_cast<long long>(times.running_ns),
              static_cast<long long>(times.up_ns), static_cast<long long>(times.joined_ns),
              static_cast<long long>(times.all_there_ns));
  std::fflush(stdout);
  if (place.then == AfterBarrier::kWaitForLast && !place.is_last()) {
    std::vector<keel_status> statuses(place.threads);
    in_threads(place.threads, [&](uint32_t i) { statuses[i] = ranks[i]->meet(); });
    const bool are_told = std::all_of(statuses.begin(), statuses.end(),
                                      [](keel_status each) { return each == KEEL_RANK_FAILED; });
    std::printf("%lld\n", are_told ? static_cast<long long>(now_ns()) : -1LL);
    std::fflush(stdout);
  }
  char nothing = 0;
  while (read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
  }
  in_threads(place.threads, [&](uint32_t i) { ranks[i].reset(); });
}

// ---- in the process that starts them --------------------------------------------------

}  // namespace

RankProcesses::RankProcesses(uint32_t processes, uint32_t threads, AfterBarrier then) {
  keel_unique_id id = {};
  check(keel_unique_id_create(&id));
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  int input[2];  // shared by all processes
  if (pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
  const FileDescriptor their_input(input[0]);
  input_ = FileDescriptor(input[1]);
  for (uint32_t i = 0; i < processes; ++i) {
    ProcessOptions options;
    options.command = {program, "--repeat",
                       fmt::format("{}/{}/{}/{}/{}/{}", kName, i * threads, threads,
                                   processes * threads, static_cast<uint32_t>(then), id.text)};
    options.output = ProcessOptions::Stream::kPiped;
    options.descriptors = {{their_input.get(), STDIN_FILENO}};
    children_.emplace_back();
    if (children_.back().process.start(options) != 0) {
      throw std::runtime_error("no process can be started");
    }
  }
  last_spawn_ns_ = now_ns();
}

std::string RankProcesses::line_of(Child& child, Clock::time_point end) const {
  const int output = child.process.output().get();
  size_t length = 0;
  while ((length = child.text.find('\n')) == std::string::npos) {
    char block[256];
    const bool is_ready = poll_until(output, POLLIN, end) > 0;
    const ssize_t got = is_ready ? read(output, block, sizeof(block)) : 0;
    if (got <= 0) {
      throw std::runtime_error(fmt::format("process {} of {} with ranks of one communicator {}",
                                           &child - children_.data() + 1, children_.size(),
                                           is_ready ? "has ended" : "is not ready in time"));
    }
    child.text.append(block, static_cast<size_t>(got));
  }
  const std::string line = child.text.substr(0, length);
  child.text.erase(0, length + 1);
  return line;
}

std::vector<RankMilestones> RankProcesses::wait_for_all(std::chrono::milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  std::vector<RankMilestones> all;
  for (Child& child : children_) {
    const std::string line = line_of(child, end);
    long long values[4] = {};
    if (std::sscanf(line.c_str(), "%lld %lld %lld %lld", &values[0], &values[1], &values[2],
                    &values[3]) != 4) {
      throw std::runtime_error("a process with ranks said: " + line);
    }
    all.push_back({values[0], values[1], values[2], values[3]});
  }
  return all;
}

int64_t RankProcesses::kill_last() {
  const int64_t time = now_ns();
  children_.back().process.kill(SIGKILL);
  return time;
}

int64_t RankProcesses::wait_for_failure(std::chrono::milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  int64_t last = 0;
  for (size_t i = 0; i + 1 < children_.size(); ++i) {
    const std::string line = line_of(children_[i], end);
    const long long told = std::atoll(line.c_str());
    if (told <= 0)
      throw std::runtime_error("a rank that another one's death was to reach: " + line);
    last = std::max<int64_t>(last, told);
  }
  return last;
}

double RankProcesses::cpu_seconds() const {
  double seconds = 0;
  for (const Child& child : children_) {
    clockid_t clock = 0;
    timespec used = {};
    if (clock_getcpuclockid(child.process.pid(), &clock) != 0 || clock_gettime(clock, &used) != 0) {
      throw std::runtime_error("a process with ranks has no clock any more");
    }
    seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }
  return seconds;
}

RankProcesses::~RankProcesses() {
  input_ = FileDescriptor();
  const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  // A process that is still there after that is killed by its destructor.
  for (Child& child : children_) child.process.wait_until(end);
}

bool be_rank_process(const std::string& what) {
  if (!what.starts_with(std::string(kName) + "/")) return false;
  Place place;
  static_assert(sizeof(place.id.text) == 128);
  uint32_t then = 0;
  if (std::sscanf(what.c_str(), "ranks/%u/%u/%u/%u/%127s", &place.first, &place.threads,
                  &place.world, &then, place.id.text) != 5) {
    throw std::runtime_error("--repeat " + what);
  }
  place.then = static_cast<AfterBarrier>(then);
  run_ranks(place);
  return true;
}

}  // namespace keel::bench
