// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/stream.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/vulkan/result.h"

namespace keel::vulkan {

namespace {

constexpr int64_t kForeverNs = INT64_MAX;
// Pageable memory up to this size is staged without waiting for the stream.
constexpr uint64_t kStagedBytes = 64 << 10;

// Returns the place |bytes| further on, for device access.
BufferByte advance(BufferByte place, uint64_t bytes) {
  place.offset += bytes;
  place.host = nullptr;
  return place;
}

}  // namespace

Stream::Stream(Device& device, Queue& queue)
    : device_(device),
      queue_(queue),
      link_(std::make_shared<StreamLink>()),
      staging_(device.memory()) {
  link_->stream = this;
}

keel_status Stream::create(Device& device, std::unique_ptr<Stream>* out_stream) {
  if (const keel_status lost = device.state(); lost != KEEL_OK) return lost;
  std::unique_ptr<Stream> stream(new Stream(device, device.assign_queue()));
  stream->depends_[stream->queue_.index()].queue = &stream->queue_;
  VkCommandPoolCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  info.flags =
      VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = device.physical().queue_family;
  const keel_status status = to_status(
      device.functions().CreateCommandPool(device.handle(), &info, nullptr, &stream->pool_),
      "vkCreateCommandPool");
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

Stream::~Stream() {
  {
    const std::lock_guard lock(link_->mutex);
    if (!open_events_.empty()) flush();
    link_->stream = nullptr;
  }
  const TimelineValue& last = depends_[queue_.index()];
  queue_.wait(last.value, kForeverNs);
  device_.functions().DestroyCommandPool(device_.handle(), pool_, nullptr);
}

keel_status Stream::fail(keel_status status) {
  if (status != KEEL_OK && failure_ == KEEL_OK) {
    failure_ = status;
    open_ = VK_NULL_HANDLE;  // never submitted
    open_count_ = 0;
    settle_events(failure_);
  }
  return status;
}

keel_status Stream::state() {
  if (!device_.lost()) return failure_;
  fail(KEEL_DEVICE_LOST);
  return device_.state();
}

void Stream::settle_events(keel_status failure) {
  for (Event* event : open_events_) event->set(depends_[queue_.index()], failure);
  open_events_.clear();
}

bool Stream::in_flight() {
  return queue_.query(depends_[queue_.index()].value) == KEEL_NOT_READY;
}

void Stream::submit_batch() {
  flush();
}

bool Stream::submit_if_dry() {
  if (in_flight()) return false;
  flush();
  return true;
}

keel_status Stream::acquire_commands(VkCommandBuffer* out_buffer) {
  if (!commands_.empty()) {
    Commands& oldest = commands_[next_commands_];
    if (queue_.query(oldest.done_at) == KEEL_OK) {
      oldest.done_at = UINT64_MAX;
      *out_buffer = oldest.buffer;
      return KEEL_OK;
    }
  }
  VkCommandBufferAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  const keel_status status =
      to_status(device_.functions().AllocateCommandBuffers(device_.handle(), &info, out_buffer),
                "vkAllocateCommandBuffers");
  if (status != KEEL_OK) return status;
  commands_.insert(commands_.begin() + static_cast<std::ptrdiff_t>(next_commands_),
                   {*out_buffer, UINT64_MAX});
  return KEEL_OK;
}

void Stream::barrier(bool to_host) {
  VkMemoryBarrier memory = {};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags kDevice =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkPipelineStageFlags to = kDevice;
  if (to_host) {
    memory.dstAccessMask |= VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
    to |= VK_PIPELINE_STAGE_HOST_BIT;
  }
  device_.functions().CmdPipelineBarrier(open_, kDevice, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  needs_barrier_ = false;
}

keel_status Stream::begin_command() {
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  if (open_ != VK_NULL_HANDLE) {
    if (needs_barrier_) barrier(/*to_host=*/false);
    return KEEL_OK;
  }
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  keel_status status = acquire_commands(&buffer);
  if (status != KEEL_OK) return status;
  VkCommandBufferBeginInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  status = to_status(device_.functions().BeginCommandBuffer(buffer, &info), "vkBeginCommandBuffer");
  if (status != KEEL_OK) {
    commands_[next_commands_].done_at = 0;
    return status;
  }
  open_ = buffer;
  open_count_ = 0;
  // The previous batch of any stream ended with a barrier.
  needs_barrier_ = false;
  bound_ = VK_NULL_HANDLE;
  return KEEL_OK;
}

keel_status Stream::end_command() {
  needs_barrier_ = true;
  const uint32_t limit = kBatchCommands + (open_events_.empty() ? 0 : kTimedCommands);
  return ++open_count_ >= limit ? flush() : KEEL_OK;
}

keel_status Stream::flush() {
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  if (open_ == VK_NULL_HANDLE && unsubmitted_waits_ == 0) return KEEL_OK;
  if (open_ != VK_NULL_HANDLE) {
    barrier(/*to_host=*/true);
    const keel_status status =
        to_status(device_.functions().EndCommandBuffer(open_), "vkEndCommandBuffer");
    if (status != KEEL_OK) return fail(status);
  }
  std::array<TimelineValue, kMaxQueues> waits;
  uint32_t wait_count = 0;
  for (uint32_t rest = unsubmitted_waits_; rest != 0; rest &= rest - 1) {
    waits[wait_count++] = depends_[static_cast<uint32_t>(__builtin_ctz(rest))];
  }
  uint64_t value = 0;
  const keel_status status = queue_.submit(open_, waits.data(), wait_count, &value);
  if (status != KEEL_OK) return fail(status);
  unsubmitted_waits_ = 0;
  depends_[queue_.index()].value = value;
  staging_.submitted(value);
  if (open_ != VK_NULL_HANDLE) {
    commands_[next_commands_].done_at = value;
    next_commands_ = (next_commands_ + 1) % commands_.size();
    open_ = VK_NULL_HANDLE;
  }
  settle_events(KEEL_OK);
  return KEEL_OK;
}

keel_status Stream::idle() {
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  if (open_ != VK_NULL_HANDLE) return KEEL_NOT_READY;
  for (const TimelineValue& completion : depends_) {
    if (completion.queue == nullptr) continue;
    const keel_status status = completion.queue->query(completion.value);
    if (status != KEEL_OK) return status == KEEL_NOT_READY ? status : fail(status);
  }
  return KEEL_OK;
}

keel_status Stream::wait_idle(int64_t timeout_ns) {
  keel_status status = flush();
  if (status != KEEL_OK) return status;
  // After the flush the stream's own queue has waited for all other queues, and the open batch
  // contains no event that another thread could want submitted.
  const uint64_t last = depends_[queue_.index()].value;
  link_->mutex.unlock();
  status = queue_.wait(last, timeout_ns);
  link_->mutex.lock();
  return status == KEEL_OK || status == KEEL_TIMED_OUT ? status : fail(status);
}

keel_status Stream::record(Event& event) {
  const std::lock_guard lock(link_->mutex);
  if (event.timestamp() != VK_NULL_HANDLE && failure_ == KEEL_OK) return record_time(event);
  // The event reports the failure: recording on a failed stream is no error, unless all is lost.
  const keel_status status = flush();
  event.set(depends_[queue_.index()], status);
  return status == KEEL_DEVICE_LOST ? status : keel_status{KEEL_OK};
}

keel_status Stream::record_time(Event& event) {
  open_events_.reserve(open_events_.size() + 1);  // may throw; nothing below does
  // Without work before the event the batch is submitted now: later commands may arrive late and
  // would delay the timestamp.
  const bool behind_work = open_ != VK_NULL_HANDLE;
  keel_status status = begin_command();
  if (status != KEEL_OK) {
    event.set(depends_[queue_.index()], status);
    return status == KEEL_DEVICE_LOST ? status : keel_status{KEEL_OK};
  }
  const DeviceFunctions& vk = device_.functions();
  vk.CmdResetQueryPool(open_, event.timestamp(), 0, 1);
  vk.CmdWriteTimestamp(open_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, event.timestamp(), 0);
  // The barrier added by begin_command() orders the commands that follow; the timestamp is not in
  // the memory of any command. On lavapipe a barrier is a wait.
  needs_barrier_ = false;
  open_events_.push_back(&event);
  event.set_open(link_);
  const bool full = open_count_ >= kBatchCommands || open_events_.size() >= kBatchCommands;
  if (full || !behind_work || !in_flight()) flush();  // the event reports a failure
  return KEEL_OK;
}

keel_status Stream::wait_event(const Event& event) {
  // Called without this stream's lock: two streams may wait for each other's events at once.
  event.submit();
  const std::lock_guard lock(link_->mutex);
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  if (event.failure() != KEEL_OK) {
    fail(event.failure());
    return KEEL_OK;  // the stream's next wait reports it, like any failure of its work
  }
  const TimelineValue completion = event.completion();
  if (completion.queue->query(completion.value) == KEEL_OK) return KEEL_OK;
  TimelineValue& known = depends_[completion.queue->index()];
  if (known.queue != nullptr && known.value >= completion.value) return KEEL_OK;
  if (completion.queue != &queue_) {
    // Work recorded so far need not wait.
    const keel_status status = flush();
    if (status != KEEL_OK) return status;
    unsubmitted_waits_ |= 1u << completion.queue->index();
  }
  known = completion;
  return KEEL_OK;
}

keel_status Stream::query() {
  const std::lock_guard lock(link_->mutex);
  const keel_status status = flush();
  return status == KEEL_OK ? idle() : status;
}

keel_status Stream::synchronize(int64_t timeout_ns) {
  const std::lock_guard lock(link_->mutex);
  return wait_idle(timeout_ns);
}

keel_status Stream::dispatch(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                             uint32_t groups_x, uint32_t groups_y, const Texels* texels) {
  const std::lock_guard lock(link_->mutex);
  return run(key, arguments, argument_bytes, groups_x, groups_y, texels);
}

keel_status Stream::dispatch(const KernelCall& call) {
  const std::lock_guard lock(link_->mutex);
  return run(call);
}

keel_status Stream::run(PipelineKey key, const void* arguments, uint32_t argument_bytes,
                        uint32_t groups_x, uint32_t groups_y, const Texels* texels) {
  if (groups_x == 0 || groups_y == 0) return state();
  VkPipeline pipeline = VK_NULL_HANDLE;
  keel_status status = device_.pipelines().get(key, &pipeline);
  if (status == KEEL_OK) status = begin_command();
  if (status != KEEL_OK) return status;
  const DeviceFunctions& vk = device_.functions();
  bind(pipeline);
  vk.CmdPushConstants(open_, device_.pipelines().layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                      argument_bytes, arguments);
  if (texels != nullptr) push_texels(*texels);
  vk.CmdDispatch(open_, groups_x, groups_y, 1);
  return end_command();
}

keel_status Stream::run(const KernelCall& call) {
  const keel_status status = begin_command();
  if (status != KEEL_OK) return status;
  const DeviceFunctions& vk = device_.functions();
  bind(call.pipeline);
  if (call.argument_bytes != 0) {
    vk.CmdPushConstants(open_, call.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, call.argument_bytes,
                        call.arguments);
  }
  vk.CmdDispatch(open_, call.groups[0], call.groups[1], call.groups[2]);
  return end_command();
}

void Stream::bind(VkPipeline pipeline) {
  if (bound_ == pipeline) return;
  device_.functions().CmdBindPipeline(open_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  bound_ = pipeline;
}

void Stream::push_texels(const Texels& texels) {
  std::array<VkWriteDescriptorSet, 2> writes = {};
  for (uint32_t i = 0; i < writes.size(); ++i) {
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
    writes[i].pTexelBufferView = &texels[i];
  }
  device_.functions().CmdPushDescriptorSetKHR(open_, VK_PIPELINE_BIND_POINT_COMPUTE,
                                              device_.pipelines().layout(), 0,
                                              static_cast<uint32_t>(writes.size()), writes.data());
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  const std::lock_guard lock(link_->mutex);
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  const Memory& memory = device_.memory();
  BufferByte to;
  BufferByte from;
  const bool to_host = kind == KEEL_COPY_DEVICE_TO_HOST;
  const bool from_host = kind == KEEL_COPY_HOST_TO_DEVICE;
  if (!to_host && !memory.find_device(destination, size, &to)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "copy: %p is no memory of this device", destination);
  }
  if (!from_host && !memory.find_device(source, size, &from)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "copy: %p is no memory of this device", source);
  }
  if (to_host && !memory.find_host(destination, size, &to)) {
    return download(destination, from, size);
  }
  if (from_host && !memory.find_host(source, size, &from)) return upload(to, source, size);
  return copy_places(to, from, size);
}

keel_status Stream::copy_places(const BufferByte& destination, const BufferByte& source,
                                uint64_t size) {
  const keel_status status = begin_command();
  if (status != KEEL_OK) return status;
  const VkBufferCopy region = {source.offset, destination.offset, size};
  device_.functions().CmdCopyBuffer(open_, source.buffer, destination.buffer, 1, &region);
  return end_command();
}

keel_status Stream::reserve_staging(uint64_t size, BufferByte* out_place) {
  keel_status status = staging_.reserve(queue_, size, link_->mutex, out_place);
  if (status != KEEL_NOT_READY) return status;
  status = flush();
  return status == KEEL_OK ? staging_.reserve(queue_, size, link_->mutex, out_place) : status;
}

keel_status Stream::upload(const BufferByte& destination, const void* source, uint64_t size) {
  const char* from = static_cast<const char*>(source);
  if (destination.host != nullptr) {
    // The host writes device memory directly once all earlier work has finished.
    const keel_status status = size > kStagedBytes ? wait_idle(kForeverNs) : idle();
    if (status == KEEL_OK) {
      std::memcpy(destination.host, from, size);
      return KEEL_OK;
    }
    if (status != KEEL_NOT_READY) return status;
  }
  for (uint64_t done = 0; done < size;) {
    const uint64_t part = std::min(size - done, Staging::kSlotBytes);
    BufferByte staged;
    keel_status status = reserve_staging(part, &staged);
    if (status != KEEL_OK) return status;
    std::memcpy(staged.host, from + done, part);
    status = copy_places(advance(destination, done), staged, part);
    if (status != KEEL_OK) return status;
    done += part;
  }
  return KEEL_OK;
}

keel_status Stream::download(void* destination, const BufferByte& source, uint64_t size) {
  char* to = static_cast<char*>(destination);
  if (source.host != nullptr) {
    const keel_status status = wait_idle(kForeverNs);
    if (status == KEEL_OK) std::memcpy(to, source.host, size);
    return status;
  }
  for (uint64_t done = 0; done < size;) {
    const uint64_t part = std::min(size - done, Staging::kSlotBytes);
    BufferByte staged;
    keel_status status = reserve_staging(part, &staged);
    if (status == KEEL_OK) {
      status = copy_places(staged, advance(source, done), part);
    }
    if (status == KEEL_OK) status = wait_idle(kForeverNs);
    if (status != KEEL_OK) return status;
    std::memcpy(to + done, staged.host, part);
    done += part;
  }
  return KEEL_OK;
}

keel_status Stream::copy_small(const BufferByte& destination, const void* bytes, uint64_t size) {
  if (size == 0) return KEEL_OK;
  BufferByte staged;
  const keel_status status = reserve_staging(size, &staged);
  if (status != KEEL_OK) return status;
  std::memcpy(staged.host, bytes, size);
  return copy_places(destination, staged, size);
}

keel_status Stream::fill(void* destination, const void* pattern, uint32_t pattern_size,
                         uint64_t size) {
  const std::lock_guard lock(link_->mutex);
  return fill_locked(destination, pattern, pattern_size, size);
}

keel_status Stream::fill_locked(void* destination, const void* pattern, uint32_t pattern_size,
                                uint64_t size) {
  if (const keel_status failed = state(); failed != KEEL_OK) return failed;
  BufferByte to;
  if (!device_.memory().find_device(destination, size, &to)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "fill: %p is no memory of this device", destination);
  }
  // Repeats the pattern. Blocks are aligned to 64, so offsets in a buffer have the alignment of
  // addresses: a multiple of the pattern.
  char bytes[16];
  for (uint32_t i = 0; i < sizeof(bytes); i += pattern_size) {
    std::memcpy(bytes + i, pattern, pattern_size);
  }
  uint32_t words[2];
  std::memcpy(words, bytes, sizeof(words));
  const uint64_t address = reinterpret_cast<uintptr_t>(destination);
  if (words[0] != words[1]) {
    struct {
      uint64_t destination;
      uint32_t pattern[2];
      uint32_t count;
      uint32_t span;
    } arguments = {address, {words[0], words[1]}, 0, 0};
    constexpr uint64_t kMaxCount = uint64_t{1} << 27;  // 1 GiB per dispatch
    const uint32_t local = device_.pipelines().local_size(Shader::kFill64);
    for (uint64_t left = size / 8; left != 0;) {
      arguments.count = static_cast<uint32_t>(std::min(left, kMaxCount));
      arguments.span = local * ((arguments.count - 1) / (local * 4096) + 1);
      const keel_status status =
          run({Shader::kFill64}, &arguments, sizeof(arguments),
              (arguments.count + arguments.span - 1) / arguments.span, 1, nullptr);
      if (status != KEEL_OK) return status;
      arguments.destination += uint64_t{arguments.count} * 8;
      left -= arguments.count;
    }
    return KEEL_OK;
  }
  // vkCmdFillBuffer writes whole aligned words. The bytes before and after the words are copied,
  // since copies need no alignment.
  const uint64_t head = std::min<uint64_t>((4 - to.offset % 4) % 4, size);
  const uint64_t body = (size - head) / 4 * 4;
  const uint64_t tail = size - head - body;
  keel_status status = copy_small(to, bytes, head);
  if (status == KEEL_OK && body != 0) {
    status = begin_command();
    if (status != KEEL_OK) return status;
    device_.functions().CmdFillBuffer(open_, to.buffer, to.offset + head, body, words[0]);
    status = end_command();
  }
  if (status != KEEL_OK) return status;
  return copy_small(advance(to, head + body), bytes, tail);
}

}  // namespace keel::vulkan
