// Tensor-parallel communication beside the products that it belongs to, as Transformer Engine's user buffers run it and
// Megatron-LM asks for with --tp-comm-overlap (transformer_engine/pytorch/module/base.py, initialize_ub; common/
// comm_gemm_overlap/comm_gemm_overlap.cpp). With sequence parallelism each product of a layer has a gather before or a
// reduce-scatter behind it. Which overlaps how, by default:
//
//   ring_exchange  column-parallel forward, row-parallel input gradient. A rank computes the product's rows for its own
//                  part of the sequence while that part goes to the next rank in the ring; then for the part that has
//                  come from the previous one, while passing it on: t products of 1/t of the rows, t - 1 exchanges
//                  (CommOverlapP2PBase::split_overlap_ag).
//   pipeline       row-parallel forward. The product is cut into four along its columns; as soon as one is done, its
//                  part is reduced and scattered while the next is computed (CommOverlapBase::split_overlap_rs).
//   bulk           column-parallel backward: the gather of the input beside the input gradient's product, the
//                  reduce-scatter beside the weight gradient's. That is what linear layers do without user buffers too
//                  (operators/linear.cpp). With tp_comm_overlap_rs_dgrad the reduce-scatter is pipelined with the input
//                  gradient's product instead, and the gather is left to NCCL.
//
// One call of the framework issues all of a product's chunks, products and communication alike (nvte_cublas_gemm,
// userbuffers_send and userbuffers_recv in one loop), and bulk communication with the product that it runs beside
// (CommOverlapBase::bulk_overlap): the host pays for the way through Python once, and the driver's part for each launch
// (HostCosts). Events that order the streams, and cuBLAS's choice of an algorithm for each chunk, are in neither.
//
// A rank sends what it would in a collective, and does the same FLOPs; but products are smaller, and operands are read
// once for each of them. That they are less efficient comes out of the kernel model; that communication takes SMs and
// bandwidth from them, out of the executor. All this is for attention and the dense MLP; the output layer and experts
// have no user buffers (megatron/core/extensions/transformer_engine.py: is_expert, ub_name).
//
// In fp8 (tensor scaling alone: TE refuses its blocks) what is gathered is in a byte, what is scattered in 16 bits:
// initialize_ub, fp8_buf; results in fp8 are an option that is off. A gathered gradient is transposed behind the ring,
// for the weight's product.
//
// The buffers, one of a whole activation for each of the ten products, are there throughout the step; gathered
// inputs lie in them. Left out: products of several chunks at once on streams of their own (up to three), pairs of
// chunks (aggregate), the ring form of the pipelined reduce-scatter, copy engines in place of SMs.
#pragma once

#include <cstdint>

#include "workloads/operators/block.hpp"
#include "workloads/operators/products.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// Whether the plan overlaps at all: not without ranks to communicate with.
[[nodiscard]] bool overlaps_tensor(const ParallelismSpec& parallelism);

// What the buffers take.
[[nodiscard]] Bytes user_buffers(const OperatorShape& shape);

// The same operators without user buffers.
[[nodiscard]] OperatorShape without_overlap(OperatorShape shape);

// Pieces that a pipelined product of `columns` is cut into.
[[nodiscard]] std::int64_t pipeline_splits(std::int64_t columns);

// A gather of operands, [tokens, columns], as a ring exchange: `product()` adds the kernels of one rank's rows. Forward
// or backward.
template <class Product>
void ring_gather(Fragment& f, const OperatorShape& shape, std::int64_t columns, bool backward, Product&& product) {
  const RingExchange exchange{shape.overlap.next, shape.overlap.previous, operand_bytes(shape, shape.rows() * columns)};
  const char* label = backward ? "pass gradient" : "pass sequence";
  const Launch launch{.asynchronous = true};
  f.begin_call();
  for (std::int64_t i = 0; i < shape.tensor; ++i) {
    if (i > 0) (backward ? f.backward_wait() : f.forward_wait());
    if (i + 1 < shape.tensor) (backward ? f.backward(exchange, label, launch) : f.forward(exchange, label, launch));
    product();
  }
  f.end_call();
}

// A reduce-scatter of results, [tokens, columns], in pieces: `product(columns)` adds the kernels that make one. The
// caller waits for `handle`.
template <class Product>
void pipelined_scatter(Fragment& f, const OperatorShape& shape, std::int64_t columns, bool backward,
                       std::int32_t handle, Product&& product) {
  const std::int64_t splits = pipeline_splits(columns);
  const CollectiveCall call{CollectiveOp::reduce_scatter, shape.tensor_group,
                            Bytes(shape.tokens() * (columns / splits) * shape.element())};
  const char* label = backward ? "scatter gradient" : "scatter output";
  const Launch launch{.asynchronous = true, .handle = handle};
  f.begin_call();
  for (std::int64_t i = 0; i < splits; ++i) {
    product(columns / splits);
    backward ? f.backward(call, label, launch) : f.forward(call, label, launch);
  }
  f.end_call();
}

}  // namespace orrery
