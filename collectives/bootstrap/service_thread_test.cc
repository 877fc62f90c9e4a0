// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/service_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {
namespace {

FileDescriptor make_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_TRUE(event);
  return event;
}

void signal(int event) {
  EXPECT_EQ(eventfd_write(event, 1), 0);
}

void clear(int event) {
  eventfd_t value = 0;
  eventfd_read(event, &value);
}

// Runs |body| on the service thread and returns when it is done.
void on_service_thread(std::function<void(uint64_t id)> body) {
  FileDescriptor event = make_event();
  signal(event.get());
  std::promise<void> done;
  uint64_t id = 0;
  const Status added = ServiceThread::get().add(
      std::move(event), EPOLLIN,
      [&](uint64_t each, uint32_t) {
        body(each);
        ServiceThread::get().remove(each);
        done.set_value();
      },
      &id);
  ASSERT_TRUE(added.ok()) << added.text();
  done.get_future().wait();
  ServiceThread::get().remove(id);  // waits until the callback has left |done|
}

TEST(ServiceThreadTest, CallsWhatAnEventIsFor) {
  FileDescriptor event = make_event();
  const int number = event.get();
  std::promise<std::pair<uint64_t, uint32_t>> called;
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      std::move(event), EPOLLIN,
                      [&](uint64_t each, uint32_t events) {
                        clear(number);
                        EXPECT_TRUE(ServiceThread::get().is_current());
                        called.set_value({each, events});
                      },
                      &id)
                  .ok());
  EXPECT_FALSE(ServiceThread::get().is_current());
  signal(number);
  const auto [each, events] = called.get_future().get();
  EXPECT_EQ(each, id);
  EXPECT_EQ(events, EPOLLIN);
  ServiceThread::get().remove(id);
  EXPECT_EQ(fcntl(number, F_GETFD), -1);  // remove() has closed it
  ServiceThread::get().remove(id);
}

TEST(ServiceThreadTest, RemovingWaitsForTheCallback) {
  for (int time = 0; time < 100; ++time) {
    FileDescriptor event = make_event();
    const int number = event.get();
    // No synchronization on purpose: the thread sanitizer detects a callback that still runs.
    auto runs = std::make_unique<int>(0);
    std::promise<void> began;
    uint64_t id = 0;
    ASSERT_TRUE(ServiceThread::get()
                    .add(
                        std::move(event), EPOLLIN,
                        [&, is_first = true](uint64_t, uint32_t) mutable {
                          if (std::exchange(is_first, false)) began.set_value();
                          std::this_thread::yield();
                          ++*runs;
                        },
                        &id)
                    .ok());
    signal(number);
    began.get_future().wait();
    ServiceThread::get().remove(id);
    EXPECT_GE(*runs, 1);
    runs.reset();
  }
}

TEST(ServiceThreadTest, ACallbackMayRemoveItself) {
  auto owned = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = owned;
  on_service_thread([owned = std::move(owned)](uint64_t id) {
    ServiceThread::get().remove(id);
    EXPECT_EQ(*owned, 7);  // not destroyed before the callback returns
  });
  EXPECT_TRUE(watched.expired());
}

TEST(ServiceThreadTest, ADeadlineComesOnce) {
  std::promise<void> passed;
  int calls = 0;
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      make_event(), EPOLLIN,
                      [&](uint64_t, uint32_t events) {
                        EXPECT_EQ(events, 0u);
                        if (++calls == 1) passed.set_value();
                      },
                      &id)
                  .ok());
  on_service_thread([&](uint64_t) {
    ServiceThread::get().set_deadline(id, Deadline::after(3'600'000'000'000));
    ServiceThread::get().set_deadline(id, Deadline::after(1'000'000));
  });
  passed.get_future().wait();
  on_service_thread([](uint64_t) {});
  ServiceThread::get().remove(id);
  EXPECT_EQ(calls, 1);
}

// Whether the thread |number| of this process waits.
bool is_asleep(pid_t number) {
  std::ifstream file("/proc/self/task/" + std::to_string(number) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end + 2, 1) == "S";
}

