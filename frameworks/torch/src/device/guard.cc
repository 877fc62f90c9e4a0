// SPDX-License-Identifier: Apache-2.0
// Devices, streams and events for PyTorch's guards, torch.Stream and torch.Event.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <keel/keel.h>

#include "device_allocator.h"
#include "devices.h"

namespace keel_torch::device {

namespace {

// The object behind PyTorch's void* event.
struct Event {
  keel_event handle{};
  bool is_timed = false;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::DeviceIndex former = current();
    setDevice(device);
    return {kType, former};
  }
  c10::Device getDevice() const override { return {kType, current()}; }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0 || device.index() == current()) return;
    (void)handle(device.index());
    set_current(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) set_current(device.index());
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, resolve(device.index())), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_urgent) const override {
    return pooled_stream(device.index(), is_urgent ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return pooled_stream(device.index(), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) {
      auto created = std::make_unique<Event>();
      created->is_timed = flag == c10::EventFlag::BACKEND_DEFAULT;
      check(keel_event_create(created->is_timed ? KEEL_EVENT_TIMING : 0, &created->handle),
            "creating an event");
      *event = created.release();
    }
    check(keel_event_record(of(*event), handle(stream)), "recording an event");
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event == nullptr) return;
    (void)keel_event_destroy(of(event));
    delete static_cast<Event*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    check(keel_stream_wait_event(handle(stream), of(event)), "waiting for an event");
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || is_done(keel_event_query(of(event)), "querying an event");
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check(keel_event_wait(of(event), KEEL_TIMEOUT_DEFAULT), "waiting for an event");
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr && static_cast<Event*>(start)->is_timed &&
                    static_cast<Event*>(end)->is_timed,
                "keel: elapsed_time wants two recorded events with enable_timing=True");
    uint64_t nanoseconds = 0;
    check(keel_event_elapsed(of(start), of(end), &nanoseconds), "timing two events");
    return static_cast<double>(nanoseconds) * 1e-6;
  }

  c10::DeviceIndex deviceCount() const noexcept override { return count(); }
  bool queryStream(const c10::Stream& stream) const override {
    return is_done(keel_stream_query(handle(stream)), "querying a stream");
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(keel_stream_synchronize(handle(stream), KEEL_TIMEOUT_DEFAULT), "waiting for a stream");
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check(keel_device_synchronize(handle(resolve(index)), KEEL_TIMEOUT_DEFAULT),
          "waiting for a device");
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    record_stream(pointer, stream);
  }

 private:
  static keel_event of(void* event) { return static_cast<Event*>(event)->handle; }
  static bool is_done(keel_status status, const char* what) {
    if (status == KEEL_NOT_READY) return false;
    check(status, what);
    return true;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

}  // namespace keel_torch::device
