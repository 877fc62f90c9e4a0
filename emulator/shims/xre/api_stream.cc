// SPDX-License-Identifier: Apache-2.0
// Streams and events, and what the shims of further libraries ask.
#include <type_traits>

#include "emulator/shims/xre/handles.h"
#include "emulator/shims/xre/runtime.h"
#include "emulator/shims/xre/sharing.h"

using namespace keel::emulator::xre;  // NOLINT: the functions below are C functions
using keel::emulator::Event;
using keel::emulator::Status;
using keel::emulator::Stream;
using keel::emulator::Time;

extern "C" {

int xpu_stream_create(void** pstream) {
  return answer_here("xpu_stream_create", [&](const Here& here) -> int {
    if (pstream == nullptr) return fail(keel::xre::kInvalidParameter);
    std::unique_ptr<Stream> stream;
    const Status status = Stream::create(here.memory_and_engines, /*priority=*/0, &stream);
    if (!status.ok()) return result_of(status, &here.emulated());
    *pstream = Handles<StreamHandle>::get().add(
        std::make_shared<StreamHandle>(StreamHandle{here.device, std::move(stream)}));
    return keel::xre::kSuccess;
  });
}

// Cancels work that has not run. Succeeds on a lost device too.
int xpu_stream_destroy(void* stream) {
  return answer("xpu_stream_destroy", [&](Runtime&) -> int {
    (void)Handles<StreamHandle>::get().find("xpu_stream_destroy", stream);
    Handles<StreamHandle>::get().remove(stream);
    return keel::xre::kSuccess;
  });
}

int xpu_stream_wait_event(void* stream, void* event) {
  return answer_here("xpu_stream_wait_event", [&](const Here& here) -> int {
    std::shared_ptr<Stream> to;
    Status status = find_stream(here, stream, &to);
    if (status.ok()) {
      status = Handles<EventHandle>::get().find_here(here, event)->event.hold_back(*to);
    }
    return result_of(status, &here.emulated());
  });
}

int xpu_wait(void* stream) {
  return answer_here("xpu_wait", [&](const Here& here) -> int {
    std::shared_ptr<Stream> on;
    Status status = find_stream(here, stream, &on);
    if (status.ok()) status = on->synchronize(Time::max());
    return result_of(status, &here.emulated());
  });
}

int xpu_event_create(void** pevent) {
  return answer_here("xpu_event_create", [&](const Here& here) -> int {
    if (pevent == nullptr) return fail(keel::xre::kInvalidParameter);
    *pevent = Handles<EventHandle>::get().add(std::shared_ptr<EventHandle>(
        new EventHandle{here.device, here.memory_and_engines, Event(here.memory_and_engines)}));
    return keel::xre::kSuccess;
  });
}

int xpu_event_destroy(void* event) {
  return answer("xpu_event_destroy", [&](Runtime&) -> int {
    (void)Handles<EventHandle>::get().find("xpu_event_destroy", event);
    Handles<EventHandle>::get().remove(event);
    return keel::xre::kSuccess;
  });
}

int xpu_event_record(void* event, void* stream) {
  return answer_here("xpu_event_record", [&](const Here& here) -> int {
    std::shared_ptr<Stream> on;
    Status status = find_stream(here, stream, &on);
    if (status.ok()) {
      status = Handles<EventHandle>::get().find_here(here, event)->event.record(*on);
    }
    return result_of(status, &here.emulated());
  });
}

int xpu_event_wait(void* event) {
  return answer_here("xpu_event_wait", [&](const Here& here) -> int {
    const auto waited = Handles<EventHandle>::get().find_here(here, event);
    return result_of(waited->event.wait(Time::max()), &here.emulated());
  });
}

int keel_emulated_xre_chip(std::shared_ptr<keel::emulator::Device>* out_chip) {
  return answer_here("keel_emulated_xre_chip", [&](const Here& here) -> int {
    *out_chip = here.memory_and_engines;
    return keel::xre::kSuccess;
  });
}

int keel_emulated_xre_stream(void* handle, std::shared_ptr<keel::emulator::Stream>* out_stream) {
  return answer_here("a stream of a collective", [&](const Here& here) -> int {
    return result_of(find_stream(here, handle, out_stream), &here.emulated());
  });
}

}  // extern "C"

// The shim has the argument lists that the plugin calls.
#define KEEL_CHECK(name) \
  static_assert(std::is_same_v<decltype(&xpu_##name), decltype(keel::xre::Functions::name)>)
KEEL_CHECK(event_create);
KEEL_CHECK(event_destroy);
KEEL_CHECK(event_record);
KEEL_CHECK(event_wait);
KEEL_CHECK(stream_create);
KEEL_CHECK(stream_destroy);
KEEL_CHECK(stream_wait_event);
KEEL_CHECK(wait);
