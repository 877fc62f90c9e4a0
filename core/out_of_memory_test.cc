// SPDX-License-Identifier: Apache-2.0
// Host or device memory runs out at each allocation of a short run in turn: the call that needed
// the memory returns the failure, and the same run passes right afterwards.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/testing/host_memory.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr int kAllocations = 200;
constexpr size_t kWords = 1 << 18;
constexpr uint64_t kIdleBytes = 65 << 20;  // too large to share a segment of the device

// Two devices with one stream each, held work, copies in between, a collective. Ends at the first
// failure, and destroys everything.
class ShortRun {
 public:
  ShortRun(keel_device first, keel_device second) : devices_{first, second} {}
  // Returns the first failure; KEEL_OK if all went well and the words arrived.
  keel_status go() {
    const keel_status status = work();
    has_starved_ = fail_at >= 0 && t_until_failure < 0;
    t_until_failure = -1;
    if (status == KEEL_OK) {
      EXPECT_EQ(arrived_, host_);
    }
    // A rank whose call was refused has not called: the other rank would wait for it.
    if (status != KEEL_OK && !comms_.empty()) {
      EXPECT_KEEL_OK(keel_comm_abort(comms_[0]));
    }
    for (const keel_comm comm : comms_) expect_ended(comm.id, keel_comm_destroy(comm));
    expect_ended(gate_.id, gate_.id == 0 ? KEEL_OK : keel_gate_destroy(gate_));
    for (const keel_event event : events_) expect_ended(event.id, keel_event_destroy(event));
    for (size_t i = 0; i < 2; ++i) {
      if (streams_[i].id != 0) expect_ended(streams_[i].id, keel_stream_destroy(streams_[i]));
      for (void* pointer : memory_[i]) EXPECT_KEEL_OK(keel_free(devices_[i], pointer));
      EXPECT_KEEL_OK(keel_memory_trim(devices_[i]));
    }
    return status;
  }

 private:
#define KEEL_TRY(call)                              \
  do {                                              \
    const keel_status keel_status_ = (call);        \
    if (keel_status_ != KEEL_OK) {                  \
      EXPECT_STRNE(keel_last_error(), "") << #call; \
      return keel_status_;                          \
    }                                               \
  } while (false)

  keel_status work() {
    for (size_t i = 0; i < 2; ++i) memory_[i].reserve(2 + idle_blocks[i]);
    comms_.reserve(2);
    events_.reserve(1 + kAllocations);
    host_ = pattern(kWords, 7);
    arrived_.assign(kWords, 0);
    t_until_failure = fail_at;
    for (size_t i = 0; i < 2; ++i) {
      KEEL_TRY(keel_stream_create(devices_[i], 0, &streams_[i]));
      for (int block = 0; block < 2; ++block) {
        void* pointer = nullptr;
        KEEL_TRY(keel_alloc(devices_[i], KEEL_MEMORY_DEVICE, kBytes, &pointer));
        memory_[i].push_back(pointer);
      }
    }
    KEEL_TRY(allocate_idle());
    KEEL_TRY(create_event());
    KEEL_TRY(keel_gate_create(&gate_));
    KEEL_TRY(keel_copy(streams_[0], devices_[0], memory_[0][0], KEEL_HOST, host_.data(), kBytes));
    KEEL_TRY(keel_stream_wait_gate(streams_[0], gate_));
    KEEL_TRY(
        keel_copy(streams_[0], devices_[0], memory_[0][1], devices_[0], memory_[0][0], kBytes));
    KEEL_TRY(keel_event_record(events_[0], streams_[0]));
    KEEL_TRY(keel_stream_wait_event(streams_[1], events_[0]));
    KEEL_TRY(
        keel_copy(streams_[1], devices_[1], memory_[1][0], devices_[0], memory_[0][1], kBytes));
    KEEL_TRY(keel_gate_open(gate_, KEEL_OK, nullptr));
    KEEL_TRY(
        keel_copy(streams_[1], KEEL_HOST, arrived_.data(), devices_[1], memory_[1][0], kBytes));
    keel_comm made[2] = {};
    KEEL_TRY(keel_comm_init_all(devices_, 2, nullptr, made));
    comms_.assign(made, made + 2);
    for (size_t i = 0; i < 2; ++i) {
      KEEL_TRY(keel_all_reduce(comms_[i], memory_[i][0], memory_[i][1], kWords, KEEL_UINT32,
                               KEEL_SUM, streams_[i]));
    }
    KEEL_TRY(allocate_idle());
    // Calls on existing objects allocate nothing; creating objects does.
    for (int i = 0; i < kAllocations; ++i) KEEL_TRY(create_event());
    for (const keel_stream stream : streams_) {
      KEEL_TRY(keel_stream_synchronize(stream, kTestTimeout));
    }
    return KEEL_OK;
  }

