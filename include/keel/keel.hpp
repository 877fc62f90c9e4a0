// SPDX-License-Identifier: Apache-2.0
// Keel for C++20, header-only over keel.h: objects that own their handles, failures as exceptions,
// tensors and operator calls as values.
//
//   keel::Runtime runtime;
//   keel::Device gpu = keel::Device::find("vulkan:0");
//   keel::Stream stream(gpu);
//   auto x = keel::Buffer::of<float>(gpu, 1024);
//   stream.upload(x, host_x);
//   keel_tensor a = x.tensor<float>({32, 32});
//   keel::ops::matmul(stream, {.a = a, .b = a, .c = c});
//   stream.synchronize();
//
// Rules that hold for everything here, unless a comment says otherwise:
//  - The contract of the C function behind a member holds for the member too:
//    threads, blocking, ownership.
//  - A failure is thrown as keel::Error. Libkeel itself throws nothing: the exception
//    begins and ends in the binary that includes this header.
//  - Objects that own a handle move and do not copy; a moved-from object owns
//    nothing, and may only be assigned to or destroyed. Destructors swallow
//    failures: to see them, synchronize before.
//  - All objects are destroyed before the Runtime.
#ifndef KEEL_KEEL_HPP_
#define KEEL_KEEL_HPP_

#include <keel/buffer.hpp>
#include <keel/collectives.hpp>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/module.hpp>
#include <keel/op.hpp>
#include <keel/ops.hpp>
#include <keel/runtime.hpp>
#include <keel/stream.hpp>
#include <keel/tensor.hpp>
#if __has_include(<dlpack/dlpack.h>)
#include <keel/dlpack.hpp>
#endif

#endif  // KEEL_KEEL_HPP_
