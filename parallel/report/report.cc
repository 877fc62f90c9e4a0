// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <keel/parallel/report.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "parallel/report/calls.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

struct Interval {
  double begin, end;
};

// Sorted and without overlaps.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (result.empty() || interval.begin > result.back().end) {
      result.push_back(interval);
    } else {
      result.back().end = std::max(result.back().end, interval.end);
    }
  }
  return result;
}

double length(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

// |intervals| without |taken|; both sorted and without overlaps.
std::vector<Interval> without(const std::vector<Interval>& intervals,
                              const std::vector<Interval>& taken) {
  std::vector<Interval> rest;
  size_t next = 0;
  for (const Interval& interval : intervals) {
    double begin = interval.begin;
    while (next < taken.size() && taken[next].end <= begin) ++next;
    for (size_t i = next; i < taken.size() && taken[i].begin < interval.end; ++i) {
      if (taken[i].begin > begin) rest.push_back({begin, taken[i].begin});
      begin = std::max(begin, taken[i].end);
    }
    if (begin < interval.end) rest.push_back({begin, interval.end});
  }
  return rest;
}

// The time that |more| adds to |covered|, which gets it.
double add(std::vector<Interval>& covered, const std::vector<Interval>& more) {
  const double before = length(covered);
  covered.insert(covered.end(), more.begin(), more.end());
  covered = merged(std::move(covered));
  return length(covered) - before;
}

template <typename Predicate>
std::vector<Interval> intervals_of(std::span<const Span> spans, const Predicate& is_wanted) {
  std::vector<Interval> intervals;
  for (const Span& span : spans) {
    if (is_wanted(span)) intervals.push_back({span.begin, span.end});
  }
  return merged(std::move(intervals));
}

// A rank's time by use.
struct Use {
  explicit Use(std::span<const Span> spans)
      : blocked(intervals_of(spans, [](const Span& span) { return span.blocks; })),
        passes(without(intervals_of(spans,
                                    [](const Span& span) {
                                      return is_pass(span.kind) ||
                                             span.kind == SpanKind::kRecompute;
                                    }),
                       blocked)),
        recompute(without(
            intervals_of(spans, [](const Span& s) { return s.kind == SpanKind::kRecompute; }),
            blocked)),
        optimizer(without(
            intervals_of(spans, [](const Span& s) { return s.kind == SpanKind::kOptimizer; }),
            blocked)),
        loader(intervals_of(spans, [](const Span& s) { return s.kind == SpanKind::kLoader; })) {}

  std::vector<Interval> blocked;            // the stream of the passes does not compute
  std::vector<Interval> passes, recompute;  // the second lies in the first
  std::vector<Interval> optimizer, loader;
};

TimeShares shares_of(std::span<const Span> spans, const Use& use, double seconds, double bubble,
                     const Calls& calls) {
  std::vector<Interval> communication;
  for (const Span& span : spans) {
    if (is_communication(span.kind)) communication.push_back({calls.begin_of(span), span.end});
  }
  TimeShares shares;
  std::vector<Interval> covered;
  const double passes = add(covered, use.passes);
  shares.recompute = length(use.recompute);
  shares.compute = passes - shares.recompute;
  shares.optimizer = add(covered, use.optimizer);
  shares.loader = add(covered, use.loader);
  shares.communication = add(covered, merged(std::move(communication)));
  const double idle = std::max(seconds - length(covered), 0.0);
  shares.bubble = std::min(idle, bubble * seconds);
  shares.imbalance = idle - shares.bubble;
  for (double* share : {&shares.compute, &shares.recompute, &shares.optimizer, &shares.loader,
                        &shares.communication, &shares.bubble, &shares.imbalance}) {
    *share = seconds == 0 ? 0 : *share / seconds;
  }
  return shares;
}

void add_stages(std::span<const Span> spans, const Use& use, uint32_t rank,
                std::vector<StageReport>& stages) {
  std::map<uint32_t, StageReport> found;
  for (const Span& span : spans) {
    if (is_pass(span.kind)) found.try_emplace(span.stage);
  }
  for (auto& [stage, report] : found) {
    const auto passes = intervals_of(spans, [stage = stage](const Span& span) {
      return is_pass(span.kind) && span.stage == stage;
    });
    const auto again = intervals_of(spans, [stage = stage](const Span& span) {
      return span.kind == SpanKind::kRecompute && span.stage == stage;
    });
    report.stage = stage;
    report.rank = rank;
    report.busy_seconds = length(without(passes, use.blocked));
    report.recompute_seconds = length(without(again, use.blocked));
    report.blocked_seconds = length(passes) - report.busy_seconds;
    stages.push_back(report);
  }
}

void add_communication(std::span<const Span> spans, const Use& use, const Calls& calls,
                       std::map<SpanKind, CommunicationReport>& reports) {
  std::vector<Interval> busy = use.passes;
  add(busy, use.optimizer);
  std::map<SpanKind, std::vector<Interval>> ways;
  for (const Span& span : spans) {
    if (!is_communication(span.kind)) continue;
    ++reports[span.kind].spans;
    ways[span.kind].push_back({calls.begin_of(span), span.end});
  }
  for (auto& [kind, intervals] : ways) {
    const std::vector<Interval> way = merged(std::move(intervals));
    CommunicationReport& report = reports[kind];
    report.kind = kind;
    report.seconds += length(way);
    report.exposed_seconds += length(without(way, busy));
  }
}

nlohmann::ordered_json to_json(const TimeShares& shares) {
  return {{"compute", shares.compute},
          {"recompute", shares.recompute},
          {"optimizer", shares.optimizer},
          {"loader", shares.loader},
          {"communication", shares.communication},
          {"bubble", shares.bubble},
          {"imbalance", shares.imbalance}};
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), pattern, values...);
  return line.data();
}