  keel_status create_event() {
    keel_event event = {};
    KEEL_TRY(keel_event_create(0, &event));
    events_.push_back(event);
    return KEEL_OK;
  }

  // Allocates half of the idle blocks.
  keel_status allocate_idle() {
    for (size_t i = 0; i < 2; ++i) {
      for (size_t block = 0; block < idle_blocks[i] / 2; ++block) {
        void* pointer = nullptr;
        KEEL_TRY(keel_alloc(devices_[i], KEEL_MEMORY_DEVICE, kIdleBytes, &pointer));
        memory_[i].push_back(pointer);
      }
    }
    return KEEL_OK;
  }

  // Destroying existing objects always succeeds.
  void expect_ended(uint64_t handle, keel_status status) {
    t_until_failure = -1;
    EXPECT_EQ(status, KEEL_OK) << handle << ": " << keel_last_error();
  }

  static constexpr uint64_t kBytes = kWords * sizeof(uint32_t);
  keel_device devices_[2];
  keel_stream streams_[2] = {};
  std::vector<void*> memory_[2];
  std::vector<keel_comm> comms_;
  std::vector<keel_event> events_;
  keel_gate gate_ = {};
  std::vector<uint32_t> host_;
  std::vector<uint32_t> arrived_;
  bool has_starved_ = false;

 public:
  // Returns whether the failing allocation was reached.
  bool has_starved() const {
    return has_starved_;
  }

  int fail_at = -1;
  size_t idle_blocks[2] = {0, 0};  // of each device, besides the blocks with work
};

class OutOfMemoryTest : public KeelTest {
 protected:
  void survive(keel_device first, keel_device second) {
    for (int index = 0; index < kAllocations; ++index) {
      ShortRun starved(first, second);
      starved.fail_at = index;
      const keel_status status = starved.go();
      t_until_failure = -1;
      // A thread that waits for its stream may run another rank's part, and gets that rank's
      // failure.
      const bool is_other_rank = status == KEEL_RANK_FAILED &&
                                 std::strstr(keel_last_error(), "out of host memory") != nullptr;
      EXPECT_TRUE(status == KEEL_OK || status == KEEL_OUT_OF_MEMORY ||
                  status == KEEL_STREAM_FAILED || is_other_rank)
          << "allocation " << index << ": " << keel_status_name(status) << ": "
          << keel_last_error();
      EXPECT_TRUE(starved.has_starved()) << "the run makes but " << index << " allocations";
      EXPECT_EQ(ShortRun(first, second).go(), KEEL_OK) << "after allocation " << index;
      if (HasFailure()) return;
    }
  }
};

TEST_F(OutOfMemoryTest, OfTheHostBetweenBackends) {
  survive(load("cpu", {{"devices", "1"}}).at(0), load("sim", {{"devices", "1"}}).at(0));
}

// With peer copies and staged copies, with and without events that notify or can be waited for.
TEST_F(OutOfMemoryTest, OfTheHostWithinABackend) {
  const Settings settings[] = {
      {{"devices", "2"}},
      {{"devices", "2"}, {"no_peer", "1"}, {"no_alias", "1"}, {"no_notify", "1"}},
  };
  for (const char* plugin : {"fake", "fake_polled"}) {
    for (const Settings& each : settings) {
      const std::vector<keel_device> devices = load(plugin, each);
      survive(devices.at(0), devices.at(1));
      if (HasFailure()) return;
    }
  }
}

// After a refused registration nothing is registered, and a second attempt succeeds.
TEST_F(OutOfMemoryTest, OfTheHostAtARegistration) {
  const keel_device device = load("sim", {{"devices", "1"}}).at(0);
  std::vector<char> memory(1 << 16);
  for (int index = 0;; ++index) {
    t_until_failure = index;
    const keel_status status = keel_host_register(device, memory.data(), memory.size());
    const bool has_starved = t_until_failure < 0;
    t_until_failure = -1;
    if (status != KEEL_OK) {
      EXPECT_EQ(status, KEEL_OUT_OF_MEMORY) << "allocation " << index << ": " << keel_last_error();
      ASSERT_KEEL_OK(keel_host_register(device, memory.data(), memory.size()))
          << "after allocation " << index;
    }
    ASSERT_KEEL_OK(keel_host_unregister(device, memory.data()));
    if (!has_starved) break;
    ASSERT_LT(index, kAllocations);
  }
}

