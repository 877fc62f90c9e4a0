// PyTorch's operators, run by a Python process beside this one (peers/torch_ops.py) that takes one
// line for each measurement, so that its rounds and Keel's take turns.
#ifndef KEEL_BENCH_TORCH_PEER_H_
#define KEEL_BENCH_TORCH_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::bench {

class TorchPeer {
 public:
  // On |threads| threads, with |sets| sets of tensors of each operator that it goes through in
  // turn. Null where there is none; |*out_why| says so.
  static std::unique_ptr<TorchPeer> start(uint32_t threads, uint32_t sets, std::string* out_why);
  // Ends the process.
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  const std::string& name() const { return name_; }  // "PyTorch 1.13.0a0, AVX2"
  // The seconds that |repetitions| runs took, without making the tensors: those of the operator
  // that was asked for last are kept. |shape|: "16384x1024". Throws what the process says of a
  // failure, or when it is gone.
  double run(const std::string& operator_name, const std::string& shape, const std::string& dtype,
             uint64_t repetitions);

 private:
  TorchPeer() = default;

  void send(const std::string& line);
  // The next line; throws at the deadline and at the end of what it says.
  std::string receive();

  std::string name_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string received_;  // not asked for yet
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_TORCH_PEER_H_
