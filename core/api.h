// What every C entry point does: refuse a forked child, keep exceptions inside, and
// leave the text of a failure for keel_last_error.
#ifndef KEEL_CORE_API_H_
#define KEEL_CORE_API_H_

#include <exception>
#include <new>
#include <utility>

#include "core/runtime.h"
#include "core/status.h"

namespace keel {

// Runs |body|, a callable returning Status. With |kNeedsInit| it is refused before
// keel_init.
template <bool kNeedsInit = true, typename Body>
keel_status api_call(Body&& body) noexcept {
  try {
    if (is_forked_child()) {
      set_last_error({KEEL_FORKED, "this process is a forked child: it must exec first"});
      return KEEL_FORKED;
    }
    if (kNeedsInit && !Runtime::get().is_initialized()) {
      set_last_error({KEEL_FAILED_PRECONDITION, "keel_init has not been called"});
      return KEEL_FAILED_PRECONDITION;
    }
    const Status status = std::forward<Body>(body)();
    if (status.failed()) set_last_error(status);
    return status.code();
  } catch (const std::bad_alloc&) {
    return KEEL_OUT_OF_MEMORY;  // a text would need memory too
  } catch (const std::exception& error) {
    set_last_error({KEEL_INTERNAL, error.what()});
    return KEEL_INTERNAL;
  }
}

#define KEEL_REQUIRE(pointer)                                           \
  if ((pointer) == nullptr) {                                           \
    return ::keel::failure(KEEL_INVALID_ARGUMENT, #pointer " is NULL"); \
  }

// Checks a struct that the caller filled in: type, and size up to what the first
// version had; an extension it requires is not known.
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

// Looks a handle up in |table|; a failure names the argument.
template <typename Table, typename Object>
Status find_handle(Table& table, uint64_t id, const char* name, Ref<Object>* out_object) {
  *out_object = table.find(id);
  if (!*out_object) {
    return failure(KEEL_INVALID_HANDLE, "{} {:#x} is not a live handle", name, id);
  }
  return {};
}

inline Status find_device(keel_device handle, const char* name, Ref<Device>* out_device) {
  KEEL_RETURN_IF_ERROR(find_handle(Runtime::get().device_handles(), handle.id, name, out_device));
  return (*out_device)->open();
}
inline Status find_stream(keel_stream handle, Ref<Stream>* out_stream) {
  return find_handle(Runtime::get().stream_handles(), handle.id, "stream", out_stream);
}

// Copies |text| to a caller's buffer: |*in_out_size| is its room, then the size with
// the terminator.
Status return_text(const std::string& text, char* out_text, uint64_t* in_out_size);

}  // namespace keel

#endif  // KEEL_CORE_API_H_
