// SPDX-License-Identifier: Apache-2.0
// An in-order stream, which collects commands in batches and submits the batches to one of the
// device's queues.
//
// Enqueueing records into an open command buffer. The stream submits the batch when a caller could
// start to wait for it (record, query, synchronize) or when the batch holds kBatchCommands
// commands: a submission costs 30-90 us on lavapipe, a recorded command about 1 us. Commands that
// no caller waits for stay unsubmitted, unobservably.
//
// A timing event is recorded into the submission of the work before it, so that the timestamp is
// the end of that work. While the device is busy with the stream's earlier work the event does not
// trigger a submission; the thread that waits for the event submits the batch.
#ifndef KEEL_BACKENDS_VULKAN_STREAM_H_
#define KEEL_BACKENDS_VULKAN_STREAM_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/vulkan/device.h"
#include "backends/vulkan/event.h"
#include "backends/vulkan/queue.h"
#include "backends/vulkan/staging.h"

namespace keel::vulkan {

// One thread at a time, except submit_batch and submit_if_dry. After a failure every call returns
// that failure.
class Stream {
 public:
  static keel_status create(Device& device, std::unique_ptr<Stream>* out_stream);
  ~Stream();  // waits for all work in flight
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);
  keel_status fill(void* destination, const void* pattern, uint32_t pattern_size, uint64_t size);
  // The buffer views that a kernel reads as texel buffers, by binding.
  using Texels = std::array<VkBufferView, 2>;
  // |arguments| are the push constants; |texels| is for shaders that use texel buffers. Does
  // nothing for 0 groups.
  keel_status dispatch(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                       uint32_t groups_x, uint32_t groups_y = 1, const Texels* texels = nullptr);

  // Like the first dispatch, for a user kernel: any pipeline, with its own layout.
  struct KernelCall {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    const void* arguments;
    uint32_t argument_bytes;  // a multiple of 4; 0: none
    uint32_t groups[3];
  };
  keel_status dispatch(const KernelCall& call);

  keel_status record(Event& event);
  keel_status wait_event(const Event& event);
  keel_status query();
  keel_status synchronize(int64_t timeout_ns);

  Device& device() { return device_; }

  // Called by events in the open batch, with the link's mutex held. submit_batch submits the batch.
  // submit_if_dry submits only if the device has finished all earlier submissions, else returns
  // false. After a submission all events of the batch are set.
  void submit_batch();
  bool submit_if_dry();

 private:
  static constexpr uint32_t kBatchCommands = 32;
  // Additional commands of a batch with timing events, so that the batch includes the event behind
  // the last command; an operator may consist of several commands.
  static constexpr uint32_t kTimedCommands = 8;

  struct Commands {
    VkCommandBuffer buffer;
    uint64_t done_at;  // the queue's clock value at which the buffer is reusable
  };

  Stream(Device& device, Queue& queue);

  // All functions below require the link's mutex.
  keel_status run(const KernelCall& call);
  keel_status run(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                  uint32_t groups_x, uint32_t groups_y, const Texels* texels);
  keel_status fill_locked(void* destination, const void* pattern, uint32_t pattern_size,
                          uint64_t size);
  keel_status record_time(Event& event);
  // Whether submitted work is still running on the device.
  bool in_flight();
  // Sets the result of the batch's events.
  void settle_events(keel_status failure);

  // Makes a failure of the stream's own work permanent.
  keel_status fail(keel_status status);
  // The failure of the stream, or the loss of the device, which also ends the stream.
  keel_status state();
  // Opens a command buffer if none is open, and adds the barrier behind earlier commands.
  keel_status begin_command();
  // Ends a command; submits a full batch.
  keel_status end_command();
  keel_status acquire_commands(VkCommandBuffer* out_buffer);
  void barrier(bool to_host);
  void bind(VkPipeline pipeline);
  void push_texels(const Texels& texels);
  // Submits the open batch and the waits not yet submitted.
  keel_status flush();
  // Returns KEEL_OK when all dependencies of the stream's next command have finished.
  keel_status idle();
  // Releases the mutex while it waits.
  keel_status wait_idle(int64_t timeout_ns);

  keel_status copy_places(const BufferByte& destination, const BufferByte& source, uint64_t size);
  keel_status upload(const BufferByte& destination, const void* source, uint64_t size);
  keel_status download(void* destination, const BufferByte& source, uint64_t size);
  keel_status reserve_staging(uint64_t size, BufferByte* out_place);
  // Copies the unaligned head or tail of a fill: at most 3 bytes, of any alignment.
  keel_status copy_small(const BufferByte& destination, const void* bytes, uint64_t size);

  Device& device_;
  Queue& queue_;
  const std::shared_ptr<StreamLink> link_;
  Staging staging_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<Commands> commands_;  // a ring; next_commands_ is the oldest
  size_t next_commands_ = 0;

  VkCommandBuffer open_ = VK_NULL_HANDLE;
  uint32_t open_count_ = 0;     // commands in open_
  bool needs_barrier_ = false;  // the next command must wait for a command in open_
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<Event*> open_events_;  // timing events in open_

  // Dependencies of the stream's next command, by queue index. The entry of the stream's own queue
  // is its last submission, or a later one that the stream waited for.
  std::array<TimelineValue, kMaxQueues> depends_ = {};
  uint32_t unsubmitted_waits_ = 0;  // bits of other queues whose entry is not yet submitted
  keel_status failure_ = KEEL_OK;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_STREAM_H_
