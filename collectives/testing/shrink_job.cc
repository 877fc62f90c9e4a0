// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/shrink_job.h"

#include <keel/shrink.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <sstream>

#include "collectives/shrink_step.h"

namespace keel::testing {

namespace {

// ---- the workers ----------------------------------------------------------------

std::string told(keel_status status) {
  std::string text = std::string(keel_status_name(status)) + ": " + keel_last_error();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The signal that the worker sends itself when a step of its shrink is reached so many times.
ShrinkStep g_step;
std::atomic<int> g_times{1};
int g_signal = 0;

void end_at(const std::string& step, int times, int signal) {
  static const std::map<std::string, ShrinkStep> steps = {
      {"ended", ShrinkStep::kEnded},     {"voted", ShrinkStep::kVoted},
      {"agreed", ShrinkStep::kAgreed},   {"offered", ShrinkStep::kOffered},
      {"told", ShrinkStep::kTold},       {"joined", ShrinkStep::kJoined},
      {"entered", ShrinkStep::kEntered}, {"decided", ShrinkStep::kDecided}};
  g_step = steps.at(step);
  g_signal = signal;
  g_times = times;
  g_shrink_observer = [](ShrinkStep reached) {
    if (reached != g_step || --g_times != 0) return;
    g_shrink_observer = nullptr;
    raise(g_signal);
  };
}

std::string describe(keel_comm comm) {
  uint32_t rank = 0;
  uint32_t world = 0;
  uint64_t epoch = 0;
  std::array<uint32_t, 16> old = {};
  uint32_t count = old.size();
  keel_status status = keel_comm_rank(comm, &rank, &world);
  if (status == KEEL_OK) status = keel_comm_survivors(comm, old.data(), &count, &epoch);
  if (status != KEEL_OK) return told(status);
  std::string text = fmt::format("rank {} of {}, epoch {}, were", rank, world, epoch);
  for (uint32_t i = 0; i < count; ++i) text += " " + std::to_string(old[i]);
  return text;
}

}  // namespace

std::string shrink(Rank& self, int64_t timeout_ms, int64_t absent_ms) {
  keel_comm left = {};
  const keel_status status = keel_comm_shrink(self.comm, timeout_ms * kMillisecond,
                                              absent_ms * kMillisecond, nullptr, &left);
  if (status != KEEL_OK) return told(status);
  if (keel_comm_destroy(self.comm) != KEEL_OK) return told(KEEL_INTERNAL);
  self.comm = left;
  if (keel_stream_recover(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) return told(KEEL_INTERNAL);
  return describe(left);
}

std::string sum(Rank& self) {
  std::vector<int32_t> values(kCount, 1 << self.number);
  const uint64_t bytes = kCount * sizeof(int32_t);
  keel_status status =
      keel_copy(self.stream, self.device, self.data, KEEL_HOST, values.data(), bytes);
  if (status == KEEL_OK) {
    status =
        keel_all_reduce(self.comm, self.data, self.data, kCount, KEEL_INT32, KEEL_SUM, self.stream);
  }
  if (status == KEEL_OK) {
    status = keel_copy(self.stream, KEEL_HOST, values.data(), self.device, self.data, bytes);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  if (status != KEEL_OK) {
    std::string failure = told(status);
    // The upload may be under way still, where a later call was refused.
    keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
    return failure;
  }
  for (const int32_t value : values) {
    if (value != values[0]) return "elements differ";
  }
  return std::to_string(values[0]);
}

namespace {

// all_reduces until one fails; says "running" after the first.
std::string loop(Rank& self) {
  for (uint64_t i = 0;; ++i) {
    const uint64_t count = i % 2 == 0 ? kCount : 100;
    keel_status status =
        keel_all_reduce(self.comm, self.data, self.data, count, KEEL_INT32, KEEL_MAX, self.stream);
    if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
    if (status != KEEL_OK) return told(status);
    if (i == 0) say("running");
  }
}

// Shrinks until the group that is left can sum.
std::string go_on(Rank& self) {
  std::string status = "no round";
  for (int round = 0; round < 10; ++round) {
    status = shrink(self, 100'000, 0);
    if (status.rfind("rank ", 0) != 0) return status;
    const std::string epoch =
        status.substr(status.find("epoch"), status.find(", were") - status.find("epoch"));
    status = sum(self);
    if (status.rfind("KEEL_", 0) != 0) return epoch + ": " + status;
  }
  return status;
}

std::string obey(Rank& self, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string step;
  words >> command;
  if (command == "loop") return loop(self);
  if (command == "sum") return sum(self);
  if (command == "go_on") return go_on(self);
  if (command == "abort") return told(keel_comm_abort(self.comm));
  if (command == "kill_at" || command == "stop_at") {
    int times = 1;
    words >> step >> times;
    end_at(step, std::max(times, 1), command == "kill_at" ? SIGKILL : SIGSTOP);
    return "armed";
  }
  if (command == "timeout") {
    int64_t milliseconds = 0;
    words >> milliseconds;
    keel_comm_timeout_set(self.comm, milliseconds * kMillisecond);
    return "set";
  }
  if (command == "split") {
    uint32_t color = 0;
    words >> color;
    keel_comm part = {};
    const keel_status status =
        keel_comm_split(self.comm, static_cast<int32_t>(color), 0, nullptr, &part);
    if (status != KEEL_OK) return told(status);
    self.comm = part;  // the whole stays until the end of the process
    return describe(part);
  }
  int64_t timeout_ms = 100'000;
  int64_t absent_ms = 0;
  words >> timeout_ms >> absent_ms;
  return shrink(self, timeout_ms, absent_ms);
}

// Arguments: rank, world, host ("-": one host). The others' standard input begins with the id.
int run_rank(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(200);
  if (arguments[2] != "-") {
    setenv("KEEL_HOST_ID", arguments[2].c_str(), 1);
    setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  }
  Rank self;
  self.number = static_cast<uint32_t>(std::stoul(arguments[0]));
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 100 * kSecond;
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 2;
  keel_unique_id id = {};
  if (self.number == 0) {
    if (keel_unique_id_create(&id) != KEEL_OK) return 3;
    say(id.text);
  } else {
    hear().copy(id.text, sizeof(id.text) - 1);
  }
  keel_status status = keel_device_get(0, &self.device);
  if (status == KEEL_OK) status = keel_stream_create(self.device, 0, &self.stream);
  if (status == KEEL_OK) {
    status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &self.data);
  }
  const auto world = static_cast<uint32_t>(std::stoul(arguments[1]));
  if (status == KEEL_OK) {
    status = keel_comm_init_rank(self.device, &id, self.number, world, nullptr, &self.comm);
  }
  say(status == KEEL_OK ? "ready" : told(status));
  for (std::string line = hear(); !line.empty(); line = hear()) say(obey(self, line));
  return 0;
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"rank", run_rank}};
  return all;
}

}  // namespace keel::testing