std::string line_of(const std::string& name, const TimeShares& shares, double mfu) {
  std::string line =
      format("%-16s %8.1f %9.1f %9.1f %6.1f %13.1f %6.1f %9.1f", name.c_str(), 100 * shares.compute,
             100 * shares.recompute, 100 * shares.optimizer, 100 * shares.loader,
             100 * shares.communication, 100 * shares.bubble, 100 * shares.imbalance);
  line += mfu > 0 ? format(" %6.1f\n", 100 * mfu) : "      -\n";
  return line;
}

}  // namespace

double computing_seconds(std::span<const Span> spans) {
  return length(Use(spans).passes);
}

StepReport analyse(std::span<const RankSteps> ranks, double bubble) {
  StepReport report;
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) report.seconds = std::max(report.seconds, span.end);
  }
  const Calls calls(ranks);
  std::map<SpanKind, CommunicationReport> communication;
  double flops = 0;
  double roof = 0;
  bool knows_all = true;
  for (uint32_t number = 0; number < ranks.size(); ++number) {
    const RankSteps& rank = ranks[number];
    RankReport& entry = report.ranks.emplace_back();
    entry.device = rank.device;
    const Use use(rank.spans);
    entry.shares = shares_of(rank.spans, use, report.seconds, bubble, calls);
    add_stages(rank.spans, use, number, report.stages);
    add_communication(rank.spans, use, calls, communication);
    const bool knows = rank.model_flops > 0 && rank.peak_flops_per_s > 0 && report.seconds > 0;
    if (knows) entry.mfu = rank.model_flops / (report.seconds * rank.peak_flops_per_s);
    knows_all &= knows;
    flops += rank.model_flops;
    roof += rank.peak_flops_per_s;
    const double share = 1.0 / static_cast<double>(ranks.size());
    report.mean.compute += share * entry.shares.compute;
    report.mean.recompute += share * entry.shares.recompute;
    report.mean.optimizer += share * entry.shares.optimizer;
    report.mean.loader += share * entry.shares.loader;
    report.mean.communication += share * entry.shares.communication;
    report.mean.bubble += share * entry.shares.bubble;
    report.mean.imbalance += share * entry.shares.imbalance;
  }
  if (knows_all && !ranks.empty()) report.mfu = flops / (report.seconds * roof);
  std::stable_sort(report.stages.begin(), report.stages.end(),
                   [](const StageReport& a, const StageReport& b) { return a.stage < b.stage; });
  for (const auto& [kind, entry] : communication) report.communication.push_back(entry);
  return report;
}

std::string text(const StepReport& report) {
  std::string lines = format("step of %.3f ms; shares in %%\n", 1e3 * report.seconds);
  lines +=
      "rank              compute recompute optimizer loader communication bubble imbalance    "
      "MFU\n";
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankReport& entry = report.ranks[rank];
    lines += line_of(std::to_string(rank) + " " + entry.device, entry.shares, entry.mfu);
  }
  lines += line_of("mean", report.mean, report.mfu);
  for (const StageReport& stage : report.stages) {
    lines += format("stage %u on rank %u: busy %.3f ms, of it recompute %.3f ms; blocked %.3f ms\n",
                    stage.stage, stage.rank, 1e3 * stage.busy_seconds,
                    1e3 * stage.recompute_seconds, 1e3 * stage.blocked_seconds);
  }
  for (const CommunicationReport& entry : report.communication) {
    lines += format("%s: %llu spans, %.3f ms on the way, of it %.3f ms exposed\n",
                    name_of(entry.kind), static_cast<unsigned long long>(entry.spans),
                    1e3 * entry.seconds, 1e3 * entry.exposed_seconds);
  }
  return lines;
}

std::string json(const StepReport& report) {
  nlohmann::ordered_json whole = {{"seconds", report.seconds},
                                  {"mfu", report.mfu},
                                  {"mean", to_json(report.mean)},
                                  {"ranks", nlohmann::ordered_json::array()},
                                  {"stages", nlohmann::ordered_json::array()},
                                  {"communication", nlohmann::ordered_json::array()}};
  for (const RankReport& rank : report.ranks) {
    nlohmann::ordered_json entry = {{"device", rank.device}, {"mfu", rank.mfu}};
    entry.update(to_json(rank.shares));
    whole["ranks"].push_back(entry);
  }
  for (const StageReport& stage : report.stages) {
    whole["stages"].push_back({{"stage", stage.stage},
                               {"rank", stage.rank},
                               {"busy_seconds", stage.busy_seconds},
                               {"recompute_seconds", stage.recompute_seconds},
                               {"blocked_seconds", stage.blocked_seconds}});
  }
  for (const CommunicationReport& entry : report.communication) {
    whole["communication"].push_back({{"kind", name_of(entry.kind)},
                                      {"spans", entry.spans},
                                      {"seconds", entry.seconds},
                                      {"exposed_seconds", entry.exposed_seconds}});
  }
  return whole.dump(2);
}

}  // namespace v0
}  // namespace keel::parallel
