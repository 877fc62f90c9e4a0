// SPDX-License-Identifier: Apache-2.0
// The plugin through the ABI: settings, devices, memory, streams, events.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "backends/cpu/testing/page_sizes.h"
#include "backends/cpu/testing/plugin_fixture.h"

namespace keel::cpu::testing {
namespace {

const keel_stream_table& streams() {
  return *plugin().stream;
}
const keel_memory_table& memory() {
  return *plugin().memory;
}

// ---- settings and devices ------------------------------------------------------

void expect_refused(const Settings& settings, const char* named) {
  keel_plugin_instance* instance = nullptr;
  g_error.clear();
  EXPECT_EQ(create_instance(settings, &instance), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_error.find(named), std::string::npos) << g_error;
}

TEST(CpuSettings, RefusesWhatItDoesNotKnowByName) {
  expect_refused({{"colour", "blue"}}, "colour");
  expect_refused({{"devices", "x"}}, "devices");
  expect_refused({{"devices", "0"}}, "devices");
  expect_refused({{"devices", "65"}}, "devices");
  expect_refused({{"devices", "2x"}}, "devices");
  expect_refused({{"devices", "-1"}}, "devices");
  expect_refused({{"devices", ""}}, "devices");
  expect_refused({{"cores", "0"}}, "cores");
  expect_refused({{"cores", "4294967297"}}, "cores");
}

TEST(CpuSettings, InstancesWithDifferentSettingsLiveTogether) {
  const Machine one({{"devices", "1"}, {"cores", "1"}});
  const Machine three({{"devices", "3"}, {"cores", "2"}});
  uint32_t count = 0;
  ASSERT_EQ(plugin().device->count(one.instance(), &count), KEEL_OK);
  EXPECT_EQ(count, 1u);
  ASSERT_EQ(plugin().device->count(three.instance(), &count), KEEL_OK);
  EXPECT_EQ(count, 3u);
}

TEST(CpuDevice, DescribesItself) {
  const Machine machine({{"devices", "2"}, {"cores", "3"}});
  keel_device_info info = {};
  info.header = {sizeof(info), KEEL_STRUCT_DEVICE_INFO, nullptr};
  ASSERT_EQ(plugin().device->info(machine.instance(), 1, &info), KEEL_OK);
  EXPECT_EQ(info.type, KEEL_DEVICE_CPU);
  EXPECT_NE(info.name[0], '\0');
  const std::string architecture = info.architecture;
  EXPECT_TRUE(architecture == "avx512" || architecture == "avx2" || architecture == "generic");
  EXPECT_EQ(info.compute_units, 3u);
  EXPECT_GE(info.alignment, 64u);
  EXPECT_EQ((info.capabilities & KEEL_CAPABILITY_HOST_ALIAS) != 0, !guarded());
  EXPECT_EQ(plugin().device->info(machine.instance(), 2, &info), KEEL_NOT_FOUND);

  uint64_t free = 0, total = 0;
  ASSERT_EQ(plugin().device->memory_info(machine.device(), &free, &total), KEEL_OK);
  EXPECT_EQ(total, info.memory_bytes);
  EXPECT_GT(free, 0u);
  EXPECT_LE(free, total);
}

// ---- memory --------------------------------------------------------------------

TEST(CpuMemory, AbsurdSizesFail) {
  const Machine machine;
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 62, uint64_t{1} << 46}) {
    void* pointer = nullptr;
    EXPECT_EQ(memory().alloc(machine.device(), KEEL_MEMORY_DEVICE, size, 0, &pointer),
              KEEL_OUT_OF_MEMORY);
  }
}

TEST(CpuMemory, FreeMemoryGoesDownAndComesBack) {
  const Machine machine;
  const auto left = [&] {
    uint64_t free = 0, total = 0;
    EXPECT_EQ(plugin().device->memory_info(machine.device(), &free, &total), KEEL_OK);
    return std::pair(free, total);
  };
  const auto [free, total] = left();
  std::vector<void*> pointers;
  void* pointer = nullptr;
  // The kernel commits pages on first touch, so the allocations take no memory.
  const uint64_t piece = total / 8 / 4096 * 4096;
  while (memory().alloc(machine.device(), KEEL_MEMORY_DEVICE, piece, 0, &pointer) == KEEL_OK) {
    pointers.push_back(pointer);
  }
  EXPECT_EQ(pointers.size(), 8u);
  EXPECT_LT(left().first, free);
  for (void* allocated : pointers) {
    EXPECT_EQ(memory().free(machine.device(), KEEL_MEMORY_DEVICE, allocated), KEEL_OK);
  }
  const Buffer again(machine.device(), total / 2);
}

