// SPDX-License-Identifier: Apache-2.0
// Level collectives, cases on the plugin's own ccl table with several ranks: the calls. Each
// capability() answer is tested for every count, offset and alignment, without core, whose
// algorithms would replace missing ones of the library.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "conformance/collective_script.h"
#include "conformance/levels.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

bool reduces(keel_collective collective) {
  return collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE ||
         collective == KEEL_REDUCE_SCATTER;
}
bool has_root(keel_collective collective) {
  return collective == KEEL_REDUCE || collective == KEEL_BROADCAST;
}

// Returns false for sums that no order of the terms makes exact in the smallest type.
bool is_exact(keel_dtype dtype, keel_reduction reduction, uint32_t world) {
  return reduction != KEEL_AVG || dtype != KEEL_FLOAT8_E5M2 || world != 3;
}

std::vector<keel_reduction> reductions_of(const Context& context, keel_collective collective,
                                          keel_dtype dtype, uint32_t world) {
  std::vector<keel_reduction> all;
  for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
    if (!reduces(collective) && reduction != KEEL_SUM) continue;
    if (!ccl_can(context, collective, dtype, reduction)) continue;
    if (is_exact(dtype, reduction, world)) all.push_back(reduction);
  }
  return all;
}

// Tests every reported capability for the collective and dtype: alone, and in groups of all shapes.
void every_shape(const Context& context, uint32_t most, keel_collective collective,
                 keel_dtype dtype) {
  (void)ccl_table_of(context);
  const TableDevices devices(context, most);
  const std::vector<keel_reduction> reductions =
      reductions_of(context, collective, dtype, devices.count());
  if (reductions.empty()) unsupported("the library does not do this");
  const TableRanks ranks(context, devices);
  uint64_t salt = 0;
  for (const keel_reduction reduction : reductions) {
    Script group(ranks.world());
    const uint32_t roots = has_root(collective) ? ranks.world() : 1;
    for (uint32_t root = 0; root < roots; ++root) {
      for (const bool in_place : {false, true}) {
        for (const uint64_t count : {1ULL, 2ULL, 31ULL, 1009ULL}) {
          const CallShape shape = {collective,
                                   dtype,
                                   reduction,
                                   count,
                                   root,
                                   in_place,
                                   static_cast<uint32_t>((salt + count) % 2)};
          group.add(shape, ++salt);
          if (count != 1009 || root != reduction % roots) continue;
          Script alone(ranks.world());
          alone.add(shape, ++salt);
          alone.play(ranks, shape.text());
        }
      }
    }
    // The first reduction uses 65,537 elements, a prime above 64 Ki.
    CallShape large = {collective,        dtype,
                       reduction,         reduction == reductions[0] ? 65'537ULL : 4099ULL,
                       reduction % roots, (reduction + dtype) % 2 == 0,
                       dtype % 2};
    group.add(large, ++salt);
    group.play(ranks, fmt::format("a group of {}", large.text()));
  }
}

// ---- messages -----------------------------------------------------------------------------------

void need_messages(const Context& context, keel_dtype dtype = KEEL_FLOAT32) {
  (void)ccl_table_of(context);
  if (!ccl_can(context, KEEL_SEND, dtype) || !ccl_can(context, KEEL_RECV, dtype)) {
    unsupported("the library has no messages");
  }
}

