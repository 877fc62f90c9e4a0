// SPDX-License-Identifier: Apache-2.0
// The emulated chip with injected refusals: wraps the plugin libkeel_sim.so of KEEL_PLUGIN_PATH.
// The slots that make a native communicator fail on a test's request; all other slots are the
// wrapped plugin's.
#include <keel/abi.h>

#include <condition_variable>
#include <keel/plugin_kit.hpp>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/hierarchical/testing/sim_refusing.h"
#include "core/testing/sim_plugin.h"

namespace keel::testing {
namespace {

const keel_plugin* g_sim = nullptr;

// The refusals that tests have requested. Singleton. Thread-safe.
class Refusals {
 public:
  static Refusals& get() {
    static Refusals instance;
    return instance;
  }

  void add(const char* slot, uint32_t ordinal, keel_status code) {
    std::lock_guard lock(mutex_);
    refusals_.push_back({slot, ordinal, code});
  }
  void clear() {
    std::lock_guard lock(mutex_);
    refusals_.clear();
    done_ = 0;
    queries_ = 0;
  }

  // Returns KEEL_OK, or the code that |slot| of the device |ordinal| returns instead of running.
  keel_status check(const char* slot, uint32_t ordinal) {
    std::unique_lock lock(mutex_);
    for (size_t i = 0; i < refusals_.size(); ++i) {
      const Refusal refusal = refusals_[i];
      if (refusal.slot != slot || refusal.ordinal != ordinal) continue;
      changed_.wait(lock, [&] { return done_ >= i; });
      done_ = i + 1;
      changed_.notify_all();
      return kit::fail(refusal.code, "%s is refused by the test", slot);
    }
    return KEEL_OK;
  }
  // check() for ccl.info, a slot of the plugin: |ordinal| is the number of the query.
  keel_status check_info() {
    uint32_t query = 0;
    {
      std::lock_guard lock(mutex_);
      query = queries_++;
    }
    return check("ccl.info", query);
  }

  void note(const void* object, uint32_t ordinal) {
    std::lock_guard lock(mutex_);
    ordinals_[object] = ordinal;
  }
  uint32_t ordinal_of(const void* object) {
    std::lock_guard lock(mutex_);
    return ordinals_[object];
  }

 private:
  struct Refusal {
    std::string slot;
    uint32_t ordinal;
    keel_status code;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Refusal> refusals_;
  size_t done_ = 0;
  uint32_t queries_ = 0;
  std::map<const void*, uint32_t> ordinals_;  // of devices and communicators
};

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    const keel_status opened = g_sim->device->open(instance, ordinal, out_device);
    if (opened == KEEL_OK) Refusals::get().note(*out_device, ordinal);
    return opened;
  });
}

keel_status stream_create(keel_plugin_device* device, int32_t priority,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    const uint32_t ordinal = Refusals::get().ordinal_of(device);
    const keel_status checked = Refusals::get().check("stream.create", ordinal);
    return checked == KEEL_OK ? g_sim->stream->create(device, priority, out_stream) : checked;
  });
}

keel_status ccl_info(keel_plugin_instance* instance, keel_ccl_info* out_info) {
  return kit::guard([&] {
    const keel_status checked = Refusals::get().check_info();
    return checked == KEEL_OK ? g_sim->ccl->info(instance, out_info) : checked;
  });
}

keel_status ccl_unique_id(keel_plugin_device* device, void* out_id, uint64_t* in_out_size) {
  return kit::guard([&] {
    const uint32_t ordinal = Refusals::get().ordinal_of(device);
    const keel_status checked = Refusals::get().check("ccl.unique_id", ordinal);
    return checked == KEEL_OK ? g_sim->ccl->unique_id(device, out_id, in_out_size) : checked;
  });
}

keel_status ccl_init_rank(keel_plugin_device* device, const void* id, uint64_t id_size,
                          int32_t rank, int32_t world, int64_t timeout_ns,
                          keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    const uint32_t ordinal = Refusals::get().ordinal_of(device);
    const keel_status checked = Refusals::get().check("ccl.init_rank", ordinal);
    if (checked != KEEL_OK) return checked;
    const keel_status made =
        g_sim->ccl->init_rank(device, id, id_size, rank, world, timeout_ns, out_comm);
    if (made == KEEL_OK) Refusals::get().note(*out_comm, ordinal);
    return made;
  });
}

keel_status ccl_split(keel_plugin_comm* comm, const uint32_t* ranks, uint32_t world, uint32_t rank,
                      int64_t timeout_ns, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    const uint32_t ordinal = Refusals::get().ordinal_of(comm);
    const keel_status checked = Refusals::get().check("ccl.split", ordinal);
    if (checked != KEEL_OK) return checked;
    const keel_status made = g_sim->ccl->split(comm, ranks, world, rank, timeout_ns, out_comm);
    if (made == KEEL_OK && *out_comm != nullptr) Refusals::get().note(*out_comm, ordinal);
    return made;
  });
}

}  // namespace
}  // namespace keel::testing

extern "C" {

KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                             const keel_plugin** out_plugin) {
  using namespace keel::testing;
  const keel_status answered = query_sim("sim_refusing", host, &g_sim);
  if (answered != KEEL_OK) return answered;
  static keel_device_table device = {};
  device = *g_sim->device;
  device.open = device_open;
  static keel_stream_table stream = {};
  stream = *g_sim->stream;
  stream.create = stream_create;
  static keel_ccl_table ccl = {};
  ccl = *g_sim->ccl;
  ccl.info = ccl_info;
  ccl.unique_id = ccl_unique_id;
  ccl.init_rank = ccl_init_rank;
  ccl.split = ccl_split;
  static keel_plugin plugin = {};
  plugin = *g_sim;
  plugin.device = &device;
  plugin.stream = &stream;
  plugin.ccl = &ccl;
  *out_plugin = &plugin;
  return KEEL_OK;
}

KEEL_EXPORT void keel_sim_refuse(const char* slot, uint32_t ordinal, keel_status code) {
  if (slot == nullptr) {
    keel::testing::Refusals::get().clear();
  } else {
    keel::testing::Refusals::get().add(slot, ordinal, code);
  }
}

}  // extern "C"
