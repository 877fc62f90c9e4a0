// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <keel/parallel/mesh.hpp>

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

[[noreturn]] void refuse(std::string_view text, const std::string& complaint) {
  throw Error(KEEL_INVALID_ARGUMENT, "mesh \"" + std::string(text) + "\": " + complaint);
}

// The parts of |text| between |separator|s.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// -1 unless |text| is a number of digits alone.
int64_t number_of(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool complete = error == std::errc() && end == text.data() + text.size();
  return complete && value >= 0 ? value : -1;
}

}  // namespace

MeshShape MeshShape::parse(std::string_view text) {
  MeshShape shape;
  const size_t at = text.find('@');
  int64_t size = 1;
  for (const std::string_view part : split(text.substr(0, at), ',')) {
    const size_t equals = part.find('=');
    const std::string name(part.substr(0, equals));
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(),
                                                      [](char c) { return c >= 'a' && c <= 'z'; });
    if (equals == std::string_view::npos || !is_name) {
      refuse(text, "\"" + std::string(part) + "\" is no axis: an axis is NAME=SIZE");
    }
    const int64_t count = number_of(part.substr(equals + 1));
    if (count < 1 || count > kMaxRanks) {
      refuse(text, "axis " + name + " has no size of 1 to " + std::to_string(kMaxRanks));
    }
    for (const Axis& axis : shape.axes_) {
      if (axis.name == name) refuse(text, "axis " + name + " comes twice");
    }
    shape.axes_.push_back({name, count});
    size *= count;
    if (size > kMaxRanks) refuse(text, "more than " + std::to_string(kMaxRanks) + " ranks");
  }
  shape.ranks_.resize(static_cast<size_t>(size));
  shape.places_.assign(static_cast<size_t>(size), -1);
  for (size_t i = 0; i < shape.ranks_.size(); ++i) shape.ranks_[i] = static_cast<int64_t>(i);
  if (at != std::string_view::npos) {
    const std::vector<std::string_view> ranks = split(text.substr(at + 1), ',');
    if (ranks.size() != shape.ranks_.size()) {
      refuse(text, std::to_string(ranks.size()) + " ranks behind @ for axes of " +
                       std::to_string(size) + " ranks");
    }
    for (size_t i = 0; i < ranks.size(); ++i) shape.ranks_[i] = number_of(ranks[i]);
  }
  for (size_t i = 0; i < shape.ranks_.size(); ++i) {
    const int64_t rank = shape.ranks_[i];
    if (rank < 0 || rank >= size) {
      refuse(text, "a rank behind @ is not in 0 to " + std::to_string(size - 1));
    }
    int64_t& place = shape.places_[static_cast<size_t>(rank)];
    if (place >= 0) refuse(text, "rank " + std::to_string(rank) + " comes twice");
    place = static_cast<int64_t>(i);
  }
  return shape;
}

int64_t MeshShape::size() const {
  return static_cast<int64_t>(ranks_.size());
}

int64_t MeshShape::size_of(std::string_view axis) const {
  for (const Axis& each : axes_) {
    if (each.name == axis) return each.size;
  }
  return 1;
}

std::vector<int64_t> MeshShape::coordinates(int64_t rank) const {
  std::vector<int64_t> found(axes_.size());
  int64_t place = places_.at(static_cast<size_t>(rank));
  for (size_t i = axes_.size(); i-- > 0;) {
    found[i] = place % axes_[i].size;
    place /= axes_[i].size;
  }
  return found;
}

int64_t MeshShape::coordinate(int64_t rank, std::string_view axis) const {
  const std::vector<int64_t> all = coordinates(rank);
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return all[i];
  }
  return 0;
}

int64_t MeshShape::rank_at(const std::vector<int64_t>& coordinates) const {
  int64_t place = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const int64_t coordinate = coordinates.at(i);
    if (coordinate < 0 || coordinate >= axes_[i].size) {
      throw Error(KEEL_INVALID_ARGUMENT, "mesh " + text() + ": no coordinate " +
                                             std::to_string(coordinate) + " on " + axes_[i].name);
    }
    place = place * axes_[i].size + coordinate;
  }
  return ranks_.at(static_cast<size_t>(place));
}

int64_t MeshShape::neighbour(int64_t rank, std::string_view axis, int64_t coordinate) const {
  std::vector<int64_t> all = coordinates(rank);
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) all[i] = coordinate;
  }
  return rank_at(all);
}

std::string MeshShape::text() const {
  std::string line;
  for (const Axis& axis : axes_) {
    line += (line.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  }
  if (!std::is_sorted(ranks_.begin(), ranks_.end())) {
    char separator = '@';
    for (int64_t rank : ranks_) {
      line += separator + std::to_string(rank);
      separator = ',';
    }
  }
  return line;
}

std::string MeshShape::json() const {
  std::string line = "{\"axes\":{";
  for (const Axis& axis : axes_) {
    if (line.back() != '{') line += ',';
    line += "\"" + axis.name + "\":" + std::to_string(axis.size);
  }
  line += "},\"ranks\":[";
  for (int64_t rank : ranks_) {
    if (line.back() != '[') line += ',';
    line += std::to_string(rank);
  }
  return line + "]}";
}

}  // namespace v0
}  // namespace keel::parallel
