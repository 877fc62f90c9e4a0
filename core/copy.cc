// SPDX-License-Identifier: Apache-2.0
#include "core/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/runtime.h"
#include "core/staging.h"

namespace keel {

namespace {

// A chunk takes about 0.4 ms at 10 GB/s, far longer than the 20 to 50 us of a hand-over between two
// backends. Three chunks keep both sides of the staging pipeline busy during a hand-over.
constexpr uint64_t kChunkBytes = 4 << 20;
constexpr uint32_t kChunksInFlight = 3;

char* at(void* pointer, uint64_t offset) {
  return static_cast<char*>(pointer) + offset;
}

auto describe_copy(const Device* destination_device, const void* destination,
                   const Device* source_device, const void* source, uint64_t size) {
  return [=](AccessList& accesses) {
    accesses.reads(source_device, source, size);
    accesses.writes(destination_device, destination, size);
  };
}

template <typename Describe>
Status submit_described(Stream& stream, const Describe& describe, keel_copy_kind kind,
                        void* destination, const void* source, uint64_t size) {
  Device& device = stream.device();
  return stream.submit(
      "copy", describe, [&device, kind, destination, source, size](keel_plugin_stream* native) {
        return device.check(device.stream_table()->copy(native, kind, destination, source, size),
                            "stream.copy");
      });
}

Status submit_peer_copy(Stream& stream, const Endpoint& destination, const Endpoint& source,
                        uint64_t size) {
  return stream.submit(
      "copy",
      describe_copy(destination.device, destination.pointer, source.device, source.pointer, size),
      [&device = stream.device(), destination, source, size](keel_plugin_stream* native) {
        return device.check(device.stream_table()->copy_peer(
                                native, destination.device->native(), destination.pointer,
                                source.device->native(), source.pointer, size),
                            "stream.copy_peer");
      });
}

// The part of a copy that runs on one device.
class CopyStep {
 public:
  // Selects |stream| itself if it belongs to |device|, else its internal stream on |device|, which
  // first waits for all work enqueued on |stream| so far.
  Status begin(const Ref<Stream>& stream, Device& device) {
    if (&stream->device() == &device) {
      stream_ = stream;
      return {};
    }
    KEEL_RETURN_IF_ERROR(stream->helper_stream(device, &stream_));
    foreign_ = true;
    Ref<EventRecord> start;
    // Memory handed out for the stream since an older fence is no enqueued work, but the race
    // detector counts it as a use: record a new event for it.
    KEEL_RETURN_IF_ERROR(observers::active(ObserverSlot::kValidation) ? stream->record(0, &start)
                                                                      : stream->fence(&start));
    return stream_->wait(start);
  }
  // Makes |stream| wait for this part. If the wait cannot be enqueued, |stream| fails: later work
  // would run beside this part, and a recovery waits for the part.
  Status end(const Ref<Stream>& stream) {
    if (!foreign_) return {};
    Status status;
    try {
      status = hold_back(*stream);
    } catch (const std::bad_alloc&) {
      status = Status::no_memory();
    }
    if (!status.ok()) stream->fail_and_drop(status);
    return status;
  }
  const Ref<Stream>& stream() const { return stream_; }

 private:
  Status hold_back(Stream& stream) {
    Ref<EventRecord> done;
    KEEL_RETURN_IF_ERROR(stream_->record(0, &done));
    return stream.wait(done);
  }

