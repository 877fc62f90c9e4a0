// SPDX-License-Identifier: Apache-2.0
// Level collectives: shapes that the per-dtype cases omit: roots, counts of 0, pieces of different
// lengths with gaps between them, groups, messages, splits, and ranks in a different order than
// their devices. Gather, scatter and the v-forms use the library's messages if it has them.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <keel/plugin_kit.hpp>

#include "conformance/collective_ranks.h"
#include "conformance/collective_values.h"
#include "conformance/harness.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kGap = 64;  // bytes around each buffer that no call may write

int64_t value_at(uint32_t rank, uint64_t i, uint64_t salt) {
  return static_cast<int64_t>((i * 7 + rank * 31 + salt * 13) % 31) + 1;
}

// Returns |count| elements from |first| on of |rank|'s send data.
Bytes sent(keel_dtype dtype, uint32_t rank, uint64_t first, uint64_t count, uint64_t salt) {
  return elements(dtype, first, count, [&](uint64_t i) { return value_at(rank, i, salt); });
}

void put(Bytes& memory, uint64_t at, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(at));
}

// One rank's buffers of an operation; the memory around them must stay unchanged.
struct Buffers {
  Bytes send;
  Bytes received;         // expected content of the receive buffer
  bool receives = false;  // false: the receive buffer is NULL
};

// Calls |call| on each rank, with buffers |skew| bytes after a multiple of 256.
void run_shape(const Ranks& ranks, const std::function<Buffers(uint32_t rank)>& buffers_of,
               uint64_t skew,
               const std::function<keel_status(uint32_t rank, const std::byte* send,
                                               std::byte* receive)>& call,
               const std::string& what, Where where = Where::current()) {
  std::vector<Buffer> memory;
  std::vector<Bytes> wanted;
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const Buffers buffers = buffers_of(rank);
    const uint64_t send_at = 256 + skew;
    const uint64_t receive_at = (send_at + buffers.send.size() + kGap + 255) / 256 * 256 + skew;
    Bytes content(receive_at + buffers.received.size() + kGap, kRedZone);
    put(content, send_at, buffers.send);
    memory.push_back(ranks.buffer(rank, content.size()));
    ranks.stream(rank).upload(memory[rank].data(), content, where);
    ranks.stream(rank).synchronize(where);
    put(content, receive_at, buffers.received);
    wanted.push_back(std::move(content));
  }
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const Buffers buffers = buffers_of(rank);
    const uint64_t receive_at = (256 + skew + buffers.send.size() + kGap + 255) / 256 * 256 + skew;
    must(call(rank, buffers.send.empty() ? nullptr : memory[rank].at(256 + skew),
              buffers.receives ? memory[rank].at(receive_at) : nullptr),
         fmt::format("{} on rank {}", what, rank), where);
  }
  std::vector<Bytes> got;
  for (const Bytes& each : wanted) got.emplace_back(each.size());
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    ranks.stream(rank).download(got[rank], memory[rank].data(), where);
  }
  ranks.synchronize(where);
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    check_equal(got[rank], wanted[rank],
                fmt::format("{}, rank {} of {}", what, rank, ranks.world()), where);
  }
}

int64_t sum_at(uint32_t world, uint64_t i, uint64_t salt) {
  int64_t sum = 0;
  for (uint32_t rank = 0; rank < world; ++rank) sum += value_at(rank, i, salt);
  return sum;
}

// ---- roots --------------------------------------------------------------------------------------

// Each rank is the root once, with buffers aligned only to the element size.
void roots(const Context& context, keel_dtype dtype) {
  const Ranks ranks(context);
  const uint32_t world = ranks.world();
  const uint64_t element = kit::dtype_size(dtype);
  uint64_t salt = 0;
  for (uint32_t root = 0; root < world; ++root) {
    for (const uint64_t count : {1ULL, 1009ULL, 9973ULL}) {
      ++salt;
      const auto name = [&](const char* what) {
        return fmt::format("{} of {}, root {}, unaligned", what, count, root);
      };
      const auto stream = [&](uint32_t rank) { return ranks.stream(rank).get(); };
      run_shape(
          ranks,
          [&](uint32_t rank) {
            Buffers own = {sent(dtype, rank, 0, count, salt), {}, rank == root};
            if (rank == root) {
              own.received =
                  elements(dtype, 0, count, [&](uint64_t i) { return sum_at(world, i, salt); });
            }
            return own;
          },
          element,
          [&](uint32_t rank, const std::byte* send, std::byte* receive) {
            return keel_reduce(ranks.comm(rank), send, receive, count, dtype, KEEL_SUM, root,
                               stream(rank));
          },
          name("keel_reduce"));
      run_shape(
          ranks,
          [&](uint32_t rank) {
            return Buffers{rank == root ? sent(dtype, root, 0, count, salt) : Bytes(),
                           sent(dtype, root, 0, count, salt), true};
          },
          element,
          [&](uint32_t rank, const std::byte* send, std::byte* receive) {
            return keel_broadcast(ranks.comm(rank), send, receive, count, dtype, root,
                                  stream(rank));
          },
          name("keel_broadcast"));
      run_shape(
          ranks,
          [&](uint32_t rank) {
            Buffers own = {sent(dtype, rank, 0, count, salt), {}, rank == root};
            for (uint32_t peer = 0; rank == root && peer < world; ++peer) {
              const Bytes piece = sent(dtype, peer, 0, count, salt);
              own.received.insert(own.received.end(), piece.begin(), piece.end());
            }
            return own;
          },
          element,
          [&](uint32_t rank, const std::byte* send, std::byte* receive) {
            return keel_gather(ranks.comm(rank), send, receive, count, dtype, root, stream(rank));
          },
          name("keel_gather"));
      run_shape(
          ranks,
          [&](uint32_t rank) {
            return Buffers{rank == root ? sent(dtype, root, 0, count * world, salt) : Bytes(),
                           sent(dtype, root, rank * count, count, salt), true};
          },
          element,
          [&](uint32_t rank, const std::byte* send, std::byte* receive) {
            return keel_scatter(ranks.comm(rank), send, receive, count, dtype, root, stream(rank));
          },
          name("keel_scatter"));
    }
  }
}

