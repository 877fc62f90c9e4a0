// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/shared_file.h"
#include "collectives/flight/flight_clock.h"
#include "core/log.h"
#include "files/output_file.h"

namespace keel {
namespace {

std::atomic<uint32_t> g_file_number{0};

void copy_text(const std::string& text, std::span<char> out) {
  const size_t length = std::min(text.size(), out.size() - 1);
  std::memcpy(out.data(), text.data(), length);
  std::memset(out.data() + length, 0, out.size() - length);
}

}  // namespace

std::unique_ptr<FlightRecorder> FlightRecorder::create(const FlightInfo& info) {
  std::unique_ptr<FlightRecorder> recorder(new FlightRecorder);
  recorder->pid_ = getpid();
  const Status status = recorder->map_file();
  if (!status.ok()) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) {
      log(KEEL_LOG_WARNING,
          "flight recorder: {}; operations are recorded where no other process can read them",
          status.text());
    }
    recorder->path_.clear();
    auto* memory = static_cast<std::byte*>(
        ::operator new(FlightHeader::kFileBytes, std::align_val_t(FlightHeader::kBytes)));
    std::memset(memory, 0, FlightHeader::kFileBytes);
    recorder->header_ = reinterpret_cast<FlightHeader*>(memory);
  }
  recorder->entries_ = reinterpret_cast<Entry*>(reinterpret_cast<std::byte*>(recorder->header_) +
                                                FlightHeader::kBytes);
  recorder->end_ = recorder->entries_ + FlightHeader::kEntries;
  recorder->next_ = recorder->entries_;
  recorder->write_header(info);
  return recorder;
}

Status FlightRecorder::map_file() {
  const std::string folder = flight_folder();
  KEEL_RETURN_IF_ERROR(open_flight_folder(folder, &folder_));
  clean_flights_at_times(folder_.get(), folder);
  if (!may_have_file(FlightHeader::kFileBytes)) {
    return failure(KEEL_UNAVAILABLE, "the limit of a file's size (ulimit -f) is below {} bytes",
                   FlightHeader::kFileBytes);
  }
  // The name may belong to a dead process.
  constexpr int kTries = 1000;
  const uint32_t host = FlightName::this_host();
  std::string why;
  for (int i = 0; i < kTries && !file_; ++i) {
    name_ = FlightName{host, pid_, g_file_number.fetch_add(1)}.text();
    OpenedOutput file = create_output(folder_.get(), name_, O_RDWR, 0600);
    file_ = FileDescriptor(file.descriptor);
    why = std::move(file.reason);
    if (!file_ && file.error != EEXIST) break;
  }
  std::string path = folder + "/" + name_;
  if (!file_) {
    return failure(KEEL_UNAVAILABLE, "{}: {}", path, why);
  }
  lock_flight(file_.get());
  // Without preallocation, a full /dev/shm raises SIGBUS in the middle of an operation.
  int error = posix_fallocate(file_.get(), 0, FlightHeader::kFileBytes);
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, FlightHeader::kFileBytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, file_.get(), 0);
    error = errno;
  }
  if (memory == MAP_FAILED) {
    unlinkat(folder_.get(), name_.c_str(), 0);
    return failure(KEEL_UNAVAILABLE, "{}: {}", path, std::strerror(error));
  }
  header_ = static_cast<FlightHeader*>(memory);
  struct stat about = {};
  if (fstat(file_.get(), &about) == 0) {
    header_->file_device = about.st_dev;
    header_->file_inode = about.st_ino;
  }
  path_ = std::move(path);  // nonempty marks a mapped file; a copy could throw bad_alloc
  return {};
}

void FlightRecorder::write_header(const FlightInfo& info) {
  header_->header_bytes = FlightHeader::kBytes;
  header_->entry_bytes = sizeof(Entry);
  header_->entry_count = FlightHeader::kEntries;
  header_->clock = kFlightClock;
  header_->pid = pid_;
  header_->rank = info.rank;
  header_->world = info.world;
  header_->ticks_per_us = flight_ticks_per_us();
  copy_text(boot_id(), header_->boot_id);
  copy_text(host_name(), header_->host);
  copy_text(info.communicator, header_->communicator);
  copy_text(info.device, header_->device);
  const FlightTimestamp now = FlightTimestamp::now();
  header_->ticks = now.ticks;
  header_->realtime_ns = now.realtime_ns;
  header_->monotonic_ns = now.monotonic_ns;
  header_->magic.store(FlightHeader::kMagic, std::memory_order_release);
}

FlightRecorder::~FlightRecorder() {
  if (path_.empty()) {
    ::operator delete(header_, std::align_val_t(FlightHeader::kBytes));
    return;
  }
  munmap(header_, FlightHeader::kFileBytes);
  if (getpid() == pid_) unlinkat(folder_.get(), name_.c_str(), 0);
}

FlightRecorder::Entry* FlightRecorder::no_room() {
  header_->unrecorded.fetch_add(1, std::memory_order_relaxed);
  return &spare_;
}

}  // namespace keel
