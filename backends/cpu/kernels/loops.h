// SPDX-License-Identifier: Apache-2.0
// Loop nests over the elements of strided tensors of one shape, cut into boxes that fit the first
// level of the cache.
#ifndef KEEL_BACKENDS_CPU_KERNELS_LOOPS_H_
#define KEEL_BACKENDS_CPU_KERNELS_LOOPS_H_

#include <keel/abi.h>

#include <cstdint>

namespace keel::cpu::kernels {

// Axes are ordered innermost first. Strides are in elements of their operand.
struct Loops {
  static constexpr uint32_t kOperands = 4;

  uint32_t rank = 0;
  uint32_t operands = 0;
  int64_t extent[KEEL_MAX_RANK] = {};
  int64_t box[KEEL_MAX_RANK] = {};  // extent of a box; boxes at an end may be smaller
  bool is_tiled = false;            // boxes follow each other along axis 1 before axis 0
  int64_t stride[kOperands][KEEL_MAX_RANK] = {};

  // Appends an axis outside of the others, unless its extent is 1; |strides| has one per operand.
  void append(int64_t axis_extent, const int64_t* strides);
  // Orders the axes by the stride of operand 0, then of operand 1, and so on: the axis with the
  // smallest becomes the innermost.
  void sort();
  // Merges neighbours that every operand can walk as one axis.
  void merge();
  // Boxes of at most |elements| elements that follow each other in the order of the loops. cut
  // merges first.
  void cut_in_order(int64_t elements);
  void cut(int64_t elements);
  // Like cut, but where an operand's smallest stride is not that of the innermost axis, as in a
  // transposition, boxes of at most |tile_elements| have two sides, so that a line of the cache is
  // used as a whole. Boxes then leave the order of the loops, and follow each other along that
  // operand's lines: its pages stay in the TLB.
  void cut_into_tiles(int64_t elements, int64_t tile_elements);

  int64_t count() const;
  int64_t boxes() const;
  // Whether the elements of a box are dense in operand |operand|, in the order of the loops.
  bool is_dense(uint32_t operand) const;
};

// A part of the loops.
struct Box {
  int64_t first;  // position of the first element in the order of the loops
  int64_t count;
  int64_t extent[KEEL_MAX_RANK];
  int64_t offset[Loops::kOperands];  // of the first element, in elements of the operand
};

Box box_at(const Loops& loops, int64_t index);

// Copies the elements of |box|, of |size| bytes each, into a dense array or back. |data| is the
// operand's first element; |past_caches| as in scatter_plane.
void gather_box(const Loops& loops, uint32_t operand, const Box& box, uint32_t size,
                const char* data, void* to);
void scatter_box(const Loops& loops, uint32_t operand, const Box& box, uint32_t size,
                 const void* from, char* data, bool past_caches);

}  // namespace keel::cpu::kernels

#endif  // KEEL_BACKENDS_CPU_KERNELS_LOOPS_H_