// No other event tells the service thread, which waits, that it is to wait for less.
TEST(ServiceThreadTest, ADeadlineOfAnotherThreadEndsTheWait) {
  std::promise<void> passed;
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      make_event(), EPOLLIN, [&](uint64_t, uint32_t) { passed.set_value(); }, &id)
                  .ok());
  pid_t thread = 0;
  on_service_thread([&](uint64_t) { thread = gettid(); });
  while (!is_asleep(thread)) std::this_thread::yield();
  ServiceThread::get().set_deadline(id, Deadline::after(1'000'000));
  EXPECT_EQ(passed.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  ServiceThread::get().remove(id);
}

TEST(ServiceThreadTest, ADeadlineTakenAwayDoesNotCome) {
  bool was_called = false;
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      make_event(), EPOLLIN, [&](uint64_t, uint32_t) { was_called = true; }, &id)
                  .ok());
  on_service_thread([&](uint64_t) {
    ServiceThread::get().set_deadline(id, Deadline::after(0));
    ServiceThread::get().set_deadline(id, std::nullopt);
  });
  on_service_thread([](uint64_t) {});
  ServiceThread::get().remove(id);
  EXPECT_FALSE(was_called);
}

TEST(ServiceThreadTest, ACallbackThatThrowsIsRemoved) {
  FileDescriptor event = make_event();
  const int number = event.get();
  signal(number);
  std::atomic<int> calls{0};
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      std::move(event), EPOLLIN,
                      [&](uint64_t, uint32_t) {
                        ++calls;
                        throw std::runtime_error("on purpose");
                      },
                      &id)
                  .ok());
  while (calls == 0) std::this_thread::yield();
  ServiceThread::get().remove(id);  // waits for the callback's end
  on_service_thread([](uint64_t) {});
  EXPECT_EQ(calls, 1);
}

TEST(ServiceThreadTest, UsesNoProcessorWhileNothingHappens) {
  clockid_t clock = 0;
  on_service_thread([&](uint64_t) { EXPECT_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0); });
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      make_event(), EPOLLIN, [](uint64_t, uint32_t) {}, &id)
                  .ok());
  // The thread goes to sleep once; from then on its CPU clock stands still.
  timespec before = {};
  timespec after = {};
  for (int time = 0; time < 1000; ++time) {
    clock_gettime(clock, &before);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    clock_gettime(clock, &after);
    if (before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec) break;
  }
  EXPECT_EQ(before.tv_nsec, after.tv_nsec);
  ServiceThread::get().remove(id);
}

TEST(ServiceThreadTest, AForkedChildHasNone) {
  FileDescriptor event = make_event();
  const int number = event.get();
  uint64_t id = 0;
  ASSERT_TRUE(ServiceThread::get()
                  .add(
                      std::move(event), EPOLLIN, [](uint64_t, uint32_t) {}, &id)
                  .ok());
  const pid_t child = fork();
  if (child == 0) {
    // Descriptors whose open state peers take for the parent's life are closed.
    if (fcntl(number, F_GETFD) != -1) _exit(1);
    uint64_t other = 0;
    const Status added = ServiceThread::get().add({}, EPOLLIN, {}, &other);
    if (added.code() != KEEL_FORKED) _exit(2);
    ServiceThread::get().remove(id);  // neither waits, nor closes a reused descriptor
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(fcntl(number, F_GETFD), -1);
  ServiceThread::get().remove(id);
}

// Exits while the thread has work, with a callback that uses static objects.
int exit_worker(const std::vector<std::string>&) {
  static std::vector<int> statics(100, 1);
  FileDescriptor event = make_event();
  signal(event.get());
  static std::atomic<int> calls{0};
  uint64_t id = 0;
  const Status added = ServiceThread::get().add(
      std::move(event), EPOLLIN,
      [](uint64_t, uint32_t) {
        ++calls;
        for (int& each : statics) ++each;
      },
      &id);
  if (!added.ok()) return 1;
  while (calls < 100) std::this_thread::yield();
  return 0;
}

TEST(ServiceThreadTest, LeavesBeforeStaticsAreDestroyed) {
  for (int time = 0; time < 10; ++time) {
    ChildProcess child("exit", {});
    EXPECT_EQ(child.wait(), 0);
  }
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"exit", exit_worker}};
  return all;
}

}  // namespace keel::testing
