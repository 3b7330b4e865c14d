// Matrix products and their tensor-parallel communication, as Megatron-LM's linear layers do it
// (megatron/core/tensor_parallel/layers.py, class LinearWithGradAccumulationAndAsyncCommunication): backward, the input
// gradient comes first, its all-reduce (or reduce-scatter) then runs beside the weight gradient's product, and with
// sequence parallelism the input is gathered again beside the input gradient's product. Where the halves of the
// backward pass run apart, as in zero-bubble schedules, neither has anything to run beside: the input half waits for
// the reduction, and the weight half gathers the input first, for it alone needs it. What user buffers change:
// operators/tensor_overlap.hpp.
//
// Beside a product there may be thin pairs (thin.hpp), in the same fragment. A frozen matrix that is held in 4 bits is
// made 16-bit by a kernel before each product that reads it (bitsandbytes, functional.py: dequantize_4bit in
// MatMul4Bit's forward and backward).
#include <algorithm>
#include <utility>

#include "workloads/operators/operators.hpp"
#include "workloads/operators/products.hpp"
#include "workloads/operators/tensor_overlap.hpp"
#include "workloads/operators/thin.hpp"
#include "workloads/operators/weights.hpp"

namespace orrery {

namespace {

// Of operands of products.
CollectiveCall gather_call(const OperatorShape& shape, std::int64_t columns) {
  return {CollectiveOp::all_gather, shape.tensor_group, operand_bytes(shape, shape.tokens() * columns)};
}

// Of their results.
CollectiveCall tensor_call(const OperatorShape& shape, CollectiveOp op, std::int64_t columns) {
  return {op, shape.tensor_group, Bytes(shape.tokens() * columns * shape.element())};
}

// A matrix of 4 bits to one of the products' format.
Kernel dequantize(const OperatorShape& shape, const std::string& name, std::int64_t in, std::int64_t out) {
  return streaming(name + ".dequantize", KernelKind::elementwise, shape, in, out,
                   {kNf4BytesPerElement + static_cast<double>(shape.element()), 1});
}

// A matrix as its product reads it: forward, and for the gradient of its input.
void prepare_matrix(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                    std::int64_t out) {
  if (!shape.lora.nf4) return prepare_weight(f, shape, name, in, out);
  f.forward(dequantize(shape, name, in, out));
  f.forward_workspace(Bytes(in * out * shape.element()));
}
void restore_matrix(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                    std::int64_t out) {
  if (!shape.lora.nf4) return prepare_weight_again(f, shape, name, in, out);
  f.backward(dequantize(shape, name, in, out)).for_input();
  f.backward_workspace(Bytes(in * out * shape.element()));
}

// How the inputs and gradients of a matrix are quantised: of one that is frozen nobody reads them transposed
// (transformer_engine/pytorch/module/linear.py: columnwise usage follows weight.requires_grad).
OperatorShape operands_of(OperatorShape shape, bool trained) {
  shape.fp8.transposes = shape.fp8.transposes && trained;
  return shape;
}

// The weights and biases of column-parallel matrices; a thin pair has its own.
struct ColumnParameters {
  std::vector<std::vector<ParameterIndex>> weights;  // [parts]
  std::vector<ParameterIndex> biases;                // [parts], or none
  bool trained = false;                              // a matrix is
};

ColumnParameters column_parameters(BlockBuilder& block, const OperatorShape& shape, std::span<const ColumnPart> parts,
                                   std::int64_t in, bool bias, bool own_weight) {
  ColumnParameters made;
  made.trained = !own_weight;
  for (const ColumnPart& part : parts) {
    std::vector<ParameterIndex>& weight = made.weights.emplace_back();
    if (own_weight && part.rank == 0) {
      weight.push_back(block.parameter({.name = part.name + ".weight",
                                        .elements = in * part.out,
                                        .sharded = true,
                                        .columns = in,
                                        .fp8 = shape.fp8.on,
                                        .quantized = shape.lora.nf4}));
      made.trained = made.trained || block.trains(weight.front());
    }
    if (bias) {
      made.biases.push_back(block.parameter({.name = part.name + ".bias", .elements = part.out, .sharded = true}));
    }
  }
  return made;
}

}  // namespace

void add_weight_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, Kernel product,
                         std::vector<ParameterIndex> gradients) {
  const std::int64_t element = shape.element();
  const std::int64_t gradient = shape.storage.gradient;
  const std::int64_t in = product.m;
  const std::int64_t out = product.n;
  if (shape.fresh_gradients && !shape.autocast) {
    f.backward(std::move(product), std::move(gradients)).in_weight_half();
    return;
  }
  if (shape.fused && !shape.autocast) {
    product.bytes += Bytes((2 * gradient - element) * in * out);  // read, added to, and written in its own format
    f.backward(std::move(product), std::move(gradients)).in_weight_half();
    return;
  }
  f.backward(std::move(product)).in_weight_half();
  if (shape.autocast && element != gradient) {
    f.backward(streaming(name + ".gradient_cast", KernelKind::elementwise, shape, in, out,
                         {static_cast<double>(element + gradient), 0}));
    f.in_weight_half();
  }
  const std::int64_t source = shape.autocast ? gradient : element;
  f.backward(streaming(name + ".accumulate", KernelKind::elementwise, shape, in, out,
                       {static_cast<double>(source + 2 * gradient), 1}),
             std::move(gradients));
  f.in_weight_half();
}