// After a failed copy, later work does not run beside a part of the copy.
TEST_F(OutOfMemoryTest, OfTheHostInACopyBetweenDevices) {
  const Settings settings[] = {{{"no_peer", "1"}}, {{"no_peer", "1"}, {"no_alias", "1"}}};
  for (const Settings& each : settings) {
    const std::vector<keel_device> devices = load("fake", each);
    const std::vector<uint32_t> words = pattern(kWords, 3);
    void* const source = alloc_filled(devices[0], words);
    bool has_starved = true;
    for (int index = 0; has_starved && index < kAllocations; ++index) {
      void* const destination = alloc_filled(devices[1], pattern(kWords, 4));
      const keel_stream stream = new_stream(devices[0]);
      keel_status status = KEEL_OK;
      keel_status seen = KEEL_OK;
      {
        const FakePause pause;
        t_until_failure = index;
        status = keel_copy(stream, devices[1], destination, devices[0], source, 4 * kWords);
        has_starved = t_until_failure < 0;
        t_until_failure = -1;
        seen = keel_stream_query(stream);
      }
      EXPECT_TRUE(status == KEEL_OK || status == KEEL_OUT_OF_MEMORY) << keel_last_error();
      ASSERT_KEEL_OK(keel_stream_destroy(stream));
      const bool has_copied = read(devices[1], destination, kWords) == words;
      EXPECT_TRUE(has_copied || status != KEEL_OK);
      EXPECT_FALSE(has_copied && seen == KEEL_OK)
          << "allocation " << index << ": the stream goes on before the copy is over";
      ASSERT_KEEL_OK(keel_free(devices[1], destination));
    }
    EXPECT_FALSE(has_starved);
    if (HasFailure()) return;
  }
}

// Calls |ask|, a callable keel_status(char* text, uint64_t* size), and fails each of its
// allocations in turn.
template <typename Ask>
void expect_told(const Ask& ask) {
  std::string text(1 << 20, '\0');
  bool has_starved = true;
  for (int index = 0; has_starved; ++index) {
    uint64_t size = text.size();
    t_until_failure = index;
    const keel_status status = ask(text.data(), &size);
    has_starved = t_until_failure < 0;
    t_until_failure = -1;
    ASSERT_EQ(status, has_starved ? KEEL_OUT_OF_MEMORY : KEEL_OK)
        << "allocation " << index << ": " << keel_last_error();
    EXPECT_TRUE(!has_starved || std::strcmp(keel_last_error(), "out of host memory") == 0)
        << keel_last_error();
    EXPECT_TRUE(has_starved || index > 20) << "hardly anything is allocated";
  }
}

TEST_F(OutOfMemoryTest, OfTheHostWhereQuestionsAreAnswered) {
  char folder[] = "/tmp/keel-flight-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  setenv("KEEL_FLIGHT_DIR", folder, 1);
  const std::vector<keel_device> devices = load("cpu", {{"devices", "2"}});
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), 2, nullptr, comms));
  std::ofstream(std::string(folder) + "/flight-0-1-1") << "junk";
  expect_told([&](char* text, uint64_t* size) { return keel_comm_explain(comms[0], text, size); });
  expect_told([&](char* text, uint64_t* size) { return keel_flight_read(nullptr, text, size); });
  for (const keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  unsetenv("KEEL_FLIGHT_DIR");
  std::filesystem::remove_all(folder);
}

// With room for the idle blocks.
keel_device load_sim(const std::string& faults) {
  return load("sim", {{"devices", "1"}, {"memory_mib", "32768"}, {"faults", faults}}).at(0);
}

// The chip refuses its Nth allocation: once, which releasing cached memory repairs, and for good.
TEST_F(OutOfMemoryTest, OfTheDevice) {
  const keel_device other = load("cpu", {{"devices", "1"}}).at(0);
  for (int index = 1; index <= kAllocations; ++index) {
    const std::string at = "refuse:alloc@" + std::to_string(index);
    const keel_device once = load_sim(at);
    ShortRun mended(once, other);
    mended.idle_blocks[0] = kAllocations;
    EXPECT_EQ(mended.go(), KEEL_OK) << at << ": " << keel_last_error();
    const keel_device ever = load_sim(at + "+");
    ShortRun starved(other, ever);
    starved.idle_blocks[1] = kAllocations;
    const keel_status status = starved.go();
    // The other rank of a collective learns which rank ran out of memory.
    const bool is_the_others =
        status == KEEL_RANK_FAILED && std::strstr(keel_last_error(), "out of memory") != nullptr;
    EXPECT_TRUE(status == KEEL_OUT_OF_MEMORY || is_the_others)
        << at << "+: " << keel_status_name(status) << ": " << keel_last_error();
    EXPECT_EQ(ShortRun(other, once).go(), KEEL_OK) << "another chip, after " << at << "+";
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace keel::testing
