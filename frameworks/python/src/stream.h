// SPDX-License-Identifier: Apache-2.0
// Classes Stream, Event and Gate of the module.
#ifndef FRAMEWORKS_PYTHON_SRC_STREAM_H_
#define FRAMEWORKS_PYTHON_SRC_STREAM_H_

#include <keel/keel.h>
#include <nanobind/nanobind.h>

#include <keel/keel.hpp>
#include <utility>

namespace keel_python {

// A handle that Python closes: another thread may wait on a copy of the handle meanwhile, since
// Keel's handles are values. Used with the GIL held.
template <typename Value, keel_status (*kDestroy)(Value)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(Value value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, Value{})) {}
  Handle& operator=(Handle&&) = delete;
  // Swallows failures, as keel.hpp does.
  ~Handle() {
    if (value_.id == 0) return;
    const nanobind::gil_scoped_release released;
    (void)kDestroy(value_);
  }

  bool is_closed() const { return value_.id == 0; }
  Value get(const char* what) const {
    if (!is_closed()) return value_;
    throw keel::Error(KEEL_INVALID_HANDLE, std::string("the ") + what + " is closed");
  }
  // Once, for a handle that the constructor did not get.
  void set(Value value) { value_ = value; }
  // Does nothing when closed.
  void close() {
    const Value value = std::exchange(value_, Value{});
    if (value.id == 0) return;
    const nanobind::gil_scoped_release released;
    keel::check(kDestroy(value));
  }

 private:
  Value value_{};
};

class Stream {
 public:
  Stream(keel::Device device, keel_stream stream) : device_(device), handle_(stream) {}
  Stream(Stream&&) = default;
  ~Stream();  // waits for the work, and swallows failures

  keel::Device device() const { return device_; }
  keel_stream get() const { return handle_.get("stream"); }
  bool is_closed() const { return handle_.is_closed(); }
  void close();

 private:
  keel::Device device_;
  Handle<keel_stream, keel_stream_destroy> handle_;
};

void add_stream(nanobind::module_& module);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_STREAM_H_
