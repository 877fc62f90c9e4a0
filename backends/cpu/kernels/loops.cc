// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/loops.h"

#include <algorithm>

#include "backends/cpu/kernels/families.h"

namespace keel::cpu::kernels {
namespace {

// Extents of a two-sided box: 16 elements of four bytes are a line of the cache in the operand
// that is walked across, and 128 are eight lines in the others, of which fewer than that are a
// third slower: memory opens a page for each row.
constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 128;
// Shorter axes would make tiles that are all edge.
constexpr int64_t kLeastOfTile = 8;

void swap_axes(Loops* loops, uint32_t i, uint32_t j) {
  std::swap(loops->extent[i], loops->extent[j]);
  for (uint32_t o = 0; o < loops->operands; ++o) {
    std::swap(loops->stride[o][i], loops->stride[o][j]);
  }
}

bool is_inside(const Loops& loops, uint32_t i, uint32_t j) {
  for (uint32_t o = 0; o < loops.operands; ++o) {
    if (loops.stride[o][i] != loops.stride[o][j]) return loops.stride[o][i] < loops.stride[o][j];
  }
  return false;
}

bool continues(const Loops& loops, uint32_t inner, uint32_t outer) {
  for (uint32_t o = 0; o < loops.operands; ++o) {
    if (loops.stride[o][outer] != loops.stride[o][inner] * loops.extent[inner]) return false;
  }
  return true;
}

// The axis that some operand should be walked along beside the innermost; 0 if there is none.
uint32_t crossing_axis(const Loops& loops) {
  if (loops.rank < 2 || loops.extent[0] < kLeastOfTile) return 0;
  for (uint32_t o = 0; o < loops.operands; ++o) {
    const int64_t* const stride = loops.stride[o];
    uint32_t best = 0;
    for (uint32_t axis = 1; axis < loops.rank; ++axis) {
      const bool is_nearer = stride[axis] > 0 && stride[axis] < stride[best];
      if (is_nearer && loops.extent[axis] >= kLeastOfTile) best = axis;
    }
    if (best != 0) return best;
  }
  return 0;
}

// Calls body(offset, place) for each plane of |box|, the two innermost axes: the offset of its
// first element in the operand and in a dense array.
template <typename Body>
void for_each_plane(const Loops& loops, uint32_t operand, const Box& box, const Body& body) {
  const int64_t* const stride = loops.stride[operand];
  int64_t size = 1;
  for (uint32_t axis = 0; axis < std::min(loops.rank, 2u); ++axis) size *= box.extent[axis];
  int64_t offset = box.offset[operand];
  int64_t index[KEEL_MAX_RANK] = {};
  for (int64_t place = 0; place < box.count; place += size) {
    body(offset, place);
    for (uint32_t axis = 2; axis < loops.rank; ++axis) {
      offset += stride[axis];
      if (++index[axis] < box.extent[axis]) break;
      offset -= index[axis] * stride[axis];
      index[axis] = 0;
    }
  }
}

Plane plane_of(const Loops& loops, uint32_t operand, const Box& box) {
  const int64_t* const stride = loops.stride[operand];
  return {.columns = loops.rank > 0 ? box.extent[0] : 1,
          .column_step = loops.rank > 0 ? stride[0] : 0,
          .rows = loops.rank > 1 ? box.extent[1] : 1,
          .row_step = loops.rank > 1 ? stride[1] : 0};
}

// Gives each axis from |axis| on as much as |elements| leaves, up to the first that is not whole.
void fill_boxes(Loops* loops, uint32_t axis, int64_t elements) {
  for (; axis < loops->rank; ++axis) {
    const int64_t extent = std::min(loops->extent[axis], std::max<int64_t>(1, elements));
    loops->box[axis] = extent;
    elements = extent == loops->extent[axis] ? elements / std::max<int64_t>(1, extent) : 0;
  }
}

}  // namespace

void Loops::append(int64_t axis_extent, const int64_t* strides) {
  if (axis_extent == 1) return;
  extent[rank] = axis_extent;
  for (uint32_t o = 0; o < operands; ++o) stride[o][rank] = strides[o];
  ++rank;
}

void Loops::sort() {
  for (uint32_t i = 1; i < rank; ++i) {
    for (uint32_t j = i; j > 0 && is_inside(*this, j, j - 1); --j) swap_axes(this, j, j - 1);
  }
}

void Loops::merge() {
  uint32_t kept = 0;
  for (uint32_t axis = 1; axis < rank; ++axis) {
    if (continues(*this, kept, axis)) {
      extent[kept] *= extent[axis];
    } else if (++kept != axis) {
      swap_axes(this, kept, axis);
    }
  }
  if (rank > 0) rank = kept + 1;
}

void Loops::cut_in_order(int64_t elements) {
  fill_boxes(this, 0, elements);
}

void Loops::cut(int64_t elements) {
  merge();
  cut_in_order(elements);
}

void Loops::cut_into_tiles(int64_t elements, int64_t tile_elements) {
  merge();
  const uint32_t crossing = crossing_axis(*this);
  if (crossing == 0) {
    fill_boxes(this, 0, elements);
    return;
  }
  for (uint32_t axis = crossing; axis > 1; --axis) swap_axes(this, axis, axis - 1);
  is_tiled = true;
  box[0] = std::min(extent[0], kTileColumns);
  box[1] = std::min({extent[1], kTileRows, tile_elements / box[0]});
  const bool is_whole = box[0] == extent[0] && box[1] == extent[1];
  fill_boxes(this, 2, is_whole ? tile_elements / (box[0] * box[1]) : 1);
}

int64_t Loops::count() const {
  int64_t result = 1;
  for (uint32_t axis = 0; axis < rank; ++axis) result *= extent[axis];
  return result;
}

int64_t Loops::boxes() const {
  int64_t result = 1;
  for (uint32_t axis = 0; axis < rank; ++axis) {
    if (extent[axis] == 0) return 0;
    result *= (extent[axis] + box[axis] - 1) / box[axis];
  }
  return result;
}

bool Loops::is_dense(uint32_t operand) const {
  int64_t expected = 1;
  bool is_whole = true;
  for (uint32_t axis = 0; axis < rank; ++axis) {
    if (box[axis] > 1 && (stride[operand][axis] != expected || !is_whole)) return false;
    expected *= box[axis];
    is_whole = box[axis] == extent[axis];
  }
  return true;
}

Box box_at(const Loops& loops, int64_t index) {
  Box result;
  result.first = 0;
  result.count = 1;
  for (uint32_t o = 0; o < loops.operands; ++o) result.offset[o] = 0;
  int64_t begin[KEEL_MAX_RANK];
  for (uint32_t i = 0; i < loops.rank; ++i) {
    const uint32_t axis = loops.is_tiled && i < 2 ? 1 - i : i;
    const int64_t extent = loops.extent[axis];
    const int64_t side = loops.box[axis];
    begin[axis] = 0;
    if (side < extent) {
      const int64_t boxes = (extent + side - 1) / side;
      const int64_t next = index / boxes;
      begin[axis] = (index - next * boxes) * side;
      index = next;
    }
    const int64_t size = std::min(side, extent - begin[axis]);
    result.extent[axis] = size;
    result.count *= size;
    for (uint32_t o = 0; o < loops.operands; ++o) {
      result.offset[o] += begin[axis] * loops.stride[o][axis];
    }
  }
  int64_t whole = 1;  // elements inside of the axis
  for (uint32_t axis = 0; axis < loops.rank; ++axis) {
    result.first += begin[axis] * whole;
    whole *= loops.extent[axis];
  }
  return result;
}

void gather_box(const Loops& loops, uint32_t operand, const Box& box, uint32_t size,
                const char* data, void* to) {
  const Plane plane = plane_of(loops, operand, box);
  for_each_plane(loops, operand, box, [&](int64_t offset, int64_t place) {
    gather_plane(size, data + offset * size, plane, static_cast<char*>(to) + place * size);
  });
}

void scatter_box(const Loops& loops, uint32_t operand, const Box& box, uint32_t size,
                 const void* from, char* data, bool past_caches) {
  const Plane plane = plane_of(loops, operand, box);
  for_each_plane(loops, operand, box, [&](int64_t offset, int64_t place) {
    scatter_plane(size, static_cast<const char*>(from) + place * size, data + offset * size, plane,
                  past_caches);
  });
}

}  // namespace keel::cpu::kernels
