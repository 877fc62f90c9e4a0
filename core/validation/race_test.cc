// SPDX-License-Identifier: Apache-2.0
// The validation layer from a program's side: races between streams, and leaks. Each race has a
// clean twin that differs only by the ordering call.
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {

// Outside the unnamed namespace, so that function names are in the program.
struct [[gnu::visibility("default")]] LeakedBlock {
  [[gnu::visibility("default")]] explicit LeakedBlock(keel_device device) {
    EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, 1000, &pointer));
  }
  void* pointer = nullptr;
};
using LeakedBlocks = std::vector<LeakedBlock>;
}  // namespace keel::testing

// Explicit, so that the program contains its name.
template keel::testing::LeakedBlock&
std::vector<keel::testing::LeakedBlock>::emplace_back<keel_device&>(keel_device&);

namespace keel::testing {
namespace {

constexpr size_t kWords = 1024;
constexpr uint64_t kBytes = kWords * sizeof(uint32_t);

class RaceTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  RaceTest() { validate_ = true; }
  void SetUp() override {
    KeelTest::SetUp();
    EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_ERROR, &RaceTest::keep, this));
    const auto devices = load(GetParam(), {{"devices", "2"}});
    device_ = devices.at(0);
    other_device_ = devices.at(1);
    a_ = new_stream(device_);
    b_ = new_stream(device_);
    x_ = alloc(device_, kBytes);
    y_ = alloc(device_, kBytes);
    take();
  }
  void TearDown() override {
    take_problems();  // each test checks its own problems
    KeelTest::TearDown();
    EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
  }

  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    texts.swap(texts_);
    return texts;
  }
  ::testing::AssertionResult clean() {
    const auto texts = take();
    if (texts.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << texts.size() << " found, first: " << texts[0];
  }
  // Succeeds if one race was found, between |first| and |second| ("fill ... writes").
  ::testing::AssertionResult found(const std::string& first, const std::string& second) {
    const auto texts = take();
    if (texts.size() == 1 && texts[0].find("validation: race: " + first) == 0 &&
        texts[0].find(", " + second) != std::string::npos &&
        texts[0].find("with no event between them") != std::string::npos) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << texts.size() << " found" << (texts.empty() ? "" : ", first: " + texts[0]);
  }

  keel_status fill_x(keel_stream stream) { return fill(stream, x_, 7, kWords); }
  keel_status copy(keel_stream stream, void* to, const void* from) {
    return keel_copy(stream, device_, to, device_, from, kBytes);
  }
  void order(keel_stream first, keel_stream then) {
    EXPECT_KEEL_OK(keel_stream_wait_event(then, record(first)));
  }

  keel_device device_ = {};
  keel_device other_device_ = {};
  keel_stream a_ = {};
  keel_stream b_ = {};
  void* x_ = nullptr;
  void* y_ = nullptr;

 private:
  static void keep(void* user, keel_log_level, const char* text) {
    RaceTest& self = *static_cast<RaceTest*>(user);
    std::lock_guard lock(self.mutex_);
    self.texts_.emplace_back(text);
  }

  std::mutex mutex_;
  std::vector<std::string> texts_;
};

TEST_P(RaceTest, AReadAfterAWriteNeedsAnEvent) {
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(copy(b_, y_, x_));
  EXPECT_TRUE(found("fill on stream ", "copy on stream "));
  uint64_t count = 0;
  ASSERT_KEEL_OK(keel_validation_count(&count));
  EXPECT_NE(count, 0u);
}

