// SPDX-License-Identifier: Apache-2.0
// Shared frame of every C entry point: refuses calls that the process state forbids, marks the
// thread as inside Keel, converts exceptions to a keel_status, and stores the text of a failure for
// keel_last_error.
#ifndef KEEL_CORE_API_H_
#define KEEL_CORE_API_H_

#include <exception>
#include <new>
#include <utility>

#include "core/epoch.h"
#include "core/insiders.h"
#include "core/runtime.h"
#include "core/status.h"

namespace keel {

// Returns the code of a call that the process state refuses.
[[gnu::cold]] keel_status refuse_call(ApiState state) noexcept;
// Stores the text of a failure for keel_last_error and returns the code. A deadline that passed
// because keel_shutdown was called becomes KEEL_ABORTED.
[[gnu::cold]] keel_status report(const Status& status) noexcept;
[[gnu::cold]] keel_status report(keel_status code, const char* text) noexcept;

// Runs |call|, a callable keel_status(). An exception becomes a failure.
template <typename Call>
keel_status api_guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc& error) {
    return report(Status::no_memory(error));
  } catch (const std::exception& error) {
    return report(KEEL_INTERNAL, error.what());
  }
}
// Runs |body|, a callable returning Status.
template <typename Body>
keel_status api_body(const Body& body) {
  const Status status = body();
  if (status.failed()) [[unlikely]] {
    return report(status);
  }
  return status.code();
}

// Runs |body|, a callable returning Status, and marks the thread as one that keel_shutdown waits
// for. Refused before keel_init. |name| is the name of the C function, a static string.
template <typename Body>
keel_status api_call(const char* name, const Body& body) noexcept {
  return api_guarded([&] {
    const InsideCall inside(name);
    // Read the state only after |inside| has marked the thread: see InsideCall.
    const ApiState state = g_api_state.load(std::memory_order_acquire);
    return state == ApiState::kOpen ? api_body(body) : refuse_call(state);
  });
}
// Takes the name of the calling function.
template <typename Body>
keel_status api_call(const Body& body, const char* name = __builtin_FUNCTION()) noexcept {
  return api_call(name, body);
}

// Like api_call, for calls that never block: all of |body| runs in an EpochSection, so |body| may
// follow handles by plain pointers. The section also marks the thread as inside Keel.
template <typename Body>
keel_status api_nonblocking_call(const Body& body) noexcept {
  return api_guarded([&] {
    const EpochSection section;
    const ApiState state = g_api_state.load(std::memory_order_acquire);
    return state == ApiState::kOpen ? api_body(body) : refuse_call(state);
  });
}

// Like api_call, for calls that use no object of the runtime's lifetime (keel_init to
// keel_shutdown); keel_shutdown does not wait for these calls. Only a forked child is refused.
template <typename Body>
keel_status api_call_outside(const Body& body) noexcept {
  return api_guarded(
      [&] { return is_forked_child() ? refuse_call(ApiState::kForked) : api_body(body); });
}

// Stores the text for the plugin's return value |code| of |call| for keel_last_error and returns
// the code.
[[gnu::cold]] keel_status report_answer(Device& device, keel_status code,
                                        const char* call) noexcept;

// Fast path of a call. |usual|, a callable bool(epoch::EpochRecord&, keel_status* out_status),
// follows handles by plain pointers, checks all arguments and performs the call. On anything
// unusual (a dead handle, a wrong argument, held work on the stream, an active observer) |usual|
// does nothing and returns false. Then |full|, a callable keel_status(), performs the whole call
// with all diagnostics.
template <typename Usual, typename Full>
keel_status api_fast_path_call(const Usual& usual, const Full& full) noexcept {
  epoch::EpochRecord* epoch_record = ShortEpochSection::who();
  if (epoch_record != nullptr) [[likely]] {
    try {
      ShortEpochSection section(*epoch_record);
      keel_status status = KEEL_OK;
      // Read the state inside the section, which marks the thread as inside Keel.
      if (g_api_state.load(std::memory_order_acquire) == ApiState::kOpen &&
          usual(*epoch_record, &status)) [[likely]] {
        return status;
      }
    } catch (const std::bad_alloc& error) {
      return report(Status::no_memory(error));
    } catch (const std::exception& error) {
      return report(KEEL_INTERNAL, error.what());
    }
  }
  return full();
}

#define KEEL_REQUIRE(pointer)                                           \
  if ((pointer) == nullptr) {                                           \
    return ::keel::failure(KEEL_INVALID_ARGUMENT, #pointer " is NULL"); \
  }

// Checks a struct that the caller filled in: the type, and a size of at least |minimum|, the size
// in the first ABI version. No extension is known, so a required extension is KEEL_UNSUPPORTED.
template <typename Struct>
Status check_struct(const Struct* value, uint32_t type, size_t minimum, const char* name) {
  if (value == nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", name);
  if (value->header.type != type || value->header.size < minimum) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "{}.header is not set (size {}, type {}): use KEEL_STRUCT_INIT", name,
                   value->header.size, value->header.type);
  }
  for (auto* link = static_cast<const keel_header*>(value->header.next); link != nullptr;
       link = static_cast<const keel_header*>(link->next)) {
    if ((link->type & KEEL_STRUCT_REQUIRED) != 0) {
      return failure(KEEL_UNSUPPORTED, "{} requires unknown extension {}", name,
                     link->type & ~KEEL_STRUCT_REQUIRED);
    }
  }
  return {};
}

[[gnu::cold]] Status unknown_handle(uint64_t id, const char* name);

// Looks up a handle in |table|; a failure names the argument. The pointer is valid within the
// calling thread's EpochSection.
template <typename Table, typename Object>
Status find_handle(Table& table, uint64_t id, const char* name, Object** out_object) {
  *out_object = table.peek(id);
  if (*out_object == nullptr) [[unlikely]] {
    return unknown_handle(id, name);
  }
  return {};
}
// Returns a reference, for calls that block.
template <typename Table, typename Object>
Status find_handle(Table& table, uint64_t id, const char* name, Ref<Object>* out_object) {
  *out_object = table.find(id);
  return *out_object ? Status() : unknown_handle(id, name);
}

// |out_device|, |out_stream|: a Ref or, within an EpochSection, a plain pointer. Opens the device.
// Devices live until the runtime shuts down.
template <typename Found>
Status find_device(keel_device handle, const char* name, Found* out_device) {
  KEEL_RETURN_IF_ERROR(find_handle(Runtime::get().device_handles(), handle.id, name, out_device));
  return (*out_device)->open();
}
template <typename Found>
Status find_stream(keel_stream handle, Found* out_stream) {
  return find_handle(Runtime::get().stream_handles(), handle.id, "stream", out_stream);
}

// Copies |text| into a caller's buffer. |*in_out_size| is the capacity of the buffer on entry and
// the size of the text with its terminator on return. KEEL_OUT_OF_RANGE if the text does not fit.
Status return_text(const std::string& text, char* out_text, uint64_t* in_out_size);

}  // namespace keel

#endif  // KEEL_CORE_API_H_
