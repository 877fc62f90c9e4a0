// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_COMMUNICATOR_H_
#define KEEL_BACKENDS_KUNLUN_COMMUNICATOR_H_

#include <bkcl.h>
#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/kunlun/bkcl.h"
#include "backends/kunlun/scratch.h"
#include "backends/kunlun/stream.h"

namespace keel::kunlun {

// One rank of a BKCL communicator. BKCL has no calls that return early and no asynchronous errors:
// init blocks until all ranks have joined. Thread-safe; one thread at a time calls run(). Analogue:
// BKCLContext_t.
class Communicator {
 public:
  // Blocks until all ranks have joined, without a deadline.
  static keel_status create(Device& device, const Bkcl& bkcl, const BKCLUniqueId& id, int rank,
                            int world, std::unique_ptr<Communicator>* out_communicator);
  // Requires that enqueued work has finished or was aborted. Leaves the native communicator behind
  // if its work could not be aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues |calls| as one group.
  keel_status run(Stream& stream, std::span<const keel_ccl_call> calls);
  // Aborts running work; every later call returns KEEL_ABORTED. KEEL_UNSUPPORTED if this BKCL
  // cannot.
  keel_status abort();

 private:
  Communicator(Device& device, const Bkcl& bkcl, int world)
      : device_(device), bkcl_(bkcl), world_(world), scratch_(device) {}

  // Memory that a call needs beside the caller's buffers.
  struct Prepared {
    const void* send = nullptr;      // the caller's buffer, or a copy of it
    const size_t* arrays = nullptr;  // four arrays of counts and offsets in device memory
    Scratch::Piece* piece = nullptr;
  };
  // The functions below require |mutex_|.
  keel_status prepare(Stream& stream, const keel_ccl_call& call, Prepared* out_prepared);
  keel_status upload_arrays(Stream& stream, const keel_ccl_call& call, Prepared* out_prepared);
  keel_status copy_in_place(Stream& stream, const keel_ccl_call& call, Prepared* out_prepared);
  keel_status enqueue(const Stream& stream, std::span<const keel_ccl_call> calls,
                      const std::vector<Prepared>& prepared);
  BKCLResult_t enqueue_one(const keel_ccl_call& call, const Prepared& prepared,
                           xre::Stream stream) const;

  Device& device_;
  const Bkcl& bkcl_;
  const int world_;
  std::mutex mutex_;
  BKCLContext_t native_ = nullptr;  // NULL: aborted
  bool is_abandoned_ = false;
  Scratch scratch_;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_COMMUNICATOR_H_
