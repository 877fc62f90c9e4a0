// SPDX-License-Identifier: Apache-2.0
#include "emulator/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace keel::emulator {
namespace {

constexpr const char* kCallNames[kCallKinds] = {"alloc", "stream", "copy", "fill",
                                                "op",    "record", "ccl"};

constexpr double kSlowest = 1e6;

using Action = Fault::Action;
constexpr struct {
  const char* name;
  Action action;
} kActions[] = {{"lose", Action::kLose},   {"refuse", Action::kRefuse},
                {"fail", Action::kFail},   {"corrupt", Action::kCorrupt},
                {"stall", Action::kStall}, {"slow", Action::kSlow}};

template <typename Number>
bool read_number(std::string_view text, Number* out_number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *out_number);
  return !text.empty() && error == std::errc() && rest == end;
}

// Splits |text| at the last |mark|; returns the part after it.
std::optional<std::string_view> cut(std::string_view* text, char mark) {
  const size_t at = text->rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = text->substr(at + 1);
  *text = text->substr(0, at);
  return behind;
}

bool is_host_call(CallKind kind) {
  return kind == CallKind::kAlloc || kind == CallKind::kStream;
}

// Returns why the members of |fault| conflict; NULL if they are valid together.
const char* objection(const Fault& fault) {
  if (fault.action != Action::kLose && fault.action != Action::kSlow && !fault.kind) {
    return "needs a kind of call, as in copy";
  }
  if (fault.action == Action::kSlow) {
    if (fault.nth != 0) return "takes no @N";
    if (!(fault.argument >= 1 && fault.argument <= 1000)) return "needs =X from 1 to 1000";
  } else if (fault.nth == 0) {
    return "needs @N from 1";
  }
  if (fault.action == Action::kStall) {
    if (fault.argument < 0 || fault.argument > 1e6) return "stalls for up to 1000000 ms";
  } else if (fault.action != Action::kSlow && fault.argument != 0) {
    return "takes no argument";
  }
  if (fault.kind && is_host_call(*fault.kind) && fault.action != Action::kLose &&
      fault.action != Action::kRefuse) {
    return "is for calls on a stream";
  }
  if (fault.action == Action::kCorrupt && fault.kind == CallKind::kRecord) {
    return "needs a call with a result";
  }
  return nullptr;
}

Status parse_fault(std::string_view whole, Fault* out_fault) {
  const auto refuse = [&](const char* why) {
    return Status(Code::kInvalidArgument, fmt::format("fault '{}' {}", whole.substr(0, 64), why));
  };
  Fault fault = {};
  std::string_view text = whole;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    uint32_t device = 0;
    if (!read_number(text.substr(0, slash), &device)) return refuse("names no device before /");
    fault.device = device;
    text.remove_prefix(slash + 1);
  }
  if (const auto argument = cut(&text, '=')) {
    if (!read_number(*argument, &fault.argument) || !std::isfinite(fault.argument) ||
        fault.argument <= 0) {
      return refuse("has no number above 0 behind =");
    }
  }
  if (auto nth = cut(&text, '@')) {
    if (nth->ends_with('+')) {
      fault.onward = true;
      nth->remove_suffix(1);
    }
    if (!read_number(*nth, &fault.nth)) return refuse("has no number behind @");
  }
  if (const auto kind = cut(&text, ':')) {
    for (size_t i = 0; i < kCallKinds; ++i) {
      if (*kind == kCallNames[i]) fault.kind = static_cast<CallKind>(i);
    }
    if (!fault.kind) return refuse("has no kind of call behind :");
  }
  bool known = false;
  for (const auto& [name, action] : kActions) {
    if (text != name) continue;
    fault.action = action;
    known = true;
  }
  if (!known) return refuse("does nothing known");
  if (const char* const why = objection(fault)) return refuse(why);
  *out_fault = fault;
  return {};
}

}  // namespace

const char* call_name(CallKind kind) {
  return kCallNames[static_cast<size_t>(kind)];
}

std::string Injection::call() const {
  return fmt::format("{} {}", call_name(kind), number);
}

Status parse_faults(std::string_view text, std::vector<Fault>* out_faults) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    Fault fault;
    Status status = parse_fault(text.substr(0, comma), &fault);
    if (!status.ok()) return status;
    faults.push_back(fault);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  *out_faults = std::move(faults);
  return {};
}

FaultPlan::FaultPlan(const std::vector<Fault>& faults, uint32_t device) {
  for (const Fault& fault : faults) {
    if (!fault.device || *fault.device == device) faults_.push_back(fault);
  }
}

Injection FaultPlan::next(CallKind kind) {
  Injection injection;
  injection.kind = kind;
  if (faults_.empty()) return injection;
  injection.number = ++counts_[static_cast<size_t>(kind)];
  const uint64_t total = ++total_;
  for (const Fault& fault : faults_) {
    if (fault.kind && *fault.kind != kind) continue;
    if (fault.action == Action::kSlow) {
      injection.slow = std::min(injection.slow * fault.argument, kSlowest);
      continue;
    }
    const uint64_t number = fault.kind ? injection.number : total;
    if (fault.onward ? number < fault.nth : number != fault.nth) continue;
    switch (fault.action) {
      case Action::kLose:
        injection.lose = true;
        break;
      case Action::kRefuse:
        injection.refuse = true;
        break;
      case Action::kFail:
        injection.fail = true;
        break;
      case Action::kCorrupt:
        injection.corrupt = true;
        break;
      case Action::kStall:
        injection.stall = true;
        injection.stall_for = Duration(static_cast<int64_t>(fault.argument * 1e6));
        break;
      case Action::kSlow:
        break;
    }
  }
  return injection;
}

}  // namespace keel::emulator
