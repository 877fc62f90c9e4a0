// SPDX-License-Identifier: Apache-2.0
#include "conformance/observation.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

namespace keel::conformance {

namespace {

thread_local Observer* t_observer = nullptr;

template <typename T>
void cross(ObservationKind kind, T* value, const Where& where) {
  if (t_observer != nullptr) {
    t_observer->cross(kind, std::as_writable_bytes(std::span(value, 1)), where);
  }
}

}  // namespace

std::string Where::text() const {
  const std::string_view file = file_;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line_);
}

ObserverScope::ObserverScope(Observer* observer) {
  t_observer = observer;
}

ObserverScope::~ObserverScope() {
  t_observer = nullptr;
}

bool judging() {
  return t_observer != nullptr && t_observer->is_judge();
}

bool judged_elsewhere() {
  return t_observer != nullptr && !t_observer->is_judge();
}

void observe_bytes(std::span<std::byte> bytes, Where where) {
  if (t_observer != nullptr) t_observer->cross(ObservationKind::kBytes, bytes, where);
}

void observe_value(std::span<std::byte> value, const Where& where) {
  if (t_observer != nullptr) t_observer->cross(ObservationKind::kValue, value, where);
}

keel_status observe_status(keel_status status, Where where) {
  cross(ObservationKind::kStatus, &status, where);
  return status;
}

std::string observe_text(std::string text, Where where) {
  constexpr uint64_t kLongest = 16384;
  if (text.size() > kLongest) text.resize(kLongest);
  text.resize(observe(uint64_t{text.size()}, where));
  if (t_observer != nullptr && !text.empty()) {
    t_observer->cross(ObservationKind::kText, std::as_writable_bytes(std::span(text)), where);
  }
  return text;
}

int64_t observe_now(Where where) {
  using std::chrono::steady_clock;
  int64_t now = std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
  cross(ObservationKind::kTime, &now, where);
  return now;
}

}  // namespace keel::conformance