TEST_P(RaceTest, AnEventOrders) {
  ASSERT_KEEL_OK(fill_x(a_));
  order(a_, b_);
  ASSERT_KEEL_OK(copy(b_, y_, x_));
  order(b_, a_);
  ASSERT_KEEL_OK(fill_x(a_));
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, AnElapsedTimeOrders) {
  keel_event start = {};
  keel_event end = {};
  ASSERT_KEEL_OK(keel_event_create(KEEL_EVENT_TIMING, &start));
  ASSERT_KEEL_OK(keel_event_create(KEEL_EVENT_TIMING, &end));
  ASSERT_KEEL_OK(keel_event_record(start, a_));
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_event_record(end, a_));
  uint64_t elapsed = 0;
  keel_status status = KEEL_NOT_READY;
  while (status == KEEL_NOT_READY) status = keel_event_elapsed(start, end, &elapsed);
  ASSERT_KEEL_OK(status);
  ASSERT_KEEL_OK(copy(b_, y_, x_));
  EXPECT_TRUE(clean());
  EXPECT_KEEL_OK(keel_event_destroy(start));
  EXPECT_KEEL_OK(keel_event_destroy(end));
}

// Calls |body| in a callback once |stream| is done, and returns after the call.
void call_once_done(keel_stream stream, const std::function<void()>& body) {
  struct Call {
    const std::function<void()>& body;
    std::promise<void> made;
  } call{body, {}};
  const auto make = [](void* user, keel_status status) {
    EXPECT_KEEL_OK(status);
    static_cast<Call*>(user)->body();
    static_cast<Call*>(user)->made.set_value();
  };
  ASSERT_KEEL_OK(keel_stream_on_done(stream, make, &call));
  call.made.get_future().get();
}

TEST_P(RaceTest, ACallbackOrders) {
  ASSERT_KEEL_OK(fill_x(a_));
  call_once_done(a_, [&] { EXPECT_KEEL_OK(copy(b_, y_, x_)); });
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, ACallbackOfAnotherStreamDoesNot) {
  const keel_stream other = new_stream(device_);
  ASSERT_KEEL_OK(fill_x(a_));
  call_once_done(other, [&] { EXPECT_KEEL_OK(copy(b_, y_, x_)); });
  EXPECT_TRUE(found("fill on stream ", "copy on stream "));
}

TEST_P(RaceTest, AnEventOfBeforeTheWriteDoesNot) {
  const keel_event early = record(a_);
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_stream_wait_event(b_, early));
  ASSERT_KEEL_OK(copy(b_, y_, x_));
  EXPECT_TRUE(found("fill", "copy"));
}

TEST_P(RaceTest, AWriteAfterAReadNeedsOneToo) {
  ASSERT_KEEL_OK(copy(a_, y_, x_));
  ASSERT_KEEL_OK(fill_x(b_));
  EXPECT_TRUE(found("copy on stream ", "fill on stream "));
}

TEST_P(RaceTest, ReadsTogetherAndNeighboursAreFine) {
  ASSERT_KEEL_OK(copy(a_, y_, x_));
  void* const z = alloc(device_, kBytes);
  ASSERT_KEEL_OK(copy(b_, z, x_));
  ASSERT_KEEL_OK(fill(a_, static_cast<char*>(z) + kBytes / 2, 1, 0));
  void* const halves = alloc(device_, kBytes);
  ASSERT_KEEL_OK(fill(a_, halves, 1, kWords / 2));
  ASSERT_KEEL_OK(fill(b_, static_cast<char*>(halves) + kBytes / 2, 2, kWords / 2));
  EXPECT_TRUE(clean());
  ASSERT_KEEL_OK(fill(b_, static_cast<char*>(halves) + kBytes / 2 - 4, 2, kWords / 2));
  EXPECT_TRUE(found("fill", "fill"));
}

