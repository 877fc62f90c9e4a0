// SPDX-License-Identifier: Apache-2.0
// The emulated chip, pausable: the plugin libkeel_sim.so of KEEL_PLUGIN_PATH with its streams
// recorded, so that all of them can wait at gates of the chip. Everything else is the original
// plugin's.
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <map>
#include <mutex>

#include "core/testing/fake_plugin.h"
#include "core/testing/sim_plugin.h"

namespace keel::testing {
namespace {

const keel_plugin* g_sim = nullptr;

class Streams {
 public:
  static Streams& get() {
    static Streams instance;
    return instance;
  }

  keel_status add(keel_plugin_device* device, keel_plugin_stream* stream) {
    std::lock_guard lock(mutex_);
    devices_[stream] = device;
    return paused_ ? hold(device, stream) : KEEL_OK;
  }
  void remove(keel_plugin_stream* stream) {
    std::lock_guard lock(mutex_);
    devices_.erase(stream);
  }
  void pause() {
    std::lock_guard lock(mutex_);
    paused_ = true;
    for (const auto& [stream, device] : devices_) hold(device, stream);
  }
  void go_on() {
    std::lock_guard lock(mutex_);
    paused_ = false;
    for (const auto& [device, gate] : gates_) {
      g_sim->stream->gate_open(gate);
      g_sim->stream->gate_destroy(gate);
    }
    gates_.clear();
  }

 private:
  keel_status hold(keel_plugin_device* device, keel_plugin_stream* stream) {
    keel_plugin_gate*& gate = gates_[device];
    if (gate == nullptr) {
      const keel_status made = g_sim->stream->gate_create(device, &gate);
      if (made != KEEL_OK) return made;
    }
    return g_sim->stream->stream_wait_gate(stream, gate);
  }

  std::mutex mutex_;
  bool paused_ = false;
  std::map<keel_plugin_stream*, keel_plugin_device*> devices_;
  std::map<keel_plugin_device*, keel_plugin_gate*> gates_;  // closed
};

keel_status stream_create(keel_plugin_device* device, int32_t priority,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    const keel_status created = g_sim->stream->create(device, priority, out_stream);
    return created == KEEL_OK ? Streams::get().add(device, *out_stream) : created;
  });
}

void stream_destroy(keel_plugin_stream* stream) {
  Streams::get().remove(stream);
  g_sim->stream->destroy(stream);
}

}  // namespace
}  // namespace keel::testing

extern "C" {

KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                             const keel_plugin** out_plugin) {
  using namespace keel::testing;
  const keel_status answered = query_sim("sim_paused", host, &g_sim);
  if (answered != KEEL_OK) return answered;
  static keel_stream_table stream = {};
  stream = *g_sim->stream;
  stream.create = stream_create;
  stream.destroy = stream_destroy;
  static keel_plugin plugin = {};
  plugin = *g_sim;
  plugin.stream = &stream;
  *out_plugin = &plugin;
  return KEEL_OK;
}

KEEL_EXPORT void keel_fake_pause(int paused) {
  keel::testing::Streams& streams = keel::testing::Streams::get();
  if (paused != 0) {
    streams.pause();
  } else {
    streams.go_on();
  }
}

}  // extern "C"
