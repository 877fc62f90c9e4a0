// SPDX-License-Identifier: Apache-2.0
// The runner's side of a case: reruns the case body without a device, on the observations that the
// worker sent. A plugin cannot forge a verdict, because the worker sends none.
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

// All cases for the target that a worker found, as the runner sees them. Any thread may read the
// object.
class JudgedCases {
 public:
  JudgedCases(const Found& found, const PluginChoice& choice, uint64_t seed,
              uint32_t timeout_seconds);

  const std::vector<Case>& all() const { return cases_; }
  // Returns NULL if no case has |id|.
  const Case* find(const std::string& id) const { return index_.find(id); }
  // Computes the result of |each| from the answers of |next|, up to the end of the case in the
  // worker. If |next| throws, judge() rethrows and sets |out_place| to the suite line whose
  // observation was due.
  CaseResult judge(const Case& each, const std::function<WorkerAnswer()>& next,
                   std::optional<Where>* out_place) const;

 private:
  const Environment environment_;
  const std::vector<Case> cases_;
  const CaseIndex index_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_JUDGE_H_
