// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/ranks.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/core_share.h"

namespace keel::bench::peers {

namespace {

// The allowed cores before any rank bound itself.
const cpu_set_t& usable() {
  static const cpu_set_t cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_SET(0, &set);
    return set;
  }();
  return cores;
}

bool succeeds(uint32_t rank, uint32_t ranks, const RankFunction& function) {
  try {
    take_cores(rank, ranks);
    function(rank);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    return false;
  }
}

}  // namespace

Blackboard::Blackboard() {
  void* memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared page");
  page_ = new (memory) Page{};
}

Blackboard::~Blackboard() {
  munmap(page_, sizeof(Page));
}

void Blackboard::write(const std::string& text) {
  if (text.size() >= sizeof(page_->text)) throw std::runtime_error("too long: " + text);
  std::memcpy(page_->text, text.c_str(), text.size() + 1);
  page_->written.store(1, std::memory_order_release);
}

std::string Blackboard::read(uint32_t seconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (page_->written.load(std::memory_order_acquire) == 0) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("nothing was written");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return page_->text;
}

uint32_t usable_cores() {
  return static_cast<uint32_t>(CPU_COUNT(&usable()));
}

void take_cores(uint32_t rank, uint32_t ranks) {
  const cpu_set_t share = core_share(usable(), rank, ranks);
  if (sched_setaffinity(0, sizeof(share), &share) != 0) throw std::runtime_error("not bound");
}

LaunchedRank launched_rank() {
  const char* const rank = std::getenv("KEEL_RANK");
  const char* const ranks = std::getenv("KEEL_WORLD");
  if (rank == nullptr || ranks == nullptr) {
    throw std::invalid_argument("--mode launched: `keel run` sets KEEL_RANK and KEEL_WORLD");
  }
  const LaunchedRank own = {static_cast<uint32_t>(std::stoul(rank)),
                            static_cast<uint32_t>(std::stoul(ranks))};
  take_cores(own.rank, own.ranks);
  return own;
}

int run_in_threads(uint32_t ranks, const RankFunction& function) {
  usable();  // before this thread's binding changes
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([rank, ranks, &function] {
      // Other ranks might wait for this one forever.
      if (!succeeds(rank, ranks, function)) _exit(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int run_in_processes(uint32_t ranks, const RankFunction& function) {
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      const bool good = succeeds(rank, ranks, function);
      std::fflush(nullptr);
      _exit(good ? 0 : 1);
    }
    if (child < 0) break;
    children.push_back(child);
  }
  bool good = children.size() == ranks;
  const auto end_all = [&] {
    for (const pid_t child : children) kill(child, SIGKILL);
  };
  if (!good) end_all();
  // Each child has its own deadline (arm_deadline), so these waits end.
  for (size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    if (waitpid(-1, &status, 0) < 0) break;
    if (good && status != 0) {
      good = false;
      end_all();
    }
  }
  return good ? 0 : 1;
}

}  // namespace keel::bench::peers
