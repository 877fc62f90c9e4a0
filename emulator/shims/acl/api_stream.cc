// SPDX-License-Identifier: Apache-2.0
// Streams, copies, host functions and events.
#include <algorithm>
#include <memory>

#include "emulator/shims/acl/runtime.h"

namespace keel::emulator::acl {
namespace {

constexpr uint64_t kCopyAlignment = 64;

// Runs |body|, which returns a Status, with the stream |handle| of the current context.
template <typename Body>
aclError on_stream(const char* call, aclrtStream handle, Body&& body) noexcept {
  return answer_here([&](const Here& here) {
    Stream* stream = nullptr;
    const aclError found = find_stream(here, call, handle, &stream);
    return found == ACL_SUCCESS ? error_of(body(*stream, here), *here.chip) : found;
  });
}

// Cancels work that has not run.
aclError destroy(const char* call, aclrtStream stream) noexcept {
  return answer([&]() -> aclError {
    if (!Runtime::get().streams().remove(stream)) undefined(call, "the stream does not exist");
    delete static_cast<StreamHandle*>(stream);
    return ACL_SUCCESS;
  });
}

void check_host(const char* call, const void* pointer, uint64_t size) {
  if (Runtime::get().host_memory().find(pointer, size) != HostMemory::Result::kOverlaps) return;
  undefined(call, "the host memory is pinned in part");
}

EventHandle& event_of(const char* call, aclrtEvent handle) {
  if (!Runtime::get().events().has(handle)) undefined(call, "the event does not exist");
  return *static_cast<EventHandle*>(handle);
}

EventHandle& recorded_event(const char* call, aclrtEvent handle) {
  EventHandle& event = event_of(call, handle);
  if (!event.is_recorded.load()) undefined(call, "the event was never recorded");
  return event;
}

}  // namespace
}  // namespace keel::emulator::acl

using namespace keel::emulator::acl;  // NOLINT: the functions below are C functions
using keel::emulator::Access;
using keel::emulator::address_of;
using keel::emulator::Code;
using keel::emulator::Device;
using keel::emulator::Event;
using keel::emulator::Status;
using keel::emulator::Stream;
using keel::emulator::Time;
using keel::emulator::undefined;

