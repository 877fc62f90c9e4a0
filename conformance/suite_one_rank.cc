// SPDX-License-Identifier: Apache-2.0
// Level collectives, cases one_rank: the vendor's library with a communicator of a single rank,
// through the plugin's own table. A machine with one device has no other way to call the library:
// two ranks of a communicator may not share a device, and core does not use a library for a single
// rank.
#include <fmt/format.h>

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "conformance/collective_values.h"
#include "conformance/harness.h"
#include "conformance/levels.h"
#include "conformance/plugin_device.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

const keel_ccl_table& table_of(const Context& context) {
  const PluginDevice& device = device_of(context);
  const keel_ccl_table* const table = device.plugin().ccl;
  check(observe(KEEL_HAS(keel_ccl_table, table, capability) &&
                KEEL_HAS(keel_ccl_table, table, unique_id) &&
                KEEL_HAS(keel_ccl_table, table, init_rank) &&
                KEEL_HAS(keel_ccl_table, table, destroy) && KEEL_HAS(keel_ccl_table, table, run) &&
                KEEL_HAS(keel_ccl_table, table, info)),
        "CCL is claimed without the slots that it needs");
  if (device.info().hardware_queues == 1) unsupported("a device with one queue takes no part");
  return *table;
}

// A communicator of one rank, or a split of one.
class Alone {
 public:
  explicit Alone(const Context& context)
      : context_(context), table_(table_of(context)), stream_(context) {
    constexpr uint64_t kMost = 16384;
    const PluginDevice& device = device_of(context);
    std::vector<std::byte> id(kMost);
    uint64_t size = id.size();
    need(table_.unique_id(device.get(), id.data(), &size), "ccl.unique_id");
    size = observe(size);
    check(size > 0 && size <= kMost, fmt::format("ccl.unique_id gives {} bytes", size));
    need(table_.init_rank(device.get(), id.data(), size, /*rank=*/0, /*world=*/1,
                          context.environment.wait_ns, &comm_),
         "ccl.init_rank");
    check(observe(comm_ != nullptr), "ccl.init_rank gives no communicator");
  }
  ~Alone() { end(); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  const Context& context() const { return context_; }
  const keel_ccl_table& table() const { return table_; }
  const TableStream& stream() const { return stream_; }
  keel_plugin_comm* comm() const { return comm_; }
  // Destroys the communicator and adopts |comm|.
  void become(keel_plugin_comm* comm) {
    end();
    comm_ = comm;
  }
  keel_status run(const std::vector<keel_ccl_call>& calls) const {
    return table_.run(comm_, stream_.get(), calls.data(), static_cast<uint32_t>(calls.size()));
  }

 private:
  // Leaks a communicator that its library may still be using.
  void end() {
    if (comm_ != nullptr && stream_.settle_unobserved() != KEEL_NOT_READY) table_.destroy(comm_);
    comm_ = nullptr;
  }

  const Context& context_;
  const keel_ccl_table& table_;
  const TableStream stream_;
  keel_plugin_comm* comm_ = nullptr;
};

// ---- calls ----------------------------------------------------------------------------------

struct Kind {
  const char* name;
  keel_collective collective;
  bool reduces;
  bool in_place;  // supports in-place calls
};

// Core builds the remaining collectives from messages.
constexpr Kind kKinds[] = {
    {"all_reduce", KEEL_ALL_REDUCE, true, true},
    {"reduce", KEEL_REDUCE, true, true},
    {"reduce_scatter", KEEL_REDUCE_SCATTER, true, true},
    {"broadcast", KEEL_BROADCAST, false, true},
    {"all_gather", KEEL_ALL_GATHER, false, true},
    {"all_to_all", KEEL_ALL_TO_ALL, false, false},
};
constexpr const char* kReductions[KEEL_REDUCTION_COUNT] = {"sum", "prod", "min",
                                                           "max", "avg",  "premul_sum"};

keel_ccl_call call_of(keel_collective collective, keel_dtype dtype, keel_reduction reduction,
                      uint64_t count) {
  keel_ccl_call call = {};
  call.header = kit::header<keel_ccl_call>(KEEL_STRUCT_CCL_CALL);
  call.collective = collective;
  call.dtype = dtype;
  call.reduction = reduction;
  call.count = count;
  if (reduction == KEEL_PREMUL_SUM) call.factor = factor_of(dtype, 0);
  return call;
}

// Runs |calls| from |sent| to |wanted|. Returns false if the library refuses them, which
// |may_refuse| allows.
bool run_calls(const Alone& rank, std::vector<keel_ccl_call> calls, const Bytes& sent,
               const Bytes& wanted, bool in_place, const std::string& what,
               bool may_refuse = false) {
  constexpr uint64_t kGap = 64;  // bytes that no call may write
  const uint64_t receive_at = in_place ? 0 : (sent.size() + kGap + 255) / 256 * 256;
  Bytes content(receive_at + wanted.size() + kGap, kRedZone);
  std::copy(sent.begin(), sent.end(), content.begin());
  const TableBuffer memory(rank.context(), content.size());
  rank.stream().copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), content.data(), content.size());
  for (keel_ccl_call& call : calls) {
    if (call.collective != KEEL_RECV) call.send = memory.at(0);
    if (call.collective != KEEL_SEND) call.receive = memory.at(receive_at);
  }
  const keel_status status = observe_status(rank.run(calls));
  if (may_refuse && (status == KEEL_UNSUPPORTED || status == KEEL_INVALID_ARGUMENT)) return false;
  need(status, what);
  need(rank.stream().settle(), what);
  std::copy(wanted.begin(), wanted.end(),
            content.begin() + static_cast<std::ptrdiff_t>(receive_at));
  Bytes got(content.size());
  rank.stream().copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), got.size());
  check_equal(got, content, what);
  return true;
}

