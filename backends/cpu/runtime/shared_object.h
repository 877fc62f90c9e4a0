// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_SHARED_OBJECT_H_
#define KEEL_BACKENDS_CPU_RUNTIME_SHARED_OBJECT_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>

namespace keel::cpu {

// Returns the defect of the shared object of |size| bytes, or NULL. The dynamic loader trusts the
// program headers: a segment beyond the end of the file would raise SIGBUS.
const char* find_defect(const char* data, uint64_t size);

// A shared object in memory, opened by the dynamic loader from a sealed memfd, so that no process
// can change the file between check and load. Immutable once open.
class SharedObject {
 public:
  // Returns KEEL_INVALID_ARGUMENT for bytes that are not a shared object for this machine, are
  // truncated, or need symbols that the process does not have.
  static keel_status open(const void* data, uint64_t size,
                          std::unique_ptr<SharedObject>* out_object);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Returns the function |name| if the object itself, rather than a library that it needs, defines
  // and exports the function; else NULL.
  void* function(const char* name) const;

 private:
  SharedObject(int fd, void* handle) : fd_(fd), handle_(handle) {}

  const int fd_;  // stays open while the loader may know the object by the path
  void* const handle_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_SHARED_OBJECT_H_