TEST(CpuMemory, PinnedAndManagedMemoryIsTheHosts) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  for (const keel_memory_kind kind : {KEEL_MEMORY_PINNED, KEEL_MEMORY_MANAGED}) {
    const Buffer host(machine.device(), 4096, kind);
    const Buffer device(machine.device(), 4096);
    std::memset(host.get(), 0x5a, 4096);
    ASSERT_EQ(streams().copy(stream, KEEL_COPY_HOST_TO_DEVICE, device.get(), host.get(), 4096),
              KEEL_OK);
    EXPECT_EQ(download<uint8_t>(stream, device.get(), 4096), std::vector<uint8_t>(4096, 0x5a));
  }
}

TEST(CpuMemory, RegisteredMemoryIsOfHugePagesOnRequestWhereTheKernelHasThem) {
  const Machine machine({{"devices", "1"}, {"cores", "2"}, {"register_huge_pages", "1"}});
  constexpr uint64_t kBytes = 3 * kHugePage;
  void* const room =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(room, MAP_FAILED);
  void* device_pointer = nullptr;
  ASSERT_EQ(memory().host_register(machine.device(), room, kBytes, &device_pointer), KEEL_OK);
  EXPECT_EQ(device_pointer, room);
  const uint64_t huge = huge_bytes_at(room);
  EXPECT_EQ(memory().host_unregister(machine.device(), room), KEEL_OK);
  char* const first = static_cast<char*>(room) + -reinterpret_cast<uintptr_t>(room) % kHugePage;
  *first = 1;
  const bool is_able = can_be_huge(first);
  EXPECT_EQ(munmap(room, kBytes), 0);
  if (!is_able) GTEST_SKIP() << "the kernel gives no huge pages";
  EXPECT_GE(huge, 2 * kHugePage);
}

TEST(CpuMemory, HostAliasReachesDeviceMemory) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const Buffer buffer(machine.device(), 256);
  void* alias = nullptr;
  if (guarded()) {
    EXPECT_EQ(memory().host_alias(machine.device(), buffer.get(), 256, &alias), KEEL_UNSUPPORTED);
    return;
  }
  ASSERT_EQ(memory().host_alias(machine.device(), buffer.get(), 256, &alias), KEEL_OK);
  std::memset(alias, 7, 256);
  EXPECT_EQ(download<uint8_t>(stream, buffer.get(), 256), std::vector<uint8_t>(256, 7));
}