extern "C" {

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return answer_here([&](const Here& here) -> aclError {
    constexpr uint32_t kKnown = 0x3f;
    if (stream == nullptr || priority > 7 || (flag & ~kKnown) != 0) {
      return ACL_ERROR_RT_PARAM_INVALID;
    }
    auto handle = std::make_unique<StreamHandle>();
    handle->context = here.context;
    const Status status = Stream::create(here.chip, static_cast<int>(priority), &handle->stream);
    if (!status.ok()) return error_of(status, *here.chip);
    Runtime::get().streams().add(handle.get());
    *stream = handle.release();
    return ACL_SUCCESS;
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return destroy("aclrtDestroyStream", stream);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return destroy("aclrtDestroyStreamForce", stream);
}

// The chip stops after a failure, and knows no other mode.
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return on_stream("aclrtSetStreamFailureMode", stream, [&](Stream&, const Here&) {
    return mode == ACL_STOP_ON_FAILURE ? Status() : Status(Code::kUnsupported, "no such mode");
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return on_stream("aclrtSynchronizeStream", stream,
                   [](Stream& each, const Here&) { return each.synchronize(Time::max()); });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return on_stream("aclrtStreamQuery", stream, [&](Stream& each, const Here&) {
    const Status answered = each.query();
    *status = answered.code() == Code::kNotReady ? ACL_STREAM_STATUS_NOT_READY
                                                 : ACL_STREAM_STATUS_COMPLETE;
    return answered.code() == Code::kNotReady ? Status() : answered;
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
  return answer_here([&](const Here& here) -> aclError {
    if (count > destMax) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "the copy is larger than its destination");
    }
    Stream* each = nullptr;
    const aclError found = find_stream(here, "aclrtMemcpyAsync", stream, &each);
    if (found != ACL_SUCCESS || count == 0) return found;
    const auto& memory = here.chip->memory();
    const bool to_device = memory.is_device_address(dst, 1);
    const bool from_device = memory.is_device_address(src, 1);
    Status status;
    switch (kind) {
      case ACL_MEMCPY_HOST_TO_DEVICE:
        if (from_device) undefined("aclrtMemcpyAsync", "the source is no host memory");
        check_host("aclrtMemcpyAsync", src, count);
        status = each->copy_from_host(address_of(dst), src, count);
        break;
      case ACL_MEMCPY_DEVICE_TO_HOST:
        if (to_device) undefined("aclrtMemcpyAsync", "the destination is no host memory");
        check_host("aclrtMemcpyAsync", dst, count);
        status = each->copy_to_host(dst, address_of(src), count);
        break;
      case ACL_MEMCPY_DEVICE_TO_DEVICE:
        if (address_of(dst) % kCopyAlignment != 0 || address_of(src) % kCopyAlignment != 0) {
          return fail(ACL_ERROR_RT_ADDR_UNALIGNED,
                      "a copy within a device needs addresses that are multiples of 64");
        }
        status = each->copy_within(address_of(dst), address_of(src), count);
        break;
      default:
        return fail(ACL_ERROR_RT_PARAM_INVALID, "no such kind of copy");
    }
    return error_of(status, *here.chip);
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
  return on_stream("aclrtMemsetAsync", stream, [&](Stream& each, const Here&) {
    if (count > maxCount)
      return Status(Code::kInvalidArgument, "the fill is larger than its memory");
    const auto byte = static_cast<uint8_t>(value);
    return count == 0 ? Status() : each.fill(address_of(devPtr), &byte, 1, count);
  });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return on_stream("aclrtLaunchHostFunc", stream, [&](Stream& each, const Here&) {
    if (fn == nullptr) return Status(Code::kInvalidArgument, "no function");
    return each.launch_part({}, {},
                            [fn, args](Access&) {
                              Runtime::get().call_host(fn, args);
                              return Status();
                            },
                            {});
  });
}

// ---- events --------------------------------------------------------------------

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return answer_here([&](const Here& here) -> aclError {
    if (event == nullptr || flag == 0) return ACL_ERROR_RT_PARAM_INVALID;
    auto* const made = new EventHandle{here.chip, Event(here.chip), flag};
    Runtime::get().events().add(made);
    *event = made;
    return ACL_SUCCESS;
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return answer([&] {
    EventHandle& handle = event_of("aclrtDestroyEvent", event);
    Runtime::get().events().remove(event);
    delete &handle;
    return ACL_SUCCESS;
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return on_stream("aclrtRecordEvent", stream, [&](Stream& each, const Here&) {
    EventHandle& handle = event_of("aclrtRecordEvent", event);
    Status status = handle.event.record(each);
    if (status.ok()) handle.is_recorded.store(true);
    return status;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return answer([&] {
    EventHandle& handle = recorded_event("aclrtQueryEventStatus", event);
    const Status answered = handle.event.query();
    if (answered.code() == Code::kNotReady) {
      *status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
      return static_cast<aclError>(ACL_SUCCESS);
    }
    *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return error_of(answered, *handle.chip);
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return on_stream("aclrtStreamWaitEvent", stream, [&](Stream& each, const Here&) {
    return recorded_event("aclrtStreamWaitEvent", event).event.hold_back(each);
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return answer([&]() -> aclError {
    EventHandle& start = recorded_event("aclrtEventElapsedTime", startEvent);
    EventHandle& end = recorded_event("aclrtEventElapsedTime", endEvent);
    if ((start.flags & end.flags & ACL_EVENT_TIME_LINE) == 0) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "an event without ACL_EVENT_TIME_LINE");
    }
    if (start.event.query().code() == Code::kNotReady ||
        end.event.query().code() == Code::kNotReady) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "an event that is not complete");
    }
    *ms = static_cast<float>(static_cast<double>(Event::elapsed_ns(start.event, end.event)) * 1e-6);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
