// SPDX-License-Identifier: Apache-2.0
// Device and host memory, and copies.
#include <fmt/format.h>

#include <type_traits>

#include "emulator/shims/xre/handles.h"
#include "emulator/shims/xre/runtime.h"

namespace keel::emulator::xre {
namespace {

// Ends the process if |pointer| is memory of another device than the current one.
void require_own(const Here& here, const void* pointer, uint64_t size) {
  std::byte* data = nullptr;
  std::shared_ptr<Storage> keep;
  const Address address = address_of(pointer);
  if (here.emulated().memory().resolve(address, size, &data, &keep).ok()) return;
  Runtime& runtime = Runtime::get();
  for (const int device : runtime.visible()) {
    std::shared_ptr<Device> other;
    if (device == here.device || !runtime.chip(device)->device(&other).ok()) continue;
    if (!other->memory().resolve(address, size, &data, &keep).ok()) continue;
    end_process(here.function, fmt::format("{} is memory of device {}, while device {} is current",
                                           pointer, device, here.device));
  }
}

// Copies on |stream|; |*out_blocks|: the caller's host memory is pageable, so the call waits.
Status copy(const Here& here, Stream& stream, void* destination, const void* source, uint64_t size,
            int kind, bool* out_blocks) {
  *out_blocks = false;
  switch (kind) {
    case keel::xre::kHostToDevice:
      require_own(here, destination, size);
      return stream.copy_from_host(address_of(destination), source, size);
    case keel::xre::kDeviceToHost:
      require_own(here, source, size);
      *out_blocks = !here.emulated().memory().is_pinned(destination, size);
      return stream.copy_to_host(destination, address_of(source), size);
    case keel::xre::kDeviceToDevice:
      require_own(here, destination, size);
      require_own(here, source, size);
      return stream.copy_within(address_of(destination), address_of(source), size);
    default:
      return {Code::kInvalidArgument, "no such kind"};
  }
}

// Copies of host memory that is a device address read or write nothing that exists.
bool is_host(const Here& here, const void* pointer, uint64_t size) {
  return !here.emulated().memory().is_device_address(pointer, size);
}
bool is_possible(const Here& here, const void* destination, const void* source, uint64_t size,
                 int kind) {
  if (destination == nullptr || source == nullptr) return false;
  if (kind == keel::xre::kHostToDevice) return is_host(here, source, size);
  if (kind == keel::xre::kDeviceToHost) return is_host(here, destination, size);
  return kind == keel::xre::kDeviceToDevice;
}

}  // namespace
}  // namespace keel::emulator::xre

using namespace keel::emulator::xre;  // NOLINT: the functions below are C functions
using keel::emulator::Address;
using keel::emulator::CallKind;
using keel::emulator::Injection;
using keel::emulator::Status;
using keel::emulator::Stream;
using keel::emulator::Time;

extern "C" {

int xpu_malloc(void** pdevptr, uint64_t sz, int kind) {
  return answer_here("xpu_malloc", [&](const Here& here) -> int {
    if (pdevptr == nullptr || sz == 0) return fail(keel::xre::kInvalidParameter);
    // The cache memory is a few MiB, and nothing here uses it.
    if (kind != keel::xre::kMainMemory) return fail(keel::xre::kNoSupport);
    Address address = 0;
    const Status status = here.emulated().allocate(sz, &address);
    if (status.ok()) *pdevptr = reinterpret_cast<void*>(address);  // NOLINT: a device address
    return result_of(status, &here.emulated());
  });
}

int xpu_free(void* devptr) {
  return answer_here("xpu_free", [&](const Here& here) -> int {
    require_own(here, devptr, 1);
    return result_of(here.emulated().memory().free(keel::emulator::address_of(devptr)),
                     &here.emulated());
  });
}

int xpu_host_alloc(void** ptr, uint64_t sz, unsigned int flags) {
  return answer_here("xpu_host_alloc", [&](const Here& here) -> int {
    if (ptr == nullptr || sz == 0 || flags != 0) return fail(keel::xre::kInvalidParameter);
    return result_of(here.emulated().allocate_pinned(sz, ptr), &here.emulated());
  });
}

int xpu_host_free(void* ptr) {
  return answer_here("xpu_host_free", [&](const Here& here) -> int {
    return result_of(here.emulated().memory().free_pinned(ptr), &here.emulated());
  });
}

int xpu_host_register(void* ptr, uint64_t sz, unsigned int flags) {
  return answer_here("xpu_host_register", [&](const Here& here) -> int {
    if (ptr == nullptr || sz == 0 || flags != 0) return fail(keel::xre::kInvalidParameter);
    if (here.emulated().memory().is_pinned(ptr, 1)) return fail(keel::xre::kHostMemoryRegistered);
    return result_of(here.emulated().memory().pin(ptr, sz), &here.emulated());
  });
}

int xpu_host_unregister(void* ptr) {
  return answer_here("xpu_host_unregister", [&](const Here& here) -> int {
    return result_of(here.emulated().memory().unpin(ptr), &here.emulated());
  });
}

// Runs on the default stream and waits for that stream alone.
int xpu_memcpy(void* dst, const void* src, uint64_t sz, int kind) {
  return answer_here("xpu_memcpy", [&](const Here& here) -> int {
    if (!is_possible(here, dst, src, sz, kind)) return fail(keel::xre::kInvalidParameter);
    std::shared_ptr<Stream> stream;
    Status status = here.chip->default_stream(&stream);
    bool blocks = false;
    if (status.ok() && sz != 0) status = copy(here, *stream, dst, src, sz, kind, &blocks);
    if (status.ok()) status = stream->synchronize(Time::max());
    return result_of(status, &here.emulated());
  });
}

int xpu_memcpy_async(void* dst, const void* src, uint64_t sz, int kind, void* handle) {
  return answer_here("xpu_memcpy_async", [&](const Here& here) -> int {
    if (!is_possible(here, dst, src, sz, kind)) return fail(keel::xre::kInvalidParameter);
    std::shared_ptr<Stream> stream;
    Status status = find_stream(here, handle, &stream);
    bool blocks = false;
    if (status.ok() && sz != 0) status = copy(here, *stream, dst, src, sz, kind, &blocks);
    if (status.ok() && blocks) status = stream->synchronize(Time::max());
    return result_of(status, &here.emulated());
  });
}

}  // extern "C"

// The shim has the argument lists that the plugin calls.
#define KEEL_CHECK(name) \
  static_assert(std::is_same_v<decltype(&xpu_##name), decltype(keel::xre::Functions::name)>)
KEEL_CHECK(malloc);
KEEL_CHECK(free);
KEEL_CHECK(host_alloc);
KEEL_CHECK(host_free);
KEEL_CHECK(host_register);
KEEL_CHECK(host_unregister);
KEEL_CHECK(memcpy);
KEEL_CHECK(memcpy_async);
