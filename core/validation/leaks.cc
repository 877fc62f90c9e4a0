#include "core/validation/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/handle_table.h"
#include "core/validation/origin.h"
#include "core/validation/validation.h"

namespace keel::validation {

namespace {

// A program that leaks in a loop leaks at few places.
constexpr size_t kReportedPlaces = 20;

struct Memory {
  uint64_t bytes = 0;
  Origin origin;
};

struct Ledger {
  std::mutex mutex;
  std::map<uint64_t, Origin> handles;
  std::map<std::pair<const Device*, const void*>, Memory> memory;
};

Ledger& ledger() {
  static Ledger& instance = *new Ledger;
  return instance;
}

const char* kind_of(uint64_t handle) {
  switch (static_cast<HandleKind>(handle >> 56)) {
    case HandleKind::kStream:
      return "stream";
    case HandleKind::kEvent:
      return "event";
    case HandleKind::kGate:
      return "gate";
    case HandleKind::kComm:
      return "communicator's rank";
    case HandleKind::kModule:
      return "module";
    default:
      return nullptr;  // devices and kernels need no destroying
  }
}

// Those of one kind that were made at one place.
struct Group {
  std::string kind;
  Origin origin;
  uint64_t count = 0;
  uint64_t bytes = 0;
};

void add(std::vector<Group>* groups, const std::string& kind, const Origin& origin,
         uint64_t bytes) {
  auto group = std::find_if(groups->begin(), groups->end(), [&](const Group& each) {
    return each.kind == kind && each.origin == origin;
  });
  if (group == groups->end()) group = groups->insert(group, {kind, origin, 0, 0});
  ++group->count;
  group->bytes += bytes;
}

}  // namespace

void note_handle(uint64_t handle) {
  if (kind_of(handle) == nullptr) return;
  const Origin origin = capture_origin();
  std::lock_guard lock(ledger().mutex);
  ledger().handles.emplace(handle, origin);
}

void forget_handle(uint64_t handle) {
  std::lock_guard lock(ledger().mutex);
  ledger().handles.erase(handle);
}

void note_memory(const Device& device, const void* pointer, uint64_t bytes) {
  const Origin origin = capture_origin();
  std::lock_guard lock(ledger().mutex);
  ledger().memory[{&device, pointer}] = {bytes, origin};
}

void forget_memory(const Device& device, const void* pointer) {
  std::lock_guard lock(ledger().mutex);
  ledger().memory.erase({&device, pointer});
}

void report_leaks() {
  std::vector<Group> groups;
  {
    std::lock_guard lock(ledger().mutex);
    for (const auto& [handle, origin] : ledger().handles) add(&groups, kind_of(handle), origin, 0);
    for (const auto& [where, memory] : ledger().memory) {
      add(&groups, fmt::format("allocation of {}", where.first->name()), memory.origin,
          memory.bytes);
    }
    ledger().handles.clear();
    ledger().memory.clear();
  }
  for (size_t i = 0; i < groups.size() && i < kReportedPlaces; ++i) {
    const Group& group = groups[i];
    const std::string bytes =
        group.bytes == 0 ? "" : fmt::format(", {} bytes in all,", group.bytes);
    report_problem(fmt::format("leak: {} x {}{} made at {}", group.count, group.kind, bytes,
                               describe(group.origin)));
  }
  if (groups.size() > kReportedPlaces) {
    report_problem(
        fmt::format("leak: and more, made at {} other places", groups.size() - kReportedPlaces));
  }
}

void clear_leaks() {
  std::lock_guard lock(ledger().mutex);
  ledger().handles.clear();
  ledger().memory.clear();
}

}  // namespace keel::validation
