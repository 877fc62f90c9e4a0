// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators, run by a Python process beside this one (peers/torch_ops.py) that takes one
// line for each measurement, so that its rounds and Keel's take turns.
#ifndef KEEL_BENCH_TORCH_PEER_H_
#define KEEL_BENCH_TORCH_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace keel::bench {

struct TorchOptions {
  // PyTorch's name of it. On the CPU Debian's PyTorch counts, which Keel's figures are held
  // against on every machine; on a GPU that of the first of $KEEL_BENCH_PYTHON, PATH's python3 and
  // Debian's which has one for it.
  std::string device = "cpu";
  uint32_t threads = 1;  // of the CPU
  uint32_t sets = 1;     // of tensors of each operator, gone through in turn
  std::string script = default_script();

  static std::string default_script();  // peers/torch_ops.py beside this program
};

class TorchPeer {
 public:
  // Null where there is none; |*out_why| says so.
  static std::unique_ptr<TorchPeer> start(const TorchOptions& options, std::string* out_why);
  // Ends the process.
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  const std::string& name() const { return name_; }  // "PyTorch 1.13.0a0, AVX2"
  bool answers() const { return answers_; }          // until it ended, or was too slow once
  // Whether it has |mode|: "eager", "compile", "fused". |*out_why| says why not.
  bool can(const std::string& mode, std::string* out_why);
  // The seconds that |repetitions| runs took, by the GPU's clock on one, without making the
  // tensors: those of the operator that was asked for last are kept. |shape|: "16384x1024". Throws
  // what the process says of a failure, or when it is gone.
  double run(const std::string& operator_name, const std::string& shape, const std::string& dtype,
             const std::string& mode, uint64_t repetitions);

 private:
  explicit TorchPeer(std::string script) : script_(std::move(script)) {}

  // Whether |interpreter| has a PyTorch for the device.
  bool begin(const std::string& interpreter, const TorchOptions& options, std::string* out_why);

  void send(const std::string& line);
  // The next line; throws at the deadline and at the end of what it says.
  std::string receive();

  const std::string script_;
  std::string name_;
  pid_t process_ = -1;
  int socket_ = -1;
  bool answers_ = true;
  std::string received_;  // not asked for yet
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_TORCH_PEER_H_
