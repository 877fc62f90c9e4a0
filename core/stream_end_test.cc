// Recovering and closing a stream, with what its users cannot make happen at will.
#include <thread>

#include "core/api.h"
#include "core/gate.h"
#include "core/stream.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// Does what a collective would: it is at the memory of its stream until its gate opens.
class Keeper final : public GateKeeper {
 public:
  void help(const Gate&, const Deadline&) override {
    ++asked_;
    if (helps_) open();
  }
  void open() {
    WakeList wake;
    gate_->open({}, wake);
    advance_all(wake);
  }
  // A gate of this keeper's on |stream|.
  void hold(Stream& stream) {
    gate_ = make_ref<Gate>("work", Ref<GateKeeper>(this));
    Ref<EventRecord> ready;
    EXPECT_TRUE(stream.hold(gate_, &ready).ok());
  }
  void set_helps() { helps_ = true; }
  int asked() const { return asked_; }

 private:
  Ref<Gate> gate_;
  bool helps_ = false;
  std::atomic<int> asked_{0};
};

class StreamEndTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
    handle_ = new_stream(device_);
    ASSERT_TRUE(find_stream(handle_, &stream_).ok());
    keeper_ = make_ref<Keeper>();
  }
  void TearDown() override {
    stream_ = nullptr;
    keeper_ = nullptr;
    KeelTest::TearDown();
  }
  // A gate of the user's, then one of the keeper's; the first one opens with a failure.
  void fail_before_the_kept_gate() {
    ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, gate_));
    keeper_->hold(*stream_);
    ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "the loader lost a batch"));
    ASSERT_EQ(keel_stream_synchronize(handle_, kPatience), KEEL_DATA_LOSS);
  }

  keel_device device_ = {};
  keel_gate gate_ = {};
  keel_stream handle_ = {};
  Ref<Stream> stream_;
  Ref<Keeper> keeper_;
};

TEST_P(StreamEndTest, ARecoveryWaitsForWhoKeepsADroppedGate) {
  fail_before_the_kept_gate();
  EXPECT_EQ(keel_stream_recover(handle_, 1'000'000), KEEL_TIMED_OUT);
  EXPECT_NE(std::string(keel_last_error()).find("before work was over"), std::string::npos)
      << keel_last_error();
  EXPECT_EQ(keel_stream_synchronize(handle_, kPatience), KEEL_DATA_LOSS) << "as it was";
  std::thread opener([&] { keeper_->open(); });
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kPatience));
  opener.join();
  EXPECT_KEEL_OK(keel_stream_synchronize(handle_, kPatience));
}

TEST_P(StreamEndTest, ARecoveryHelpsWhoKeepsADroppedGate) {
  fail_before_the_kept_gate();
  keeper_->set_helps();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kPatience));
  EXPECT_EQ(keeper_->asked(), 1);
}

TEST_P(StreamEndTest, AGateThatOpenedIsNotWaitedFor) {
  for (int i = 0; i < 100; ++i) {
    keeper_->hold(*stream_);
    keeper_->open();
  }
  fail_before_the_kept_gate();
  keeper_->open();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kPatience));
  EXPECT_KEEL_OK(keel_stream_synchronize(handle_, kPatience));
}

// Nor one that nobody keeps.
TEST_P(StreamEndTest, AGateOfTheUsersIsNotWaitedFor) {
  keel_gate behind = {};
  ASSERT_KEEL_OK(keel_gate_create(&behind));
  ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, gate_));
  ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, behind));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "the loader lost a batch"));
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kPatience));
}

TEST_P(StreamEndTest, ClosingWaitsForWhoKeepsTheGate) {
  keeper_->hold(*stream_);
  EXPECT_EQ(stream_->close(Deadline::after(1'000'000)).code(), KEEL_TIMED_OUT);
  std::thread opener([&] { keeper_->open(); });
  EXPECT_KEEL_OK(keel_stream_destroy(handle_));
  opener.join();
}

// Memory that is freed, too, is nobody else's before.
TEST_P(StreamEndTest, FreedMemoryWaitsForWhoKeepsADroppedGate) {
  constexpr uint64_t kBytes = 3 << 20;
  void* const used = alloc(device_, kBytes);
  fail_before_the_kept_gate();
  ASSERT_KEEL_OK(keel_free(device_, used));
  void* other = alloc(device_, kBytes);
  EXPECT_NE(other, used);
  keeper_->open();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kPatience));
  EXPECT_EQ(alloc(device_, kBytes), used);
}

INSTANTIATE_TEST_SUITE_P(Backends, StreamEndTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