TEST_P(RaceTest, OrderIsTransitive) {
  const keel_stream c = new_stream(device_);
  ASSERT_KEEL_OK(fill_x(a_));
  order(a_, b_);
  order(b_, c);
  ASSERT_KEEL_OK(copy(c, y_, x_));
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, TheHostsWaitsOrder) {
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
  ASSERT_KEEL_OK(fill_x(b_));
  const keel_event event = record(b_);
  ASSERT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  ASSERT_KEEL_OK(fill_x(a_));
  const keel_event polled = record(a_);
  while (keel_event_query(polled) == KEEL_NOT_READY) {
  }
  ASSERT_KEEL_OK(fill_x(b_));
  while (keel_stream_query(b_) == KEEL_NOT_READY) {
  }
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_device_synchronize(device_, kTestTimeout));
  ASSERT_KEEL_OK(fill_x(b_));
  ASSERT_KEEL_OK(keel_stream_destroy(b_));
  ASSERT_KEEL_OK(fill_x(a_));
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, AGateOrdersAfterWhatTheHostHadSeen) {
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(b_, gate));
  ASSERT_KEEL_OK(copy(b_, y_, x_));  // held
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, AGateOpenedWithoutAWaitDoesNot) {
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(b_, gate));
  ASSERT_KEEL_OK(copy(b_, y_, x_));
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_TRUE(found("fill", "copy"));
}

TEST_P(RaceTest, HeldWorkIsLookedAtOnceItPasses) {
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  const keel_stream gated = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(gated, gate));
  const keel_event opened = record(gated);
  ASSERT_KEEL_OK(keel_stream_wait_event(b_, opened));
  ASSERT_KEEL_OK(copy(b_, y_, x_));  // held behind the gate of another stream
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(fill_x(a_));
  EXPECT_TRUE(found("copy", "fill"));
}

TEST_P(RaceTest, EventsOrderAcrossBackends) {
  const keel_device cpu = load("cpu", {{"devices", "1"}}).at(0);
  const keel_stream on_cpu = new_stream(cpu);
  void* const z = alloc(cpu, kBytes);
  std::vector<uint32_t> host(kWords);
  ASSERT_KEEL_OK(keel_copy(a_, KEEL_HOST, host.data(), device_, x_, kBytes));
  order(a_, on_cpu);
  ASSERT_KEEL_OK(keel_copy(on_cpu, cpu, z, KEEL_HOST, host.data(), kBytes));
  ASSERT_KEEL_OK(keel_stream_synchronize(on_cpu, kTestTimeout));
  EXPECT_TRUE(clean());
  std::vector<uint32_t> unordered(kWords);
  ASSERT_KEEL_OK(keel_copy(a_, KEEL_HOST, unordered.data(), device_, x_, kBytes));
  ASSERT_KEEL_OK(keel_copy(on_cpu, cpu, z, KEEL_HOST, unordered.data(), kBytes));
  EXPECT_TRUE(found("copy on stream ", "copy on stream "));
  ASSERT_KEEL_OK(keel_stream_synchronize(on_cpu, kTestTimeout));
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
}

// Copies between backends use Keel's internal streams and buffers.
TEST_P(RaceTest, KeelsOwnLegsAreOrdered) {
  const keel_device cpu = load("cpu", {{"devices", "1"}}).at(0);
  const keel_device staged =
      load("fake", {{"no_alias", "1"}, {"no_pageable", "1"}, {"no_peer", "1"}}).at(0);
  for (const keel_device peer : {cpu, other_device_, staged}) {
    const size_t words = (9 << 20) / sizeof(uint32_t);  // three chunks of a staged copy
    void* const here = alloc(device_, words * sizeof(uint32_t));
    void* const there = alloc(peer, words * sizeof(uint32_t));
    ASSERT_KEEL_OK(fill(a_, here, 1, words));
    for (int i = 0; i < 3; ++i) {
      ASSERT_KEEL_OK(keel_copy(a_, peer, there, device_, here, words * sizeof(uint32_t)));
      ASSERT_KEEL_OK(keel_copy(a_, device_, here, peer, there, words * sizeof(uint32_t)));
    }
    EXPECT_TRUE(clean());
    const keel_stream writer = new_stream(peer);
    ASSERT_KEEL_OK(fill(writer, there, 2, words));
    // The copies' helper streams pass, and are checked, in their order.
    ASSERT_KEEL_OK(keel_stream_synchronize(writer, kTestTimeout));
    ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
    EXPECT_FALSE(clean()) << "another stream is not ordered with the copies";
    EXPECT_KEEL_OK(keel_free(device_, here));
    EXPECT_KEEL_OK(keel_free(peer, there));
  }
}