// ---- forms with arrays -------------------------------------------------------------------------

// One entry per rank, in elements, with gaps between the pieces.
struct Pieces {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;
  uint64_t extent = 0;
};

// Builds pieces of which some are empty; |salt| selects which.
Pieces pieces_of(uint32_t world, uint64_t salt) {
  Pieces pieces;
  for (uint32_t rank = 0; rank < world; ++rank) {
    constexpr uint64_t kCounts[] = {1009, 0, 1, 4099, 64};
    pieces.counts.push_back(kCounts[(rank + salt) % std::size(kCounts)]);
    pieces.extent += 3;
    pieces.offsets.push_back(pieces.extent);
    pieces.extent += pieces.counts.back();
  }
  pieces.extent += 5;
  return pieces;
}

// Returns the pieces at their offsets, with red zones between them.
Bytes spread(keel_dtype dtype, const Pieces& pieces,
             const std::function<Bytes(uint32_t rank, uint64_t count)>& piece_of) {
  const uint64_t element = kit::dtype_size(dtype);
  Bytes bytes(pieces.extent * element, kRedZone);
  for (uint32_t rank = 0; rank < pieces.counts.size(); ++rank) {
    put(bytes, pieces.offsets[rank] * element, piece_of(rank, pieces.counts[rank]));
  }
  return bytes;
}