TEST(CpuMemory, GuardedDevicesShareAddressesAndNothingElse) {
  if (!guarded()) GTEST_SKIP() << "only with KEEL_CPU_GUARD=1";
  const Machine machine({{"devices", "2"}, {"cores", "1"}});
  const StreamHandle stream0(machine.device(0)), stream1(machine.device(1));
  const Buffer buffer0(machine.device(0), 8192), buffer1(machine.device(1), 8192);
  EXPECT_EQ(buffer0.get(), buffer1.get());
  upload(stream0, buffer0.get(), std::vector<uint8_t>(8192, 1));
  upload(stream1, buffer1.get(), std::vector<uint8_t>(8192, 2));
  EXPECT_EQ(download<uint8_t>(stream0, buffer0.get(), 8192), std::vector<uint8_t>(8192, 1));
  EXPECT_EQ(download<uint8_t>(stream1, buffer1.get(), 8192), std::vector<uint8_t>(8192, 2));
  // The kernel returns an error for memory that the host must not access, without killing the test.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_LT(write(ends[1], buffer0.get(), 1), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(CpuMemory, ExportedMemoryIsTheSameMemory) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const Buffer first(machine.device(), 5000);
  const Buffer buffer(machine.device(), 5000);
  upload(stream, buffer.get(), std::vector<uint8_t>(5000, 3));

  keel_memory_export exported = {};
  exported.header = {sizeof(exported), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
  ASSERT_EQ(
      memory().export_memory(machine.device(), buffer.get(), 5000, KEEL_EXPORT_MEMFD, 0, &exported),
      KEEL_OK);
  void* const mapped =
      mmap(nullptr, exported.object_size, PROT_READ | PROT_WRITE, MAP_SHARED, exported.fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const there = static_cast<uint8_t*>(mapped) + exported.offset;
  EXPECT_EQ(there[0], 3);
  EXPECT_EQ(there[4999], 3);
  there[17] = 99;
  EXPECT_EQ(download<uint8_t>(stream, buffer.get(), 5000)[17], 99);
  EXPECT_NE(ftruncate(exported.fd, 4096), 0) << "sealed against shrinking";

  // Imported by another device: one mapping of the object for both allocations.
  const Machine other;
  const StreamHandle other_stream(other.device());
  keel_memory_export exported_first = exported;
  ASSERT_EQ(memory().export_memory(machine.device(), first.get(), 5000, KEEL_EXPORT_MEMFD, 0,
                                   &exported_first),
            KEEL_OK);
  void *pointer = nullptr, *pointer_first = nullptr;
  keel_plugin_import *import = nullptr, *import_first = nullptr;
  ASSERT_EQ(memory().import_memory(other.device(), &exported, &pointer, &import), KEEL_OK);
  ASSERT_EQ(memory().import_memory(other.device(), &exported_first, &pointer_first, &import_first),
            KEEL_OK);
  EXPECT_EQ(static_cast<char*>(pointer) - static_cast<char*>(pointer_first),
            buffer.bytes() - first.bytes());
  EXPECT_EQ(memory().close_import(other.device(), import_first), KEEL_OK);
  EXPECT_EQ(download<uint8_t>(other_stream, pointer, 5000)[17], 99);
  EXPECT_EQ(memory().close_import(other.device(), import), KEEL_OK);
  munmap(mapped, exported.object_size);
  close(exported.fd);
  close(exported_first.fd);
}

TEST(CpuMemory, UnsealedMemoryIsNotImported) {
  const Machine machine;
  keel_memory_export exported = {};
  exported.header = {sizeof(exported), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
  exported.kind = KEEL_EXPORT_MEMFD;
  exported.fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  exported.object_size = 4096;
  ASSERT_EQ(ftruncate(exported.fd, 4096), 0);
  void* pointer = nullptr;
  keel_plugin_import* import = nullptr;
  EXPECT_EQ(memory().import_memory(machine.device(), &exported, &pointer, &import),
            KEEL_INVALID_ARGUMENT);
  close(exported.fd);
}

// ---- copies and fills ------------------------------------------------------------

TEST(CpuStream, CopiesOfAllSizesAndWays) {
  const Machine machine({{"devices", "2"}, {"cores", "2"}});
  const StreamHandle stream(machine.device(0));
  // 1, an odd size, one above the size that is spread over cores.
  for (const size_t size : {size_t{1}, size_t{1000003}, size_t{5} << 20}) {
    std::vector<uint8_t> data(size);
    std::iota(data.begin(), data.end(), uint8_t{1});
    const Buffer a(machine.device(0), size), b(machine.device(0), size);
    const Buffer peer(machine.device(1), size), back(machine.device(0), size);
    std::vector<uint8_t> result(size);
    ASSERT_EQ(streams().copy(stream, KEEL_COPY_HOST_TO_DEVICE, a.get(), data.data(), size),
              KEEL_OK);
    ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, b.get(), a.get(), size), KEEL_OK);
    ASSERT_EQ(streams().copy_peer(stream, machine.device(1), peer.get(), machine.device(0), b.get(),
                                  size),
              KEEL_OK);
    ASSERT_EQ(streams().copy_peer(stream, machine.device(0), back.get(), machine.device(1),
                                  peer.get(), size),
              KEEL_OK);
    ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_HOST, result.data(), back.get(), size),
              KEEL_OK);
    ASSERT_EQ(stream.synchronize(), KEEL_OK);
    EXPECT_EQ(result, data);
  }
}

TEST(CpuStream, FillsWithEveryPatternSize) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const uint64_t pattern = 0x0807060504030201;
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const size_t size : {size_t{8}, size_t{4104}, (size_t{3} << 20) + 8}) {
      const Buffer buffer(machine.device(), size + 8);
      upload(stream, buffer.get(), std::vector<uint8_t>(size + 8, 0xee));
      ASSERT_EQ(streams().fill(stream, buffer.get(), &pattern, width, size), KEEL_OK);
      const auto bytes = download<uint8_t>(stream, buffer.get(), size + 8);
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(bytes[i], i % width + 1) << i;
      for (size_t i = size; i < size + 8; ++i) ASSERT_EQ(bytes[i], 0xee) << "past the end";
    }
  }
}

