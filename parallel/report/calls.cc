// SPDX-License-Identifier: Apache-2.0
#include "parallel/report/calls.h"

#include <algorithm>

namespace keel::parallel {

Calls::Calls(std::span<const RankSteps> ranks) {
  for (const RankSteps& rank : ranks) {
    for (const Span& span : rank.spans) {
      if (!is_communication(span.kind)) continue;
      const auto [entry, is_new] = latest_.try_emplace(key_of(span), span.begin);
      if (!is_new) entry->second = std::max(entry->second, span.begin);
    }
  }
}

Calls::Key Calls::key_of(const Span& span) {
  switch (span.kind) {
    case SpanKind::kReceive:
      return {SpanKind::kSend, span.stage - 1, span.micro_batch, span.group, 0};
    case SpanKind::kReceiveGradient:
      return {SpanKind::kSendGradient, span.stage + 1, span.micro_batch, span.group, 0};
    case SpanKind::kSend:
    case SpanKind::kSendGradient:
      return {span.kind, span.stage, span.micro_batch, span.group, 0};
    default:
      return {span.kind, 0, 0, span.group, span.sequence};
  }
}

double Calls::begin_of(const Span& span) const {
  return std::min(latest_.at(key_of(span)), span.end);
}

}  // namespace keel::parallel
