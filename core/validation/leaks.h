// SPDX-License-Identifier: Apache-2.0
// What a program made and did not give back, with where.
#ifndef KEEL_CORE_VALIDATION_LEAKS_H_
#define KEEL_CORE_VALIDATION_LEAKS_H_

#include <cstdint>

namespace keel {
class Device;
}

namespace keel::validation {

// For handles and for memory of the caller's, while the layer is on. Thread-safe.
void note_handle(uint64_t handle);
void forget_handle(uint64_t handle);
void note_memory(const Device& device, const void* pointer, uint64_t bytes);
void forget_memory(const Device& device, const void* pointer);
// Host memory of the caller's that is pinned for |device|.
void note_registration(const Device& device, const void* pointer, uint64_t bytes);
void forget_registration(const Device& device, const void* pointer);

// Reports, as problems, what is left, like with like, and forgets it.
void report_leaks();
// Forgets it.
void clear_leaks();

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_LEAKS_H_