void with_arrays(const Context& context, keel_dtype dtype) {
  const Ranks ranks(context);
  const uint32_t world = ranks.world();
  const auto stream = [&](uint32_t rank) { return ranks.stream(rank).get(); };
  for (uint64_t salt = 0; salt < 5; ++salt) {
    const auto root = static_cast<uint32_t>(salt % world);
    const Pieces pieces = pieces_of(world, salt);
    const auto whole_of = [&](const std::function<Bytes(uint32_t, uint64_t)>& piece_of) {
      return spread(dtype, pieces, piece_of);
    };

    run_shape(
        ranks,
        [&](uint32_t rank) {
          return Buffers{sent(dtype, rank, 0, std::max<uint64_t>(pieces.counts[rank], 1), salt),
                         whole_of([&](uint32_t peer, uint64_t count) {
                           return sent(dtype, peer, 0, count, salt);
                         }),
                         true};
        },
        0,
        [&](uint32_t rank, const std::byte* send, std::byte* receive) {
          return keel_all_gather_v(ranks.comm(rank), send, receive, pieces.counts.data(),
                                   pieces.offsets.data(), dtype, stream(rank));
        },
        fmt::format("keel_all_gather_v, shape {}", salt));
    run_shape(
        ranks,
        [&](uint32_t rank) {
          Buffers own = {sent(dtype, rank, 0, std::max<uint64_t>(pieces.counts[rank], 1), salt),
                         {},
                         rank == root};
          if (rank == root) {
            own.received = whole_of(
                [&](uint32_t peer, uint64_t count) { return sent(dtype, peer, 0, count, salt); });
          }
          return own;
        },
        0,
        [&](uint32_t rank, const std::byte* send, std::byte* receive) {
          return keel_gather_v(ranks.comm(rank), send, receive, pieces.counts.data(),
                               pieces.offsets.data(), dtype, root, stream(rank));
        },
        fmt::format("keel_gather_v, shape {}", salt));
    const auto piece_at = [&](uint32_t from, uint32_t to) {
      return sent(dtype, from, pieces.offsets[to], pieces.counts[to], salt);
    };
    run_shape(
        ranks,
        [&](uint32_t rank) {
          return Buffers{rank == root ? sent(dtype, root, 0, pieces.extent, salt) : Bytes(),
                         piece_at(root, rank), true};
        },
        0,
        [&](uint32_t rank, const std::byte* send, std::byte* receive) {
          return keel_scatter_v(ranks.comm(rank), send, receive, pieces.counts.data(),
                                pieces.offsets.data(), dtype, root, stream(rank));
        },
        fmt::format("keel_scatter_v, shape {}", salt));
    run_shape(
        ranks,
        [&](uint32_t rank) {
          return Buffers{sent(dtype, rank, 0, pieces.extent, salt),
                         elements(dtype, pieces.offsets[rank], pieces.counts[rank],
                                  [&](uint64_t i) { return sum_at(world, i, salt); }),
                         true};
        },
        0,
        [&](uint32_t rank, const std::byte* send, std::byte* receive) {
          return keel_reduce_scatter_v(ranks.comm(rank), send, receive, pieces.counts.data(),
                                       pieces.offsets.data(), dtype, KEEL_SUM, stream(rank));
        },
        fmt::format("keel_reduce_scatter_v, shape {}", salt));
    // Rank i sends the pieces of to_of(i), and rank j receives the pieces of from_of(j).
    const auto to_of = [&](uint32_t rank) { return pieces_of(world, salt + rank); };
    const auto from_of = [&](uint32_t rank) {
      Pieces from;
      for (uint32_t peer = 0; peer < world; ++peer) {
        from.extent += 2;
        from.counts.push_back(to_of(peer).counts[rank]);
        from.offsets.push_back(from.extent);
        from.extent += from.counts.back();
      }
      from.extent += 1;
      return from;
    };
    run_shape(
        ranks,
        [&](uint32_t rank) {
          return Buffers{sent(dtype, rank, 0, to_of(rank).extent, salt),
                         spread(dtype, from_of(rank),
                                [&](uint32_t peer, uint64_t count) {
                                  return sent(dtype, peer, to_of(peer).offsets[rank], count, salt);
                                }),
                         true};
        },
        0,
        [&](uint32_t rank, const std::byte* send, std::byte* receive) {
          const Pieces to = to_of(rank);
          const Pieces from = from_of(rank);
          return keel_all_to_all_v(ranks.comm(rank), send, to.counts.data(), to.offsets.data(),
                                   receive, from.counts.data(), from.offsets.data(), dtype,
                                   stream(rank));
        },
        fmt::format("keel_all_to_all_v, shape {}", salt));
  }
}

// ---- nothing -----------------------------------------------------------------------------------

// Operations on no elements must complete, write nothing, and count as operations.
void no_elements(const Context& context) {
  const Ranks ranks(context);
  const uint32_t world = ranks.world();
  std::vector<Buffer> memory;
  const Bytes before(4096, kRedZone);
  for (uint32_t rank = 0; rank < world; ++rank) {
    memory.push_back(ranks.buffer(rank, before.size()));
    ranks.stream(rank).upload(memory[rank].data(), before);
  }
  using Call = keel_status (*)(keel_comm, std::byte*, keel_stream);
  constexpr Call kCalls[] = {
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_all_reduce(comm, data, data, 0, KEEL_FLOAT32, KEEL_SUM, stream);
      },
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_reduce(comm, data, data, 0, KEEL_FLOAT32, KEEL_SUM, 0, stream);
      },
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_broadcast(comm, data, data, 0, KEEL_FLOAT32, 0, stream);
      },
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_all_gather(comm, data, data, 0, KEEL_FLOAT32, stream);
      },
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_reduce_scatter(comm, data, data, 0, KEEL_FLOAT32, KEEL_SUM, stream);
      },
      [](keel_comm comm, std::byte* data, keel_stream stream) {
        return keel_all_to_all(comm, data, data, 0, KEEL_FLOAT32, stream);
      },
      [](keel_comm comm, std::byte*, keel_stream stream) { return keel_barrier(comm, stream); },
  };
  for (size_t i = 0; i < std::size(kCalls); ++i) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      must(kCalls[i](ranks.comm(rank), memory[rank].data(), ranks.stream(rank).get()),
           fmt::format("collective {} of no elements on rank {}", i, rank));
    }
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    Bytes got(before.size());
    ranks.stream(rank).download(got, memory[rank].data());
    ranks.stream(rank).synchronize();
    check_equal(got, before, "what collectives of no elements leave");
  }
}

}  // namespace

void add_collective_shapes_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"collectives/" + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  add("no_elements", no_elements);
  for (const keel_dtype dtype : {KEEL_UINT8, KEEL_INT32, KEEL_FLOAT32, KEEL_INT64}) {
    const std::string name = kit::dtype_name(dtype);
    add("roots/" + name, [dtype](const Context& context) { roots(context, dtype); });
    add("arrays/" + name, [dtype](const Context& context) { with_arrays(context, dtype); });
  }
}

}  // namespace keel::conformance
