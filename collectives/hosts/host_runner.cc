// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "collectives/bootstrap/rank_list.h"
#include "collectives/deadlock_detector.h"
#include "collectives/hosts/host_choice.h"
#include "collectives/hosts/wire_work.h"
#include "collectives/selection/table_source.h"

namespace keel {

namespace {

void write_interface(const ChosenInterface& interface, JsonWriter& json) {
  const auto text_or_null = [&](const std::string& text) {
    json.text_or_null(text.empty() ? nullptr : text.c_str());
  };
  json.begin_object();
  json.key("name");
  text_or_null(interface.name);
  json.key("address").text(interface.address.host());
  json.key("chosen").text(interface.reason_name());
  json.key("distance");
  text_or_null(interface.distance);
  json.end_object();
}

// The rank's call, shown to the ranks of its host while it runs. A rank that waits inside the host
// compares the calls of the others, whose messages between hosts it does not read.
class ShownCall final : public BackgroundWork {
 public:
  // |shown|: see OperationBoard::show_call().
  ShownCall(RankContext& context, uint64_t shown, const Fingerprint& print)
      : context_(context), shown_(shown), print_(print) {
    context_.board().show_call(context_.rank(), shown, print);
  }
  ~ShownCall() { context_.board().hide_call(context_.rank()); }
  ShownCall(const ShownCall&) = delete;
  ShownCall& operator=(const ShownCall&) = delete;

  Status advance() override {
    if (shown_ < OperationBoard::kShownCollective) return {};
    Fingerprint print;
    for (uint32_t rank = 0; rank < context_.world(); ++rank) {
      if (is_same_call(rank, &print) && !(print == print_)) return mismatch(rank, print);
    }
    return {};
  }
  int64_t slice_ns() const override { return WaitPolicy::kSliceNs; }

 private:
  bool is_same_call(uint32_t rank, Fingerprint* out_print) const {
    return context_.board().shown_call(rank, out_print) == shown_;
  }
  // |odd| has shown |odd_print|, and may have hidden its call since.
  Status mismatch(uint32_t odd, const Fingerprint& odd_print) const {
    std::string text = "mismatch:";
    for (uint32_t rank = 0; rank < context_.world(); ++rank) {
      Fingerprint print = odd_print;
      if (rank != odd && !is_same_call(rank, &print)) continue;
      text += fmt::format(" rank {} called {},", context_.team().number(rank), describe(print));
    }
    text.pop_back();
    return {KEEL_INVALID_ARGUMENT, text};
  }