// All ranks send to all others at once, several messages of many sizes each, with the ends in
// different orders: messages between two ranks match in call order.
void messages(const Context& context, keel_dtype dtype) {
  need_messages(context, dtype);
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  const uint32_t world = ranks.world();
  constexpr uint64_t kCounts[] = {1, 1009, 3, 16'411, 64};
  const auto salt_of = [](uint32_t from, uint32_t to, uint32_t i) {
    return uint64_t{from} * 1000 + to * 100 + i;
  };
  for (const bool sends_first : {true, false}) {
    Script script(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      const auto send = [&] {
        for (uint32_t i = 0; i < std::size(kCounts); ++i) {
          for (uint32_t step = 1; step < world; ++step) {
            const uint32_t to = (rank + step) % world;
            script.add_send(rank, to, dtype, kCounts[i], salt_of(rank, to, i));
          }
        }
      };
      // Ranks differ in whether they send or receive first, and in the order of the peers from
      // which they receive.
      if ((rank % 2 == 0) == sends_first) send();
      for (uint32_t step = world - 1; step >= 1; --step) {
        const uint32_t from = (rank + step) % world;
        for (uint32_t i = 0; i < std::size(kCounts); ++i) {
          script.add_receive(rank, from, dtype, kCounts[i], salt_of(from, rank, i));
        }
      }
      if ((rank % 2 == 0) != sends_first) send();
    }
    script.play(ranks, "messages between all ranks");
  }
}

// From one byte to megabytes, in one direction.
void message_sizes(const Context& context) {
  need_messages(context, KEEL_UINT8);
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  const uint32_t last = ranks.world() - 1;
  uint64_t salt = 0;
  for (const uint64_t bytes : {1ULL, 15ULL, 4095ULL, 4097ULL, 262'147ULL, 1'048'583ULL}) {
    Script script(ranks.world());
    script.add_send(0, last, KEEL_UINT8, bytes, salt);
    script.add_receive(last, 0, KEEL_UINT8, bytes, salt);
    script.play(ranks, fmt::format("a message of {} bytes", bytes));
    ++salt;
  }
}

// ---- groups ------------------------------------------------------------------------------------

// 240 calls of all supported kinds in one group.
void large_group(const Context& context, uint32_t most) {
  (void)ccl_table_of(context);
  const TableDevices devices(context, most);
  const TableRanks ranks(context, devices);
  const uint32_t world = ranks.world();
  std::vector<CallShape> shapes;
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (const keel_collective collective :
         {KEEL_ALL_REDUCE, KEEL_REDUCE, KEEL_BROADCAST, KEEL_ALL_GATHER, KEEL_REDUCE_SCATTER}) {
      for (const keel_reduction reduction : reductions_of(context, collective, dtype, world)) {
        shapes.push_back({static_cast<keel_collective>(collective), dtype, reduction});
      }
    }
  }
  if (shapes.empty()) unsupported("the library has no collectives");
  const bool has_messages = world > 1 && ccl_can(context, KEEL_SEND, KEEL_INT32) &&
                            ccl_can(context, KEEL_RECV, KEEL_INT32);
  Script script(world);
  for (uint32_t i = 0; i < 240; ++i) {
    // A step coprime to the number of shapes visits all shapes.
    CallShape shape = shapes[uint64_t{i} * 10'007 % shapes.size()];
    shape.count = 1 + i * 37 % 501;
    shape.root = i % world;
    shape.in_place = i % 3 == 0;
    shape.skew = i % 2;
    script.add(shape, i);
    if (!has_messages || i % 4 != 0) continue;
    for (uint32_t rank = 0; rank < world; ++rank) {
      script.add_send(rank, (rank + 1) % world, KEEL_INT32, 1 + i, i);
      script.add_receive(rank, (rank + world - 1) % world, KEEL_INT32, 1 + i, i);
    }
  }
  script.play(ranks, fmt::format("a group of {} calls", script.calls(0)));
  // No state of the group may remain.
  Script after(world);
  shapes[0].count = 1009;
  after.add(shapes[0], 1);
  after.play(ranks, "a call behind a large group");
}

// A group with a refused call must be refused as a whole; the next group must work.
void refused_group(const Context& context) {
  (void)ccl_table_of(context);
  const TableDevices devices(context);
  keel_ccl_call wrong = {};
  wrong.header = kit::header<keel_ccl_call>(KEEL_STRUCT_CCL_CALL);
  wrong.dtype = KEEL_FLOAT32;
  wrong.count = 1;
  bool has_wrong = false;
  for (const keel_collective collective :
       {KEEL_GATHER, KEEL_SCATTER, KEEL_ALL_TO_ALL, KEEL_REDUCE_SCATTER, KEEL_ALL_GATHER}) {
    if (has_wrong || ccl_can(context, collective, KEEL_FLOAT32)) continue;
    wrong.collective = collective;
    has_wrong = true;
  }
  if (!has_wrong) unsupported("the library refuses nothing");
  CallShape right = {KEEL_BROADCAST, KEEL_FLOAT32, KEEL_SUM, 1009};
  if (!ccl_can(context, KEEL_BROADCAST, KEEL_FLOAT32)) right.collective = KEEL_ALL_REDUCE;
  if (!ccl_can(context, right.collective, KEEL_FLOAT32)) unsupported("the library has neither");
  const TableRanks ranks(context, devices);
  for (uint32_t round = 0; round < 3; ++round) {
    Script script(ranks.world());
    script.add(right, round);
    script.add(right, 10 + round);
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) script.refuse(rank, wrong);
    const std::vector<keel_status> statuses =
        script.try_play(ranks, "a group whose last call the library says it cannot do");
    const auto taken = std::count(statuses.begin(), statuses.end(), KEEL_OK);
    if (taken == static_cast<std::ptrdiff_t>(statuses.size())) {
      unsupported("the library takes a call that it says it cannot do");
    }
    check(taken == 0, "a group is refused on some ranks alone");
    Script next(ranks.world());
    next.add(right, 20 + round);
    next.play(ranks, "a group behind one that was refused");
  }
}

// ---- what is said before -----------------------------------------------------------------------

// The answers must be stable, and only KEEL_OK or KEEL_UNSUPPORTED.
void capabilities(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  keel_plugin_instance* const instance = device_of(context).instance();
  std::vector<keel_status> answers;
  uint32_t claimed = 0;
  for (int round = 0; round < 2; ++round) {
    size_t next = 0;
    for (keel_collective collective = 0; collective < KEEL_COLLECTIVE_COUNT; ++collective) {
      for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
        for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
          const keel_status status =
              observe_status(table.capability(instance, collective, dtype, reduction));
          check(status == KEEL_OK || status == KEEL_UNSUPPORTED,
                fmt::format("ccl.capability answers {}", keel_status_name(status)));
          if (round == 0) answers.push_back(status);
          check(answers[next++] == status, "ccl.capability gives another answer the second time");
          // Also ask twice in a row: an alternating answer may have an even number of changes
          // between the rounds.
          const keel_status again =
              observe_status(table.capability(instance, collective, dtype, reduction));
          check(again == status, "ccl.capability gives another answer when it is asked again");
          claimed += status == KEEL_OK ? 1 : 0;
        }
      }
    }
  }
  check(claimed != 0, "CCL is claimed, and ccl.capability says no to everything");
}