// With both access paths to a rank's buffers: by the host itself, and by Keel's copies.
TEST_P(RaceTest, ACollectiveIsNamedWithWhatItRacesWith) {
  const keel_device devices[] = {device_, other_device_};
  const keel_stream other_stream = new_stream(other_device_);
  void* const other = alloc(other_device_, kBytes);
  ASSERT_KEEL_OK(fill(other_stream, other, 1, kWords));
  // The emulated chip's memory is accessible by copies only; its own library makes no copies of
  // Keel.
  const bool has_alias = GetParam() == std::string("fake");
  for (const bool alias : {true, false}) {
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.forbid_alias = alias ? 0 : 1;
    options.forbid_native = 1;
    keel_comm comms[2] = {};
    ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, &options, comms));
    const auto all_reduce = [&] {
      EXPECT_KEEL_OK(keel_all_reduce(comms[0], x_, y_, kWords, KEEL_INT32, KEEL_SUM, b_));
      EXPECT_KEEL_OK(
          keel_all_reduce(comms[1], other, other, kWords, KEEL_INT32, KEEL_SUM, other_stream));
      EXPECT_KEEL_OK(keel_stream_synchronize(b_, kTestTimeout));
      EXPECT_KEEL_OK(keel_stream_synchronize(other_stream, kTestTimeout));
    };
    const std::string reader = alias && has_alias ? "all_reduce (host copy) on a thread of Keel's"
                                                  : "all_reduce (copy) on stream ";
    ASSERT_KEEL_OK(fill_x(a_));
    all_reduce();
    EXPECT_TRUE(found("fill on stream ", reader));
    ASSERT_KEEL_OK(fill_x(a_));
    order(a_, b_);
    all_reduce();
    EXPECT_TRUE(clean());
    // Work that the host has waited for precedes work it enqueues later, on an idle stream too.
    ASSERT_KEEL_OK(fill_x(a_));
    ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
    all_reduce();
    EXPECT_TRUE(clean());
    for (const keel_comm comm : comms) ASSERT_KEEL_OK(keel_comm_destroy(comm));
  }
}

// On the fake device only: the emulated chip computes the operator itself, and the detector ignores
// writes of a device kernel between the ends of a result with gaps.
using FallbackRaceTest = RaceTest;

// The bytes between the rows of an output belong to their owner alone.
TEST_P(FallbackRaceTest, LeavesTheGapsBetweenRowsAlone) {
  load("cpu", {{"devices", "1"}});
  constexpr int64_t kPitch = 8;
  const auto matrix = [](void* data, int64_t pitch) {
    keel_tensor tensor = {};
    tensor.size = sizeof(tensor);
    tensor.data = data;
    tensor.dtype = KEEL_FLOAT32;
    tensor.rank = 2;
    tensor.shape[0] = tensor.shape[1] = 4;
    tensor.strides[0] = pitch;
    tensor.strides[1] = 1;
    return tensor;
  };
  const keel_tensor x = matrix(x_, 4);
  const keel_tensor y = matrix(y_, kPitch);
  const keel_tensor* const inputs[] = {&x, &x, nullptr};
  const keel_tensor* const outputs[] = {&y};
  const keel_op_matmul_attributes attributes = KEEL_OP_MATMUL_ATTRIBUTES;
  auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_MATMUL;
  call.inputs = inputs;
  call.input_count = 3;
  call.outputs = outputs;
  call.output_count = 1;
  call.attributes = reinterpret_cast<const keel_attribute*>(&attributes);
  call.attribute_count = 5;
  const auto with_fill_at = [&](int64_t word) {
    ASSERT_KEEL_OK(keel_op_run(a_, &call));
    ASSERT_KEEL_OK(fill(b_, static_cast<uint32_t*>(y_) + word, 7, 4));
    ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
    ASSERT_KEEL_OK(keel_stream_synchronize(b_, kTestTimeout));
  };
  with_fill_at(kPitch + 4);
  EXPECT_TRUE(clean());
  with_fill_at(kPitch);
  EXPECT_FALSE(clean()) << "a row of the output itself";
}

