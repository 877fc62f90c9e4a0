// SPDX-License-Identifier: Apache-2.0
// The functions of the XRE shim for the shim of BKCL over the same chips, which finds libxpurt.so
// in its folder and looks these functions up by name. Both come from one build, so C++ objects of
// the chip may cross.
#ifndef KEEL_EMULATOR_SHIMS_XRE_SHARING_H_
#define KEEL_EMULATOR_SHIMS_XRE_SHARING_H_

#include <memory>

#include "emulator/device.h"
#include "emulator/stream.h"

extern "C" {

// Returns the chip of the calling thread's current device.
int keel_emulated_xre_chip(std::shared_ptr<keel::emulator::Device>* out_chip);
// Returns the stream |handle| of the calling thread's current device; NULL is the default stream. A
// stream of another device, or a destroyed one, ends the process.
int keel_emulated_xre_stream(void* handle, std::shared_ptr<keel::emulator::Stream>* out_stream);
}

#endif  // KEEL_EMULATOR_SHIMS_XRE_SHARING_H_
