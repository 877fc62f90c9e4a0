#include "collectives/bridge/bridge.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "collectives/reduce.h"
#include "core/observer.h"

namespace keel {

namespace {

const void* source_address(const Bridge::Side& side, uint64_t offset) {
  return static_cast<const char*>(side.request.send) + offset;
}
void* destination_address(const Bridge::Side& side, uint64_t offset) {
  return static_cast<char*>(side.request.receive) + offset;
}

}  // namespace

Bridge::Bridge(std::vector<Ref<Device>> devices, const BridgeOptions& options)
    : devices_(std::move(devices)), options_(options) {}

Status Bridge::prepare() {
  if (!reaches_.empty()) return {};
  std::vector<std::unique_ptr<Reach>> reaches;
  for (const Ref<Device>& device : devices_) {
    std::unique_ptr<Reach> reach;
    if (device->claims(KEEL_CLAIM_HOST_ALIAS) && !options_.forbid_alias) {
      reach = std::make_unique<AliasReach>(*device);
    } else {
      KEEL_RETURN_IF_ERROR(
          StagedReach::create(*device, options_.slots, options_.chunk_bytes, &reach));
    }
    reaches.push_back(std::move(reach));
  }
  reaches_ = std::move(reaches);
  return {};
}

const char* Bridge::reach_name(uint32_t rank) const {
  return devices_[rank]->claims(KEEL_CLAIM_HOST_ALIAS) && !options_.forbid_alias ? "alias"
                                                                                 : "staged";
}

ReachStats Bridge::stats() const {
  ReachStats sum;
  for (const auto& reach : reaches_) {
    sum.to_host += reach->stats().to_host;
    sum.to_device += reach->stats().to_device;
    sum.in_place += reach->stats().in_place;
  }
  return sum;
}

Status Bridge::named(const Status& status, uint32_t rank) const {
  if (status.ok()) return status;
  const bool known = status.code() == KEEL_TIMED_OUT || status.code() == KEEL_ABORTED;
  const keel_status code = known ? status.code() : KEEL_RANK_FAILED;
  return failure(code, "rank {} ({}): {}", rank, devices_[rank]->name(), status.text());
}

Status Bridge::run(const std::vector<Side>& sides, const Patience& patience) {
  KEEL_RETURN_IF_ERROR(prepare());
  const auto world = static_cast<uint32_t>(sides.size());
  const Request& request = sides[0].request;
  const std::vector<Segment> segments = segments_of(request, world);
  std::vector<Chunk> chunks;
  for (const Segment& segment : segments) {
    for (uint64_t offset = 0; offset < segment.bytes; offset += options_.chunk_bytes) {
      chunks.push_back({&segment, offset, std::min(options_.chunk_bytes, segment.bytes - offset)});
    }
  }
  Status status;
  for (uint32_t rank = 0; rank < world && status.ok(); ++rank) {
    status = named(reaches_[rank]->begin(sides[rank].ready, patience), rank);
  }
  if (status.ok()) status = run_chunks(sides, chunks, patience);
  // A barrier, or a rank that only receives, has to be ready too.
  for (uint32_t rank = 0; rank < world && status.ok(); ++rank) {
    status = named(patience.wait(sides[rank].ready), rank);
  }
  if (!status.ok()) reaches_.clear();
  return status;
}

Status Bridge::run_chunks(const std::vector<Side>& sides, const std::vector<Chunk>& chunks,
                          const Patience& patience) {
  // Chunks are fetched ahead of the one being reduced, as far as one slot short of all:
  // the slot that is left is the one still being delivered.
  const size_t ahead = options_.slots - 1;
  for (size_t i = 0; i < chunks.size() + ahead; ++i) {
    if (i < chunks.size()) {
      KEEL_RETURN_IF_ERROR(
          start_chunk(sides, chunks[i], static_cast<uint32_t>(i % options_.slots), patience));
    }
    if (i >= ahead) {
      const size_t done = i - ahead;
      KEEL_RETURN_IF_ERROR(complete_chunk(sides, chunks[done],
                                          static_cast<uint32_t>(done % options_.slots), patience));
    }
  }
  for (uint32_t rank = 0; rank < sides.size(); ++rank) {
    for (uint32_t slot = 0; slot < options_.slots; ++slot) {
      KEEL_RETURN_IF_ERROR(named(reaches_[rank]->finish_slot(slot, patience), rank));
    }
  }
  return {};
}

Status Bridge::start_chunk(const std::vector<Side>& sides, const Chunk& chunk, uint32_t slot,
                           const Patience& patience) {
  for (uint32_t rank = 0; rank < sides.size(); ++rank) {
    KEEL_RETURN_IF_ERROR(named(reaches_[rank]->finish_slot(slot, patience), rank));
  }
  for (const Place& source : chunk.segment->sources) {
    const void* address = source_address(sides[source.rank], source.offset + chunk.offset);
    KEEL_RETURN_IF_ERROR(
        named(reaches_[source.rank]->fetch(slot, address, chunk.bytes), source.rank));
  }
  return {};
}

Status Bridge::complete_chunk(const std::vector<Side>& sides, const Chunk& chunk, uint32_t slot,
                              const Patience& patience) {
  const Request& request = sides[0].request;
  // Members, so that a chunk allocates nothing once they have grown.
  std::vector<const void*>& sources = scratch_.sources;
  std::vector<Place>& places = scratch_.places;
  std::vector<void*>& destinations = scratch_.destinations;
  sources.clear();
  places.clear();
  destinations.clear();
  for (const Place& source : chunk.segment->sources) {
    const void* data = nullptr;
    KEEL_RETURN_IF_ERROR(named(reaches_[source.rank]->fetched(slot, patience, &data), source.rank));
    sources.push_back(data);
  }
  // A rank whose destination is its own source, when nothing is reduced, has it already.
  for (const Place& place : chunk.segment->destinations) {
    const bool in_place = sources.size() == 1 && place.rank == chunk.segment->sources[0].rank &&
                          source_address(sides[place.rank], chunk.segment->sources[0].offset) ==
                              destination_address(sides[place.rank], place.offset);
    if (!in_place) places.push_back(place);
  }
  for (const Place& place : places) {
    void* address = destination_address(sides[place.rank], place.offset + chunk.offset);
    void* data = nullptr;
    KEEL_RETURN_IF_ERROR(
        named(reaches_[place.rank]->target(slot, address, chunk.bytes, &data), place.rank));
    destinations.push_back(data);
  }
  const auto describe = [&](AccessList& accesses) {
    const Segment& segment = *chunk.segment;
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto& [rank, offset] = segment.sources[i];
      const void* address = source_address(sides[rank], offset + chunk.offset);
      accesses.add(reaches_[rank]->host_access(address, sources[i], chunk.bytes, false));
    }
    for (size_t i = 0; i < destinations.size(); ++i) {
      const auto& [rank, offset] = places[i];
      const void* address = destination_address(sides[rank], offset + chunk.offset);
      accesses.add(reaches_[rank]->host_access(address, destinations[i], chunk.bytes, true));
    }
  };
  const HostSpan span(sources.size() == 1 ? "host copy" : "host reduce", describe);
  if (sources.size() == 1) {
    for (void* destination : destinations) {
      if (destination != sources[0]) std::memcpy(destination, sources[0], chunk.bytes);
    }
  } else {
    reduce(request.dtype, request.reduction, sources, destinations,
           chunk.bytes / std::max(1u, kit::dtype_size(request.dtype)));
  }
  for (const Place& place : places) {
    void* address = destination_address(sides[place.rank], place.offset + chunk.offset);
    KEEL_RETURN_IF_ERROR(
        named(reaches_[place.rank]->deliver(slot, address, chunk.bytes), place.rank));
  }
  return {};
}

}  // namespace keel
