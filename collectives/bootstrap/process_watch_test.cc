// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/process_watch.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {
namespace {

// Waits for a line, under a process name that contains the field separators of /proc/PID/stat.
int waiting_worker(const std::vector<std::string>&) {
  prctl(PR_SET_NAME, "a) R 1 (b) 7");
  say("here");
  hear();
  return 0;
}

uint64_t start_time_of(int64_t pid) {
  uint64_t start_time = 0;
  const Status read = process_start_time(pid, &start_time);
  EXPECT_TRUE(read.ok()) << read.text();
  return start_time;
}

// A watch that counts its calls.
class Watch {
 public:
  Watch(int64_t pid, uint64_t start_time) {
    const Status watched = ProcessWatch::get().watch(
        pid, start_time,
        [this] {
          EXPECT_TRUE(ServiceThread::get().is_current());
          if (++calls_ == 1) called_.set_value();
        },
        &id_);
    EXPECT_TRUE(watched.ok()) << watched.text();
  }
  ~Watch() { ProcessWatch::get().unwatch(id_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void wait() { called_.get_future().wait(); }
  void unwatch() { ProcessWatch::get().unwatch(id_); }
  int calls() const { return calls_; }

 private:
  uint64_t id_ = 0;
  std::atomic<int> calls_{0};
  std::promise<void> called_;
};

TEST(ProcessWatchTest, StartTimes) {
  ChildProcess child("wait", {});
  EXPECT_EQ(child.read_line(), "here");
  // Ticks since the host's boot; a child is not older than its parent.
  const uint64_t here = start_time_of(getpid());
  EXPECT_GT(here, 0u);
  EXPECT_GE(start_time_of(child.pid()), here);
  EXPECT_LE(start_time_of(child.pid()), here + static_cast<uint64_t>(3600 * sysconf(_SC_CLK_TCK)));
  const pid_t pid = child.pid();
  child.write_line("");
  EXPECT_EQ(child.wait(), 0);
  uint64_t start_time = 0;
  EXPECT_EQ(process_start_time(pid, &start_time).code(), KEEL_NOT_FOUND);
}

TEST(ProcessWatchTest, AKilledProcessIsNoticed) {
  ChildProcess child("wait", {});
  EXPECT_EQ(child.read_line(), "here");
  Watch watch(child.pid(), start_time_of(child.pid()));
  Watch another(child.pid(), start_time_of(child.pid()));
  EXPECT_EQ(watch.calls(), 0);
  const uint64_t start_time = start_time_of(child.pid());
  EXPECT_FALSE(has_process_ended(child.pid(), start_time));
  EXPECT_TRUE(has_process_ended(child.pid(), start_time + 1));
  EXPECT_FALSE(has_process_ended(child.pid(), 0));
  child.kill();  // not reaped yet: noticed as a zombie
  watch.wait();
  another.wait();
  EXPECT_TRUE(has_process_ended(child.pid(), start_time));
  watch.unwatch();
  EXPECT_EQ(watch.calls(), 1);
  EXPECT_EQ(child.wait(), 128 + 9);
  EXPECT_EQ(another.calls(), 1);
}

TEST(ProcessWatchTest, AnEndIsNoticed) {
  ChildProcess child("wait", {});
  EXPECT_EQ(child.read_line(), "here");
  Watch watch(child.pid(), start_time_of(child.pid()));
  child.write_line("");
  watch.wait();
  EXPECT_EQ(child.wait(), 0);
}

TEST(ProcessWatchTest, OneThatHasEndedBefore) {
  ChildProcess child("wait", {});
  EXPECT_EQ(child.read_line(), "here");
  const pid_t pid = child.pid();
  const uint64_t start_time = start_time_of(pid);
  child.kill();
  EXPECT_EQ(child.wait(), 128 + 9);
  EXPECT_TRUE(has_process_ended(pid, start_time));
  Watch watch(pid, start_time);
  watch.wait();
}

TEST(ProcessWatchTest, APidThatIsAnothersNow) {
  Watch watch(getpid(), start_time_of(getpid()) + 1);
  watch.wait();
  Watch itself(getpid(), start_time_of(getpid()));
  itself.unwatch();
  EXPECT_EQ(itself.calls(), 0);
}

TEST(ProcessWatchTest, ProcessWithoutAKnownStartIsWatched) {
  ChildProcess child("wait", {});
  EXPECT_EQ(child.read_line(), "here");
  Watch watch(child.pid(), 0);
  Watch gone(getpid(), start_time_of(getpid()) + 1);
  gone.wait();  // the service thread has handled both
  EXPECT_EQ(watch.calls(), 0);
  child.kill();
  watch.wait();
}

TEST(ProcessWatchTest, OnceUnwatchedNothingIsCalled) {
  for (int time = 0; time < 20; ++time) {
    ChildProcess child("wait", {});
    EXPECT_EQ(child.read_line(), "here");
    // No synchronization on purpose: the sanitizers detect a late call.
    auto calls = std::make_unique<int>(0);
    uint64_t watch = 0;
    ASSERT_TRUE(ProcessWatch::get()
                    .watch(
                        child.pid(), start_time_of(child.pid()), [&] { ++*calls; }, &watch)
                    .ok());
    child.kill();
    ProcessWatch::get().unwatch(watch);
    EXPECT_LE(*calls, 1);
    calls.reset();
    EXPECT_EQ(child.wait(), 128 + 9);
  }
}

TEST(ProcessWatchTest, MayBeUnwatchedFromItsCall) {
  std::promise<void> called;
  std::promise<uint64_t> id;
  std::shared_future<uint64_t> known = id.get_future().share();
  uint64_t watch = 0;
  ASSERT_TRUE(ProcessWatch::get()
                  .watch(
                      getpid(), start_time_of(getpid()) + 1,
                      [&] {
                        ProcessWatch::get().unwatch(known.get());
                        called.set_value();
                      },
                      &watch)
                  .ok());
  id.set_value(watch);
  called.get_future().wait();
  ProcessWatch::get().unwatch(watch);
}

TEST(ProcessWatchTest, NoPids) {
  uint64_t watch = 0;
  for (int64_t pid : {int64_t{0}, int64_t{-1}, int64_t{1} << 31}) {
    EXPECT_EQ(ProcessWatch::get()
                  .watch(
                      pid, 0, [] {}, &watch)
                  .code(),
              KEEL_INVALID_ARGUMENT);
  }
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"wait", waiting_worker}};
  return all;
}

}  // namespace keel::testing
