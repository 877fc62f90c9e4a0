// SPDX-License-Identifier: Apache-2.0
// Keel's devices as PyTorch's devices keel:0, keel:1, ...; their streams; failures as PyTorch's
// exceptions.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_DEVICES_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_DEVICES_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <keel/keel.h>

#include <string>

namespace keel_torch::device {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

// Number of devices; 0 where Keel cannot be initialised or this process was forked from one that
// used Keel. The first call initialises Keel and loads the plugins of KEEL_DEVICES, else all.
c10::DeviceIndex count() noexcept;

// Returns whether the list of devices was made in this process or a parent.
bool is_initialized() noexcept;
// Returns whether this process was forked after Keel's initialisation.
bool is_forked() noexcept;

// The Keel device behind keel:|index|. Throws for an index beyond the list, with the list.
keel_device handle(c10::DeviceIndex index);
// Returns "cpu:0".
std::string name(c10::DeviceIndex index);
// Returns the index of the Keel device |name|, "vulkan:0" or "vulkan".
c10::DeviceIndex find(const std::string& name);

// The calling thread's device.
c10::DeviceIndex current() noexcept;
void set_current(c10::DeviceIndex index) noexcept;
// Returns |index|, or the calling thread's device for -1.
c10::DeviceIndex resolve(c10::DeviceIndex index) noexcept;

// Stream 0 of a device is its default stream; the others are created on demand and never destroyed.
c10::Stream current_stream(c10::DeviceIndex index) noexcept;
c10::Stream exchange_stream(c10::Stream stream) noexcept;
// Returns the next of 32 pooled streams, round-robin; of 32 others for a |priority| below 0.
// Streams have no owner that could return them, as in PyTorch's pools for CUDA.
c10::Stream pooled_stream(c10::DeviceIndex index, int priority);
// Returns a stream that no pool shares, of at most 1024 streams.
c10::Stream new_stream(c10::DeviceIndex index, int priority);
keel_stream handle(c10::Stream stream);
// The calling thread's stream of |index|.
keel_stream stream_of(c10::DeviceIndex index);

// Throws |what| and the calling thread's last failure unless |status| is KEEL_OK; as
// torch.OutOfMemoryError for KEEL_OUT_OF_MEMORY.
void check(keel_status status, const char* what);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_DEVICES_H_
