// SPDX-License-Identifier: Apache-2.0
// Streams, copies, fills and native gates through the validation layer.
#include <thread>

#include "core/validation/testing/checked_test.h"

namespace keel::validation::testing {
namespace {

class CheckedStream : public CheckedTest {
 protected:
  keel_status fill(void* destination, uint32_t pattern_size, uint64_t size) {
    const uint64_t pattern = 0;
    return stream().fill(stream_, destination, &pattern, pattern_size, size);
  }
};

TEST_F(CheckedStream, CopiesStayInsideLiveMemory) {
  char* const a = alloc(1024);
  char* const b = alloc(1024);
  EXPECT_EQ(copy(a + 1000, b, 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("validation: stub:0: stream.copy: destination"));
  EXPECT_EQ(copy(a, b + 1000, 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("+ 100 reaches past its allocation of 1024 at offset 1000"));
  EXPECT_EQ(copy(a, reinterpret_cast<void*>(0x10), 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("source 0x10 lies in no live allocation of stub:0"));
  EXPECT_EQ(copy(a, nullptr, 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("source is NULL"));
  EXPECT_EQ(copy(a, a + 50, 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("overlap in 100 bytes"));
  EXPECT_EQ(copy(a, b, 0), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("size is 0"));
  EXPECT_EQ(stream().copy(stream_, 3, a, b, 100), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("kind 3 is no kind of copy"));
  EXPECT_EQ(stub().calls["copy"], 0);

  EXPECT_EQ(copy(a, a + 100, 100), KEEL_OK);
  EXPECT_EQ(copy(a, b, 1024), KEEL_OK);
  EXPECT_EQ(stream().copy(stream_, KEEL_COPY_HOST_TO_DEVICE, a, "host", 4), KEEL_OK);
  EXPECT_EQ(stub().calls["copy"], 3);
}

TEST_F(CheckedStream, HostMemoryThatIsPinnedHasBounds) {
  char* const pinned = alloc(1024, KEEL_MEMORY_PINNED);
  char* const block = alloc(4096);
  EXPECT_EQ(stream().copy(stream_, KEEL_COPY_DEVICE_TO_HOST, pinned, block, 2048),
            KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("destination"));
  EXPECT_EQ(copy(block, pinned, 64), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("lies in no live allocation")) << "pinned memory is the host's";
  char* const managed = alloc(1024, KEEL_MEMORY_MANAGED);
  EXPECT_EQ(copy(block, managed, 1024), KEEL_OK);
  EXPECT_EQ(stream().copy(stream_, KEEL_COPY_HOST_TO_DEVICE, block, managed, 1024), KEEL_OK);
}

TEST_F(CheckedStream, FillsAreAligned) {
  char* const block = alloc(1024);
  EXPECT_EQ(fill(block, 3, 9), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("pattern_size is 3: 1, 2, 4 or 8"));
  EXPECT_EQ(fill(block, 4, 10), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("size 10 is no multiple of pattern_size 4"));
  EXPECT_EQ(fill(block + 2, 4, 8), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is not aligned to pattern_size 4"));
  EXPECT_EQ(fill(block, 1, 1025), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("reaches past its allocation"));
  EXPECT_EQ(fill(block + 1, 1, 1023), KEEL_OK);
}

TEST_F(CheckedStream, PeerCopiesKnowBothDevices) {
  char* const block = alloc(1024);
  void* peer = nullptr;
  ASSERT_EQ(memory().alloc(other_device_, KEEL_MEMORY_DEVICE, 1024, 0, &peer), KEEL_OK);
  EXPECT_EQ(stream().copy_peer(stream_, device_, peer, other_device_, block, 64),
            KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("lies in no live allocation of stub:0"));
  EXPECT_EQ(stream().copy_peer(stream_, other_device_, peer, device_, block, 2000),
            KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("reaches past its allocation"));
  EXPECT_EQ(stream().copy_peer(other_stream_, device_, block, device_, block + 512, 64),
            KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("stream is of neither device"));
  EXPECT_EQ(stream().copy_peer(other_stream_, device_, block, other_device_, peer, 1024), KEEL_OK);
  EXPECT_EQ(memory().free(other_device_, KEEL_MEMORY_DEVICE, peer), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("stream.copy_peer uses it"));
  ASSERT_EQ(stream().synchronize(other_stream_, 0), KEEL_OK);
  EXPECT_EQ(memory().free(other_device_, KEEL_MEMORY_DEVICE, peer), KEEL_OK);
}

TEST_F(CheckedStream, TwoThreadsMustNotEnqueueAtOnce) {
  char* const block = alloc(1024);
  stub().in_copy = [&] {
    stub().in_copy = nullptr;
    std::thread([&] { EXPECT_EQ(fill(block, 1, 64), KEEL_FAILED_PRECONDITION); }).join();
  };
  EXPECT_EQ(copy(block, block + 512, 64), KEEL_OK);
  EXPECT_TRUE(found("another thread is enqueueing on this stream"));
  EXPECT_EQ(stub().calls["fill"], 0);
  std::thread([&] { EXPECT_EQ(fill(block, 1, 64), KEEL_OK); }).join();
}

TEST_F(CheckedStream, AFailedStreamTakesNoMoreWork) {
  char* const block = alloc(1024);
  ASSERT_EQ(fill(block, 1, 64), KEEL_OK);
  stub().work = KEEL_DATA_LOSS;
  EXPECT_EQ(stream().synchronize(stream_, 0), KEEL_DATA_LOSS);
  EXPECT_TRUE(clean());
  EXPECT_EQ(fill(block, 1, 64), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("the stream has failed with KEEL_DATA_LOSS: its owner must make another"));
  recorded(stream_);
  EXPECT_TRUE(clean()) << "an event tells when the rest is over";
  stub().work = KEEL_OK;
  EXPECT_EQ(stream().query(stream_), KEEL_OK);
  EXPECT_TRUE(found("the plugin says KEEL_OK of a stream that failed with KEEL_DATA_LOSS"));
}

TEST_F(CheckedStream, StreamsAreDoneWhenTheyAreDestroyed) {
  keel_plugin_stream* const other = new_stream();
  char* const block = alloc(1024);
  const char zero = 0;
  ASSERT_EQ(stream().fill(other, block, &zero, 1, 64), KEEL_OK);
  stream().destroy(other);
  EXPECT_TRUE(found("stub:0: stream.destroy: nothing has said that its work is done"));
  EXPECT_EQ(stub().calls["destroy"], 0);
  stream().destroy(reinterpret_cast<keel_plugin_stream*>(0x1234));
  EXPECT_TRUE(found("stream.destroy: stream 0x1234 is not a live handle"));
}

TEST_F(CheckedStream, QueriesAndWaitsThatLie) {
  ASSERT_EQ(stream().query(stream_), KEEL_OK);
  stub().work = KEEL_NOT_READY;
  EXPECT_EQ(stream().query(stream_), KEEL_NOT_READY);
  EXPECT_TRUE(found("KEEL_NOT_READY of a stream that was done before"));
  ASSERT_EQ(fill(alloc(64), 1, 64), KEEL_OK);
  EXPECT_EQ(stream().query(stream_), KEEL_NOT_READY);
  EXPECT_TRUE(clean());
  EXPECT_EQ(stream().synchronize(stream_, 0), KEEL_TIMED_OUT);
  EXPECT_TRUE(clean());
  EXPECT_EQ(stream().synchronize(stream_, 3'600'000'000'000), KEEL_TIMED_OUT);
  EXPECT_TRUE(found("the plugin gave up after"));
  EXPECT_EQ(stream().synchronize(stream_, -1), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("timeout_ns is -1"));
}

TEST_F(CheckedStream, ASharedOneMayBeBusyAgain) {
  void* native = nullptr;
  ASSERT_EQ(stream().unwrap(stream_, &native), KEEL_OK);
  ASSERT_EQ(stream().query(stream_), KEEL_OK);
  stub().work = KEEL_NOT_READY;  // work of another owner of the handle
  EXPECT_EQ(stream().query(stream_), KEEL_NOT_READY);
  EXPECT_TRUE(clean());
}

TEST_F(CheckedStream, CreateGivesANewStream) {
  keel_plugin_stream* created = nullptr;
  stub().silent.insert("create");
  EXPECT_EQ(stream().create(device_, 0, &created), KEEL_INTERNAL);
  EXPECT_TRUE(found("left *out_stream unset"));
  void* native = nullptr;
  ASSERT_EQ(stream().unwrap(stream_, &native), KEEL_OK);
  stub().next_stream = static_cast<keel_plugin_stream*>(native);
  EXPECT_EQ(stream().create(device_, 0, &created), KEEL_INTERNAL);
  EXPECT_TRUE(found("gave a stream that is live already"));
  EXPECT_EQ(created, nullptr);
}

TEST_F(CheckedStream, NativeGatesOpenOnceAndOutliveTheirWaits) {
  keel_plugin_gate* gate = nullptr;
  ASSERT_EQ(stream().gate_create(device_, &gate), KEEL_OK);
  EXPECT_EQ(stream().stream_wait_gate(other_stream_, gate), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("gate is of stub:0, stream of stub:1"));
  ASSERT_EQ(stream().stream_wait_gate(stream_, gate), KEEL_OK);
  EXPECT_EQ(stream().gate_open(gate), KEEL_OK);
  EXPECT_EQ(stream().gate_open(gate), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("the gate is open already"));
  stream().gate_destroy(gate);
  EXPECT_TRUE(found("nothing has said that the streams that wait for it are past it"));
  ASSERT_EQ(stream().synchronize(stream_, 0), KEEL_OK);
  stream().gate_destroy(gate);
  EXPECT_TRUE(clean());
  EXPECT_EQ(stub().calls["gate_destroy"], 1);
}

}  // namespace
}  // namespace keel::validation::testing
