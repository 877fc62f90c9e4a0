/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of Kunlun chips over the emulated chip. The names and argument lists are BKCL's, as
 * programs call them. The numbers are this library's own: the vendor's are in the vendor's header
 * alone, so a program compiled with one header must not use the other's library. BKCL_HEADER_KIND
 * names the header, and bkcl_header_kind() the header that the library was compiled with; the
 * vendor has neither. */
#ifndef KEEL_EMULATED_BKCL_H_
#define KEEL_EMULATED_BKCL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BKCL_HEADER_KIND "keel"
#define BKCL_UNIQUE_ID_BYTES 160

typedef void* XPUStream;
typedef struct bkcl_context* BKCLContext_t;
typedef struct BKCLUniqueId {
  char bytes[BKCL_UNIQUE_ID_BYTES];
} BKCLUniqueId;

typedef enum BKCLResult {
  BKCL_SUCCESS = 0,
  BKCL_INVALID_ARGUMENT = 71,
  BKCL_RUNTIME_ERROR = 72,
  BKCL_SYSTEM_ERROR = 73,
  BKCL_INTERNAL_ERROR = 74
} BKCLResult_t;

typedef enum BKCLDataType {
  BKCL_UINT8 = 31,
  BKCL_INT32 = 32,
  BKCL_INT64 = 33,
  BKCL_FLOAT16 = 34,
  BKCL_BFLOAT16 = 35,
  BKCL_FLOAT = 36,
  BKCL_FLOAT64 = 37
} BKCLDataType;

typedef enum BKCLOp {
  BKCL_ADD = 51,
  BKCL_PRODUCT = 52,
  BKCL_MAX = 53,
  BKCL_MIN = 54,
  BKCL_AVG = 55,
  BKCL_NUM_OPS = 56
} BKCLOp;

const char* bkcl_header_kind(void);

BKCLResult_t bkcl_get_unique_id(BKCLUniqueId* id);
BKCLResult_t bkcl_init_rank(BKCLContext_t* ctx, int rank, int nranks, BKCLUniqueId* id);
BKCLResult_t bkcl_destroy_context(BKCLContext_t ctx);
BKCLResult_t bkcl_comm_abort(BKCLContext_t ctx);
BKCLResult_t bkcl_comm_count(BKCLContext_t ctx, int* count);
BKCLResult_t bkcl_comm_user_rank(BKCLContext_t ctx, int* rank);

BKCLResult_t bkcl_all_gather(const BKCLContext_t ctx, const void* sendbuf, size_t sendcnt,
                             void* recvbuf, BKCLDataType datatype, XPUStream stream);
BKCLResult_t bkcl_all_reduce(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                             size_t count, BKCLDataType datatype, BKCLOp op, XPUStream stream);
BKCLResult_t bkcl_broadcast(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                            size_t count, BKCLDataType datatype, int root, XPUStream stream);
BKCLResult_t bkcl_reduce(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf, size_t count,
                         BKCLDataType datatype, BKCLOp op, int root, XPUStream stream);
BKCLResult_t bkcl_reduce_scatter(const BKCLContext_t ctx, const void* sendbuf, void* recvbuf,
                                 size_t recvcount, BKCLDataType datatype, BKCLOp op,
                                 XPUStream stream);
BKCLResult_t bkcl_all_to_all(const BKCLContext_t ctx, const void* sendbuf, size_t count,
                             void* recvbuf, BKCLDataType datatype, XPUStream stream);
/* The four arrays are device memory. */
BKCLResult_t bkcl_all_to_all_v(const BKCLContext_t ctx, const void* sendbuf,
                               const size_t* sendcounts, const size_t* sdispls,
                               BKCLDataType sendtype, void* recvbuf, const size_t* recvcounts,
                               const size_t* rdispls, BKCLDataType recvtype, XPUStream stream);
BKCLResult_t bkcl_send(const BKCLContext_t ctx, const void* sendbuf, size_t count, int peer,
                       BKCLDataType datatype, XPUStream stream);
BKCLResult_t bkcl_recv(const BKCLContext_t ctx, void* recvbuf, size_t count, int peer,
                       BKCLDataType datatype, XPUStream stream);
BKCLResult_t bkcl_group_start(void);
BKCLResult_t bkcl_group_end(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_EMULATED_BKCL_H_ */
