// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator, and the checks of a collective call.
#ifndef FRAMEWORKS_PYTHON_SRC_COLLECTIVE_CALL_H_
#define FRAMEWORKS_PYTHON_SRC_COLLECTIVE_CALL_H_

#include <keel/keel.h>

#include <cstdint>
#include <keel/keel.hpp>
#include <string>

#include "buffer.h"
#include "in_flight.h"
#include "stream.h"

namespace keel_python {

// Used with the GIL held.
class Communicator {
 public:
  Communicator(keel::Device device, keel_comm comm) : device_(device), handle_(comm) {}

  keel::Device device() const { return device_; }
  keel_comm get() const { return handle_.get("communicator"); }
  bool is_closed() const { return handle_.is_closed(); }
  void close() { handle_.close(); }
  uint32_t rank() const { return place().rank; }
  uint32_t world() const { return place().world; }

 private:
  struct Place {
    uint32_t rank;
    uint32_t world;
  };
  Place place() const {
    Place place;
    keel::check(keel_comm_rank(get(), &place.rank, &place.world));
    return place;
  }

  keel::Device device_;
  Handle<keel_comm, keel_comm_destroy> handle_;
};

// One call of a collective or message. Keel counts refused calls, so that the n-th calls of all
// ranks match; a call that this class refuses is therefore made as one that Keel refuses too, and
// the other ranks learn of it at once.
class CollectiveCall {
 public:
  CollectiveCall(const char* name, const Communicator& comm, const Stream& stream)
      : name_(name), comm_(comm.get()), stream_(stream.get()), device_(comm.device()) {}

  // Address of |buffer|, dense memory of the communicator's device whose dtype is that of the
  // call's other buffers.
  void* take(const char* argument, const Buffer& buffer);
  // NULL without a buffer.
  void* take(const char* argument, const Buffer* buffer) {
    return buffer == nullptr ? nullptr : take(argument, *buffer);
  }
  // Refuses a |buffer| of other than |count| elements.
  void expect(const char* argument, const Buffer& buffer, uint64_t count);
  keel_dtype dtype() const { return dtype_; }
  keel_comm comm() const { return comm_; }
  keel_stream stream() const { return stream_; }
  [[noreturn]] void refuse(const std::string& text);

  // Calls |function|() without the GIL and throws its failure.
  template <typename Function>
  void run(const Function& function) {
    {
      const nanobind::gil_scoped_release released;
      keel::check(function());
    }
    for (auto& memory : kept_) InFlight::get().hold(stream_, std::move(memory));
  }

 private:
  const char* name_;
  keel_comm comm_;
  keel_stream stream_;
  keel::Device device_;
  keel_dtype dtype_ = KEEL_DTYPE_INVALID;
  std::vector<std::shared_ptr<Memory>> kept_;
};

// Number of "sum", "avg", ...; or of a premultiplied sum, an int.
keel_reduction reduction_of(CollectiveCall& call, nanobind::handle given);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_COLLECTIVE_CALL_H_
