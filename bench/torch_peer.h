// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators, run by a Python process (peers/torch_ops.py) that reads one line per
// measurement, so that PyTorch's rounds and Keel's alternate.
#ifndef KEEL_BENCH_TORCH_PEER_H_
#define KEEL_BENCH_TORCH_PEER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/ipc/process.h"

namespace keel::bench {

struct TorchOptions {
  // PyTorch's name of the device. For the CPU, Debian's PyTorch is used, the same on every machine.
  // For a GPU, the first interpreter whose PyTorch supports the device: $KEEL_BENCH_PYTHON if set;
  // else python3 in PATH, then Debian's.
  std::string device = "cpu";
  uint32_t threads = 1;  // CPU threads
  uint32_t sets = 1;     // of tensors per operator, used in turn
  std::string script = default_script();

  static std::string default_script();  // peers/torch_ops.py beside this program
};

class TorchPeer {
 public:
  // Returns null if there is no PyTorch; |*out_why| is the reason.
  static std::unique_ptr<TorchPeer> start(const TorchOptions& options, std::string* out_why);
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  const std::string& name() const { return name_; }  // "PyTorch 1.13.0a0, AVX2"
  bool answers() const { return answers_; }          // false once it ended or was too slow
  // Returns whether PyTorch supports |mode|: "eager", "compile", "fused". |*out_why| is the reason
  // if not.
  bool can(const std::string& mode, std::string* out_why);
  // Returns the seconds of |repetitions| runs, by the GPU's clock on a GPU, without the creation of
  // tensors: the process keeps the tensors of the last requested operator. |shape|: "16384x1024".
  // Throws with the process's error message, or if the process has ended.
  double run(const std::string& operator_name, const std::string& shape, const std::string& dtype,
             const std::string& mode, uint64_t repetitions);

 private:
  explicit TorchPeer(std::string script) : script_(std::move(script)) {}

  // Starts |interpreter|. Returns whether its PyTorch supports the device.
  bool begin(const std::string& interpreter, const TorchOptions& options, std::string* out_why);

  void send(const std::string& line);
  // Returns the next line; throws at the deadline and at the end of the output.
  std::string receive();

  const std::string script_;
  std::string name_;
  Process process_;  // killed with the peer, not waiting for its computation
  FileDescriptor socket_;
  bool answers_ = true;
  std::string received_;  // not yet consumed
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_TORCH_PEER_H_
