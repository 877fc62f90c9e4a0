// All kernels as one piece, which becomes one image of each target.
#include "backends/simt/elementwise.cc"
#include "backends/simt/embedding.cc"
#include "backends/simt/loss.cc"
#include "backends/simt/matmul.cc"
#include "backends/simt/optimizer.cc"
#include "backends/simt/reduction.cc"
#include "backends/simt/shard.cc"
