// SPDX-License-Identifier: Apache-2.0
// RCCL's name of the function that NCCL has since 2.28.
#include <nccl.h>

extern "C" {

ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclAllToAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return ncclAlltoAll(send, receive, count, type, comm, stream);
}

}  // extern "C"