  Ref<Stream> stream_;
  bool foreign_ = false;
};

Status copy_by_alias(const Ref<Stream>& stream, const CopyPath& path, const Endpoint& destination,
                     const Endpoint& source, uint64_t size) {
  const bool destination_moves = path.mover == destination.device;
  const Endpoint& reached = destination_moves ? source : destination;
  Allocation allocation;
  KEEL_RETURN_IF_ERROR(
      reached.device->memory().check_range(reached.pointer, size, "pointer", &allocation));
  if (allocation.host_alias == nullptr) {
    return failure(KEEL_INTERNAL, "{}: no host alias", reached.device->name());
  }
  const auto offset = static_cast<uint64_t>(static_cast<char*>(reached.pointer) -
                                            static_cast<char*>(allocation.base));
  void* alias = at(allocation.host_alias, offset);
  CopyStep step;
  KEEL_RETURN_IF_ERROR(step.begin(stream, *path.mover));
  KEEL_RETURN_IF_ERROR(destination_moves
                           ? submit_copy(*step.stream(), KEEL_COPY_HOST_TO_DEVICE,
                                         destination.pointer, alias, size, destination, source)
                           : submit_copy(*step.stream(), KEEL_COPY_DEVICE_TO_HOST, alias,
                                         source.pointer, size, destination, source));
  return step.end(stream);
}

Status copy_staged(const Ref<Stream>& stream, const CopyPath& path, const Endpoint& destination,
                   const Endpoint& source, uint64_t size) {
  CopyStep out;
  CopyStep in;
  KEEL_RETURN_IF_ERROR(out.begin(stream, *source.device));
  KEEL_RETURN_IF_ERROR(in.begin(stream, *destination.device));
  const uint64_t chunks = (size + kChunkBytes - 1) / kChunkBytes;
  const auto buffers = static_cast<uint32_t>(std::min<uint64_t>(chunks, kChunksInFlight));
  const uint64_t buffer_bytes = std::min(size, kChunkBytes);
  void* staging = nullptr;
  KEEL_RETURN_IF_ERROR(alloc_staging(*path.mover, buffer_bytes * buffers, &staging));
  // The pool keeps the staging memory until both parts are done.
  struct Release {
    Memory& memory;
    void* pointer;
    ~Release() { memory.free(pointer).ok(); }
  } release{path.mover->memory(), staging};

  std::array<Ref<EventRecord>, kChunksInFlight> emptied;
  const auto submit_chunk = [&](uint64_t chunk) -> Status {
    const uint64_t offset = chunk * kChunkBytes;
    const uint64_t bytes = std::min(kChunkBytes, size - offset);
    void* buffer = at(staging, (chunk % buffers) * buffer_bytes);
    Ref<EventRecord>& empty = emptied[chunk % buffers];
    if (empty) KEEL_RETURN_IF_ERROR(out.stream()->wait(empty));
    KEEL_RETURN_IF_ERROR(submit_copy(*out.stream(), KEEL_COPY_DEVICE_TO_HOST, buffer,
                                     at(source.pointer, offset), bytes));
    Ref<EventRecord> filled;
    KEEL_RETURN_IF_ERROR(out.stream()->record(0, &filled));
    KEEL_RETURN_IF_ERROR(in.stream()->wait(filled));
    KEEL_RETURN_IF_ERROR(submit_copy(*in.stream(), KEEL_COPY_HOST_TO_DEVICE,
                                     at(destination.pointer, offset), buffer, bytes));
    return in.stream()->record(0, &empty);
  };
  Status submitted;
  for (uint64_t chunk = 0; chunk < chunks && submitted.ok(); ++chunk) {
    try {
      submitted = submit_chunk(chunk);
    } catch (const std::bad_alloc&) {
      submitted = Status::no_memory();
    }
  }
  // Also after a failure half-way: the chunks enqueued before use the caller's memory.
  const Status out_ended = out.end(stream);
  const Status in_ended = in.end(stream);
  if (!submitted.ok()) return submitted;
  return out_ended.ok() ? in_ended : out_ended;
}

bool has_alias(const Device& device) {
  return device.has(KEEL_CAPABILITY_HOST_ALIAS) &&
         KEEL_HAS(keel_memory_table, device.memory_table(), host_alias);
}
bool copies_peers(const Device& device) {
  return device.has(KEEL_CAPABILITY_PEER_COPY) &&
         KEEL_HAS(keel_stream_table, device.stream_table(), copy_peer);
}
// Whether the device accesses any host memory without blocking the caller and without a bounce
// buffer.
bool reaches_host(const Device& device) {
  return device.has(KEEL_CAPABILITY_PAGEABLE_ASYNC);
}

}  // namespace

Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size) {
  const Device* device = &stream.device();
  const Device* to = kind == KEEL_COPY_DEVICE_TO_HOST ? nullptr : device;
  const Device* from = kind == KEEL_COPY_HOST_TO_DEVICE ? nullptr : device;
  return submit_described(stream, describe_copy(to, destination, from, source, size), kind,
                          destination, source, size);
}

Status submit_copy(Stream& stream, keel_copy_kind kind, void* destination, const void* source,
                   uint64_t size, const Endpoint& destination_endpoint,
                   const Endpoint& source_endpoint) {
  return submit_described(stream,
                          describe_copy(destination_endpoint.device, destination_endpoint.pointer,
                                        source_endpoint.device, source_endpoint.pointer, size),
                          kind, destination, source, size);
}

