// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <keel/parallel/checkpoint_trigger.hpp>
#include <mutex>

namespace keel::parallel {
inline namespace v0 {
namespace {

std::atomic<uint64_t> g_signals{0};  // received so far
static_assert(std::atomic<uint64_t>::is_always_lock_free, "a signal handler must not lock");

// The handler, installed while a trigger wants it.
std::mutex g_mutex;
int g_users = 0;
int g_signal = 0;
struct sigaction g_before = {};

void install(int signal) {
  const std::lock_guard lock(g_mutex);
  if (g_users > 0 && g_signal != signal) {
    throw Error(KEEL_INVALID_ARGUMENT, "checkpoint trigger: signal " + std::to_string(signal) +
                                           ", but another trigger has " + std::to_string(g_signal));
  }
  if (g_users == 0) {
    struct sigaction action = {};
    action.sa_handler = [](int) { g_signals.fetch_add(1); };
    action.sa_flags = SA_RESTART;
    if (sigaction(signal, &action, &g_before) != 0) {
      throw Error(KEEL_INVALID_ARGUMENT, "checkpoint trigger: signal " + std::to_string(signal) +
                                             ": " + std::strerror(errno));
    }
    g_signal = signal;
  }
  ++g_users;
}

void remove_handler() {
  const std::lock_guard lock(g_mutex);
  if (--g_users == 0) (void)sigaction(g_signal, &g_before, nullptr);
}

}  // namespace

CheckpointTrigger::CheckpointTrigger(Communicator& world, Device device,
                                     CheckpointTriggerOptions options)
    : options_(options),
      lane_(world.duplicate()),
      stream_(device),
      note_(device, KEEL_MEMORY_DEVICE, sizeof(int32_t)),
      last_(std::chrono::steady_clock::now()) {
  if (options_.signal != 0) install(options_.signal);
  seen_ = g_signals.load();
}

CheckpointTrigger::~CheckpointTrigger() {
  if (options_.signal != 0) remove_handler();
}

bool CheckpointTrigger::is_due(int64_t step) {
  int32_t due = options_.every_steps > 0 && step % options_.every_steps == 0 ? 1 : 0;
  if (options_.signal != 0 || options_.every.count() > 0) {
    const auto now = std::chrono::steady_clock::now();
    if (options_.signal != 0 && g_signals.load() != seen_) due = 1;
    if (options_.every.count() > 0 && now - last_ >= options_.every) due = 1;
    stream_.copy(stream_.device(), note_.data(), Device(), &due, sizeof(due));
    lane_.all_reduce(note_.data(), note_.data(), 1, KEEL_INT32, KEEL_MAX, stream_);
    stream_.copy(Device(), &due, stream_.device(), note_.data(), sizeof(due));
    stream_.synchronize();
    if (due != 0) {
      // Behind the ranks' notes: a signal that another rank of this process has reported is known.
      seen_ = g_signals.load();
      last_ = now;
    }
  }
  return due != 0;
}

}  // namespace v0
}  // namespace keel::parallel
