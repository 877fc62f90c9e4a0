// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <keel/parallel/report.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

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

// The time that |more| adds to |covered|, which gets it.
double add(std::vector<Interval>& covered, const std::vector<Interval>& more) {
  const double before = length(covered);
  covered.insert(covered.end(), more.begin(), more.end());
  covered = merged(std::move(covered));
  return length(covered) - before;
}

// One end of a message or collective: its kind at the sender, the stage that sends, micro-batch.
using Key = std::tuple<SpanKind, uint32_t, uint32_t>;
Key key_of(const Span& span) {
  switch (span.kind) {
    case SpanKind::kReceive:
      return {SpanKind::kSend, span.stage - 1, span.micro_batch};
    case SpanKind::kReceiveGradient:
      return {SpanKind::kSendGradient, span.stage + 1, span.micro_batch};
    default:
      return {span.kind, span.stage, span.micro_batch};
  }
}

// When the last rank of each message or collective called it.
std::map<Key, double> latest_calls(std::span<const RankSteps> ranks) {
  std::map<Key, double> latest;
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) {
      if (!is_communication(span.kind)) continue;
      const auto [entry, is_new] = latest.try_emplace(key_of(span), span.begin);
      if (!is_new) entry->second = std::max(entry->second, span.begin);
    }
  }
  return latest;
}

TimeShares shares_of(const RankSteps& rank, double seconds, double bubble,
                     const std::map<Key, double>& calls) {
  std::vector<Interval> compute, recompute, loader, communication;
  for (const Span& span : rank.spans) {
    if (span.kind == SpanKind::kRecompute) recompute.push_back({span.begin, span.end});
    if (is_compute(span.kind)) compute.push_back({span.begin, span.end});
    if (span.kind == SpanKind::kLoader) loader.push_back({span.begin, span.end});
    if (is_communication(span.kind)) {
      communication.push_back({std::max(span.begin, calls.at(key_of(span))), span.end});
    }
  }
  TimeShares shares;
  std::vector<Interval> covered;
  const double busy = add(covered, merged(std::move(compute)));
  shares.recompute = length(merged(std::move(recompute)));
  shares.compute = busy - shares.recompute;
  shares.loader = add(covered, merged(std::move(loader)));
  shares.communication = add(covered, merged(std::move(communication)));
  const double idle = std::max(seconds - length(covered), 0.0);
  shares.bubble = std::min(idle, bubble * seconds);
  shares.imbalance = idle - shares.bubble;
  for (double* share : {&shares.compute, &shares.recompute, &shares.loader, &shares.communication,
                        &shares.bubble, &shares.imbalance}) {
    *share = seconds == 0 ? 0 : *share / seconds;
  }
  return shares;
}

nlohmann::ordered_json to_json(const TimeShares& shares) {
  return {{"compute", shares.compute}, {"recompute", shares.recompute},
          {"loader", shares.loader},   {"communication", shares.communication},
          {"bubble", shares.bubble},   {"imbalance", shares.imbalance}};
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), pattern, values...);
  return line.data();
}

std::string line_of(const std::string& name, const TimeShares& shares, double mfu) {
  std::string line =
      format("%-16s %8.1f %9.1f %6.1f %13.1f %6.1f %9.1f", name.c_str(), 100 * shares.compute,
             100 * shares.recompute, 100 * shares.loader, 100 * shares.communication,
             100 * shares.bubble, 100 * shares.imbalance);
  line += mfu > 0 ? format(" %6.1f\n", 100 * mfu) : "      -\n";
  return line;
}

}  // namespace

StepReport analyse(std::span<const RankSteps> ranks, double bubble) {
  StepReport report;
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) report.seconds = std::max(report.seconds, span.end);
  }
  const std::map<Key, double> calls = latest_calls(ranks);
  std::map<std::pair<uint32_t, uint32_t>, double> busy;  // by stage and rank
  double flops = 0;
  double roof = 0;
  bool knows_all = true;
  for (uint32_t number = 0; number < ranks.size(); ++number) {
    const RankSteps& rank = ranks[number];
    RankReport& entry = report.ranks.emplace_back();
    entry.device = rank.device;
    entry.shares = shares_of(rank, report.seconds, bubble, calls);
    const bool knows = rank.model_flops > 0 && rank.peak_flops_per_s > 0 && report.seconds > 0;
    if (knows) entry.mfu = rank.model_flops / (report.seconds * rank.peak_flops_per_s);
    knows_all &= knows;
    flops += rank.model_flops;
    roof += rank.peak_flops_per_s;
    for (const Span& span : rank.spans) {
      if (span.kind <= SpanKind::kBackwardWeight) {
        busy[{span.stage, number}] += span.end - span.begin;
      }
    }
    const double share = 1.0 / static_cast<double>(ranks.size());
    report.mean.compute += share * entry.shares.compute;
    report.mean.recompute += share * entry.shares.recompute;
    report.mean.loader += share * entry.shares.loader;
    report.mean.communication += share * entry.shares.communication;
    report.mean.bubble += share * entry.shares.bubble;
    report.mean.imbalance += share * entry.shares.imbalance;
  }
  if (knows_all && !ranks.empty()) report.mfu = flops / (report.seconds * roof);
  for (const auto& [key, seconds] : busy) report.stages.push_back({key.first, key.second, seconds});
  return report;
}

std::string text(const StepReport& report) {
  std::string lines = format("step of %.3f ms; shares in %%\n", 1e3 * report.seconds);
  lines += "rank              compute recompute loader communication bubble imbalance    MFU\n";
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankReport& entry = report.ranks[rank];
    lines += line_of(std::to_string(rank) + " " + entry.device, entry.shares, entry.mfu);
  }
  lines += line_of("mean", report.mean, report.mfu);
  for (const StageReport& stage : report.stages) {
    lines += format("stage %u on rank %u: busy %.3f ms\n", stage.stage, stage.rank,
                    1e3 * stage.busy_seconds);
  }
  return lines;
}

std::string json(const StepReport& report) {
  nlohmann::ordered_json whole = {{"seconds", report.seconds},
                                  {"mfu", report.mfu},
                                  {"mean", to_json(report.mean)},
                                  {"ranks", nlohmann::ordered_json::array()},
                                  {"stages", nlohmann::ordered_json::array()}};
  for (const RankReport& rank : report.ranks) {
    nlohmann::ordered_json entry = {{"device", rank.device}, {"mfu", rank.mfu}};
    entry.update(to_json(rank.shares));
    whole["ranks"].push_back(entry);
  }
  for (const StageReport& stage : report.stages) {
    whole["stages"].push_back(
        {{"stage", stage.stage}, {"rank", stage.rank}, {"busy_seconds", stage.busy_seconds}});
  }
  return whole.dump(2);
}

}  // namespace v0
}  // namespace keel::parallel
