// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_SCRATCH_H_
#define KEEL_BACKENDS_KUNLUN_SCRATCH_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/kunlun/event.h"
#include "backends/kunlun/stream.h"

namespace keel::kunlun {

// Memory for work that a communicator enqueues beside the caller's: each piece is device memory
// with as much pinned host memory beside it. A piece is taken again only once the work that used
// it is done. Used by one thread at a time.
class Scratch {
 public:
  struct Piece {
    void* device = nullptr;
    void* host = nullptr;  // NULL unless asked for
    uint64_t size = 0;
    std::unique_ptr<Event> over;  // recorded behind the work that uses the piece
    bool is_recorded = false;     // |over| is the last record
    bool is_taken = false;        // until give_back
  };

  explicit Scratch(Device& device) : device_(device) {}
  // Frees the pieces whose work is done, and leaves the others behind.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns a piece of at least |size| bytes that no work uses.
  keel_status take(uint64_t size, bool with_host, Piece** out_piece);
  // Call once the work that uses |piece| is on |stream|.
  static keel_status give_back(Piece* piece, const Stream& stream);

 private:
  void free(Piece& piece);

  Device& device_;
  std::vector<std::unique_ptr<Piece>> pieces_;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_SCRATCH_H_
