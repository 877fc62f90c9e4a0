// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/repeated_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace keel::testing {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kOwn = uint64_t{1} << 20;  // on each side of a point

void require(bool is_so, const char* what) {
  if (is_so) return;
  std::perror(what);
  std::abort();
}

char* map(char* at, uint64_t bytes, int protection, int flags, int file) {
  void* const mapped = mmap(at, bytes, protection, flags, file, 0);
  require(mapped != MAP_FAILED, "mmap");
  return static_cast<char*>(mapped);
}

}  // namespace

uint8_t Content::at(uint64_t offset) const {
  const uint64_t place = (offset + shift) % kPeriod;
  return static_cast<uint8_t>(factor * ((place * 2'654'435'761) >> 24));
}

RepeatedMemory::RepeatedMemory(uint64_t size, const std::vector<uint64_t>& points) : size_(size) {
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  mapped_ = (size + kPage - 1) / kPage * kPage;
  pages_ =
      map(nullptr, mapped_ + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  data_ = pages_ + (mapped_ - size);
  const int file = memfd_create("repeated", MFD_CLOEXEC);
  require(file >= 0 && ftruncate(file, Content::kPeriod) == 0, "memfd_create");
  for (uint64_t at = 0; at < mapped_; at += Content::kPeriod) {
    map(pages_ + at, std::min(Content::kPeriod, mapped_ - at), kReadWrite, MAP_SHARED | MAP_FIXED,
        file);
  }
  repeated_ = map(nullptr, Content::kPeriod, kReadWrite, MAP_SHARED, file);
  close(file);
  for (const uint64_t point : points) {
    const uint64_t place = (point + (mapped_ - size)) / kPage * kPage;
    const uint64_t begin = place - std::min(place, kOwn);
    const uint64_t end = std::min(mapped_, place + kOwn);
    map(pages_ + begin, end - begin, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    parts_.push_back({begin - std::min(begin, mapped_ - size), end - (mapped_ - size)});
  }
}

RepeatedMemory::~RepeatedMemory() {
  munmap(pages_, mapped_ + kPage);
  munmap(repeated_, Content::kPeriod);
}

void RepeatedMemory::fill(const Content& content) {
  fill(content, 0);
}

void RepeatedMemory::fill_wrongly(const Content& content) {
  fill(content, 0xff);
}

void RepeatedMemory::fill(const Content& content, uint8_t changed) {
  const uint64_t lead = mapped_ - size_;
  for (uint64_t i = 0; i < Content::kPeriod; ++i) {
    // The bytes before the first one continue the content backwards by one period.
    repeated_[i] = static_cast<char>(content.at(i + Content::kPeriod - lead) ^ changed);
  }
  for (const Part& part : parts_) {
    for (uint64_t i = part.begin; i < part.end; ++i) {
      data_[i] = static_cast<char>(content.at(i) ^ changed);
    }
  }
}

uint64_t RepeatedMemory::find_difference(const Content& content) const {
  for (const Part& part : parts_) {
    for (uint64_t i = part.begin; i < part.end; ++i) {
      if (data_[i] != static_cast<char>(content.at(i))) return i;
    }
  }
  const uint64_t lead = mapped_ - size_;
  for (uint64_t i = lead; i < Content::kPeriod; ++i) {
    if (repeated_[i] != static_cast<char>(content.at(i - lead))) return i - lead;
  }
  return size_;
}

}  // namespace keel::testing
