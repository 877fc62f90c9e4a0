// SPDX-License-Identifier: Apache-2.0
// Streams, events and gates. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_STREAM_HPP_
#define KEEL_STREAM_HPP_

#include <keel/keel.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <keel/buffer.hpp>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/tensor.hpp>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace keel {
inline namespace v0 {

namespace api_detail {

// Moves or copies |callable| to the heap and passes it to |add|(fn, user), a function of keel.h
// bound to its object. The callback destroys the callable after the call.
template <typename Callable, typename Add>
void add_callback(Callable&& callable, const Add& add) {
  using Function = std::decay_t<Callable>;
  auto function = std::make_unique<Function>(std::forward<Callable>(callable));
  // noexcept: an exception must not pass through the C code that calls.
  const keel_done_fn call = [](void* user, keel_status status) noexcept {
    const std::unique_ptr<Function> called(static_cast<Function*>(user));
    std::invoke(*called, status);
  };
  check(add(call, function.get()));
  function.release();  // the callback's now, which may have destroyed the callable already
}

}  // namespace api_detail

// A point in a stream. Analogue: cudaEvent_t.
class Event {
 public:
  // |flags|: KEEL_EVENT_TIMING.
  explicit Event(uint32_t flags = 0) {
    keel_event event;
    check(keel_event_create(flags, &event));
    handle_ = Handle(event);
  }

  keel_event get() const { return handle_.get(); }
  void record(const Stream& stream);
  bool is_done() const { return api_detail::is_ready(keel_event_query(get())); }
  void wait(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_event_wait(get(), timeout.count()));
  }
  // Calls |callable|(status) on Keel's callback thread once the last record is done; the rules of
  // keel_stream_on_done apply. An exception that leaves |callable| ends the process, as in
  // std::thread. Analogue: cudaLaunchHostFunc.
  template <std::invocable<keel_status> Callable>
  void on_done(Callable&& callable) const {
    api_detail::add_callback(std::forward<Callable>(callable), [&](keel_done_fn fn, void* user) {
      return keel_event_on_done(get(), fn, user);
    });
  }
  // Time from |start| to this event.
  std::chrono::nanoseconds elapsed_since(const Event& start) const {
    uint64_t nanoseconds = 0;
    check(keel_event_elapsed(start.get(), get(), &nanoseconds));
    return std::chrono::nanoseconds(nanoseconds);
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_event, keel_event_destroy>;
  Handle handle_;
};

// A fence that the host opens, once, and streams wait for; destroying a closed gate fails the
// streams behind it with KEEL_CANCELLED.
class Gate {
 public:
  Gate() {
    keel_gate gate;
    check(keel_gate_create(&gate));
    handle_ = Handle(gate);
  }

  keel_gate get() const { return handle_.get(); }
  void open() { check(keel_gate_open(get(), KEEL_OK, nullptr)); }
  // Fails the streams behind the gate with |status|.
  void fail(keel_status status, const std::string& text) {
    check(keel_gate_open(get(), status, text.c_str()));
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_gate, keel_gate_destroy>;
  Handle handle_;
};

// An in-order queue of one device. The destructor waits for the stream's work. Analogue:
// cudaStream_t.
class Stream {
 public:
  // |priority|: 0 normal, negative more urgent.
  explicit Stream(Device device, int32_t priority = 0) : device_(device) {
    keel_stream stream;
    check(keel_stream_create(device.get(), priority, &stream));
    handle_ = Handle(stream);
  }

  // Wraps |native|, a CUstream or the vendor's equivalent, which outlives the returned stream.
  static Stream wrap(Device device, void* native) {
    keel_stream stream;
    check(keel_stream_wrap(device.get(), native, &stream));
    return {device, Handle(stream)};
  }

  keel_stream get() const { return handle_.get(); }
  Device device() const { return device_; }
  // The native stream inside, which this stream owns.
  void* native() const {
    void* handle = nullptr;
    check(keel_stream_unwrap(get(), &handle));
    return handle;
  }

  bool is_done() const { return api_detail::is_ready(keel_stream_query(get())); }
  void synchronize(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_stream_synchronize(get(), timeout.count()));
  }
  // Calls |callable|(status) on Keel's callback thread once all work enqueued before is done; the
  // rules of keel_stream_on_done apply. An exception that leaves |callable| ends the process, as in
  // std::thread. Analogue: cudaLaunchHostFunc.
  template <std::invocable<keel_status> Callable>
  void on_done(Callable&& callable) const {
    api_detail::add_callback(std::forward<Callable>(callable), [&](keel_done_fn fn, void* user) {
      return keel_stream_on_done(get(), fn, user);
    });
  }
  // Makes a failed stream usable again.
  void recover(std::chrono::nanoseconds timeout = kDefaultTimeout) {
    check(keel_stream_recover(get(), timeout.count()));
  }
  void wait(const Event& event) { check(keel_stream_wait_event(get(), event.get())); }
  void wait(const Gate& gate) { check(keel_stream_wait_gate(get(), gate.get())); }

  // Enqueues copies. The memory stays valid until the copies are done; the host side must therefore
  // be an lvalue or a view.
  void copy(Device destination_device, void* destination, Device source_device, const void* source,
            uint64_t size) {
    check(
        keel_copy(get(), destination_device.get(), destination, source_device.get(), source, size));
  }
  // Copies all of |source| to the beginning of |destination|, between any two devices.
  void copy(const Buffer& destination, const Buffer& source) {
    copy(destination.device(), destination.data(), source.device(), source.data(), source.size());
  }
  template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range>
  void upload(const Buffer& destination, Range&& source) {
    const auto bytes = std::as_bytes(std::span(source));
    copy(destination.device(), destination.data(), Device(), bytes.data(), bytes.size());
  }
  // Copies as many elements as |destination| has.
  template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range>
  void download(Range&& destination, const Buffer& source) {
    const auto bytes = std::as_writable_bytes(std::span(destination));
    copy(Device(), bytes.data(), source.device(), source.data(), bytes.size());
  }
  template <Element Type>
  void fill(const Buffer& destination, Type value) {
    check(keel_fill(get(), destination.data(), &value, sizeof(value), destination.size()));
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_stream, keel_stream_destroy>;
  Stream(Device device, Handle handle) : device_(device), handle_(std::move(handle)) {}

  Device device_;
  Handle handle_;
};

inline Buffer::Buffer(const Stream& stream, uint64_t size)
    : device_(stream.device()), stream_(stream.get()), size_(size) {
  check(keel_alloc_on_stream(stream_, size, &data_));
}

inline void Event::record(const Stream& stream) {
  check(keel_event_record(get(), stream.get()));
}

}  // namespace v0
}  // namespace keel

#endif  // KEEL_STREAM_HPP_
