// SPDX-License-Identifier: Apache-2.0
// Device mesh: the ranks of a job as an array with named axes, and a communicator for each axis.
//
//   keel::parallel::Mesh mesh(std::move(world), device, MeshShape::parse("pp=2,dp=2,tp=2"));
//   mesh.axis("tp").all_reduce(...);           // among the ranks that differ in tp alone
//
// Source: Shazeer et al., "Mesh-TensorFlow: Deep Learning for Supercomputers", 2018.
#ifndef KEEL_PARALLEL_MESH_HPP_
#define KEEL_PARALLEL_MESH_HPP_

#include <cstdint>
#include <keel/keel.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// The axes of a mesh, and the place of each rank. A value.
class MeshShape {
 public:
  struct Axis {
    std::string name;  // lower-case letters: "pp", "dp", "tp"
    int64_t size = 1;
  };

  // Parses "pp=2,dp=2,tp=2": the last axis varies fastest over the ranks. With "@0,2,1,3,..."
  // behind the axes, place i of the mesh belongs to rank ranks[i]; the list names each rank once.
  // Throws Error(KEEL_INVALID_ARGUMENT) that quotes the wrong part.
  static MeshShape parse(std::string_view text);

  const std::vector<Axis>& axes() const { return axes_; }
  int64_t size() const;                          // ranks of the whole mesh
  int64_t size_of(std::string_view axis) const;  // 1 for an axis that the mesh lacks
  // Coordinate of |rank| on |axis|; 0 for an axis that the mesh lacks.
  int64_t coordinate(int64_t rank, std::string_view axis) const;
  // The rank at |coordinates|, one for each of axes().
  int64_t rank_at(const std::vector<int64_t>& coordinates) const;
  // The rank that differs from |rank| on |axis| alone, where its coordinate is |coordinate|.
  int64_t neighbour(int64_t rank, std::string_view axis, int64_t coordinate) const;

  std::string text() const;  // what parse() reads; without the list if the order is natural
  std::string json() const;  // {"axes":{"pp":2,"dp":2},"ranks":[0,1,2,3]}

 private:
  std::vector<int64_t> coordinates(int64_t rank) const;

  std::vector<Axis> axes_;
  std::vector<int64_t> ranks_;   // rank of each place
  std::vector<int64_t> places_;  // place of each rank
};

// One rank's view of a mesh. Owns the communicators. Not thread-safe. Every rank constructs its own
// Mesh with the same shape, from the same communicator.
class Mesh {
 public:
  // Takes |world|; waits for all ranks. Throws Error(KEEL_INVALID_ARGUMENT) if the axes do not
  // multiply to the size of |world|, or if a rank, which the message names, has another shape.
  Mesh(Communicator world, Device device, MeshShape shape);

  const MeshShape& shape() const { return shape_; }
  Device device() const { return device_; }
  int64_t rank() const { return rank_; }  // in |world|
  int64_t size() const { return shape_.size(); }
  int64_t size_of(std::string_view axis) const { return shape_.size_of(axis); }
  int64_t coordinate(std::string_view axis) const { return shape_.coordinate(rank_, axis); }

  Communicator& world() { return world_; }
  // Communicator of the ranks that differ from this rank in |axis| alone, ordered by coordinate.
  // Throws Error(KEEL_INVALID_ARGUMENT) for an axis of size 1 or an axis that the mesh lacks: such
  // an axis has nothing to communicate.
  Communicator& axis(std::string_view axis);
  // A new communicator of the ranks that have equal |color|s, ordered by rank; every rank calls.
  Communicator split(int32_t color) { return world_.split(color, static_cast<int32_t>(rank_)); }

  // Aborts the communicators of the world and of this rank's axes, so that no other rank waits for
  // this one: for a rank that fails alone. Communicators of split() are the caller's to abort.
  void abort();

  // Names of the ranks' devices ("cpu:0") and makes ("cpu"), by rank.
  const std::vector<std::string>& devices() const { return devices_; }
  std::string make_of(int64_t rank) const;
  std::string rank_name(int64_t rank) const;  // "rank 2 (cpu:2)"
  // Distinct makes among the ranks of this rank's group of |axis|, sorted.
  std::vector<std::string> makes(std::string_view axis) const;

  // Throws Error(KEEL_INVALID_ARGUMENT) on every rank unless all ranks pass the same |text|; the
  // message says |what| and names the ranks outside the majority. Every rank calls; waits.
  void agree(std::string_view what, std::string_view text);
  // Gathers a value of each rank, by rank. Every rank calls; waits.
  std::vector<uint64_t> gather(uint64_t value);
  std::vector<double> gather(double value);

  // Time and staged bytes of one all_reduce of 1 MiB on |axis|.
  struct Cost {
    std::string axis;
    std::vector<std::string> makes;
    double seconds = 0;
    uint64_t staged_bytes = 0;  // through bounce buffers of the host, of all ranks
    bool mixed() const { return makes.size() > 1; }
  };
  // Measures the axes of size above 1. Every rank calls; waits.
  std::vector<Cost> measure();
  // One line an axis: "tp: 2 ranks, cpu + sim (mixed: through the host), 1 MiB all_reduce 1.3 ms,
  // 2.0 MiB staged".
  static std::string text(const std::vector<Cost>& costs, const MeshShape& shape);

 private:
  // Gathers |size| bytes of each rank.
  std::vector<char> gather_bytes(const void* data, size_t size);

  Communicator world_;
  Device device_;
  MeshShape shape_;
  int64_t rank_ = 0;
  Stream stream_;  // of the set-up's exchanges
  std::vector<std::string> devices_;
  std::map<std::string, Communicator, std::less<>> axes_;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_MESH_HPP_