void add_weight_cast(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                     std::int64_t columns) {
  const std::int64_t element = shape.element();
  if (!shape.autocast || element == shape.storage.weight) return;
  f.forward(streaming(name + ".weight_cast", KernelKind::elementwise, shape, rows, columns,
                      {static_cast<double>(shape.storage.weight + element), 0}));
  f.save(Bytes(rows * columns * element));
}

void add_bias_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                       std::int64_t out, ParameterIndex parameter, bool trained) {
  f.backward(streaming(name + ".bias_gradient", KernelKind::elementwise, shape, rows, out,
                       {static_cast<double>(shape.element()), 1}),
             {parameter});
  // In fp8 it belongs to the cast, which alone reads the gradient in 16 bits; but the weight half is where what is not
  // trained falls away.
  if (!shape.fp8.on || !trained) f.in_weight_half();
}

void column_parallel(BlockBuilder& block, const OperatorShape& shape, std::span<const ColumnPart> parts,
                     std::int64_t in, bool bias, bool own_weight, bool saves_input,
                     std::span<const ThinPair> adapters) {
  const std::int64_t element = shape.element();
  const std::int64_t tokens = shape.tokens();
  const bool split = shape.tensor > 1;
  // Thin pairs see to their own communication.
  const bool full = std::any_of(parts.begin(), parts.end(), [](const ColumnPart& part) { return part.rank == 0; });
  const bool gathers = split && shape.sequence_parallel && full;
  const auto thin = [&](const ColumnPart& part) {
    return ThinPair{.name = part.name, .in = in, .out = part.out, .rank = part.rank, .beside = false};
  };
  Fragment f = block.fragment();
  ColumnParameters own = column_parameters(block, shape, parts, in, bias, own_weight);
  // Adapters work on a rank's own part of the sequence.
  const bool gathers_again = gathers && own.trained;
  const OperatorShape operands = operands_of(shape, own.trained);

  // The norm before it works in the residual stream's format.
  const bool casts = shape.storage.residual != element;
  const PerElement cast{static_cast<double>(shape.storage.residual + element), 0};
  if (casts) {
    f.forward(streaming(parts.front().name + ".input_cast", KernelKind::elementwise, shape, shape.rows(), in, cast));
  }
  // What is quantised is another tensor than the one that somebody else saves. Adapters stand beside frozen matrices
  // and read the input as it is; with dropout they keep what is left of it in its place.
  if (adapters.empty()) {
    if (saves_input || shape.fp8.on) f.save_for_weights(operand_bytes(shape, shape.rows() * in));
  } else if (saves_input && adapters.front().dropout == 0) {
    f.save_for_weights(Bytes(shape.rows() * in * element));
  }
  prepare_input(f, operands, parts.front().name, shape.rows(), in, gathers);
  const bool ring = gathers && shape.overlap.all_gather;
  if (gathers && !ring) {
    f.forward_workspace(operand_bytes(shape, tokens * in), MemoryTag::communication_buffers);
    f.forward(gather_call(shape, in), "gather sequence");
  }
  if (ring) {
    for (const ColumnPart& part : parts) prepare_matrix(f, shape, part.name, in, part.out);
    ring_gather(f, shape, in, false, [&] {
      for (const ColumnPart& part : parts) {
        f.forward(linear_product(part.name + ".forward", shape, shape.rows(), part.out, in, Operand::weight));
      }
    });
  }
  for (const ColumnPart& part : parts) {
    if (part.rank > 0) {
      thin_forward(f, shape, thin(part));
    } else if (!ring) {
      prepare_matrix(f, shape, part.name, in, part.out);
      f.forward(linear_product(part.name + ".forward", shape, tokens, part.out, in, Operand::weight));
    }
    if (bias && !shape.fused) {
      f.forward(streaming(part.name + ".bias", KernelKind::elementwise, shape, tokens, part.out,
                          {2.0 * static_cast<double>(element), 1}));
    }
  }
  for (const ThinPair& adapter : adapters) {
    thin_forward(f, shape, adapter);
    thin_forward_add(f, shape, adapter);
  }

  const Launch bulk{.asynchronous = true, .within_call = shape.overlap.bulk};
  if (gathers_again) {
    if (!shape.overlap.bulk) {
      f.backward_workspace(operand_bytes(shape, tokens * in), MemoryTag::communication_buffers, Held::weight_half);
    }
    f.backward(gather_call(shape, in), "gather sequence", bulk).in_weight_half();
  }
  f.backward_workspace(Bytes(tokens * in * element));
  for (const ColumnPart& part : parts) prepare_gradient(f, operands, part.name, tokens, part.out);
  for (const ThinPair& adapter : adapters) thin_backward(block, f, shape, adapter);
  const bool pipelined = gathers && shape.overlap.reduce_scatter_gradient;
  if (pipelined) {
    for (const ColumnPart& part : parts) restore_matrix(f, shape, part.name, in, part.out);
  }
  const auto input_gradients = [&](std::int64_t columns) {
    for (const ColumnPart& part : parts) {
      if (part.rank > 0) {
        thin_backward(block, f, shape, thin(part));
        continue;
      }
      if (!pipelined) restore_matrix(f, shape, part.name, in, part.out);
      f.backward(linear_product(part.name + ".input_gradient", shape, tokens, columns, part.out, Operand::weight));
      f.for_input();
    }
    for (std::size_t i = 1; i < parts.size(); ++i) {
      f.backward(streaming(parts[i].name + ".input_gradient_add", KernelKind::elementwise, shape, tokens, columns,
                           {3.0 * static_cast<double>(element), 1}));
      f.for_input();
    }
  };
  constexpr std::int32_t kScattered = 1;  // apart from the gather, which the weight gradient waits for
  if (pipelined) {
    pipelined_scatter(f, shape, in, true, kScattered, input_gradients);
  } else {
    input_gradients(in);
  }
  if (gathers_again) f.backward_wait().in_weight_half();
  if (gathers && !pipelined) {
    f.backward(tensor_call(shape, CollectiveOp::reduce_scatter, in), "scatter gradient", bulk).for_input();
  } else if (!gathers && split && full) {
    f.backward(tensor_call(shape, CollectiveOp::all_reduce, in), "reduce input gradient", true).for_input();
  }
  if (gathers_again) transpose_input(f, shape, parts.front().name, tokens, in);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ColumnPart& part = parts[i];
    if (part.rank == 0) {
      add_weight_gradient(f, shape, part.name, linear_weight_gradient(shape, part.name, in, part.out),
                          std::move(own.weights[i]));
    }
    if (bias) add_bias_gradient(f, shape, part.name, tokens, part.out, own.biases[i], block.trains(own.biases[i]));
  }
  if (split && full) f.backward_wait(pipelined ? kScattered : 0).for_input();
  for (const ThinPair& adapter : adapters) thin_backward_add(f, shape, adapter);
  if (casts) {
    f.backward(
        streaming(parts.front().name + ".input_gradient_cast", KernelKind::elementwise, shape, shape.rows(), in, cast));
    f.for_input();
  }
  block.add(std::move(f));
}