Bytes sent_of(keel_dtype dtype, keel_reduction reduction, uint64_t count) {
  return elements(dtype, 0, count,
                  [&](uint64_t i) { return value_of(dtype, reduction, /*world=*/1, 0, i); });
}

bool can(const Context& context, keel_collective collective, keel_dtype dtype,
         keel_reduction reduction) {
  return observe_status(table_of(context).capability(device_of(context).instance(), collective,
                                                     dtype, reduction)) == KEEL_OK;
}

void run_kind(const Alone& rank, const Kind& kind, keel_dtype dtype, keel_reduction reduction,
              const std::string& what) {
  for (const uint64_t count : {1ULL, 1009ULL, 65'539ULL}) {
    const Bytes sent = sent_of(dtype, reduction, count);
    const Bytes wanted = !kind.reduces ? sent : elements(dtype, 0, count, [&](uint64_t i) {
      return reduced(dtype, reduction, /*world=*/1, i);
    });
    const keel_ccl_call call = call_of(kind.collective, dtype, reduction, count);
    run_calls(rank, {call}, sent, wanted, /*in_place=*/false, fmt::format("{} of {}", what, count));
    if (!kind.in_place) continue;
    run_calls(rank, {call}, sent, wanted, /*in_place=*/true,
              fmt::format("{} of {} in place", what, count));
  }
}

// ---- cases ----------------------------------------------------------------------------------

// Runs every call that the library supports with the dtype; the case's note lists the unsupported
// ones.
void all_calls(const Context& context, keel_dtype dtype) {
  const Alone rank(context);
  uint32_t done = 0;
  std::string missing;
  const auto leave_out = [&](const std::string& what) {
    missing += (missing.empty() ? "" : ", ") + what;
  };
  for (const Kind& kind : kKinds) {
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      if (!kind.reduces && reduction != KEEL_SUM) continue;
      std::string what = kind.name;
      if (kind.reduces) what += fmt::format(" {}", kReductions[reduction]);
      if (can(context, kind.collective, dtype, reduction)) {
        run_kind(rank, kind, dtype, reduction, what);
        ++done;
      } else {
        leave_out(what);
      }
    }
  }
  // Libraries need not support messages from a rank to itself.
  constexpr uint64_t kCount = 1009;
  const Bytes sent = sent_of(dtype, KEEL_SUM, kCount);
  if (can(context, KEEL_SEND, dtype, KEEL_SUM) && can(context, KEEL_RECV, dtype, KEEL_SUM) &&
      run_calls(rank,
                {call_of(KEEL_SEND, dtype, KEEL_SUM, kCount),
                 call_of(KEEL_RECV, dtype, KEEL_SUM, kCount)},
                sent, sent, /*in_place=*/false, "a message to itself", /*may_refuse=*/true)) {
    ++done;
  } else {
    leave_out("messages to itself");
  }
  if (done == 0) unsupported("the library does nothing with this dtype");
  if (!missing.empty()) note("not by the library: " + missing);
}

// Uses float32, which most libraries support.
void all_reduce(const Alone& rank, const std::string& what) {
  constexpr uint64_t kCount = 1009;
  if (!can(rank.context(), KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM)) {
    unsupported("the library has no all_reduce of float32");
  }
  const Bytes sent = sent_of(KEEL_FLOAT32, KEEL_SUM, kCount);
  run_calls(rank, {call_of(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM, kCount)}, sent, sent,
            /*in_place=*/false, what);
}

