// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <keel/error.hpp>
#include <keel/parallel/loader.hpp>
#include <utility>

#include "base/printable.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

// Murmur3's finalizer.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

[[noreturn]] void refuse(keel_status status, const std::filesystem::path& path,
                         const std::string& reason) {
  throw Error(status, "token file " + keel::printable(path.string()) + ": " + reason);
}

}  // namespace

struct TokenFiles::File {
  std::filesystem::path path;
  const unsigned char* data = nullptr;
  uint64_t bytes = 0;
  int64_t samples = 0;
};

TokenFiles::TokenFiles(std::vector<std::filesystem::path> paths, TokenWidth width, int64_t context)
    : width_(width), context_(context) {
  if (context < 1) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "token files: a context of " + std::to_string(context) + " tokens");
  }
  const auto token = static_cast<uint64_t>(width);
  try {
    for (std::filesystem::path& path : paths) {
      const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      struct stat status = {};
      if (descriptor < 0 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        const int error = errno;
        if (descriptor >= 0) close(descriptor);
        refuse(KEEL_NOT_FOUND, path, descriptor < 0 ? std::strerror(error) : "not a regular file");
      }
      File file;
      file.bytes = static_cast<uint64_t>(status.st_size);
      void* mapped = nullptr;
      if (file.bytes != 0) {
        mapped = mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, descriptor, 0);
      }
      const int error = errno;
      close(descriptor);
      if (mapped == MAP_FAILED) refuse(KEEL_UNAVAILABLE, path, std::strerror(error));
      file.path = std::move(path);
      file.data = static_cast<const unsigned char*>(mapped);
      // A label more than tokens.
      const auto tokens = static_cast<int64_t>(file.bytes / token);
      file.samples = tokens == 0 ? 0 : (tokens - 1) / context;
      samples_ += file.samples;
      files_.push_back(std::move(file));
      const File& last = files_.back();
      if (last.bytes % token != 0) {
        refuse(KEEL_INVALID_ARGUMENT, last.path,
               "its " + std::to_string(last.bytes) + " bytes end inside a token of " +
                   std::to_string(token) + " bytes");
      }
      // The shuffled order jumps: read-ahead of the kernel would read what nobody needs.
      if (last.data != nullptr) (void)madvise(mapped, last.bytes, MADV_RANDOM);
    }
    if (samples_ == 0) {
      const std::string what = files_.empty() ? "none given" : files_[0].path.string();
      throw Error(KEEL_INVALID_ARGUMENT, "token files (" + keel::printable(what) +
                                             ", ...): not one sample of " +
                                             std::to_string(context) + " tokens");
    }
  } catch (...) {
    unmap();
    throw;
  }
}

TokenFiles::~TokenFiles() {
  unmap();
}

void TokenFiles::unmap() {
  for (const File& file : files_) {
    if (file.data != nullptr) munmap(const_cast<unsigned char*>(file.data), file.bytes);
  }
}

void TokenFiles::read(int64_t number, std::span<int32_t> tokens, std::span<int32_t> labels) const {
  const File* file = files_.data();
  for (; number >= file->samples; ++file) number -= file->samples;
  const auto token = static_cast<uint64_t>(width_);
  const unsigned char* const begin =
      file->data + static_cast<uint64_t>(number) * static_cast<uint64_t>(context_) * token;
  const auto value = [&](int64_t place) {
    const unsigned char* const bytes = begin + static_cast<uint64_t>(place) * token;
    uint32_t read = bytes[0] | uint32_t{bytes[1]} << 8;
    if (width_ == TokenWidth::k32) read |= uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
    if (read > INT32_MAX) {
      refuse(KEEL_DATA_LOSS, file->path,
             "a token of " + std::to_string(read) + ": is the file of 16-bit tokens?");
    }
    return static_cast<int32_t>(read);
  };
  for (int64_t i = 0; i < context_; ++i) {
    tokens[static_cast<size_t>(i)] = value(i);
    labels[static_cast<size_t>(i)] = value(i + 1);
  }
}

uint64_t TokenFiles::fingerprint() const {
  uint64_t hash = mix(static_cast<uint64_t>(context_) * 8 + static_cast<uint64_t>(width_));
  for (const File& file : files_) {
    hash = mix(hash ^ file.bytes);
    for (uint64_t i = 0; i < 64 && file.bytes >= 8; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, file.data + (file.bytes - 8) / 63 * i, sizeof(word));
      hash = mix(hash ^ word);
    }
  }
  return hash;
}

int64_t shuffled(uint64_t seed, int64_t epoch, int64_t place, int64_t count) {
  uint32_t half = 1;
  while ((uint64_t{1} << (2 * half)) < static_cast<uint64_t>(count)) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const uint64_t key = mix(seed ^ mix(static_cast<uint64_t>(epoch) + 1));
  auto value = static_cast<uint64_t>(place);
  do {
    uint64_t left = value >> half;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mix(key ^ mix(right * 4 + round)) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace v0
}  // namespace keel::parallel