void row_parallel(BlockBuilder& block, const OperatorShape& shape, const std::string& name, std::int64_t in_shard,
                  std::int64_t out, const RowOptions& options) {
  const std::int64_t element = shape.element();
  const std::int64_t tokens = shape.tokens();
  const bool split = shape.tensor > 1;
  const bool scatters = split && shape.sequence_parallel;
  const bool pipelined = scatters && shape.overlap.reduce_scatter;
  const ThinPair thin{.name = name, .in = in_shard, .out = out, .rank = options.rank, .column = false, .beside = false};
  const ThinPair adapter{.name = name + "_lora",
                         .in = in_shard,
                         .out = out,
                         .rank = options.adapter_rank,
                         .column = false,
                         .dropout = shape.lora.dropout};
  std::vector<ParameterIndex> weight;
  if (options.rank == 0) {
    weight.push_back(block.parameter({.name = name + ".weight",
                                      .elements = in_shard * out,
                                      .sharded = true,
                                      .columns = in_shard,
                                      .fp8 = shape.fp8.on,
                                      .quantized = shape.lora.nf4}));
  }
  Fragment f = block.fragment();

  const bool trained = !weight.empty() && block.trains(weight.front());
  const OperatorShape operands = operands_of(shape, trained);
  // In fp8 the product keeps a copy of its own, beside the input that whoever needs it saves.
  const Bytes input(tokens * in_shard * element);
  if (shape.fp8.on && adapter.rank == 0) {
    f.save_for_weights(operand_bytes(shape, tokens * in_shard));
  } else if (options.input_needed) {
    if (!shape.fp8.on) f.save(input, MemoryTag::activations, Held::both_halves);
  } else if (adapter.rank == 0 || adapter.dropout == 0) {
    f.save_for_weights(input);
  }
  f.forward_workspace(Bytes(tokens * out * element));
  if (options.rank > 0) {
    thin_forward(f, shape, thin);
    f.backward_workspace(Bytes(tokens * in_shard * element));
    f.keep_output_gradient(Bytes(shape.rows() * out * element));
    thin_backward(block, f, shape, thin);
    block.add(std::move(f));
    return;
  }
  prepare_input(f, operands, name, tokens, in_shard, false);
  prepare_matrix(f, shape, name, in_shard, out);
  const auto product = [&](std::int64_t columns) {
    f.forward(linear_product(name + ".forward", shape, tokens, columns, in_shard, Operand::weight));
  };
  if (pipelined) {
    pipelined_scatter(f, shape, out, false, 0, product);
    f.forward_wait();
  } else {
    product(out);
  }
  if (split && !pipelined) {
    f.forward(tensor_call(shape, scatters ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, out),
              scatters ? "scatter output" : "reduce output");
  }
  if (adapter.rank > 0) {
    thin_forward(f, shape, adapter);
    thin_forward_add(f, shape, adapter);
    f.keep_output_gradient(Bytes(shape.rows() * out * element));
    thin_backward(block, f, shape, adapter);
  }

  if (scatters) {
    f.backward_workspace(operand_bytes(shape, tokens * out), MemoryTag::communication_buffers, Held::both_halves);
    prepare_gradient_part(f, operands, name, shape.rows(), out);
  } else if (adapter.rank == 0 || shape.fp8.on) {
    prepare_gradient(f, operands, name, tokens, out);
  }
  f.backward_workspace(Bytes(tokens * in_shard * element));
  const auto input_gradient = [&](std::int64_t rows) {
    f.backward(linear_product(name + ".input_gradient", shape, rows, in_shard, out, Operand::weight)).for_input();
  };
  if (scatters && shape.overlap.all_gather) {
    restore_matrix(f, shape, name, in_shard, out);
    ring_gather(f, shape, out, true, [&] { input_gradient(shape.rows()); });
    transpose_gradient(f, operands, name, tokens, out);
  } else {
    if (scatters) {
      f.backward(gather_call(shape, out), "gather gradient");
      if (!trained) f.for_input();
      transpose_gradient(f, operands, name, tokens, out);
    }
    restore_matrix(f, shape, name, in_shard, out);
    input_gradient(tokens);
  }
  add_weight_gradient(f, shape, name, linear_weight_gradient(shape, name, in_shard, out), std::move(weight));
  if (adapter.rank > 0) thin_backward_add(f, shape, adapter);
  block.add(std::move(f));
}

