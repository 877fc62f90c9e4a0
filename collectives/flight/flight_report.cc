// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight/flight_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "collectives/flight/flight_folder.h"

namespace keel {
namespace {

// The file format without atomics, as a target for memcpy.
struct PlainEntry {
  uint64_t sequence;
  uint64_t count;
  uint64_t queued;
  uint64_t started;
  uint64_t done;
  uint8_t collective;
  uint8_t dtype;
  uint8_t reduction;
  uint8_t algorithm;
  uint32_t root;
  uint64_t outcome;
  uint64_t unused;
};
static_assert(sizeof(PlainEntry) == sizeof(FlightEntry));

struct PlainHeader {
  uint64_t magic;
  uint32_t header_bytes;
  uint32_t entry_bytes;
  uint32_t entry_count;
  uint32_t clock;
  int32_t pid;
  uint32_t rank;
  uint32_t world;
  uint32_t reserved;
  uint64_t ticks;
  int64_t realtime_ns;
  int64_t monotonic_ns;
  double ticks_per_us;
  char boot_id[40];
  char communicator[128];
  char device[80];
  uint64_t unrecorded;
  uint64_t file_device;
  uint64_t file_inode;
  char host[80];
};
static_assert(sizeof(PlainHeader) == sizeof(FlightHeader));

PlainEntry entry_at(std::span<const std::byte> bytes, uint32_t index) {
  PlainEntry entry;
  std::memcpy(&entry, bytes.data() + FlightHeader::kBytes + index * sizeof(entry), sizeof(entry));
  return entry;
}

// Replaces control characters, which could control a terminal.
std::string text_of(std::span<const char> text) {
  std::string copy(text.begin(), std::find(text.begin(), text.end(), '\0'));
  std::replace_if(
      copy.begin(), copy.end(), [](unsigned char each) { return each < 0x20 || each == 0x7f; },
      '?');
  return copy;
}

// Converts a recorder's ticks to nanoseconds.
class Clock {
 public:
  Clock(const PlainHeader& header, const FlightTimestamp& now, const std::string& boot)
      : header_(header), now_(now), ns_per_tick_(1000 / header.ticks_per_us) {
    same_boot_ = !boot.empty() && boot == text_of(header.boot_id) &&
                 header.clock == static_cast<uint32_t>(kFlightClock);
    // Over more than 10 ms, two clock readings give a better rate than the recorder's measurement.
    constexpr uint64_t kLong = 10'000'000;
    const uint64_t ns =
        static_cast<uint64_t>(now.monotonic_ns) - static_cast<uint64_t>(header.monotonic_ns);
    const uint64_t ticks = now.ticks - header.ticks;
    if (same_boot_ && now.monotonic_ns > header.monotonic_ns && ns > kLong &&
        now.ticks > header.ticks) {
      ns_per_tick_ = static_cast<double>(ns) / static_cast<double>(ticks);
    }
  }

  // Clamped to a century, because the file may contain anything.
  int64_t between(uint64_t from, uint64_t to) const {
    constexpr double kCentury = 3.2e18;
    const auto ticks = static_cast<double>(static_cast<int64_t>(to - from));
    return static_cast<int64_t>(std::clamp(ticks * ns_per_tick_, -kCentury, kCentury));
  }
  // Nanoseconds since 1970.
  int64_t at(uint64_t ticks) const {
    int64_t ns = 0;
    const bool overflows =
        __builtin_add_overflow(header_.realtime_ns, between(header_.ticks, ticks), &ns);
    return overflows ? 0 : ns;
  }
  int64_t age(uint64_t ticks) const {
    if (same_boot_) return std::max<int64_t>(0, between(ticks, now_.ticks));
    int64_t ns = 0;
    const bool overflows = __builtin_sub_overflow(now_.realtime_ns, at(ticks), &ns);
    return overflows ? 0 : std::max<int64_t>(0, ns);
  }

