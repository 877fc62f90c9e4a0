// SPDX-License-Identifier: Apache-2.0
// Fuzzes files of flight recorders: the input fills the start of the header and of the entries; the
// code below adds the rest, which is zeroes.
#include <keel/keel.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

constexpr size_t kHeaderBytes = 4096;
constexpr size_t kFileBytes = kHeaderBytes + 1024 * 64;
constexpr size_t kHeaderInput = 424;  // size of the header's members

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("flight", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0) __builtin_trap();
  std::vector<uint8_t> bytes(kFileBytes);
  const size_t header = std::min(size, kHeaderInput);
  const size_t entries = std::min(size - header, kFileBytes - kHeaderBytes);
  std::copy(data, data + header, bytes.begin());
  std::copy(data + header, data + header + entries, bytes.begin() + kHeaderBytes);
  if (pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    __builtin_trap();
  }
  uint64_t room = 1 << 20;
  std::vector<char> answer(room);
  const keel_status status = keel_flight_read(path.c_str(), answer.data(), &room);
  if (status != KEEL_OK && status != KEEL_DATA_LOSS && status != KEEL_OUT_OF_RANGE) {
    __builtin_trap();
  }
  return 0;
}