void replicated_linear(BlockBuilder& block, const OperatorShape& shape, const std::string& name, std::int64_t in,
                       std::int64_t out, bool saves_input) {
  const bool partial = shape.sequence_parallel && shape.tensor > 1;
  OperatorShape part = shape;  // each rank works on its rows
  if (partial) {
    part.sequence = shape.sequence / shape.tensor;
    part.sequence_parallel = false;
  }
  const std::int64_t rows = part.tokens();
  const ParameterIndex weight = block.parameter({.name = name + ".weight",
                                                 .elements = in * out,
                                                 .partial_gradient = partial,
                                                 .columns = in,
                                                 .fp8 = shape.fp8.on});
  Fragment f = block.fragment();
  if (saves_input || shape.fp8.on) f.save_for_weights(operand_bytes(shape, rows * in));
  const OperatorShape operands = operands_of(part, block.trains(weight));
  prepare_input(f, operands, name, rows, in, false);
  prepare_weight(f, part, name, in, out);
  f.forward(linear_product(name + ".forward", part, rows, out, in, Operand::weight));
  f.backward_workspace(Bytes(rows * in * shape.element()));
  prepare_gradient(f, operands, name, rows, out);
  prepare_weight_again(f, part, name, in, out);
  f.backward(linear_product(name + ".input_gradient", part, rows, in, out, Operand::weight)).for_input();
  add_weight_gradient(f, part, name, linear_weight_gradient(part, name, in, out), {weight});
  block.add(std::move(f));
}

}  // namespace orrery
