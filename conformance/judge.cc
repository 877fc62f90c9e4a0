// SPDX-License-Identifier: Apache-2.0
#include "conformance/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "conformance/harness.h"

namespace keel::conformance {

namespace {

constexpr const char* kKinds[kObservationKinds] = {"a status", "a text", "a value", "a time",
                                                   "bytes"};

// Thrown when the body ended in the worker but continues in the judge.
struct EndedInWorker {};

// Replays the worker's observations to the body, in order.
class Bench : public Observer {
 public:
  Bench(const std::function<WorkerAnswer()>& next, std::optional<Where>* out_place)
      : next_(next), place_(*out_place) {}

  bool is_judge() const override { return true; }

  void cross(ObservationKind kind, std::span<std::byte> bytes, const Where& where) override {
    place_ = where;
    const WorkerAnswer answer = take();
    const Observation& seen = answer.observation;
    if (seen.kind != kind || seen.line != where.line() || seen.bytes.size() != bytes.size()) {
      throw CaseFailure(fmt::format(
          "the worker reports {} of {} bytes of line {}, where {} of {} bytes is due ({})",
          kKinds[static_cast<size_t>(seen.kind)], seen.bytes.size(), seen.line,
          kKinds[static_cast<size_t>(kind)], bytes.size(), where.text()));
    }
    std::copy(seen.bytes.begin(), seen.bytes.end(), bytes.begin());
    if (kind == ObservationKind::kBytes) {
      evidence_.bytes += bytes.size();
    } else {
      ++evidence_.words;
    }
  }

  // Skips the rest of the case and returns its end.
  const WorkerAnswer& await_end() {
    while (!end_) try_take();
    return *end_;
  }
  const Evidence& evidence() const { return evidence_; }

 private:
  WorkerAnswer take() {
    std::optional<WorkerAnswer> answer;
    while (!end_ && !(answer = try_take())) {
    }
    if (!answer) throw EndedInWorker();
    return std::move(*answer);
  }
  std::optional<WorkerAnswer> try_take() {
    WorkerAnswer answer = next_();
    if (answer.type == WorkerAnswer::Type::kObservation) return answer;
    if (answer.type == WorkerAnswer::Type::kEnd) end_ = std::move(answer);
    return std::nullopt;
  }

  const std::function<WorkerAnswer()>& next_;
  std::optional<Where>& place_;
  std::optional<WorkerAnswer> end_;
  Evidence evidence_;
};

// The outcome of the judge's run of the body; absent if the worker's run ended first.
struct Finding {
  Outcome outcome = Outcome::kPass;
  std::string text;
};

std::optional<Finding> find(const Case& each, const Context& context, Bench& bench) {
  const ObserverScope scope(&bench);
  try {
    run_body(each, context);
    return Finding{Outcome::kPass, take_notes()};
  } catch (const EndedInWorker&) {
    return std::nullopt;
  } catch (const CaseUnsupported& reason) {
    return Finding{Outcome::kUnsupported, reason.what()};
  } catch (const CaseFailure& failure) {
    return Finding{Outcome::kFail, failure.what()};
  }
}

// A case passes only if its checks hold on the observations and the body did not fail in the
// worker.
Finding settle(std::optional<Finding> found, const WorkerAnswer& end) {
  if (found && found->outcome == Outcome::kFail) return *found;
  if (end.how == BodyEnd::kFailed) return {Outcome::kFail, end.text};
  const bool unsupported = end.how == BodyEnd::kUnsupported;
  if (found && (found->outcome == Outcome::kUnsupported) == unsupported) return *found;
  return {Outcome::kFail, fmt::format("the worker {}, which what it reports does not bear out",
                                      unsupported ? "calls the case unsupported: " + end.text
                                                  : std::string("ran to the end of the case"))};
}

}  // namespace

JudgedCases::JudgedCases(const Found& found, const PluginChoice& choice, uint64_t seed,
                         uint32_t timeout_seconds)
    : environment_(judges_environment(found, choice, seed, timeout_seconds)),
      cases_(make_catalogue(environment_)),
      index_(cases_) {}

CaseResult JudgedCases::judge(const Case& each, const std::function<WorkerAnswer()>& next,
                              std::optional<Where>* out_place) const {
  Bench bench(next, out_place);
  const auto found = conformance::find(each, Context{environment_, each.id}, bench);
  const WorkerAnswer& end = bench.await_end();
  Finding settled = settle(found, end);
  return {each.id, settled.outcome, end.seconds, std::move(settled.text), bench.evidence()};
}

}  // namespace keel::conformance
