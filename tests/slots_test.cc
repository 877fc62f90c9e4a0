// SPDX-License-Identifier: Apache-2.0
// kit::Slots in a plugin of two classes.
#include <gtest/gtest.h>

#include <keel/plugin/slots.hpp>
#include <stdexcept>
#include <vector>

namespace keel {
namespace {

// A plugin's own type of result.
struct Outcome {
  keel_status code;
};

struct Device {
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total) const {
    *out_free = free;
    *out_total = 2 * free;
    return KEEL_OK;
  }
  keel_status peer_enable(Device& peer) {
    peers.push_back(&peer);
    return KEEL_OK;
  }
  uint64_t free = 0;
  std::vector<Device*> peers;
};

struct Stream {
  static keel_status create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream) {
    if (priority < 0) return KEEL_INVALID_ARGUMENT;
    *out_stream = std::make_unique<Stream>();
    (*out_stream)->device = &device;
    return KEEL_OK;
  }
  Stream() { ++count; }
  ~Stream() { --count; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Outcome query() const { return {KEEL_NOT_READY}; }
  keel_status fill(void*, const void*, uint32_t, uint64_t) { throw std::runtime_error("fill"); }
  Device* device = nullptr;
  static inline int count = 0;
};

struct Event {
  keel_status hold_back(Stream& stream) {
    held = &stream;
    return KEEL_OK;
  }
  Stream* held = nullptr;
};

struct Handles {
  static Device& object(keel_plugin_device* handle) { return *reinterpret_cast<Device*>(handle); }
  static Stream& object(keel_plugin_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
  static Event& object(keel_plugin_event* handle) { return *reinterpret_cast<Event*>(handle); }
  static keel_status status(const Outcome& outcome) { return outcome.code; }
};
using Slots = kit::Slots<Handles>;

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = Slots::create<Stream, &Stream::create>,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = nullptr,
    .unwrap = nullptr,
    .query = Slots::call<&Stream::query>,
    .synchronize = nullptr,
    .copy = nullptr,
    .copy_peer = nullptr,
    .fill = Slots::call<&Stream::fill>,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = nullptr,
    .event_destroy = nullptr,
    .event_record = nullptr,
    .event_query = nullptr,
    .event_wait = nullptr,
    .event_notify = nullptr,
    .stream_wait_event = Slots::call_on_second<&Event::hold_back>,
    .event_elapsed = nullptr,
};

template <typename Handle, typename Object>
Handle* handle_of(Object& object) {
  return reinterpret_cast<Handle*>(&object);
}

TEST(SlotsTest, ArgumentsPassAndHandlesBecomeObjects) {
  Device device{5, {}};
  Device peer;
  keel_device_table table = {};
  table.memory_info = Slots::call<&Device::memory_info>;
  uint64_t free = 0;
  uint64_t total = 0;
  EXPECT_EQ(table.memory_info(handle_of<keel_plugin_device>(device), &free, &total), KEEL_OK);
  EXPECT_EQ(free, 5u);
  EXPECT_EQ(total, 10u);
  keel_memory_table memory = {};
  memory.peer_enable = Slots::call<&Device::peer_enable>;
  EXPECT_EQ(memory.peer_enable(handle_of<keel_plugin_device>(device),
                               handle_of<keel_plugin_device>(peer)),
            KEEL_OK);
  EXPECT_EQ(device.peers, std::vector<Device*>{&peer});
}

TEST(SlotsTest, CreatedObjectLivesUntilItsHandleIsDestroyed) {
  Device device;
  keel_plugin_stream* stream = nullptr;
  auto* const parent = handle_of<keel_plugin_device>(device);
  EXPECT_EQ(kStreamTable.create(parent, -1, &stream), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(stream, nullptr);
  ASSERT_EQ(kStreamTable.create(parent, 0, &stream), KEEL_OK);
  EXPECT_EQ(Stream::count, 1);
  EXPECT_EQ(Handles::object(stream).device, &device);
  kStreamTable.destroy(stream);
  EXPECT_EQ(Stream::count, 0);
}

TEST(SlotsTest, PluginsOwnResultIsConverted) {
  Stream stream;
  EXPECT_EQ(kStreamTable.query(handle_of<keel_plugin_stream>(stream)), KEEL_NOT_READY);
}

TEST(SlotsTest, ExceptionBecomesAStatus) {
  Stream stream;
  EXPECT_EQ(kStreamTable.fill(handle_of<keel_plugin_stream>(stream), nullptr, nullptr, 1, 1),
            KEEL_INTERNAL);
}

TEST(SlotsTest, SecondObjectIsCalledWithTheFirst) {
  Stream stream;
  Event event;
  EXPECT_EQ(kStreamTable.stream_wait_event(handle_of<keel_plugin_stream>(stream),
                                           handle_of<keel_plugin_event>(event)),
            KEEL_OK);
  EXPECT_EQ(event.held, &stream);
}

}  // namespace
}  // namespace keel
