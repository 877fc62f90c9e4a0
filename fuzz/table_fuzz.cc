// SPDX-License-Identifier: Apache-2.0
// Fuzzes tables of algorithms, and a table that a rank reads from the segment.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "collectives/operation.h"
#include "collectives/selection/selection.h"
#include "collectives/selection/table.h"

namespace {

constexpr uint32_t kMostWorld = 9;

// Every chosen algorithm is applicable.
void check_choices(const keel::Selection& selection, const keel::SelectionKey& selection_key) {
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    keel::Request request;
    request.collective = static_cast<keel_collective>(i);
    if (!keel::applies(keel::Algorithm::kEager, request.collective, selection_key.world)) continue;
    for (const keel_dtype dtype : {KEEL_FLOAT32, KEEL_BFLOAT16}) {
      request.dtype = dtype;
      for (uint64_t count = 0; count < 1ull << 40; count = 3 * count + 1) {
        request.count = request.collective == KEEL_BARRIER ? 0 : count;
        const bool attaches =
            selection.choose_foreign(request, selection_key.world) == keel::ForeignWay::kAttach;
        if (attaches && !keel::can_attach(request.collective)) __builtin_trap();
        const keel::Algorithm chosen = selection.choose(request, selection_key.world);
        if (!keel::applies(chosen, request.collective, selection_key.world)) __builtin_trap();
        const uint64_t most =
            selection_key.staged ? keel::kStagedEagerBytes : keel::kMostEagerBytes;
        if (chosen == keel::Algorithm::kEager &&
            keel::bytes_of(request, selection_key.world) > most) {
          __builtin_trap();
        }
        if (dtype == KEEL_BFLOAT16 && keel::reduces(request.collective) &&
            keel::has_partial_results(chosen)) {
          __builtin_trap();
        }
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<keel::Rule> rules;
  const keel::Status read = keel::read_table({reinterpret_cast<const char*>(data), size}, &rules);
  if (!read.ok() && *read.text() == '\0') __builtin_trap();
  const uint32_t world = size == 0 ? 1 : 1 + data[size - 1] % kMostWorld;
  for (const bool staged : {false, true}) {
    for (const bool oversubscribed : {false, true}) {
      const keel::SelectionKey selection_key = {world, staged, oversubscribed};
      keel::Selection selection;
      if (read.ok() && keel::Selection::make(rules, selection_key, &selection).ok()) {
        if (!selection.check(selection_key).ok()) __builtin_trap();
        check_choices(selection, selection_key);
      }
      // A table that another process overwrote after a valid start.
      if (!keel::Selection::make({}, selection_key, &selection).ok()) __builtin_trap();
      uint8_t* const raw = reinterpret_cast<uint8_t*>(&selection);
      const size_t from = size < 2 ? 0 : (data[0] << 8 | data[1]) % sizeof(selection);
      if (size > 2) std::memcpy(raw + from, data + 2, std::min(size - 2, sizeof(selection) - from));
      if (selection.check(selection_key).ok()) check_choices(selection, selection_key);
    }
  }
  return 0;
}