void comes_and_goes(const Context& context) {
  const keel_ccl_table& table = table_of(context);
  auto library = KEEL_STRUCT_INIT(keel_ccl_info, KEEL_STRUCT_CCL_INFO);
  need(table.info(device_of(context).instance(), &library), "ccl.info");
  library.library[sizeof(library.library) - 1] = '\0';
  const std::string name = observe_text(library.library);
  const keel_ccl_reach reach = observe(library.reach);
  check(!name.empty(), "ccl.info names no library");
  check(reach >= KEEL_CCL_PROCESS && reach <= KEEL_CCL_NETWORK,
        fmt::format("ccl.info has a reach of {}", reach));
  note(name);
  for (int i = 0; i < 2; ++i) {
    const Alone rank(context);
    const auto has_no_error = [&](const char* when) {
      if (!observe(KEEL_HAS(keel_ccl_table, &table, async_error))) return;
      need(table.async_error(rank.comm()), fmt::format("ccl.async_error {}", when));
    };
    has_no_error("of a new communicator");
    all_reduce(rank, "all_reduce");
    has_no_error("after an all_reduce");
  }
}

// Several calls as one group, in order where one needs another's result.
void groups(const Context& context) {
  constexpr uint64_t kCount = 1009;
  const Alone rank(context);
  if (!can(context, KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM) ||
      !can(context, KEEL_BROADCAST, KEEL_FLOAT32, KEEL_SUM)) {
    unsupported("the library has no all_reduce and broadcast of float32");
  }
  const Bytes sent = sent_of(KEEL_FLOAT32, KEEL_SUM, kCount);
  const uint64_t bytes = sent.size();
  const TableBuffer memory(context, 4 * bytes);
  rank.stream().copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), sent.data(), bytes);
  rank.stream().copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(bytes), sent.data(), bytes);
  std::vector<keel_ccl_call> calls = {call_of(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM, kCount),
                                      call_of(KEEL_BROADCAST, KEEL_FLOAT32, KEEL_SUM, kCount)};
  for (uint64_t i = 0; i < calls.size(); ++i) {
    calls[i].send = memory.at(i * bytes);
    calls[i].receive = memory.at((2 + i) * bytes);
  }
  need(rank.run(calls), "two calls in a group");
  need(rank.stream().settle(), "two calls in a group");
  Bytes got(bytes);
  for (uint64_t i = 0; i < calls.size(); ++i) {
    rank.stream().copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at((2 + i) * bytes), bytes);
    check_equal(got, sent, fmt::format("call {} of a group", i));
  }
}

// Calls in flight must end after an abort, and the library must still work.
void aborts(const Context& context) {
  constexpr uint64_t kCount = 4 << 20;
  if (!observe(KEEL_HAS(keel_ccl_table, &table_of(context), abort)))
    unsupported("there is no ccl.abort");
  {
    const Alone rank(context);
    all_reduce(rank, "all_reduce");
    const TableBuffer memory(context, kCount * 4);
    keel_ccl_call call = call_of(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM, kCount);
    call.send = call.receive = memory.at(0);
    for (int i = 0; i < 4; ++i) need(rank.run({call}), "all_reduce");
    need(rank.table().abort(rank.comm()), "ccl.abort");
    check(rank.stream().settle() != KEEL_NOT_READY, "what was aborted does not end");
  }
  all_reduce(Alone(context), "all_reduce after an abort");
}

// A split that outlives the original communicator, and a rank that is in no part.
void splits(const Context& context) {
  if (!observe(KEEL_HAS(keel_ccl_table, &table_of(context), split)))
    unsupported("there is no ccl.split");
  Alone rank(context);
  const auto split = [&](const std::vector<uint32_t>& ranks, keel_plugin_comm** out_part) {
    const keel_status status = observe_status(
        rank.table().split(rank.comm(), ranks.data(), static_cast<uint32_t>(ranks.size()),
                           /*rank=*/0, context.environment.wait_ns, out_part));
    if (status == KEEL_UNSUPPORTED) unsupported("the library has no splits");
    need(status, "ccl.split");
  };
  keel_plugin_comm* part = nullptr;
  split({}, &part);
  check(observe(part == nullptr), "ccl.split gives a rank that is in no part a communicator");
  split({0}, &part);
  check(observe(part != nullptr), "ccl.split gives no communicator");
  all_reduce(rank, "all_reduce of what was split");
  rank.become(part);
  all_reduce(rank, "all_reduce of a part that has outlived the whole");
}

}  // namespace

void add_one_rank_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({std::string(kOneRank) + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  add("lifetime", comes_and_goes);
  add("group", groups);
  add("abort", aborts);
  add("split", splits);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    add(fmt::format("calls/{}", kit::dtype_name(dtype)),
        [dtype](const Context& context) { all_calls(context, dtype); });
  }
}

}  // namespace keel::conformance
