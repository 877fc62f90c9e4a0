// SPDX-License-Identifier: Apache-2.0
// An in-order stream: commands gathered into batches and submitted to one of the
// device's queues.
//
// Enqueueing records into an open command buffer. The batch is submitted when
// anyone could come to wait for it (record, query, synchronize) or when it holds
// kBatchCommands commands: a submission costs 30-90 us on lavapipe, a recorded
// command about one. What is recorded and never waited for stays unsubmitted;
// nobody can tell.
//
// A timing event is written in the submission of the work before it, so that it tells
// when that was over. While the device has earlier work of the stream's to do it does
// not submit the batch; whoever waits for the event does, from any thread.
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

// One thread at a time, but for submit_batch and submit_if_dry. After a failure every call
// returns it.
class Stream {
 public:
  static keel_status create(Device& device, std::unique_ptr<Stream>* out_stream);
  ~Stream();  // waits for what is still in flight
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);
  keel_status fill(void* destination, const void* pattern, uint32_t pattern_size, uint64_t size);
  // The views that a kernel reads as texel buffers, by binding.
  using Texels = std::array<VkBufferView, 2>;
  // |arguments|: the push constants; |texels| for shaders that have some. Does nothing
  // for 0 groups.
  keel_status dispatch(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                       uint32_t groups_x, uint32_t groups_y = 1, const Texels* texels = nullptr);

  // The same for a kernel of the caller: any pipeline, with a layout of its own.
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

  // For events in the open batch, with the link's mutex held: submit it; the second only
  // if the device has done all that was submitted before, else false. Then all of them
  // have been set.
  void submit_batch();
  bool submit_if_dry();

 private:
  static constexpr uint32_t kBatchCommands = 32;
  // More in a batch with timing events, so that the event behind the last command, which
  // may be one of several of an operator, comes into it.
  static constexpr uint32_t kTimedCommands = 8;

  struct Commands {
    VkCommandBuffer buffer;
    uint64_t done_at;  // the queue's clock when the buffer can be used again
  };

  Stream(Device& device, Queue& queue);

  // With the link's mutex held, as all that follows:
  keel_status run(const KernelCall& call);
  keel_status run(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                  uint32_t groups_x, uint32_t groups_y, const Texels* texels);
  keel_status fill_locked(void* destination, const void* pattern, uint32_t pattern_size,
                          uint64_t size);
  keel_status record_time(Event& event);
  // Whether the device still has work that was submitted.
  bool in_flight();
  // Tells the events of the batch how it went.
  void settle_events(keel_status failure);

  // Keeps a failure of the stream's own work for good.
  keel_status fail(keel_status status);
  // Opens a command buffer if none is, and orders what comes behind what was.
  keel_status begin_command();
  // Ends one; submits a full batch.
  keel_status end_command();
  keel_status acquire_commands(VkCommandBuffer* out_buffer);
  void barrier(bool to_host);
  void bind(VkPipeline pipeline);
  void push_texels(const Texels& texels);
  // Submits the open batch, and the waits nobody has submitted yet.
  keel_status flush();
  // KEEL_OK when all that the stream's next command depends on is done.
  keel_status idle();
  // Gives the mutex away while it waits.
  keel_status wait_idle(int64_t timeout_ns);

  keel_status copy_places(const Place& destination, const Place& source, uint64_t size);
  keel_status upload(const Place& destination, const void* source, uint64_t size);
  keel_status download(void* destination, const Place& source, uint64_t size);
  keel_status reserve_staging(uint64_t size, Place* out_place);
  // Up to 7 bytes, of any alignment.
  keel_status copy_small(const Place& destination, const void* bytes, uint64_t size);

  Device& device_;
  Queue& queue_;
  const std::shared_ptr<StreamLink> link_;
  Staging staging_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<Commands> commands_;  // a ring; the oldest is next_commands_
  size_t next_commands_ = 0;

  VkCommandBuffer open_ = VK_NULL_HANDLE;
  uint32_t open_count_ = 0;     // commands in it
  bool needs_barrier_ = false;  // a command in it that the next must wait for
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<Event*> open_events_;  // timing events in it

  // By queue index: what the stream's next command depends on. For the stream's own
  // queue that is its last submission or a later one it waited for.
  std::array<Moment, kMaxQueues> depends_ = {};
  uint32_t unsubmitted_waits_ = 0;  // bits of other queues in depends_ not yet waited for
  keel_status failure_ = KEEL_OK;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_STREAM_H_
