// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/scratch.h"

#include <utility>

namespace keel::kunlun {

Scratch::~Scratch() {
  for (const auto& piece : pieces_) {
    if (piece->is_recorded && piece->over->query() == KEEL_NOT_READY) {
      // The work may still use the memory.
      (void)piece->over->wait(/*timeout_ns=*/5'000'000'000);
    }
    if (!piece->is_taken && piece->over->query() != KEEL_NOT_READY) free(*piece);
  }
}

void Scratch::free(Piece& piece) {
  if (piece.device != nullptr) (void)device_.free(KEEL_MEMORY_DEVICE, piece.device);
  if (piece.host != nullptr) (void)device_.free(KEEL_MEMORY_PINNED, piece.host);
}

keel_status Scratch::take(uint64_t size, bool with_host, Piece** out_piece) {
  for (const auto& piece : pieces_) {
    if (piece->is_taken || piece->size < size || (with_host && piece->host == nullptr)) continue;
    if (piece->is_recorded && piece->over->query() == KEEL_NOT_READY) continue;
    piece->is_recorded = false;
    piece->is_taken = true;
    *out_piece = piece.get();
    return KEEL_OK;
  }
  auto made = std::make_unique<Piece>();
  keel_status status = Event::create(device_, &made->over);
  if (status == KEEL_OK) status = device_.alloc(KEEL_MEMORY_DEVICE, size, &made->device);
  if (status == KEEL_OK && with_host) {
    status = device_.alloc(KEEL_MEMORY_PINNED, size, &made->host);
  }
  if (status != KEEL_OK) {
    free(*made);
    return status;
  }
  made->size = size;
  made->is_taken = true;
  *out_piece = made.get();
  pieces_.push_back(std::move(made));
  return KEEL_OK;
}

keel_status Scratch::give_back(Piece* piece, const Stream& stream) {
  const keel_status status = piece->over->record(stream);
  piece->is_recorded = status == KEEL_OK;
  // Without a record nobody can tell when the work is done: the piece stays taken.
  piece->is_taken = !piece->is_recorded;
  return status;
}

}  // namespace keel::kunlun
