// SPDX-License-Identifier: Apache-2.0
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

using MemoryOfDevices = std::map<std::pair<const Device*, const void*>, Memory>;

struct Ledger {
  std::mutex mutex;
  std::map<uint64_t, Origin> handles;
  MemoryOfDevices memory;
  MemoryOfDevices registrations;
};

Ledger& ledger() {
  static Ledger& instance = *new Ledger;
  return instance;
}

// The caller holds the ledger's mutex.
void clear(Ledger* ledger) {
  ledger->handles.clear();
  ledger->memory.clear();
  ledger->registrations.clear();
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

// Objects of one kind created at one place.
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

void add_all(std::vector<Group>* groups, const char* kind, const MemoryOfDevices& all) {
  for (const auto& [where, memory] : all) {
    add(groups, fmt::format("{} {}", kind, where.first->name()), memory.origin, memory.bytes);
  }
}

void note(MemoryOfDevices* all, const Device& device, const void* pointer, uint64_t bytes) {
  const Origin origin = capture_origin();
  std::lock_guard lock(ledger().mutex);
  (*all)[{&device, pointer}] = {bytes, origin};
}

void forget(MemoryOfDevices* all, const Device& device, const void* pointer) {
  std::lock_guard lock(ledger().mutex);
  all->erase({&device, pointer});
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
  note(&ledger().memory, device, pointer, bytes);
}

void forget_memory(const Device& device, const void* pointer) {
  forget(&ledger().memory, device, pointer);
}

void note_registration(const Device& device, const void* pointer, uint64_t bytes) {
  note(&ledger().registrations, device, pointer, bytes);
}

void forget_registration(const Device& device, const void* pointer) {
  forget(&ledger().registrations, device, pointer);
}

void report_leaks() {
  std::vector<Group> groups;
  {
    std::lock_guard lock(ledger().mutex);
    for (const auto& [handle, origin] : ledger().handles) add(&groups, kind_of(handle), origin, 0);
    add_all(&groups, "allocation of", ledger().memory);
    add_all(&groups, "registration of host memory with", ledger().registrations);
    clear(&ledger());
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
  clear(&ledger());
}

}  // namespace keel::validation