TEST_P(RaceTest, MemoryThatIsFreedBeginsANewLife) {
  ASSERT_KEEL_OK(fill_x(a_));
  for (int i = 0; i < 8; ++i) {
    ASSERT_KEEL_OK(keel_free(device_, x_));
    x_ = alloc(device_, kBytes);
    ASSERT_KEEL_OK(fill_x(i % 2 == 0 ? b_ : a_));
  }
  EXPECT_TRUE(clean());
}

TEST_P(RaceTest, MemoryOfAStreamIsUsedAfterIt) {
  void* block = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kBytes, &block));
  const keel_event allocated = record(a_);
  ASSERT_KEEL_OK(fill(b_, block, 1, kWords));
  EXPECT_TRUE(found("allocation on stream ", "fill on stream "));
  ASSERT_KEEL_OK(keel_stream_synchronize(b_, kTestTimeout));
  ASSERT_KEEL_OK(keel_free_on_stream(a_, block));
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kBytes, &block));
  ASSERT_KEEL_OK(keel_event_record(allocated, a_));
  ASSERT_KEEL_OK(keel_stream_wait_event(b_, allocated));
  ASSERT_KEEL_OK(fill(b_, block, 1, kWords));
  EXPECT_TRUE(clean());
  ASSERT_KEEL_OK(keel_stream_synchronize(b_, kTestTimeout));
  ASSERT_KEEL_OK(keel_free(device_, block));
}

// Memory is handed out at its place in the stream, not at the time of the call: the stream's held
// work uses the block's former memory first.
TEST_P(RaceTest, MemoryOfAHeldStreamIsHandedOutWhenItsTurnComes) {
  const keel_device devices[] = {device_, other_device_};
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.forbid_alias = 1;
  options.forbid_native = 1;
  options.chunk_bytes = 4096;  // far more rounds than run before the other rank calls
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, &options, comms));
  constexpr uint64_t kCount = 64 * kWords;
  void* const sum = alloc(device_, kCount * 4);
  void* const other = alloc(other_device_, kCount * 4);
  void* block = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kCount * 4, &block));
  // Keel's thread reads the block, most of it once the other rank has called; a_ waits.
  ASSERT_KEEL_OK(keel_all_reduce(comms[0], block, sum, kCount, KEEL_INT32, KEEL_SUM, a_));
  ASSERT_KEEL_OK(keel_free_on_stream(a_, block));
  // The block belongs to a_, after the sum. Since a_ is held, the block also waits for Keel's busy
  // internal streams.
  void* again = nullptr;
  for (int attempt = 0; attempt < 1000 && again != block; ++attempt) {
    if (attempt != 0) {
      ASSERT_EQ(keel_stream_synchronize(a_, 1'000'000), KEEL_TIMED_OUT);
    }
    ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kCount * 4, &again));
  }
  ASSERT_EQ(again, block);
  const keel_event allocated = record(a_);
  const keel_stream other_stream = new_stream(other_device_);
  ASSERT_KEEL_OK(
      keel_all_reduce(comms[1], other, other, kCount, KEEL_INT32, KEEL_SUM, other_stream));
  ASSERT_KEEL_OK(keel_event_wait(allocated, kTestTimeout));
  EXPECT_TRUE(clean());
  // Also waits until the detector has seen the record pass, which may come after the event: else
  // the next allocation would be kept back behind the record.
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
  // Work ordered after the sum, but not after this allocation, is still reported.
  void* last = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kBytes, &last));
  ASSERT_KEEL_OK(fill(b_, last, 1, kWords));
  EXPECT_TRUE(found("allocation on stream ", "fill on stream "));
  ASSERT_KEEL_OK(keel_stream_synchronize(other_stream, kTestTimeout));
  for (const keel_comm comm : comms) ASSERT_KEEL_OK(keel_comm_destroy(comm));
}

