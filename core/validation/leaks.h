// SPDX-License-Identifier: Apache-2.0
// Objects that a program created and did not release, with the places of their creation.
#ifndef KEEL_CORE_VALIDATION_LEAKS_H_
#define KEEL_CORE_VALIDATION_LEAKS_H_

#include <cstdint>

namespace keel {
class Device;
}

namespace keel::validation {

// For handles and the caller's memory, while the layer is on. Thread-safe.
void note_handle(uint64_t handle);
void forget_handle(uint64_t handle);
void note_memory(const Device& device, const void* pointer, uint64_t bytes);
void forget_memory(const Device& device, const void* pointer);
// Host memory of the caller, pinned for |device|.
void note_registration(const Device& device, const void* pointer, uint64_t bytes);
void forget_registration(const Device& device, const void* pointer);

// Reports the remaining objects as problems, grouped by kind and place, and forgets them.
void report_leaks();
// Forgets all objects.
void clear_leaks();

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_LEAKS_H_
