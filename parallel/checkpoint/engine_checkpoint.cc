// SPDX-License-Identifier: Apache-2.0
#include <keel/parallel/engine_checkpoint.hpp>

#include "parallel/checkpoint/box.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

// Where a piece's tensors lie, and the names of the tensors in a checkpoint.
struct Named {
  const char* suffix;
  keel_tensor Engine::Piece::*tensor;
};
constexpr Named kTensors[] = {{"", &Engine::Piece::value},
                              {".first_moment", &Engine::Piece::first_moment},
                              {".second_moment", &Engine::Piece::second_moment}};

// All boxes of one of the engine's pieces, three for each.
void add_pieces(const Engine::Piece& piece, std::vector<TensorPiece>* out_pieces) {
  const Parameter& parameter = *piece.parameter;
  for (const auto& [box, offset] :
       boxes_of_range(parameter.shard_shape(), piece.begin, piece.end)) {
    TensorPiece part;
    part.shape = parameter.shape;
    part.begin = box.begin;
    part.size = box.size;
    if (parameter.shard_axis >= 0) {
      part.begin[static_cast<size_t>(parameter.shard_axis)] += parameter.shard_begin;
    }
    for (const Named& named : kTensors) {
      const keel_tensor& tensor = piece.*named.tensor;
      part.name = parameter.name + named.suffix;
      part.data = static_cast<char*>(tensor.data) + tensor.byte_offset +
                  static_cast<uint64_t>(offset) * sizeof(float);
      out_pieces->push_back(part);
    }
  }
}

}  // namespace

std::vector<TensorPiece> checkpoint_pieces(Engine& engine) {
  Mesh& mesh = engine.mesh();
  std::vector<TensorPiece> pieces;
  for (const Engine::Piece& piece : engine.pieces()) {
    const Parameter& parameter = *piece.parameter;
    const bool is_divided = engine.settings().sharding > 0;  // over axis dp
    if (parameter.tied) continue;                            // a copy: the original is written
    if (!is_divided && mesh.coordinate("dp") != 0) continue;
    if (parameter.shard_axis < 0 && mesh.coordinate("tp") != 0) continue;
    add_pieces(piece, &pieces);
  }
  return pieces;
}

void load_checkpoint(Engine& engine, const Checkpoint& checkpoint) {
  std::vector<TensorPiece> pieces;
  for (const Engine::Piece& piece : engine.pieces()) add_pieces(piece, &pieces);
  for (const TensorPiece& piece : pieces) checkpoint.load(piece, engine.stream());
  engine.publish();
  engine.set_steps(checkpoint.step());
}

}  // namespace v0
}  // namespace keel::parallel
