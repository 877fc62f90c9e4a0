// SPDX-License-Identifier: Apache-2.0
// C++ over comm_start.h, store.h, rank_status.h and shrink.h: communicators that form while the
// caller goes on, whose ranks meet through a store of the caller's, or that go on after a failure.
// The rules of keel.hpp hold; keel.hpp does not include this header.
//
//   keel::Communicator comm = keel::start(gpu, id, rank, world);
//   load_weights();                                   // meanwhile the ranks meet
//   keel::wait_ready(comm);
#ifndef KEEL_COMMUNICATORS_HPP_
#define KEEL_COMMUNICATORS_HPP_

#include <keel/comm_start.h>
#include <keel/rank_status.h>
#include <keel/shrink.h>
#include <keel/store.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <keel/collectives.hpp>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keel {
inline namespace v0 {

// ---- formation without waiting (comm_start.h)

// Joins as rank |rank| of |world|; the ranks meet on a thread of Keel's.
inline Communicator start(const Device& device, const keel_unique_id& id, uint32_t rank,
                          uint32_t world, const keel_comm_options* options = nullptr) {
  keel_comm comm;
  check(keel_comm_init_rank_start(device.get(), &id, rank, world, options, &comm));
  return Communicator::adopt(comm);
}
// Joins the other processes of the job that this process was started in.
inline Communicator start_from_environment(const Device& device,
                                           const keel_comm_options* options = nullptr) {
  keel_comm comm;
  check(keel_comm_init_env_start(device.get(), options, &comm));
  return Communicator::adopt(comm);
}
// Whether |comm| has formed; throws why it did not.
inline bool is_ready(const Communicator& comm) {
  return api_detail::is_ready(keel_comm_async_error(comm.get()));
}
// Waits until |comm| has formed; throws why it did not.
inline void wait_ready(const Communicator& comm,
                       std::chrono::nanoseconds timeout = kDefaultTimeout) {
  check(keel_comm_wait_ready(comm.get(), timeout.count()));
}

// ---- a store of the caller's (store.h)

// A key-value store as one rank sees it; keel_store has the contract of the two functions. Failures
// are exceptions: of a keel::Error the other ranks see the status, of others KEEL_INTERNAL.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, std::span<const std::byte> value,
                   std::chrono::nanoseconds timeout) = 0;
  // Waits for |key| up to |timeout|; no value if |key| is not there in time. A store that cannot
  // wait returns at once, and is asked again.
  virtual std::optional<std::vector<std::byte>> get(const std::string& key,
                                                    std::chrono::nanoseconds timeout) = 0;
};

namespace api_detail {

// Status of the exception that is being handled.
inline keel_status status_of_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return KEEL_OUT_OF_MEMORY;
  } catch (...) {
    return KEEL_INTERNAL;
  }
}

// A Store behind the functions of a keel_store; keeps the first exception.
struct StoreCaller {
  Store& store;
  std::exception_ptr failure;

  template <typename Call>
  keel_status run(const Call& call) {
    try {
      return call();
    } catch (...) {
      if (!failure) failure = std::current_exception();
      return status_of_exception();
    }
  }
  static keel_status set(void* user, const char* key, const void* data, uint64_t size,
                         int64_t timeout_ns) {
    auto& self = *static_cast<StoreCaller*>(user);
    return self.run([&] {
      self.store.set(key, {static_cast<const std::byte*>(data), size},
                     std::chrono::nanoseconds(timeout_ns));
      return KEEL_OK;
    });
  }
  static keel_status get(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                         int64_t timeout_ns) {
    auto& self = *static_cast<StoreCaller*>(user);
    return self.run([&] {
      const auto value = self.store.get(key, std::chrono::nanoseconds(timeout_ns));
      if (!value) return KEEL_NOT_FOUND;
      const bool fits = value->size() <= *in_out_size;
      if (fits) std::copy(value->begin(), value->end(), static_cast<std::byte*>(out_data));
      *in_out_size = value->size();
      return fits ? KEEL_OK : KEEL_OUT_OF_RANGE;
    });
  }

  keel_store view(const std::string& prefix) {
    keel_store store = KEEL_STRUCT_INIT(keel_store, KEEL_STRUCT_STORE);
    store.user = this;
    store.prefix = prefix.c_str();
    store.set = &StoreCaller::set;
    store.get = &StoreCaller::get;
    return store;
  }
};

}  // namespace api_detail

// Joins as rank |rank| of |world| through |store|; waits for the other ranks. Throws the exception
// of |store| if one ended the call.
inline Communicator join(const Device& device, Store& store, const std::string& prefix,
                         uint32_t rank, uint32_t world,
                         const keel_comm_options* options = nullptr) {
  api_detail::StoreCaller caller{store, nullptr};
  const keel_store view = caller.view(prefix);
  keel_comm comm;
  const keel_status status = keel_comm_init_store(device.get(), &view, rank, world, options, &comm);
  if (status != KEEL_OK && caller.failure) std::rethrow_exception(caller.failure);
  check(status);
  return Communicator::adopt(comm);
}

// ---- one rank's presence (rank_status.h)

// Throws why |rank| no longer takes part in |comm|, if so.
inline void check_rank(const Communicator& comm, uint32_t rank) {
  check(keel_comm_rank_status(comm.get(), rank));
}

// ---- after a failure (shrink.h)

// The ranks of |comm| that are left. |absent|: a rank that makes no progress for so long is left
// out; 0: never.
inline Communicator shrink(const Communicator& comm,
                           std::chrono::nanoseconds timeout = kDefaultTimeout,
                           std::chrono::nanoseconds absent = {},
                           const keel_comm_options* options = nullptr) {
  keel_comm left;
  check(keel_comm_shrink(comm.get(), timeout.count(), absent.count(), options, &left));
  return Communicator::adopt(left);
}

struct Survivors {
  std::vector<uint32_t> ranks;  // by rank, the numbers before the last shrink
  uint64_t epoch = 0;           // 1 before the first shrink
};
inline Survivors survivors(const Communicator& comm) {
  Survivors survivors;
  survivors.ranks.resize(comm.world());
  auto count = static_cast<uint32_t>(survivors.ranks.size());
  check(keel_comm_survivors(comm.get(), survivors.ranks.data(), &count, &survivors.epoch));
  return survivors;
}

}  // namespace v0
}  // namespace keel

#endif  // KEEL_COMMUNICATORS_HPP_
