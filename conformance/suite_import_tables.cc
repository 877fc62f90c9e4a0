// SPDX-License-Identifier: Apache-2.0
// Level memory, on the plugin's own tables in two other processes: what close_import returns, and
// imports of memory that the exported object does not have.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "conformance/harness.h"
#include "conformance/sharer_process.h"

namespace keel::conformance {

namespace {

// Dma-bufs are for other drivers.
constexpr std::array kImported = {std::pair{KEEL_EXPORT_OPAQUE, "opaque"},
                                  std::pair{KEEL_EXPORT_MEMFD, "memfd"}};

void close_export(const keel_memory_export& exported) {
  if (!judging() && exported.fd >= 0) close(exported.fd);
}

// After close_import an export may be imported again, and the importing process holds nothing of
// the memory, which its owner then frees.
void imported_again(const Context& context) {
  constexpr uint64_t kBytes = 16 << 20;
  constexpr uint64_t kUsed = 4099;
  constexpr uint64_t kWarmUp = 3;
  constexpr uint64_t kRounds = 12;
  SharerProcess owner(context);
  SharerProcess guest(context);
  bool any = false;
  for (const auto& [kind, name] : kImported) {
    SharerCounts before;
    for (uint64_t round = 0; round < kWarmUp + kRounds; ++round) {
      if (round == kWarmUp) before = guest.counts();
      keel_memory_export exported = {};
      if (!owner.export_memory(kind, kBytes, /*offset=*/0, &exported)) break;
      any = true;
      const std::vector<std::byte> wanted =
          random_bytes(context, static_cast<uint32_t>(round), kUsed);
      owner.write(wanted);
      for (uint32_t time = 0; time < 2; ++time) {
        guest.import_memory(exported);
        check_equal(guest.read(kUsed), wanted,
                    fmt::format("{}: memory imported for time {}", name, time + 1));
        guest.close_import();
      }
      close_export(exported);
      owner.free();
      if (round + 1 < kWarmUp + kRounds) continue;
      const SharerCounts after = guest.counts();
      check(after.descriptors < before.descriptors + kRounds,
            fmt::format("{}: {} descriptors were open, and {} after {} imports were closed", name,
                        before.descriptors, after.descriptors, 2 * kRounds));
      check(after.address_space < before.address_space + kRounds * kBytes / 2,
            fmt::format("{}: the process had {} bytes of addresses, and {} after {} imports of {} "
                        "bytes were closed",
                        name, before.address_space, after.address_space, 2 * kRounds, kBytes));
    }
  }
  if (!any) unsupported("memory is exported neither as an opaque handle nor as a memfd");
}

// An export comes from another process. If it names memory beyond the exported object, importing
// must fail and keep nothing: the export itself is imported afterwards.
void beyond_object(const Context& context) {
  constexpr uint64_t kBytes = 100'003;
  SharerProcess owner(context);
  SharerProcess guest(context);
  bool any = false;
  for (const auto& [kind, name] : kImported) {
    keel_memory_export exported = {};
    if (!owner.export_memory(kind, kBytes, /*offset=*/0, &exported)) continue;
    any = true;
    const std::vector<std::byte> wanted = random_bytes(context, kind, 4099);
    owner.write(wanted);
    for (const uint64_t times : {uint64_t{1}, uint64_t{2}, uint64_t{64}}) {
      keel_memory_export mangled = exported;
      mangled.offset = exported.object_size * times;
      mangled.object_size = exported.object_size * (times == 1 ? 1 : 2 * times);
      check(guest.try_import(mangled) != KEEL_OK,
            fmt::format("{}: memory.import_memory of byte {} of {} gives memory, and the exported "
                        "object has {}",
                        name, mangled.offset, mangled.object_size, exported.object_size));
    }
    guest.import_memory(exported);
    check_equal(guest.read(wanted.size()), wanted,
                fmt::format("{}: memory imported after refused imports", name));
    guest.close_import();
    close_export(exported);
    owner.free();
  }
  if (!any) unsupported("memory is exported neither as an opaque handle nor as a memfd");
}

}  // namespace

void add_import_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"memory/tables/" + id, KEEL_CAPABILITY_EXPORT, false, std::move(body)});
  };
  add("import/again", imported_again);
  add("import/beyond_object", beyond_object);
}

}  // namespace keel::conformance