// ---- events ----------------------------------------------------------------------

// Blocks a stream from the constructor until open, by the only call out of the plugin: an event's
// callback, which blocks (and must not, outside tests).
class Hold {
 public:
  Hold(keel_plugin_device* device, keel_plugin_stream* stream)
      : event_(device), work_(device, kWorkBytes) {
    do {
      missed_ = false;
      // Keeps the stream busy until the callback is registered; if the work ends first, the
      // callback runs on this thread, and the loop retries.
      EXPECT_EQ(streams().fill(stream, work_.get(), "x", 1, kWorkBytes), KEEL_OK);
      EXPECT_EQ(streams().event_record(event_, stream), KEEL_OK);
      EXPECT_EQ(streams().event_notify(event_, &Hold::block, this), KEEL_OK);
    } while (missed_);
  }
  ~Hold() {
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr uint64_t kWorkBytes = 16 << 20;

  static void block(void* user, keel_status) {
    auto* const self = static_cast<Hold*>(user);
    if (std::this_thread::get_id() == self->owner_) {
      self->missed_ = true;
      return;
    }
    std::unique_lock lock(self->mutex_);
    self->changed_.wait(lock, [self] { return self->open_; });
    self->left_ = true;
    self->changed_.notify_all();
  }

  const std::thread::id owner_ = std::this_thread::get_id();
  EventHandle event_;
  Buffer work_;
  bool missed_ = false;  // on owner_ only
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool left_ = false;
};

TEST(CpuEvent, IsNotDoneBeforeTheWorkInFrontOfIt) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const EventHandle event(machine.device());
  const Buffer buffer(machine.device(), 64);
  Hold hold(machine.device(), stream);
  uint8_t host[64] = {};
  ASSERT_EQ(streams().fill(stream, buffer.get(), "z", 1, 64), KEEL_OK);
  ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_HOST, host, buffer.get(), 64), KEEL_OK);
  ASSERT_EQ(streams().event_record(event, stream), KEEL_OK);
  EXPECT_EQ(streams().event_query(event), KEEL_NOT_READY);
  EXPECT_EQ(streams().event_wait(event, 0), KEEL_TIMED_OUT);
  EXPECT_EQ(streams().event_wait(event, 1000000), KEEL_TIMED_OUT);
  EXPECT_EQ(streams().query(stream), KEEL_NOT_READY);
  EXPECT_EQ(streams().synchronize(stream, 1000000), KEEL_TIMED_OUT);
  hold.open();
  EXPECT_EQ(streams().event_wait(event, INT64_MAX), KEEL_OK);
  EXPECT_EQ(streams().event_query(event), KEEL_OK);
  EXPECT_EQ(streams().query(stream), KEEL_OK) << "nothing was enqueued behind the event";
  EXPECT_EQ(host[63], 'z');
}

TEST(CpuEvent, OrdersTwoStreamsWithoutBlockingTheHost) {
  const Machine machine;
  const StreamHandle producer(machine.device()), consumer(machine.device());
  const EventHandle event(machine.device());
  const Buffer buffer(machine.device(), 64);
  Hold hold(machine.device(), producer);
  ASSERT_EQ(streams().fill(producer, buffer.get(), "p", 1, 64), KEEL_OK);
  ASSERT_EQ(streams().event_record(event, producer), KEEL_OK);
  ASSERT_EQ(streams().stream_wait_event(consumer, event), KEEL_OK);
  uint8_t host[64] = {};
  ASSERT_EQ(streams().copy(consumer, KEEL_COPY_DEVICE_TO_HOST, host, buffer.get(), 64), KEEL_OK);
  EXPECT_EQ(streams().query(consumer), KEEL_NOT_READY);
  hold.open();
  ASSERT_EQ(consumer.synchronize(), KEEL_OK);
  EXPECT_EQ(host[0], 'p');
}

