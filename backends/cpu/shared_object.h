// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_SHARED_OBJECT_H_
#define KEEL_BACKENDS_CPU_SHARED_OBJECT_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>

namespace keel::cpu {

// What is wrong with the shared object of |size| bytes, NULL if nothing is. The loader itself
// takes the program headers at their word, and a segment beyond the end of the file ends in
// SIGBUS.
const char* find_defect(const char* data, uint64_t size);

// A shared object in memory, opened by the dynamic loader from a sealed memfd: no file
// that somebody could change between the look and the load. Immutable once open.
class SharedObject {
 public:
  // KEEL_INVALID_ARGUMENT for bytes that are no shared object of this machine, are cut
  // short, or want symbols that the process does not have.
  static keel_status open(const void* data, uint64_t size,
                          std::unique_ptr<SharedObject>* out_object);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // The function |name| that the object itself defines and exports, not one of the
  // libraries it needs; NULL where there is none.
  void* function(const char* name) const;

 private:
  SharedObject(int fd, void* handle) : fd_(fd), handle_(handle) {}

  const int fd_;  // open as long as the loader may know the object by its path
  void* const handle_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_SHARED_OBJECT_H_