  RankContext& context_;
  const uint64_t shown_;
  const Fingerprint print_;
};

// The address of a wire port, without the port.
std::string host_of(const std::string& address) {
  SocketAddress parsed;
  return SocketAddress::parse(address, &parsed) ? parsed.host() : address;
}

}  // namespace

HostRunner::HostRunner(RankContext& context, Runner& inner, const Selection& selection,
                       std::unique_ptr<HostGroup> group)
    : context_(context),
      inner_(inner),
      group_(std::move(group)),
      flat_(context, group_->wires(),
            {group_->rank(), group_->world(), group_->agreement().chunk_bytes}, group_->members()),
      lanes_(context, inner, selection, *group_),
      messages_(context, *group_),
      all_to_all_(context, inner, selection, *group_, flat_),
      rules_(fitting_host_rules(group_->agreement().rules, group_->world(),
                                static_cast<uint32_t>(group_->hosts().size()))) {}

uint32_t HostRunner::ranks_between(const Request& request) const {
  return lanes_.takes(request) ? static_cast<uint32_t>(group_->hosts().size()) : group_->world();
}

bool HostRunner::may_run(Algorithm algorithm, const Request& request) const {
  // In a lane, other forms of the collective run than the one that the caller named.
  const bool is_same = !lanes_.takes(request) || lanes_.keeps_form(request);
  if (algorithm == Algorithm::kAggregated && !all_to_all_.may_aggregate()) return false;
  return is_same && applies_between_hosts(algorithm, request.collective, ranks_between(request));
}

Algorithm HostRunner::choose(const Request& request) const {
  // The ranks of an all_to_all_v do not know how much the others send: what it does with short
  // blocks counts.
  return choose(request, bytes_of(request, group_->world()));
}

Algorithm HostRunner::choose(const Request& request, uint64_t bytes) const {
  const auto is_possible = [&](Algorithm algorithm) {
    if (!may_run(algorithm, request)) return false;
    return !is_stepped(algorithm) || !reduces(request.collective) ||
           !loses_by_parts(request.dtype, request.reduction);
  };
  if (const auto& forced = group_->agreement().algorithm) {
    return is_possible(*forced) ? *forced : Algorithm::kDirect;
  }
  const Rule* const rule = find_host_rule(rules_, request.collective, bytes, is_possible);
  if (rule != nullptr) return rule->algorithm;
  const HostSetting setting = {.world = group_->world(),
                               .between = ranks_between(request),
                               .shares_processors = group_->shares_processors()};
  return choose_between_hosts(request, bytes, setting, is_possible);
}

// ---- one operation --------------------------------------------------------------

Status HostRunner::run(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                       WaitContext& wait_context) {
  ++operations_;
  FlightRecorder::start(entry);
  if (!ready.ok()) return fail(request, operations_ - 1, {}, ready);
  const bool is_collective = request.collective != KEEL_SEND_RECV;
  ShownCall shown(context_, is_collective ? next_shown_++ : OperationBoard::kShownMessages,
                  told_print(request));
  WaitContext looking(wait_context, shown);
  WireWait wait(group_->wires(), group_->job().session(), context_.failures(), polls_, looking);
  const Status status =
      is_collective ? run_collective(request, wait) : run_messages(request, entry, wait);
  return status.ok() ? status : fail(request, operations_ - 1, leg(wait), status);
}

Status HostRunner::run_collective(const Request& request, WireWait& wait) {
  const auto begin = std::chrono::steady_clock::now();
  by_lanes_ = lanes_.takes(request);
  KEEL_RETURN_IF_ERROR(by_lanes_ ? lanes_.run(request, wait) : run_flat(request, wait));
  tell(request, by_lanes_ ? lanes_.executor() : flat_, by_lanes_,
       std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return {};
}

Status HostRunner::run_flat(const Request& request, WireWait& wait) {
  if (!HostAllToAll::takes(request)) return flat_.run(request, {}, wait);
  const auto may_carry = [&](uint64_t bytes) {
    return choose(request, bytes * group_->world()) == Algorithm::kAggregated;
  };
  return all_to_all_.run(request, may_carry, wait);
}

Status HostRunner::run_messages(const Request& request, FlightRecorder::Entry* entry,
                                WireWait& wait) {
  for (const Transfer& transfer : request.transfers) {
    if (transfer.refused != KEEL_OK) {
      return failure(transfer.refused, "a message with rank {} was refused", transfer.peer);
    }
  }
  // Messages within the host go through shared memory. Whether they do depends on the two ranks
  // alone, so both ends agree.
  std::vector<const Transfer*> remote;
  Request inside = request;
  inside.transfers.clear();
  for (const Transfer& transfer : request.transfers) {
    const std::optional<uint32_t> local = group_->find_local(transfer.peer);
    if (!local) {
      remote.push_back(&transfer);
      continue;
    }
    inside.transfers.push_back(transfer);
    inside.transfers.back().peer = *local;
  }
  KEEL_RETURN_IF_ERROR(messages_.start(remote, wait));
  if (!inside.transfers.empty() && remote.empty()) {
    KEEL_RETURN_IF_ERROR(inner_.run(inside, {}, entry, wait.context()));
  } else if (!inside.transfers.empty()) {
    WireWork work(messages_, wait);
    KEEL_RETURN_IF_ERROR(work.advance());
    WaitContext both(wait.context(), work);
    both.spin().spend();  // turns would keep the wires waiting
    KEEL_RETURN_IF_ERROR(inner_.run(inside, {}, entry, both));
    KEEL_RETURN_IF_ERROR(work.failure());
  }
  KEEL_RETURN_IF_ERROR(messages_.finish(wait));
  const WireSet::Traffic traffic = group_->wires().traffic();
  const std::lock_guard lock(mutex_);
  count(traffic);
  return {};
}

Status HostRunner::exchange(const SplitChoice& own, WaitContext& wait_context,
                            std::vector<SplitChoice>* out_all, uint64_t* out_number) {
  *out_number = exchanges_++;
  Fingerprint print;
  print.collective = kSplitCollective;
  ShownCall shown(context_, next_shown_++, print);
  WaitContext looking(wait_context, shown);
  WaitContext later(looking, context_.failures(), kHostGraceNs);
  WireWait between(group_->wires(), group_->job().session(), context_.failures(), polls_, later);
  const Status status = exchange_between_hosts(*group_, context_, kSplitCollective,
                                               HostMessages::kLane, own, looking, between, out_all);
  if (status.ok()) {
    const WireSet::Traffic traffic = group_->wires().traffic();
    const std::lock_guard lock(mutex_);
    count(traffic);
    return {};
  }
  Request request;
  request.collective = kSplitCollective;
  return fail(request, *out_number, leg(between), status);
}

// ---- failures -------------------------------------------------------------------

std::string HostRunner::name_mismatch(const Request& request) const {
  const HostExecutor& executor = by_lanes_ ? lanes_.executor() : flat_;
  std::map<uint32_t, Fingerprint> calls = {{group_->rank(), request.print}};
  bool differ = false;
  const auto note = [&](uint32_t rank, const Fingerprint& print) {
    calls[rank] = print;
    differ = differ || !(print == request.print);
  };
  for (const HostExecutor::Call& one : executor.calls()) {
    note(by_lanes_ ? lanes_.rank_of(one.rank) : one.rank, one.print);
  }
  for (const HostExecutor::Call& one : all_to_all_.calls()) note(one.rank, one.print);
  if (!differ) return {};
  std::vector<Fingerprint> prints;
  std::string text = "mismatch:";
  for (const auto& [rank, print] : calls) {
    text += fmt::format("{} rank {} called {}", prints.empty() ? "" : ",", rank, describe(print));
    prints.push_back(print);
  }
  // With the calls of all ranks, the odd one is known.
  return calls.size() == group_->world() ? check_fingerprints(prints).text() : text;
}

std::vector<uint32_t> HostRunner::awaited() const {
  std::vector<uint32_t> ranks = messages_.awaited();
  for (const uint32_t rank : flat_.awaited()) ranks.push_back(rank);
  for (const uint32_t rank : all_to_all_.awaited()) ranks.push_back(rank);
  for (const uint32_t index : lanes_.executor().awaited()) {
    ranks.push_back(lanes_.rank_of(index));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string HostRunner::name_awaited() const {
  std::vector<std::string> names;
  for (const uint32_t rank : awaited()) names.push_back(group_->name(rank));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HostRunner::leg(const WireWait& wait) const {
  const std::vector<uint32_t> ranks = awaited();
  if (!ranks.empty())
    return fmt::format("over {} with {}", group_->wires().name(), rank_list(ranks));
  const bool is_between = wait.has_failed() || !group_->wires().failure().ok();
  return is_between ? fmt::format("over {}", group_->wires().name())
                    : fmt::format("inside host '{}'", group_->host_name(group_->host()));
}

Status HostRunner::find_cause(const Status& status) {
  if (context_.failures().failed()) return context_.failures().status();
  const Status verdict = group_->job().session().failure();
  if (!verdict.ok()) return verdict;
  uint32_t peer = 0;
  const Status wire = group_->wires().failure(&peer);
  // Names the rank that left a connection unanswered.
  if (wire.code() == KEEL_TIMED_OUT) return wire;
  if (status.code() == KEEL_TIMED_OUT) {
    const std::string awaited = name_awaited();
    if (awaited.empty()) return status;
    const std::string text = awaited + " did not answer in time";
    if (context_.world() == 1) return {KEEL_TIMED_OUT, text};
    // A rank of this host may be the one that others wait for.
    return failure(KEEL_TIMED_OUT, "{}: {}", text,
                   describe_progress_of_all(context_.team(), context_.sequence));
  }
  if (wire.ok() || peer == UINT32_MAX) return status;  // no peer's wire
  // The end of another rank is often the cause: the job's server knows.
  return group_->job().session().report(peer, wire);
}

Status HostRunner::fail(const Request& request, uint64_t number, const std::string& leg,
                        const Status& status) {
  const auto operation =
      fmt::format("{}, operation {}", collective_name(request.collective), number);
  const bool is_judged = !group_->job().session().failure().ok();
  Status cause = status;
  const std::string mismatch =
      status.code() == KEEL_INVALID_ARGUMENT ? name_mismatch(request) : std::string();
  if (!mismatch.empty()) {
    cause = {KEEL_INVALID_ARGUMENT, mismatch};
  } else {
    cause = find_cause(status);
  }
  const bool is_first = !is_judged && !context_.failures().failed();
  const bool names_others = cause.code() == KEEL_TIMED_OUT || cause.code() == KEEL_RANK_FAILED ||
                            cause.code() == KEEL_INVALID_ARGUMENT;
  if (is_first && !names_others) cause = cause.with_prefix(group_->name(group_->rank()) + ": ");
  // The cause that another rank has found in the same operation names the operation already.
  const std::string_view text = cause.text();
  if (!text.starts_with(operation + ",") && !text.starts_with(operation + ":")) {
    cause = cause.with_prefix(operation + (leg.empty() ? ": " : ", " + leg + ": "));
  }
  if (is_judged) {
    group_->team()->abort(cause);  // the verdict may still be on its way to the team
  } else {
    // The first cause in the job wins. Of a part inside the host that has failed other hosts do not
    // know.
    group_->abort(cause);
  }
  group_->wires().cancel(cause);
  flat_.settle();
  lanes_.executor().settle();
  messages_.settle();
  all_to_all_.settle();
  context_.stage().settle();
  context_.team().await_acts();
  return cause;
}

// ---- statistics -----------------------------------------------------------------

void HostRunner::tell(const Request& request, const HostExecutor& executor, bool by_lanes,
                      double seconds) {
  const WireSet::Traffic traffic = group_->wires().traffic();
  const uint32_t rank = group_->rank();
  const uint32_t world = group_->world();
  const std::lock_guard lock(mutex_);
  has_last_ = true;
  last_.collective = request.collective;
  last_.bytes = std::max(request.send_bytes(rank, world), request.receive_bytes(rank, world));
  last_.algorithm = algorithm_name(request.algorithm);
  last_.by_lanes = by_lanes;
  last_.is_staged = executor.is_staged() ||
                    (request.algorithm == Algorithm::kAggregated && all_to_all_.is_staged());
  last_.rounds = executor.rounds();
  last_.round_bytes = executor.round_bytes();
  last_.seconds = seconds;
  count(traffic);
  stats_.staged = flat_.traffic();
  stats_.staged.to_host += lanes_.executor().traffic().to_host;
  stats_.staged.to_device += lanes_.executor().traffic().to_device;
}

void HostRunner::count(const WireSet::Traffic& traffic) {
  stats_.sent = traffic.bytes_sent;
  stats_.received = traffic.bytes_received;
  stats_.messages_sent = traffic.messages_sent;
  stats_.messages_received = traffic.messages_received;
}

HostRunner::Stats HostRunner::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void HostRunner::explain_choice(JsonWriter& json) const {
  constexpr uint64_t kLarge = 1 << 20;
  json.key("selection_key").begin_object();
  json.key("ranks").number(group_->world());
  json.key("reach").text(fmt::format("hosts:{}", group_->hosts().size()));
  json.key("cores").text("*");
  json.end_object();
  json.key("candidates").begin_object();
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    Request request;
    request.collective = static_cast<keel_collective>(i);
    request.count = kLarge;
    if (!find_chosen_collective(collective_name(request.collective))) continue;
    json.key(collective_name(request.collective)).begin_array();
    for (uint32_t j = 0; j < kAlgorithms; ++j) {
      const auto algorithm = static_cast<Algorithm>(j);
      if (may_run(algorithm, request)) json.text(algorithm_name(algorithm));
    }
    json.end_array();
  }
  json.end_object();
  json.key("measured_table").text(measured_table_path());
}

void HostRunner::explain(const std::function<void()>& write_inside, JsonWriter& json) const {
  Last last;
  bool has_last = false;
  Stats stats;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
    has_last = has_last_;
    stats = stats_;
  }
  const auto write_traffic = [&](uint64_t sent, uint64_t received) {
    json.begin_object();
    json.key("sent").number(sent);
    json.key("received").number(received);
    json.end_object();
  };
  const auto& forced = group_->agreement().algorithm;
  json.begin_object();
  json.key("world").number(group_->world());
  json.key("path").text("hosts");
  json.key("chunk_bytes").number(group_->agreement().chunk_bytes);
  json.key("algorithm").text(forced ? algorithm_name(*forced) : "built-in");
  explain_choice(json);
  json.key("hosts").begin_array();
  for (uint32_t host = 0; host < group_->hosts().size(); ++host) {
    json.begin_object();
    json.key("name").text(group_->host_name(host));
    json.key("ranks").begin_array();
    for (const uint32_t rank : group_->hosts()[host]) json.number(rank);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("shares_processors").boolean(group_->shares_processors());
  json.key("lanes").number(lanes_.size());
  lanes_.meter().explain(json);
  json.key("wire").text(group_->wires().name());
  json.key("interface");
  write_interface(group_->job().session().interface(), json);
  json.key("addresses").begin_array();
  for (const uint32_t member : group_->members()) {
    json.text(host_of(group_->job().table().ranks[member].address));
  }
  json.end_array();
  json.key("wire_bytes");
  write_traffic(stats.sent, stats.received);
  json.key("wire_messages");
  write_traffic(stats.messages_sent, stats.messages_received);
  json.key("last");
  if (has_last) {
    json.begin_object();
    json.key("operation").text(collective_name(last.collective));
    json.key("bytes").number(last.bytes);
    json.key("path").text(last.by_lanes ? "lanes" : "flat");
    json.key("algorithm").text(last.algorithm);
    json.key("steps").number(last.rounds);
    json.key("step_bytes").number(last.round_bytes);
    json.key("staged").boolean(last.is_staged);
    json.key("measured_ms").rounded(last.seconds * 1e3, 4);
    json.end_object();
  } else {
    json.null();
  }
  json.key("host");
  write_inside();
  json.end_object();
}

}  // namespace keel