// Also if nothing was enqueued in between, and the stream has an earlier fence.
TEST_P(RaceTest, ALegUsesMemoryOfItsStreamAfterIt) {
  const keel_device cpu = load("cpu", {{"devices", "1"}}).at(0);
  void* const there = alloc(cpu, kBytes);
  ASSERT_KEEL_OK(fill_x(a_));
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
  void* block = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, kBytes, &block));
  ASSERT_KEEL_OK(keel_copy(a_, cpu, there, device_, block, kBytes));
  ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
  EXPECT_TRUE(clean());
}

// Many small pieces, far more than are kept once they are over.
TEST_P(RaceTest, ALongRunStaysClean) {
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < kWords; i += 2) {
      ASSERT_KEEL_OK(fill(a_, static_cast<uint32_t*>(x_) + i, 1, 1));
      ASSERT_KEEL_OK(fill(b_, static_cast<uint32_t*>(x_) + i + 1, 1, 1));
    }
    ASSERT_KEEL_OK(keel_stream_synchronize(a_, kTestTimeout));
    order(b_, a_);
    ASSERT_KEEL_OK(fill_x(a_));
    order(a_, b_);
  }
  EXPECT_TRUE(clean());
}

// ---- leaks ------------------------------------------------------------------------

INSTANTIATE_TEST_SUITE_P(Backends, RaceTest, ::testing::Values("fake", "sim"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Backends, FallbackRaceTest, ::testing::Values("fake"),
                         [](const auto& info) { return std::string(info.param); });

class LeakTest : public RaceTest {
 protected:
  // Returns the problems reported at shutdown; initializes Keel again.
  std::vector<std::string> shut_down() {
    EXPECT_KEEL_OK(keel_shutdown());
    const auto texts = take();
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    options.validate = 1;
    EXPECT_KEEL_OK(keel_init(&options));
    return texts;
  }
  static std::string name(keel_device device) {
    char text[80] = {};
    EXPECT_KEEL_OK(keel_device_name(device, text, sizeof(text)));
    return text;
  }
  // Returns how many of |texts| name a place in this program.
  static int count_places(const std::vector<std::string>& texts) {
#ifdef __SANITIZE_ADDRESS__  // its own frames come first, and those it does not inline
    return static_cast<int>(texts.size());
#else
    return count(texts, "race_test");
#endif
  }
  static int count(const std::vector<std::string>& texts, const std::string& part) {
    int found = 0;
    for (const std::string& text : texts) found += text.find(part) != std::string::npos ? 1 : 0;
    return found;
  }
};

TEST_P(LeakTest, AreReportedWithWhereTheyWereMade) {
  const std::string device_name = name(device_);
  for (int i = 0; i < 3; ++i) alloc(device_, 1000);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  const auto texts = shut_down();
  EXPECT_EQ(
      count(texts, "leak: 3 x allocation of " + device_name + ", 3000 bytes in all, made at "), 1);
  EXPECT_EQ(count(texts, "leak: 1 x gate made at "), 1);
  EXPECT_EQ(count(texts, "leak: 1 x stream made at "), 2) << "a_ and b_";
  EXPECT_EQ(count_places(texts), static_cast<int>(texts.size())) << texts.at(0);
}

// Objects constructed in place by a container are created by functions of the C++ library.
TEST_P(LeakTest, PlacesOfTheStandardLibraryAreLeftOut) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "frames of the sanitizer, and those it keeps from inlining, come first";
#endif
  LeakedBlocks blocks;
  blocks.reserve(1);
  blocks.emplace_back(device_);
  const auto texts = shut_down();
  EXPECT_EQ(count(texts, "std::"), 0) << texts.at(0);
  EXPECT_EQ(count(texts, "keel::testing::LeakedBlock::LeakedBlock(keel_device)"), 1) << texts.at(0);
}