CopyPath choose_copy_path(Device* destination, Device* source) {
  CopyPath path;
  if (destination == nullptr || source == nullptr) {
    path.route = KEEL_ROUTE_HOST;
    return path;
  }
  if (destination == source) return path;
  if (&destination->backend() == &source->backend() && copies_peers(*destination) &&
      copies_peers(*source)) {
    path.route = KEEL_ROUTE_PEER;
    return path;
  }
  if (reaches_host(*destination) && has_alias(*source)) {
    path.route = KEEL_ROUTE_ALIAS;
    path.mover = destination;
    return path;
  }
  if (reaches_host(*source) && has_alias(*destination)) {
    path.route = KEEL_ROUTE_ALIAS;
    path.mover = source;
    return path;
  }
  path.route = KEEL_ROUTE_STAGED;
  path.steps = 2;
  path.chunk_bytes = kChunkBytes;
  // Allocate the bounce buffers on the device that needs pinned memory.
  path.mover = reaches_host(*destination) ? source : destination;
  if (!path.mover->has(KEEL_CAPABILITY_PINNED)) {
    path.mover = path.mover == source ? destination : source;
  }
  return path;
}

std::string CopyPath::describe(const Device* destination, const Device* source) const {
  const std::string from = source != nullptr ? source->name() : "host";
  const std::string to = destination != nullptr ? destination->name() : "host";
  switch (route) {
    case KEEL_ROUTE_ALIAS:
      return fmt::format("{} -> {}, moved by {} through the other's host alias", from, to,
                         mover->name());
    case KEEL_ROUTE_PEER:
      return fmt::format("{} -> {}, peer copy", from, to);
    case KEEL_ROUTE_STAGED:
      return fmt::format("{} -> memory pinned for {}, {} MiB x {} -> {}", from, mover->name(),
                         kChunkBytes >> 20, kChunksInFlight, to);
    default:
      return fmt::format("{} -> {}", from, to);
  }
}

Status submit_direct_copy(Stream& stream, const Endpoint& destination, const Endpoint& source,
                          uint64_t size) {
  const keel_copy_kind kind = source.device == nullptr        ? KEEL_COPY_HOST_TO_DEVICE
                              : destination.device == nullptr ? KEEL_COPY_DEVICE_TO_HOST
                                                              : KEEL_COPY_DEVICE_TO_DEVICE;
  return submit_copy(stream, kind, destination.pointer, source.pointer, size);
}

Status enqueue_copy(const Ref<Stream>& stream, const Endpoint& destination, const Endpoint& source,
                    uint64_t size) {
  if (is_direct(destination, source)) {
    return submit_direct_copy(*stream, destination, source, size);
  }
  const CopyPath path = choose_copy_path(destination.device, source.device);
  switch (path.route) {
    case KEEL_ROUTE_PEER:
      return submit_peer_copy(*stream, destination, source, size);
    case KEEL_ROUTE_ALIAS:
      return copy_by_alias(stream, path, destination, source, size);
    default:
      return copy_staged(stream, path, destination, source, size);
  }
}

Status enqueue_fill(const Ref<Stream>& stream, void* destination, const void* pattern,
                    uint32_t pattern_size, uint64_t size) {
  Device& device = stream->device();
  const keel_stream_table* table = device.stream_table();
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_size);
  if (KEEL_HAS(keel_stream_table, table, fill) &&
      (pattern_size == 1 || device.has(KEEL_CAPABILITY_FILL))) {
    return stream->submit(
        "fill", [&](AccessList& accesses) { accesses.writes(&device, destination, size); },
        [&device, table, destination, value, pattern_size, size](keel_plugin_stream* native) {
          return device.check(table->fill(native, destination, &value, pattern_size, size),
                              "stream.fill");
        });
  }
  if (!device.has(KEEL_CAPABILITY_PINNED)) {
    return failure(KEEL_UNSUPPORTED,
                   "{} has no fill for patterns of {} bytes, and no pinned memory to copy from",
                   device.name(), pattern_size);
  }
  // The host fills a first part, and copies within the device double it: to write whole fills on
  // the host took as long as the device's work, on a caller who expects an enqueueing call to
  // return.
  constexpr uint64_t kFirstBytes = 64 << 10;  // a multiple of each pattern's size
  const uint64_t first_bytes = std::min(size, kFirstBytes);
  Memory& memory = device.memory();
  void* buffer = nullptr;
  KEEL_RETURN_IF_ERROR(memory.alloc(KEEL_MEMORY_PINNED, first_bytes, &buffer));
  for (uint64_t offset = 0; offset < first_bytes; offset += pattern_size) {
    std::memcpy(at(buffer, offset), &value, pattern_size);
  }
  Status status = submit_copy(*stream, KEEL_COPY_HOST_TO_DEVICE, destination, buffer, first_bytes);
  for (uint64_t done = first_bytes; done < size && status.ok();) {
    const uint64_t bytes = std::min(done, size - done);
    status =
        submit_copy(*stream, KEEL_COPY_DEVICE_TO_DEVICE, at(destination, done), destination, bytes);
    done += bytes;
  }
  const Status freed = memory.free(*stream, buffer);
  return status.ok() ? freed : status;
}

}  // namespace keel