TEST(CpuEvent, NotifiesOnceEachAlsoWhenAlreadyDone) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const EventHandle event(machine.device());
  std::atomic<int> calls{0};
  const keel_notify_fn count = [](void* user, keel_status status) {
    EXPECT_EQ(status, KEEL_OK);
    ++*static_cast<std::atomic<int>*>(user);
  };
  {
    Hold hold(machine.device(), stream);
    ASSERT_EQ(streams().event_record(event, stream), KEEL_OK);
    ASSERT_EQ(streams().event_notify(event, count, &calls), KEEL_OK);
    ASSERT_EQ(streams().event_notify(event, count, &calls), KEEL_OK);
    EXPECT_EQ(calls, 0);
  }
  ASSERT_EQ(streams().event_wait(event, INT64_MAX), KEEL_OK);
  // The callbacks run after the event completes, possibly after a wait for it returns.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (calls < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(calls, 2);
  ASSERT_EQ(streams().event_notify(event, count, &calls), KEEL_OK);
  EXPECT_EQ(calls, 3);
}

TEST(CpuEvent, TimesTheWorkBetween) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const EventHandle start(machine.device(), KEEL_EVENT_TIMING);
  const EventHandle end(machine.device(), KEEL_EVENT_TIMING);
  const EventHandle plain(machine.device());
  const Buffer buffer(machine.device(), 1 << 20);
  ASSERT_EQ(streams().event_record(start, stream), KEEL_OK);
  ASSERT_EQ(streams().fill(stream, buffer.get(), "t", 1, 1 << 20), KEEL_OK);
  ASSERT_EQ(streams().event_record(end, stream), KEEL_OK);
  ASSERT_EQ(streams().event_record(plain, stream), KEEL_OK);
  ASSERT_EQ(streams().event_wait(plain, INT64_MAX), KEEL_OK);
  uint64_t elapsed = 0, backwards = 1;
  ASSERT_EQ(streams().event_elapsed(start, end, &elapsed), KEEL_OK);
  EXPECT_GT(elapsed, 0u);
  ASSERT_EQ(streams().event_elapsed(end, start, &backwards), KEEL_OK);
  EXPECT_EQ(backwards, 0u);
  EXPECT_EQ(streams().event_elapsed(start, plain, &elapsed), KEEL_INVALID_ARGUMENT);
}

// ---- queues and threads ------------------------------------------------------------

TEST(CpuStream, KeepsOrderThroughAThousandEntries) {
  const Machine machine;
  const StreamHandle stream(machine.device());
  const Buffer buffer(machine.device(), 1001 * sizeof(uint32_t));
  auto* const words = static_cast<uint32_t*>(buffer.get());
  {
    Hold hold(machine.device(), stream);
    const uint32_t one = 1;
    ASSERT_EQ(streams().fill(stream, words, &one, 4, 4), KEEL_OK);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, words + i + 1, words + i, 4),
                KEEL_OK);
    }
  }
  EXPECT_EQ(download<uint32_t>(stream, buffer.get(), 1001), std::vector<uint32_t>(1001, 1));
}

TEST(CpuStream, DestroyDoesWhatIsQueued) {
  const Machine machine;
  const Buffer buffer(machine.device(), 64);
  uint8_t host[64] = {};
  {
    const StreamHandle stream(machine.device());
    Hold hold(machine.device(), stream);
    ASSERT_EQ(streams().fill(stream, buffer.get(), "d", 1, 64), KEEL_OK);
    ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_HOST, host, buffer.get(), 64), KEEL_OK);
  }
  EXPECT_EQ(host[63], 'd');
}

TEST(CpuStream, ManyThreadsEachWithItsOwn) {
  const Machine machine({{"devices", "2"}, {"cores", "2"}});
  constexpr size_t kWords = (size_t{5} << 18) + 3;  // spread over cores
  std::vector<std::thread> threads;
  for (uint32_t id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      keel_plugin_device* const device = machine.device(id % 2);
      const StreamHandle stream(device);
      const EventHandle event(device);
      for (uint32_t round = 0; round < 8; ++round) {
        const Buffer a(device, kWords * 4), b(device, kWords * 4);
        const uint32_t value = id * 100 + round;
        ASSERT_EQ(streams().fill(stream, a.get(), &value, 4, kWords * 4), KEEL_OK);
        ASSERT_EQ(streams().copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, b.get(), a.get(), kWords * 4),
                  KEEL_OK);
        ASSERT_EQ(streams().event_record(event, stream), KEEL_OK);
        ASSERT_EQ(streams().event_wait(event, INT64_MAX), KEEL_OK);
        ASSERT_EQ(download<uint32_t>(stream, b.get(), kWords),
                  std::vector<uint32_t>(kWords, value));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace keel::cpu::testing
