// The products of linear operators, with what fp8 (workloads/fp8.hpp) and sparse weights (workloads/sparsity.hpp) put
// around them. Operators ask for a product and its operands, and say nothing of formats.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// Which operand of a product is the weight: gradients of weights have none.
enum class Operand : std::uint8_t { activation, weight };

// A product of `batch` [m, k] x [k, n] in the format of linear operators, with results in the format of activations
// unless `result_bytes` says otherwise.
[[nodiscard]] Kernel linear_product(std::string name, const OperatorShape& shape, std::int64_t m, std::int64_t n,
                                    std::int64_t k, Operand second, std::int64_t batch = 1,
                                    std::int64_t result_bytes = 0);

// The gradient of a weight, [in, tokens] x [tokens, out]. Its operands lie in memory as they left the forward pass, in
// rows of `in` and of `out`.
[[nodiscard]] Kernel linear_weight_gradient(const OperatorShape& shape, const std::string& name, std::int64_t in,
                                            std::int64_t out);

// What so many elements of an input or gradient take as an operand: one copy, with its scales.
[[nodiscard]] Bytes operand_bytes(const OperatorShape& shape, std::int64_t elements);

// Of an operator's input, forward: quantised in fp8, where it is not yet. `transposed_later`: whoever gathers it
// first transposes what has been gathered.
void prepare_input(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                   std::int64_t columns, bool transposed_later);

// Of the gradient of an operator's output, backward; and what of it is held for the weight's gradient.
void prepare_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                      std::int64_t columns);
// The same where each rank prepares its `rows`, and `gathered_rows` come together afterwards (transpose_gradient).
void prepare_gradient_part(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                           std::int64_t columns);
void transpose_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                        std::int64_t columns);
// The input that has been gathered again, in the weight half.
void transpose_input(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                     std::int64_t columns);

// Of a weight [in, out], forward: torch.autocast's 16-bit copy, fp8 copies that are not cached, sparse copies.
void prepare_weight(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                    std::int64_t out);

// The same for the gradient of the input, backward: fp8 copies that the forward pass has not kept.
void prepare_weight_again(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                          std::int64_t out);

// One quantisation of a weight of that name, and what its copies take: once a step, where they are cached.
[[nodiscard]] Kernel quantize_weight(const std::string& name, const OperatorShape& shape, std::int64_t elements);
[[nodiscard]] std::int64_t fp8_weight_bytes(const OperatorShape& shape, std::int64_t elements);

}  // namespace orrery
