// SPDX-License-Identifier: Apache-2.0
// The flight recorder: readers see what was written, also after the writer was killed and during a
// write. A missing folder, an unwritable file or a full disk does not stop the recorder.
#include "collectives/flight/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "collectives/flight/flight_report.h"
#include "tests/testing/small_disk.h"

namespace keel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint32_t kCapacity = FlightHeader::kEntries;
const FlightInfo kInfo{"c0ffee", 1, 4, "cpu:0"};

// A separate folder for the flight files of each test.
class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    char name[] = "/tmp/keel-flight-XXXXXX";
    folder_ = mkdtemp(name);
    setenv("KEEL_FLIGHT_DIR", folder_.c_str(), 1);
  }
  ~RecorderTest() override {
    unsetenv("KEEL_FLIGHT_DIR");
    fs::remove_all(folder_);
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

FlightLog read(const std::string& path) {
  FlightLog log;
  const Status status = read_flight(path, &log);
  EXPECT_TRUE(status.ok()) << status.text();
  return log;
}

Fingerprint print_of(uint64_t collective, uint64_t dtype, uint64_t reduction, uint64_t root) {
  Fingerprint print;
  print.collective = static_cast<uint8_t>(collective);
  print.dtype = static_cast<uint8_t>(dtype);
  print.reduction = static_cast<uint8_t>(reduction);
  print.root = static_cast<uint32_t>(root);
  return print;
}

FlightEntry* record(FlightRecorder& recorder, uint64_t sequence) {
  return recorder.begin(sequence, print_of(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM, 0),
                        10 * sequence);
}

// Runs |body| in a child and returns its exit code.
template <typename Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(RecorderTest, WhatIsWrittenIsRead) {
  const auto recorder = FlightRecorder::create(kInfo);
  ASSERT_EQ(fs::path(recorder->path()).parent_path(), folder_);
  FlightRecorder::Entry* one =
      recorder->begin(7, print_of(KEEL_BROADCAST, KEEL_BFLOAT16, KEEL_MAX, 3), 1ull << 40);
  recorder->start(one);
  recorder->finish(one, KEEL_OK);
  FlightRecorder::Entry* two = record(*recorder, 8);
  recorder->start(two);
  record(*recorder, 9);
  FlightRecorder::Entry* four = record(*recorder, 10);
  recorder->finish(four, KEEL_ABORTED);

  const FlightLog log = read(recorder->path());
  EXPECT_EQ(log.pid, getpid());
  EXPECT_EQ(log.alive, true);
  EXPECT_EQ(log.communicator, "c0ffee");
  EXPECT_EQ(log.rank, 1u);
  EXPECT_EQ(log.world, 4u);
  EXPECT_EQ(log.device, "cpu:0");
  ASSERT_EQ(log.operations.size(), 4u);
  const FlightOperation& done = log.operations[0];
  EXPECT_EQ(done.sequence, 7u);
  EXPECT_EQ(done.collective, static_cast<uint32_t>(KEEL_BROADCAST));
  EXPECT_EQ(done.dtype, static_cast<uint32_t>(KEEL_BFLOAT16));
  EXPECT_EQ(done.reduction, static_cast<uint32_t>(KEEL_MAX));
  EXPECT_EQ(done.root, 3u);
  EXPECT_EQ(done.count, 1ull << 40);
  EXPECT_EQ(done.state, FlightState::kDone);
  EXPECT_TRUE(done.wait_ns.has_value() && done.run_ns.has_value());
  EXPECT_EQ(log.operations[1].state, FlightState::kRunning);
  EXPECT_TRUE(log.operations[1].wait_ns.has_value());
  EXPECT_FALSE(log.operations[1].run_ns.has_value());
  EXPECT_EQ(log.operations[2].state, FlightState::kQueued);
  EXPECT_FALSE(log.operations[2].wait_ns.has_value());
  EXPECT_EQ(log.operations[3].status, KEEL_ABORTED);
  EXPECT_FALSE(log.operations[3].run_ns.has_value()) << "it never started";
}

TEST_F(RecorderTest, TheLast1024AreKept) {
  const auto recorder = FlightRecorder::create(kInfo);
  for (uint64_t i = 0; i < 1500; ++i) {
    FlightRecorder::Entry* entry = record(*recorder, i);
    // Every second operation never starts, in entries that were started before.
    if (i % 2 == i / kCapacity % 2) recorder->start(entry);
    recorder->finish(entry, KEEL_OK);
  }
  const FlightLog log = read(recorder->path());
  ASSERT_EQ(log.operations.size(), kCapacity);
  for (uint64_t i = 0; i < kCapacity; ++i) {
    const uint64_t sequence = 1500 - kCapacity + i;
    EXPECT_EQ(log.operations[i].sequence, sequence);
    EXPECT_EQ(log.operations[i].count, 10 * sequence);
    EXPECT_EQ(log.operations[i].run_ns.has_value(), sequence % 2 == sequence / kCapacity % 2);
  }
}

TEST_F(RecorderTest, WhatIsInFlightIsNotOverwritten) {
  const auto recorder = FlightRecorder::create(kInfo);
  std::vector<FlightRecorder::Entry*> entries;
  for (uint64_t i = 0; i < kCapacity + 10; ++i) entries.push_back(record(*recorder, i));
  for (uint64_t i = kCapacity; i < entries.size(); ++i) {
    recorder->start(entries[i]);
    recorder->finish(entries[i], KEEL_INTERNAL);
  }
  const FlightLog full = read(recorder->path());
  EXPECT_EQ(full.unrecorded, 10u);
  ASSERT_EQ(full.operations.size(), kCapacity);
  for (const FlightOperation& each : full.operations) EXPECT_EQ(each.state, FlightState::kQueued);
  recorder->finish(entries[0], KEEL_OK);
  record(*recorder, 5000);
  const FlightLog after = read(recorder->path());
  EXPECT_EQ(after.operations.front().sequence, 1u);
  EXPECT_EQ(after.operations.back().sequence, 5000u);
}

TEST_F(RecorderTest, TheFileGoesWithItsRecorderAndNotWithAForkedChild) {
  auto recorder = FlightRecorder::create(kInfo);
  const auto other = FlightRecorder::create(kInfo);
  EXPECT_NE(recorder->path(), other->path());
  EXPECT_EQ(in_child([&] {
              recorder.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(files(), 2u);
  recorder.reset();
  EXPECT_EQ(files(), 1u);
}

TEST_F(RecorderTest, AKilledProcessIsStillRead) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = FlightRecorder::create(kInfo);
    FlightRecorder::finish(record(*recorder, 1), KEEL_OK);
    FlightRecorder::start(record(*recorder, 2));
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  close(ready[1]);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  close(ready[0]);
  ASSERT_EQ(files(), 1u);
  const std::string path = fs::directory_iterator(folder_)->path();
  EXPECT_EQ(read(path).alive, true);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const FlightLog log = read(path);
  EXPECT_EQ(log.alive, false);
  EXPECT_EQ(log.pid, child);
  ASSERT_EQ(log.operations.size(), 2u);
  EXPECT_EQ(log.operations[0].state, FlightState::kDone);
  EXPECT_EQ(log.operations[1].state, FlightState::kRunning);
}

// The owner's lock is on the file that it created, on its own host.
TEST_F(RecorderTest, CopyTellsNothingOfTheProcess) {
  auto recorder = FlightRecorder::create(kInfo);
  const std::string path = recorder->path();
  const std::string copy = folder_ + "/copy";
  fs::copy_file(path, copy);
  EXPECT_EQ(read(copy).alive, std::nullopt);
  EXPECT_EQ(read(path).alive, true);
  const std::string kept = folder_ + "/kept";
  fs::create_hard_link(path, kept);
  recorder.reset();
  if (!boot_id().empty()) {
    EXPECT_EQ(read(kept).alive, false);
  }
  std::fstream(kept, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(offsetof(FlightHeader, boot_id))
      .write("another", 7);
  EXPECT_EQ(read(kept).alive, std::nullopt) << "of another machine, or of an earlier boot";
}

TEST_F(RecorderTest, FilesOfOnePidOnTwoHostsHaveTwoNames) {
  const auto name_on = [](const char* host) {
    setenv("KEEL_HOST_ID", host, 1);
    const auto recorder = FlightRecorder::create(kInfo);
    unsetenv("KEEL_HOST_ID");
    EXPECT_EQ(read(recorder->path()).host, host);
    const auto name = FlightName::parse(fs::path(recorder->path()).filename());
    EXPECT_TRUE(name.has_value()) << recorder->path();
    return name.value_or(FlightName{});
  };
  const FlightName a = name_on("a");
  const FlightName b = name_on("b");
  EXPECT_EQ(a.pid, getpid());
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_NE(a.host, b.host);
  EXPECT_EQ(FlightName::parse("flight-0a0b0c0d-7-12")->text(), "flight-0a0b0c0d-7-12");
  for (const char* other :
       {"flight-", "flight-1-2", "flight-1-2-", "flight-1-2-x", "flight-1-0-3", "flight-1--2-3",
        "flight-123456789-2-3", "flight-g-2-3", "flight-1-2-3-4", "fright-1-2-3"}) {
    EXPECT_FALSE(FlightName::parse(other).has_value()) << other;
  }
}

// ---- no place for the file ----------------------------------------------------------

void expect_private() {
  const auto recorder = FlightRecorder::create(kInfo);
  EXPECT_EQ(recorder->path(), "");
  for (uint64_t i = 0; i < 3000; ++i) {
    FlightRecorder::Entry* entry = record(*recorder, i);
    recorder->start(entry);
    recorder->finish(entry, KEEL_OK);
  }
}

std::atomic<int> g_warnings{0};
std::string g_warning;

TEST_F(RecorderTest, AFolderThatIsNotTheUsersOwnIsRefusedWithOneWarning) {
  g_warnings = 0;
  keel_set_log(
      KEEL_LOG_WARNING,
      [](void*, keel_log_level, const char* text) {
        ++g_warnings;
        g_warning = text;
      },
      nullptr);
  const std::string real = folder_ + "/real";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(symlink(real.c_str(), link.c_str()), 0);
  setenv("KEEL_FLIGHT_DIR", link.c_str(), 1);
  expect_private();
  EXPECT_EQ(g_warnings, 1);
  EXPECT_NE(g_warning.find(link), std::string::npos) << g_warning;
  ASSERT_EQ(chmod(real.c_str(), 0777), 0);
  setenv("KEEL_FLIGHT_DIR", real.c_str(), 1);
  expect_private();
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "x";
  for (const char* bad : {"/nowhere/at/all", "/proc", file.c_str()}) {
    setenv("KEEL_FLIGHT_DIR", bad, 1);
    expect_private();
  }
  keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr);
  EXPECT_EQ(g_warnings, 1);
  EXPECT_TRUE(fs::is_empty(real));
}

TEST_F(RecorderTest, ALimitOfFileSizesDoesNotKill) {
  EXPECT_EQ(in_child([] {
              const struct rlimit limit = {1000, 1000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
              expect_private();
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST_F(RecorderTest, AFullDiskDoesNotKill) {
  constexpr int kCannotMount = 77;
  const int code = in_child([this] {
    if (!mount_small_disk(folder_, "16k")) return kCannotMount;
    // The limit admits a small file but not a recorder's file.
    const std::string small = folder_ + "/small";
    std::ofstream(small) << "small";
    EXPECT_EQ(fs::file_size(small), 5U);
    fs::remove(small);
    expect_private();
    return testing::Test::HasFailure() || files() != 0 ? 1 : 0;
  });
  if (code == kCannotMount) GTEST_SKIP() << "this user cannot mount a small file system";
  EXPECT_EQ(code, 0);
}

// ---- cleaning -----------------------------------------------------------------------

TEST_F(RecorderTest, OldFilesOfTheDeadAreRemoved) {
  const auto living = FlightRecorder::create(kInfo);
  const auto leave = [&](const std::string& name, mode_t mode, time_t age) {
    const std::string path = folder_ + "/" + name;
    fs::copy_file(living->path(), path);
    const timespec times[2] = {{time(nullptr) - age, 0}, {time(nullptr) - age, 0}};
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  };
  constexpr time_t kDay = 86'400;
  const std::string old = leave("flight-0-999999-1", 0400, kDay + 60);
  const std::string young = leave("flight-0-999999-2", 0400, kDay - 600);
  const std::string just_died = leave("flight-0-999999-3", 0600, 30 * kDay);
  const std::string not_ours = leave("flight-0-999999-x", 0400, 30 * kDay);
  // The lock of a process of another machine may not be seen here.
  const auto make_foreign = [](const std::string& path, time_t age) {
    std::ofstream(path, std::ios::binary | std::ios::in)
        .seekp(offsetof(FlightHeader, boot_id))
        .write("another", 7);
    const timespec times[2] = {{time(nullptr) - age, 0}, {time(nullptr) - age, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  };
  const std::string foreign = make_foreign(leave("flight-0-999999-4", 0600, 0), 29 * kDay);
  const std::string old_foreign = make_foreign(leave("flight-0-999999-5", 0600, 0), 31 * kDay);
  EXPECT_EQ(chmod(old_foreign.c_str(), 0400), 0);
  const timespec ancient[2] = {{1, 0}, {1, 0}};
  EXPECT_EQ(utimensat(AT_FDCWD, living->path().c_str(), ancient, 0), 0);
  FileDescriptor folder;
  ASSERT_TRUE(open_flight_folder(folder_, &folder).ok());
  clean_flights(folder.get());
  for (const std::string& gone : {old, old_foreign}) EXPECT_FALSE(fs::exists(gone)) << gone;
  for (const std::string& kept : {young, just_died, not_ours, foreign, living->path()}) {
    EXPECT_TRUE(fs::exists(kept)) << kept;
  }
  fs::remove(foreign);
  for (int i = 0; i < 300; ++i) leave("flight-0-99999-" + std::to_string(i), 0400, 1000 + i);
  clean_flights(folder.get());
  EXPECT_EQ(files(), 256u + 2u) << "the newest dead, the living one and a stranger";
  EXPECT_TRUE(fs::exists(just_died));
  EXPECT_FALSE(fs::exists(young));
}

TEST_F(RecorderTest, TheFirstOfAProcessCleansTheFolder) {
  const auto leave = [&](const char* name) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "left behind";
    const timespec ancient[2] = {{1, 0}, {1, 0}};
    EXPECT_EQ(chmod(path.c_str(), 0400), 0);
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), ancient, 0), 0);
    return path;
  };
  const std::string before = leave("flight-0-999999-1");
  const auto first = FlightRecorder::create(kInfo);
  EXPECT_FALSE(fs::exists(before));
  const std::string after = leave("flight-0-999999-2");
  const auto second = FlightRecorder::create(kInfo);
  EXPECT_TRUE(fs::exists(after)) << "cleaned for each rank, it would be for a thousand";
}

// ---- reading what lies --------------------------------------------------------------

// Bytes of a file, modified by the test.
class Image {
 public:
  explicit Image(const std::string& path) : bytes_(FlightHeader::kFileBytes) {
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  }
  template <typename Value>
  void put(size_t offset, Value value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
  }
  static size_t entry(uint32_t index, size_t member) {
    return FlightHeader::kBytes + index * sizeof(FlightEntry) + member;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Status parse(const Image& first, const Image& second, const Image& third, FlightLog* out) {
  return parse_flight({first.bytes(), second.bytes(), third.bytes()}, FlightTimestamp::now(),
                      boot_id(), out);
}

TEST_F(RecorderTest, LiesAreRefused) {
  const auto recorder = FlightRecorder::create(kInfo);
  record(*recorder, 1);
  const Image good(recorder->path());
  FlightLog log;
  ASSERT_TRUE(parse(good, good, good, &log).ok());
  const auto expect_refused = [&](size_t offset, auto value) {
    Image bad = good;
    bad.put(offset, value);
    EXPECT_EQ(parse(bad, bad, bad, &log).code(), KEEL_DATA_LOSS) << offset;
  };
  expect_refused(offsetof(FlightHeader, magic), uint64_t{1});
  expect_refused(offsetof(FlightHeader, entry_count), 1u << 30);
  expect_refused(offsetof(FlightHeader, header_bytes), 0u);
  expect_refused(offsetof(FlightHeader, entry_bytes), 1u);
  expect_refused(offsetof(FlightHeader, world), 1u);
  expect_refused(offsetof(FlightHeader, ticks_per_us), std::nan(""));
  expect_refused(offsetof(FlightHeader, ticks_per_us), 0.0);
  expect_refused(Image::entry(0, offsetof(FlightEntry, outcome)), uint64_t{3});

  const auto expect_unreadable = [&](const std::string& path, keel_status code) {
    const Status status = read_flight(path, &log);
    EXPECT_EQ(status.code(), code) << path;
    EXPECT_NE(std::string(status.text()).find(path), std::string::npos) << status.text();
  };
  const std::string copy = folder_ + "/copy";
  fs::copy_file(recorder->path(), copy);
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, FlightHeader::kFileBytes - 1,
                              FlightHeader::kFileBytes + 1, uint64_t{1} << 40}) {
    fs::resize_file(copy, size);
    expect_unreadable(copy, KEEL_DATA_LOSS);
  }
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expect_unreadable(fifo, KEEL_DATA_LOSS);
  expect_unreadable(folder_, KEEL_DATA_LOSS);
  expect_unreadable(folder_ + "/none", KEEL_NOT_FOUND);
}

TEST_F(RecorderTest, TornEntriesAreLeftOutAndCounted) {
  const auto recorder = FlightRecorder::create(kInfo);
  for (uint64_t i = 0; i < 4; ++i) record(*recorder, i);
  const Image good(recorder->path());
  Image first = good;
  first.put(Image::entry(0, offsetof(FlightEntry, sequence)), FlightEntry::kWriting);
  Image last = good;
  last.put(Image::entry(2, offsetof(FlightEntry, sequence)), uint64_t{1026});
  FlightLog log;
  ASSERT_TRUE(parse(first, good, last, &log).ok());
  EXPECT_EQ(log.torn, 2u);
  ASSERT_EQ(log.operations.size(), 2u);
  EXPECT_EQ(log.operations[0].sequence, 1u);
  EXPECT_EQ(log.operations[1].sequence, 3u);
}

TEST_F(RecorderTest, ReadWhileItIsWritten) {
  const auto recorder = FlightRecorder::create(kInfo);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      FlightRecorder::Entry* entry = recorder->begin(i, print_of(i, i + 1, i + 2, i + 3), i * 7);
      recorder->start(entry);
      recorder->finish(entry, static_cast<keel_status>(i));
    }
  });
  uint64_t seen = 0;
  uint64_t wrong = 0;
  while (read(recorder->path()).operations.empty()) std::this_thread::yield();
  for (int round = 0; round < 100; ++round) {
    for (const FlightOperation& each : read(recorder->path()).operations) {
      const auto low = static_cast<uint32_t>(each.sequence);
      ++seen;
      wrong += each.collective != (low & 255) || each.dtype != ((low + 1) & 255) ||
               each.reduction != ((low + 2) & 255) || each.root != low + 3 ||
               each.count != each.sequence * 7 ||
               (each.state == FlightState::kDone &&
                (static_cast<uint32_t>(each.status) != low || !each.run_ns));
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(wrong, 0u);
}

// The recorder's file with clock values set by the test.
TEST_F(RecorderTest, TicksBecomeTimes) {
  const auto recorder = FlightRecorder::create(kInfo);
  recorder->finish(record(*recorder, 1), KEEL_OK);
  Image image(recorder->path());
  const auto put = [&](size_t member, uint64_t ticks) {
    image.put(Image::entry(0, member), ticks);
  };
  image.put(offsetof(FlightHeader, ticks), uint64_t{1'000'000});
  image.put(offsetof(FlightHeader, realtime_ns), int64_t{5'000'000'000});
  image.put(offsetof(FlightHeader, monotonic_ns), int64_t{70});
  image.put(offsetof(FlightHeader, ticks_per_us), 2000.0);
  put(offsetof(FlightEntry, queued), 1'020'000);
  put(offsetof(FlightEntry, started), 1'040'000);
  put(offsetof(FlightEntry, done), 1'100'000);
  FlightLog log;
  // Another boot: the recorder's own rate, 0.5 ns per tick.
  const FlightTimestamp stranger{17, 6'000'000'000, 90};
  ASSERT_TRUE(
      parse_flight({image.bytes(), image.bytes(), image.bytes()}, stranger, "other", &log).ok());
  EXPECT_EQ(log.operations[0].queued_ns, 5'000'010'000);
  EXPECT_EQ(log.operations[0].age_ns, 999'990'000);
  EXPECT_EQ(log.operations[0].wait_ns, 10'000);
  EXPECT_EQ(log.operations[0].run_ns, 30'000);
  if (boot_id().empty()) return;
  // This boot: 100 ms were 100 million ticks, so 1 ns per tick.
  const FlightTimestamp near{101'000'000, 0, 100'000'070};
  ASSERT_TRUE(
      parse_flight({image.bytes(), image.bytes(), image.bytes()}, near, boot_id(), &log).ok());
  EXPECT_EQ(log.operations[0].queued_ns, 5'000'020'000);
  EXPECT_EQ(log.operations[0].age_ns, 99'980'000);
  EXPECT_EQ(log.operations[0].wait_ns, 20'000);
  EXPECT_EQ(log.operations[0].run_ns, 60'000);
}

// ---- keel_flight_read ---------------------------------------------------------------

json read_api(const char* where) {
  uint64_t size = 0;
  EXPECT_EQ(keel_flight_read(where, nullptr, &size), KEEL_OUT_OF_RANGE);
  size += 1000;  // ages get longer
  std::string text(size, '\0');
  EXPECT_EQ(keel_flight_read(where, text.data(), &size), KEEL_OK) << keel_last_error();
  return json::parse(text.c_str(), nullptr, /*allow_exceptions=*/false);
}

TEST_F(RecorderTest, JsonHasCommunicatorsRanksAndOperations) {
  const auto two = FlightRecorder::create({"b\xff", 2, 3, "si\033m:0"});
  const auto zero = FlightRecorder::create({"b\xff", 0, 3, "cpu:0"});
  const auto other = FlightRecorder::create({"a", 0, 1, "cpu:1"});
  FlightRecorder::Entry* entry = record(*zero, 5);
  zero->start(entry);
  zero->finish(entry, KEEL_TIMED_OUT);
  record(*zero, 6);
  std::ofstream(folder_ + "/flight-0-1-1") << "junk";
  const json all = read_api(nullptr);
  ASSERT_TRUE(all.is_object());
  ASSERT_EQ(all["communicators"].size(), 2u);
  EXPECT_EQ(all["communicators"][0]["name"], "a");
  const json& b = all["communicators"][1];
  EXPECT_EQ(b["world"], 3);
  ASSERT_EQ(b["ranks"].size(), 2u);
  EXPECT_EQ(b["ranks"][0]["rank"], 0);
  EXPECT_EQ(b["ranks"][1]["rank"], 2);
  EXPECT_EQ(b["ranks"][1]["device"], "si?m:0");
  EXPECT_EQ(b["ranks"][0]["alive"], true);
  EXPECT_TRUE(b["ranks"][0]["host"].is_string());
  const json& operations = b["ranks"][0]["operations"];
  ASSERT_EQ(operations.size(), 2u);
  EXPECT_EQ(operations[0]["operation"], "all_reduce");
  EXPECT_EQ(operations[0]["dtype"], "float32");
  EXPECT_EQ(operations[0]["reduction"], "sum");
  EXPECT_EQ(operations[0]["count"], 50);
  EXPECT_EQ(operations[0]["state"], "failed");
  EXPECT_EQ(operations[0]["status"], "KEEL_TIMED_OUT");
  EXPECT_TRUE(operations[0]["duration_us"].is_number());
  EXPECT_EQ(operations[1]["state"], "queued");
  EXPECT_TRUE(operations[1]["status"].is_null());
  ASSERT_EQ(all["unreadable"].size(), 1u);
  EXPECT_NE(all["unreadable"][0]["reason"].get<std::string>().find("4 bytes"), std::string::npos);

  EXPECT_EQ(read_api(folder_.c_str())["communicators"].size(), 2u);
  EXPECT_EQ(read_api(std::to_string(getpid()).c_str())["unreadable"].size(), 0u);
  EXPECT_EQ(read_api(other->path().c_str())["communicators"][0]["ranks"].size(), 1u);
  uint64_t size = 0;
  for (const char* none : {"999999999", "/nowhere", "12x"}) {
    EXPECT_EQ(keel_flight_read(none, nullptr, &size), KEEL_NOT_FOUND) << none;
    EXPECT_NE(std::string(keel_last_error()).find(none), std::string::npos) << keel_last_error();
  }
  EXPECT_EQ(keel_flight_read(nullptr, nullptr, nullptr), KEEL_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace keel
