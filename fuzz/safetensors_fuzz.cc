// SPDX-License-Identifier: Apache-2.0
// Fuzzes tensor files. An opened file contains everything its header lists, and compares equal to
// itself.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tensorfile/comparison.h"

using keel::tensorfile::FileError;
using keel::tensorfile::Outcome;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorComparison;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("safetensors", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0 ||
      pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    __builtin_trap();
  }
  try {
    const SafetensorsFile opened(path);
    for (const auto& [name, tensor] : opened.tensors()) {
      if (tensor.begin > size || tensor.size > size - tensor.begin) __builtin_trap();
    }
  } catch (const FileError&) {
    return 0;
  }
  try {
    keel::tensorfile::compare(path, path, {}, [](const TensorComparison& each) {
      if (each.outcome != Outcome::kEqual) __builtin_trap();
    });
  } catch (const FileError&) {  // it has no tensors
  }
  return 0;
}