 private:
  const PlainHeader& header_;
  const FlightTimestamp& now_;
  double ns_per_tick_;
  bool same_boot_ = false;
};

Status check_header(const PlainHeader& header) {
  if (header.magic != FlightHeader::kMagic) {
    return failure(KEEL_DATA_LOSS, "is no flight recorder's file");
  }
  if (header.header_bytes != FlightHeader::kBytes || header.entry_bytes != sizeof(FlightEntry) ||
      header.entry_count != FlightHeader::kEntries) {
    return failure(KEEL_DATA_LOSS, "says it has {} entries of {} bytes behind {}, not {} of {}",
                   header.entry_count, header.entry_bytes, header.header_bytes,
                   FlightHeader::kEntries, sizeof(FlightEntry));
  }
  if (header.world == 0 || header.rank >= header.world) {
    return failure(KEEL_DATA_LOSS, "says it is of rank {} of {}", header.rank, header.world);
  }
  if (!std::isfinite(header.ticks_per_us) || header.ticks_per_us < 1e-3 ||
      header.ticks_per_us > 1e9) {
    return failure(KEEL_DATA_LOSS, "says its clock has {} ticks a microsecond",
                   header.ticks_per_us);
  }
  return {};
}

FlightOperation operation_of(const PlainEntry& entry, bool is_done, const Clock& clock) {
  FlightOperation operation;
  operation.sequence = entry.sequence;
  operation.count = entry.count;
  operation.collective = entry.collective;
  operation.dtype = entry.dtype;
  operation.reduction = entry.reduction;
  operation.root = entry.root;
  // |started| before |queued| is left over from the entry's previous operation: not started.
  const bool started = entry.started - entry.queued < 1ull << 63;
  operation.state = is_done   ? FlightState::kDone
                    : started ? FlightState::kRunning
                              : FlightState::kQueued;
  operation.queued_ns = clock.at(entry.queued);
  operation.age_ns = clock.age(entry.queued);
  if (started) operation.wait_ns = clock.between(entry.queued, entry.started);
  if (is_done) {
    operation.status = FlightEntry::status_of(entry.outcome);
    if (started) {
      operation.run_ns = std::max<int64_t>(0, clock.between(entry.started, entry.done));
    }
  }
  return operation;
}

Status read_bytes(int file, std::span<std::byte> out) {
  size_t got = 0;
  while (got < out.size()) {
    const ssize_t part = pread(file, out.data() + got, out.size() - got, static_cast<off_t>(got));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return failure(KEEL_DATA_LOSS, "{}", std::strerror(errno));
    if (part == 0) return failure(KEEL_DATA_LOSS, "ends after {} bytes", got);
    got += static_cast<size_t>(part);
  }
  return {};
}

Status read_open_file(int file, FlightLog* out) {
  struct stat about = {};
  if (fstat(file, &about) != 0) return failure(KEEL_DATA_LOSS, "{}", std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return failure(KEEL_DATA_LOSS, "is no regular file");
  if (about.st_size != static_cast<off_t>(FlightHeader::kFileBytes)) {
    return failure(KEEL_DATA_LOSS, "has {} bytes; a flight recorder's file has {}", about.st_size,
                   FlightHeader::kFileBytes);
  }
  std::vector<std::byte> bytes(3 * FlightHeader::kFileBytes);
  std::array<std::span<const std::byte>, 3> reads;
  for (size_t i = 0; i < reads.size(); ++i) {
    const std::span<std::byte> part(bytes.data() + i * FlightHeader::kFileBytes,
                                    FlightHeader::kFileBytes);
    KEEL_RETURN_IF_ERROR(read_bytes(file, part));
    reads[i] = part;
  }
  const std::string boot = boot_id();
  KEEL_RETURN_IF_ERROR(parse_flight(reads, FlightTimestamp::now(), boot, out));
  PlainHeader header;
  std::memcpy(&header, reads[0].data(), sizeof(header));
  const std::optional<bool> is_locked = is_flight_locked(file);
  const bool is_original = !boot.empty() && boot == text_of(header.boot_id) &&
                           header.file_device == about.st_dev && header.file_inode == about.st_ino;
  if (is_locked == true) {
    out->alive = true;
  } else if (is_original) {
    out->alive = !is_locked.has_value() && does_process_exist(out->pid);
  }
  return {};
}

}  // namespace

Status parse_flight(const std::array<std::span<const std::byte>, 3>& reads,
                    const FlightTimestamp& now, const std::string& boot, FlightLog* out) {
  for (const auto& read : reads) {
    if (read.size() != FlightHeader::kFileBytes) {
      return failure(KEEL_DATA_LOSS, "has {} bytes; a flight recorder's file has {}", read.size(),
                     FlightHeader::kFileBytes);
    }
  }
  PlainHeader header;
  std::memcpy(&header, reads[0].data(), sizeof(header));
  KEEL_RETURN_IF_ERROR(check_header(header));
  FlightLog log;
  log.pid = header.pid;
  log.communicator = text_of(header.communicator);
  log.device = text_of(header.device);
  log.host = text_of(header.host);
  log.rank = header.rank;
  log.world = header.world;
  log.created_ns = header.realtime_ns;
  log.unrecorded = header.unrecorded;
  const Clock clock(header, now, boot);
  std::vector<std::pair<uint64_t, FlightOperation>> found;  // by ticks since creation
  for (uint32_t i = 0; i < FlightHeader::kEntries; ++i) {
    const PlainEntry first = entry_at(reads[0], i);
    const uint32_t state = FlightEntry::state_of(first.outcome);
    if (state == static_cast<uint32_t>(FlightState::kEmpty)) continue;
    const PlainEntry entry = entry_at(reads[1], i);
    const uint64_t last = entry_at(reads[2], i).sequence;
    if (first.sequence == FlightEntry::kWriting || first.sequence != last) {
      ++log.torn;
      continue;
    }
    if (state > static_cast<uint32_t>(FlightState::kQueued)) {
      return failure(KEEL_DATA_LOSS, "has state {} in entry {}", state, i);
    }
    PlainEntry whole = entry;
    whole.sequence = first.sequence;
    const bool is_done = state == static_cast<uint32_t>(FlightState::kDone);
    found.emplace_back(entry.queued - header.ticks, operation_of(whole, is_done, clock));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.sequence < b.second.sequence;
  });
  for (auto& [ticks, operation] : found) log.operations.push_back(operation);
  *out = std::move(log);
  return {};
}

Status read_flight(const std::string& path, FlightLog* out) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) {
    const keel_status code = errno == EACCES ? KEEL_PERMISSION_DENIED : KEEL_NOT_FOUND;
    return failure(code, "{}: {}", path, std::strerror(errno));
  }
  return read_open_file(file.get(), out).with_prefix(path + " ");
}

}  // namespace keel