TEST_P(LeakTest, OfEveryKindAreReported) {
  std::vector<char> host(4096);
  // Only the fake device runs kernels here; the emulated chip pins memory of the caller.
  const keel_device fake = load("fake").at(0);
  const keel_device sim = load("sim", {{"devices", "1"}}).at(0);
  const std::string device_name = name(device_);
  const std::string sim_name = name(sim);
  void* ordered = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(a_, 500, &ordered));
  void* pinned = nullptr;
  ASSERT_KEEL_OK(keel_alloc(sim, KEEL_MEMORY_PINNED, 700, &pinned));
  ASSERT_KEEL_OK(keel_host_register(sim, host.data(), host.size()));
  record(a_);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  keel_module module = {};
  ASSERT_KEEL_OK(keel_module_load(fake, KEEL_BINARY_VENDOR, "kernels", 7, &module));
  const keel_device ranks[] = {device_, other_device_};
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(ranks, 2, nullptr, comms));
  keel_comm urgent[2] = {};
  std::thread other([&] { EXPECT_KEEL_OK(keel_comm_duplicate(comms[1], nullptr, &urgent[1])); });
  ASSERT_KEEL_OK(keel_comm_duplicate(comms[0], nullptr, &urgent[0]));
  other.join();
  take();
  const auto texts = shut_down();
  EXPECT_EQ(count(texts, "leak: 1 x allocation of " + device_name + ", 500 bytes in all,"), 1);
  EXPECT_EQ(count(texts, "leak: 1 x allocation of " + sim_name + ", 700 bytes in all,"), 1);
  EXPECT_EQ(count(texts, "leak: 1 x registration of host memory with " + sim_name +
                             ", 4096 bytes in all, made at "),
            1);
  for (const char* kind : {"event", "gate", "module"}) {
    EXPECT_EQ(count(texts, std::string("leak: 1 x ") + kind + " made at "), 1) << kind;
  }
  EXPECT_EQ(count(texts, "leak: 1 x stream made at "), 2) << "a_ and b_";
  EXPECT_EQ(count(texts, "leak: 2 x communicator's rank made at "), 1) << "of one call";
  EXPECT_EQ(count(texts, "leak: 1 x communicator's rank made at "), 2) << "of a call each";
  EXPECT_EQ(count_places(texts), static_cast<int>(texts.size()));
}

TEST_P(LeakTest, WhatIsGivenBackIsNot) {
  EXPECT_KEEL_OK(keel_event_destroy(record(a_)));
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
  EXPECT_KEEL_OK(keel_stream_destroy(a_));
  EXPECT_KEEL_OK(keel_stream_destroy(b_));
  EXPECT_KEEL_OK(keel_free(device_, x_));
  EXPECT_KEEL_OK(keel_free(device_, y_));
  const keel_device sim = load("sim", {{"devices", "1"}}).at(0);
  std::vector<char> host(4096);
  ASSERT_KEEL_OK(keel_host_register(sim, host.data(), host.size()));
  EXPECT_KEEL_OK(keel_host_unregister(sim, host.data()));
  const keel_device fake = load("fake").at(0);
  keel_module module = {};
  ASSERT_KEEL_OK(keel_module_load(fake, KEEL_BINARY_VENDOR, "kernels", 7, &module));
  EXPECT_KEEL_OK(keel_module_unload(module));
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  EXPECT_TRUE(shut_down().empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, LeakTest, ::testing::Values("fake", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
