// SPDX-License-Identifier: Apache-2.0
// The runner's side of a case: its body once more, without a device, on what the worker observed.
// A plugin writes no verdict, since none crosses.
#ifndef KEEL_CONFORMANCE_JUDGE_H_
#define KEEL_CONFORMANCE_JUDGE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/catalogue.h"
#include "conformance/environment.h"
#include "conformance/protocol.h"
#include "conformance/result.h"

namespace keel::conformance {

// All cases there are for what a worker found, as the runner has them. Any thread may read it.
class JudgedCases {
 public:
  JudgedCases(const Found& found, const PluginChoice& choice, uint64_t seed,
              uint32_t timeout_seconds);

  const std::vector<Case>& all() const { return cases_; }
  // NULL where there is none.
  const Case* find(const std::string& id) const { return index_.find(id); }
  // The result of |each| by what |next| gives, up to the case's end in the worker. |next| may
  // throw, and judge() then throws the same, with the line of the suite that was to be reported
  // next in |out_place|.
  CaseResult judge(const Case& each, const std::function<WorkerAnswer()>& next,
                   std::optional<Where>* out_place) const;

 private:
  const Environment environment_;
  const std::vector<Case> cases_;
  const CaseIndex index_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_JUDGE_H_