// info() must work before a device is open, in a separate instance, and fill in valid values.
void library_info(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  const keel_plugin& plugin = device_of(context).plugin();
  const auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  keel_plugin_instance* other = nullptr;
  need(plugin.create_instance(&settings, &other), "create_instance of a second instance");
  std::string first;
  for (keel_plugin_instance* instance : {other, device_of(context).instance(), other}) {
    auto info = KEEL_STRUCT_INIT(keel_ccl_info, KEEL_STRUCT_CCL_INFO);
    std::memset(info.library, 'x', sizeof(info.library));
    info.reserved = 0;
    need(table.info(instance, &info), "ccl.info");
    observe_bytes(std::as_writable_bytes(std::span(info.library)));
    const auto* const end =
        static_cast<const char*>(std::memchr(info.library, '\0', sizeof(info.library)));
    check(end != nullptr, "ccl.info does not end the library's name with a zero");
    const std::string name(static_cast<const char*>(info.library), end);
    check(!name.empty(), "ccl.info names no library");
    const keel_ccl_reach reach = observe(info.reach);
    check(reach >= KEEL_CCL_PROCESS && reach <= KEEL_CCL_NETWORK,
          fmt::format("ccl.info has a reach of {}", reach));
    check(observe(info.header.size) == sizeof(info), "ccl.info changes the struct's size");
    if (first.empty()) first = name;
    check(name == first, fmt::format("ccl.info says '{}', and then '{}'", first, name));
  }
  plugin.destroy_instance(other);
}

}  // namespace

void add_ccl_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"collectives/tables/" + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  const auto add_alone = [&](const std::string& id, auto body) {
    cases->push_back({std::string(kOneRank) + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  constexpr uint32_t kMost = 4;
  struct Kind {
    const char* name;
    keel_collective collective;
  };
  constexpr Kind kKinds[] = {
      {"all_reduce", KEEL_ALL_REDUCE},         {"reduce", KEEL_REDUCE},
      {"broadcast", KEEL_BROADCAST},           {"all_gather", KEEL_ALL_GATHER},
      {"reduce_scatter", KEEL_REDUCE_SCATTER}, {"all_to_all", KEEL_ALL_TO_ALL}};
  add("group/large", [](const Context& context) { large_group(context, kMost); });
  add("group/refused", refused_group);
  add("messages/sizes", message_sizes);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const std::string name = kit::dtype_name(dtype);
    for (const Kind& kind : kKinds) {
      const auto body = [collective = kind.collective, dtype](uint32_t most) {
        return [=](const Context& context) { every_shape(context, most, collective, dtype); };
      };
      add(fmt::format("calls/{}/{}", kind.name, name), body(kMost));
      add_alone(fmt::format("shapes/{}/{}", kind.name, name), body(1));
    }
    add("messages/" + name, [dtype](const Context& context) { messages(context, dtype); });
  }
  // One device suffices for these cases.
  add_alone("info", library_info);
  add_alone("capability", capabilities);
  add_alone("group_large", [](const Context& context) { large_group(context, 1); });
}

}  // namespace keel::conformance
