// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <keel/parallel/mesh.hpp>
#include <set>

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr size_t kNameBytes = 80;
constexpr uint64_t kProbeBytes = 1 << 20;

// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

uint64_t staged(const Communicator& comm) {
  const keel_comm_stats stats = comm.stats();
  return stats.bytes_to_host + stats.bytes_to_device;
}

}  // namespace

Mesh::Mesh(Communicator world, Device device, MeshShape shape)
    : world_(std::move(world)), device_(device), shape_(std::move(shape)), stream_(device) {
  rank_ = static_cast<int64_t>(world_.rank());
  const auto ranks = static_cast<int64_t>(world_.world());
  // Every rank learns every name first, so that messages say which device a rank is.
  char name[kNameBytes] = {};
  std::snprintf(name, sizeof(name), "%s", device.name().c_str());
  const std::vector<char> names = gather_bytes(name, sizeof(name));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    devices_.emplace_back(&names[static_cast<size_t>(rank) * kNameBytes]);
  }
  agree("mesh", shape_.text());
  if (shape_.size() != ranks) {
    throw Error(KEEL_INVALID_ARGUMENT, "mesh " + shape_.text() + " has " +
                                           std::to_string(shape_.size()) + " ranks, the job has " +
                                           std::to_string(ranks));
  }
  for (const MeshShape::Axis& axis : shape_.axes()) {
    if (axis.size == 1) continue;
    // Ranks of one group share the neighbour at coordinate 0, whose number is their color.
    const auto color = static_cast<int32_t>(shape_.neighbour(rank_, axis.name, 0));
    const auto key = static_cast<int32_t>(shape_.coordinate(rank_, axis.name));
    axes_.emplace(axis.name, world_.split(color, key));
  }
}

void Mesh::abort() {
  world_.abort();
  for (auto& [name, comm] : axes_) comm.abort();
}

Communicator& Mesh::axis(std::string_view axis) {
  const auto found = axes_.find(axis);
  if (found != axes_.end()) return found->second;
  throw Error(KEEL_INVALID_ARGUMENT,
              "mesh " + shape_.text() + " has one rank on axis " + std::string(axis));
}

std::string Mesh::make_of(int64_t rank) const {
  const std::string& name = devices_.at(static_cast<size_t>(rank));
  return name.substr(0, name.find(':'));
}

std::vector<std::string> Mesh::makes(std::string_view axis) const {
  std::set<std::string> found;
  for (int64_t i = 0; i < shape_.size_of(axis); ++i) {
    found.insert(make_of(shape_.neighbour(rank_, axis, i)));
  }
  return {found.begin(), found.end()};
}

std::vector<char> Mesh::gather_bytes(const void* data, size_t size) {
  const size_t ranks = world_.world();
  std::vector<char> all(size * ranks);
  Buffer own(device_, KEEL_MEMORY_DEVICE, size), gathered(device_, KEEL_MEMORY_DEVICE, all.size());
  stream_.upload(own, std::span(static_cast<const char*>(data), size));
  world_.all_gather(own.data(), gathered.data(), size, KEEL_UINT8, stream_);
  stream_.download(all, gathered);
  stream_.synchronize();
  return all;
}

std::vector<uint64_t> Mesh::gather(uint64_t value) {
  const std::vector<char> bytes = gather_bytes(&value, sizeof(value));
  std::vector<uint64_t> values(bytes.size() / sizeof(value));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<double> Mesh::gather(double value) {
  const std::vector<char> bytes = gather_bytes(&value, sizeof(value));
  std::vector<double> values(bytes.size() / sizeof(value));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string Mesh::rank_name(int64_t rank) const {
  return "rank " + std::to_string(rank) + " (" + devices_.at(static_cast<size_t>(rank)) + ")";
}

void Mesh::agree(std::string_view what, std::string_view text) {
  const std::vector<uint64_t> hashes = gather(hash_of(text));
  // The most frequent value; of equally frequent ones that of the lowest rank.
  uint64_t usual = 0;
  std::ptrdiff_t most = 0;
  for (uint64_t hash : hashes) {
    const std::ptrdiff_t count = std::count(hashes.begin(), hashes.end(), hash);
    if (count > most) usual = hash;
    most = std::max(most, count);
  }
  std::string odd;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == usual) continue;
    odd += (odd.empty() ? "" : ", ") + rank_name(static_cast<int64_t>(rank));
  }
  if (odd.empty()) return;
  throw Error(KEEL_INVALID_ARGUMENT,
              std::string(what) + " of " + odd +
                  " differs from that of the other ranks; here: " + std::string(text));
}

std::vector<Mesh::Cost> Mesh::measure() {
  std::vector<Cost> costs;
  Buffer buffer(device_, KEEL_MEMORY_DEVICE, kProbeBytes);
  stream_.fill(buffer, 0.0F);
  for (auto& [name, comm] : axes_) {
    const auto run = [&, &comm = comm] {
      comm.all_reduce(buffer.data(), buffer.data(), kProbeBytes / sizeof(float), KEEL_FLOAT32,
                      KEEL_SUM, stream_);
      stream_.synchronize();
    };
    run();  // connects, allocates bounce buffers
    Cost cost{name, makes(name)};
    const uint64_t before = staged(comm);
    const auto start = std::chrono::steady_clock::now();
    run();
    const auto took = std::chrono::steady_clock::now() - start;
    cost.seconds = std::chrono::duration<double>(took).count();
    const std::vector<uint64_t> all = gather(staged(comm) - before);
    for (int64_t i = 0; i < shape_.size_of(name); ++i) {
      cost.staged_bytes += all[static_cast<size_t>(shape_.neighbour(rank_, name, i))];
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::string Mesh::text(const std::vector<Cost>& costs, const MeshShape& shape) {
  constexpr double kMiB = 1 << 20;
  std::string lines;
  for (const Cost& cost : costs) {
    std::string makes;
    for (const std::string& make : cost.makes) makes += (makes.empty() ? "" : " + ") + make;
    if (cost.mixed()) makes += " (mixed: through the host)";
    char figures[96];
    std::snprintf(figures, sizeof(figures), "1 MiB all_reduce %.2f ms, %.1f MiB staged",
                  cost.seconds * 1e3, static_cast<double>(cost.staged_bytes) / kMiB);
    lines += cost.axis + ": " + std::to_string(shape.size_of(cost.axis)) + " ranks, " + makes +
             ", " + figures + "\n";
  }
  return lines;
}

}  // namespace v0
}  // namespace keel::parallel
