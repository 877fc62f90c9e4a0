// SPDX-License-Identifier: Apache-2.0
// One call through the validation layer: resolves its handles, refuses misuse, and notes the
// plugin's violations.
#ifndef KEEL_CORE_VALIDATION_CALL_H_
#define KEEL_CORE_VALIDATION_CALL_H_

#include <fmt/format.h>
#include <keel/keel.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/validation/call_notes.h"
#include "core/validation/checked_objects.h"

namespace keel::validation {

// Bytes of a device, or of the host, read or written by a call.
struct Range {
  CheckedDevice& device;
  Space space;
  const void* pointer;
  uint64_t size;
  const char* argument;
};

// A check returns false if something is wrong; the caller then returns refused(). The destructor
// logs the problems found, so a Call must be constructed before a lock is taken.
class Call {
 public:
  // |arguments|: the slot's arguments as the caller passed them.
  template <typename... Arguments>
  explicit Call(const char* name, const Arguments&... arguments)
      : name_(name), note_(name, arguments...) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const char* name() const { return name_; }

  // ---- misuse by the caller ----

  // Finds the object of |handle|; the first object found gives the owner in messages.
  template <typename Handle>
  bool find(Handle* handle, std::shared_ptr<typename ObjectOf<Handle>::type>* out_object,
            const char* argument = ObjectOf<Handle>::name) {
    *out_object = registry<Handle>().find(handle);
    if (*out_object == nullptr) {
      return fail(KEEL_INVALID_HANDLE, fmt::format("{} {} is not a live handle", argument,
                                                   static_cast<const void*>(handle)));
    }
    own(*out_object);
    return true;
  }
  template <typename... Arguments>
  bool check(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    return holds ||
           fail(KEEL_INVALID_ARGUMENT, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // For calls at a wrong time rather than with wrong arguments.
  template <typename... Arguments>
  bool check_state(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    return holds || fail(KEEL_FAILED_PRECONDITION,
                         fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // Device memory must lie inside one live allocation; so must host memory that begins in a pinned
  // allocation. Takes the device's lock.
  bool check_range(const Range& range);
  bool check_slot(bool present, const char* capability) {
    return present ||
           fail(KEEL_UNSUPPORTED, fmt::format("the device does not claim {}", capability));
  }
  bool fail(keel_status code, std::string text);
  // Returns the status of the failed check, and leaves the text for core.
  keel_status refused() const;

  // ---- what the plugin gets wrong ----

  template <typename... Arguments>
  void lie(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    note(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // A violation to be hidden from core: KEEL_INTERNAL.
  template <typename... Arguments>
  keel_status broken(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fail(KEEL_INTERNAL, fmt::format(format, std::forward<Arguments>(arguments)...));
    return refused();
  }
  // Returns the plugin's |code|, or a substitute if the plugin must not return |code|.
  enum class Answer { kCall, kQuery, kWait };
  keel_status answer(keel_status code, Answer kind = Answer::kCall);

 private:
  template <typename Object>
  void own(const std::shared_ptr<Object>& object) {
    if (!owner_.empty()) return;
    owner_ = object->owner();
    if constexpr (requires { object->device; }) device_ = object->device;
    if constexpr (std::is_same_v<Object, CheckedDevice>) device_ = object;
  }
  void note(std::string text);

  const char* const name_;
  const CallNote note_;
  std::string owner_;
  std::shared_ptr<CheckedDevice> device_;
  keel_status code_ = KEEL_OK;
  std::string text_;
  std::vector<std::string> problems_;
};

// A value for the plugin to fill in, followed by bytes that the plugin must leave alone.
template <typename Struct>
struct Guarded {
  Struct value;
  unsigned char guard[64];

  Guarded() : value() { std::memset(guard, kFill, sizeof(guard)); }
  bool is_intact() const {
    for (const unsigned char byte : guard) {
      if (byte != kFill) return false;
    }
    return true;
  }
  static constexpr unsigned char kFill = 0xa5;
};

// Notes what the plugin changed in |guarded| beyond filling in the value.
template <typename Struct>
void check_answer(Call& call, const Guarded<Struct>& guarded, const keel_header& header,
                  const char* argument) {
  if (!guarded.is_intact()) call.lie("wrote past the {} bytes of {}", header.size, argument);
  if (guarded.value.header.size != header.size || guarded.value.header.type != header.type) {
    call.lie("changed {}.header to size {}, type {} (was size {}, type {})", argument,
             guarded.value.header.size, guarded.value.header.type, header.size, header.type);
  }
}

// Returns an address unique to the calling thread.
const void* this_thread();

// The enqueueing of one item on a stream. The ABI forbids two threads to enqueue at once.
class Enqueue {
 public:
  // Finds the stream. |new_work| is false for records, which failed streams take as well.
  Enqueue(Call& call, keel_plugin_stream* handle, bool new_work = true);
  ~Enqueue();
  Enqueue(const Enqueue&) = delete;
  Enqueue& operator=(const Enqueue&) = delete;

  bool ok() const { return claimed_; }
  CheckedStream& stream() const { return *stream_; }
  const std::shared_ptr<CheckedStream>& shared() const { return stream_; }
  CheckedDevice& device() const { return *stream_->device; }
  const keel_stream_table& table() const { return *stream_->real().stream; }
  keel_plugin_stream* native() const { return stream_->native; }

  // The item is in the queue: marks |ranges| as used until the item is done. Returns its position.
  uint64_t done(const std::vector<Range>& ranges = {});

 private:
  const char* const name_;
  std::shared_ptr<CheckedStream> stream_;
  bool claimed_ = false;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_CALL_H_
