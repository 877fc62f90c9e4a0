// SPDX-License-Identifier: Apache-2.0
// A copy of a library without one of its symbols, as in a release that lacks it.
#ifndef KEEL_CORE_TESTING_LIBRARY_FILE_H_
#define KEEL_CORE_TESTING_LIBRARY_FILE_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace keel::testing {

// Changes the first letter of |name| wherever the library |file| has it as a whole string, so that
// neither name is found. Not the last letter: a linker lets "memcpy" be the end of "xpu_memcpy".
// Mapped, not read: a library with sanitizers has 20 MB. Returns false if the library has no such
// symbol.
inline bool remove_symbol(const std::string& file, const std::string& name) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  const size_t bytes = std::filesystem::file_size(file);
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED) return false;
  char* const begin = static_cast<char*>(mapped);
  char* const end = begin + bytes;
  bool is_found = false;
  // Without the zero in front, of which a library is full.
  for (char* at = begin + 1;; at += name.size()) {
    at = static_cast<char*>(
        memmem(at, static_cast<size_t>(end - at), name.c_str(), name.size() + 1));
    if (at == nullptr) break;
    if (at[-1] != '\0') continue;
    at[0] = '~';
    is_found = true;
  }
  munmap(mapped, bytes);
  return is_found;
}

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_LIBRARY_FILE_H_
