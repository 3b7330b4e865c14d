// Matrix products and their tensor-parallel communication, as Megatron-LM's linear layers do it
// (megatron/core/tensor_parallel/layers.py, class LinearWithGradAccumulationAndAsyncCommunication): backward, the input
// gradient comes first, its all-reduce (or reduce-scatter) then runs beside the weight gradient's product, and with
// sequence parallelism the input is gathered again beside the input gradient's product. Where the halves of the
// backward pass run apart, as in zero-bubble schedules, neither has anything to run beside: the input half waits for
// the reduction, and the weight half gathers the input first, for it alone needs it.
//
// Beside a product there may be thin pairs (thin.hpp), in the same fragment. A frozen matrix that is held in 4 bits is
// made 16-bit by a kernel before each product that reads it (bitsandbytes, functional.py: dequantize_4bit in
// MatMul4Bit's forward and backward).
#include <algorithm>
#include <utility>

#include "workloads/operators/operators.hpp"
#include "workloads/operators/thin.hpp"

namespace orrery {

namespace {

CollectiveCall tensor_call(const OperatorShape& shape, CollectiveOp op, std::int64_t columns) {
  return {op, shape.tensor_group, Bytes(shape.tokens() * columns * shape.element())};
}

void add_bias_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t out,
                       ParameterIndex parameter) {
  f.backward(streaming(name + ".bias_gradient", KernelKind::elementwise, shape, shape.tokens(), out,
                       {static_cast<double>(shape.element()), 1}),
             {parameter});
  f.in_weight_half();
}

// A matrix of 4 bits to one of the products' format.
Kernel dequantize(const OperatorShape& shape, const std::string& name, std::int64_t in, std::int64_t out) {
  return streaming(name + ".dequantize", KernelKind::elementwise, shape, in, out,
                   {kNf4BytesPerElement + static_cast<double>(shape.element()), 1});
}

// The product of a full matrix. `quantized`: it is held in 4 bits.
void add_product(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in, std::int64_t out,
                 bool quantized) {
  if (quantized) {
    f.forward(dequantize(shape, name, in, out));
    f.forward_workspace(Bytes(in * out * shape.element()));
  } else {
    add_weight_cast(f, shape, name, in, out);
  }
  f.forward(gemm(name + ".forward", shape, shape.tokens(), out, in));
}

void add_input_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                        std::int64_t out, bool quantized) {
  if (quantized) {
    f.backward(dequantize(shape, name, in, out)).for_input();
    f.backward_workspace(Bytes(in * out * shape.element()));
  }
  f.backward(gemm(name + ".input_gradient", shape, shape.tokens(), in, out)).for_input();
}

}  // namespace

// The weight gradient's product and, unless gradients are fresh, its addition to what earlier micro-batches left:
// inside the product where the framework fuses it (gradient_accumulation_fusion), otherwise as autograd's
// AccumulateGrad, after a cast where the product's format is not the gradient's.
void add_weight_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                         std::int64_t out, std::vector<ParameterIndex> gradients) {
  const std::int64_t element = shape.element();
  const std::int64_t gradient = shape.storage.gradient;
  if (shape.fresh_gradients && !shape.autocast) {
    f.backward(gemm(name + ".weight_gradient", shape, in, out, shape.tokens()), std::move(gradients));
    f.in_weight_half();
    return;
  }
  if (shape.fused && !shape.autocast) {
    f.backward(gemm(name + ".weight_gradient", shape, in, out, shape.tokens(), 1, 2 * gradient), std::move(gradients));
    f.in_weight_half();
    return;
  }
  f.backward(gemm(name + ".weight_gradient", shape, in, out, shape.tokens())).in_weight_half();
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

// torch.autocast casts a weight on its first use in each forward pass and keeps the copy for the backward pass.
void add_weight_cast(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                     std::int64_t out) {
  const std::int64_t element = shape.element();
  if (!shape.autocast || element == shape.storage.weight) return;
  f.forward(streaming(name + ".weight_cast", KernelKind::elementwise, shape, in, out,
                      {static_cast<double>(shape.storage.weight + element), 0}));
  f.save(Bytes(in * out * element));
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

  std::vector<std::vector<ParameterIndex>> weights;
  std::vector<ParameterIndex> biases;
  bool trains_matrix = !own_weight;
  for (const ColumnPart& part : parts) {
    weights.emplace_back();
    if (own_weight && part.rank == 0) {
      weights.back().push_back(block.parameter(
          {.name = part.name + ".weight", .elements = in * part.out, .sharded = true, .quantized = shape.lora.nf4}));
      trains_matrix = trains_matrix || block.trains(weights.back().front());
    }
    if (bias) biases.push_back(block.parameter({.name = part.name + ".bias", .elements = part.out, .sharded = true}));
  }
  // Adapters work on a rank's own part of the sequence.
  const bool gathers_again = gathers && trains_matrix;

  // The norm before it works in the residual stream's format.
  const bool casts = shape.storage.residual != element;
  const PerElement cast{static_cast<double>(shape.storage.residual + element), 0};
  if (casts) {
    f.forward(streaming(parts.front().name + ".input_cast", KernelKind::elementwise, shape, shape.rows(), in, cast));
  }
  // An adapter with dropout keeps what is left of it in its place.
  const bool dropped = !adapters.empty() && adapters.front().dropout > 0;
  if (saves_input && !dropped) f.save_for_weights(Bytes(shape.rows() * in * element));
  if (gathers) {
    f.forward_workspace(Bytes(tokens * in * element), MemoryTag::communication_buffers);
    f.forward(tensor_call(shape, CollectiveOp::all_gather, in), "gather sequence");
  }
  for (const ColumnPart& part : parts) {
    if (part.rank > 0) {
      thin_forward(f, shape, thin(part));
    } else {
      add_product(f, shape, part.name, in, part.out, shape.lora.nf4);
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

  if (gathers_again) {
    f.backward_workspace(Bytes(tokens * in * element), MemoryTag::communication_buffers, Held::weight_half);
    f.backward(tensor_call(shape, CollectiveOp::all_gather, in), "gather sequence", true).in_weight_half();
  }
  f.backward_workspace(Bytes(tokens * in * element));
  for (const ColumnPart& part : parts) f.keep_output_gradient(Bytes(tokens * part.out * element));
  for (const ThinPair& adapter : adapters) thin_backward(block, f, shape, adapter);
  for (const ColumnPart& part : parts) {
    if (part.rank > 0) {
      thin_backward(block, f, shape, thin(part));
    } else {
      add_input_gradient(f, shape, part.name, in, part.out, shape.lora.nf4);
    }
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    f.backward(streaming(parts[i].name + ".input_gradient_add", KernelKind::elementwise, shape, tokens, in,
                         {3.0 * static_cast<double>(element), 1}));
    f.for_input();
  }
  if (gathers_again) f.backward_wait().in_weight_half();
  if (gathers) {
    f.backward(tensor_call(shape, CollectiveOp::reduce_scatter, in), "scatter gradient", true).for_input();
  } else if (split && full) {
    f.backward(tensor_call(shape, CollectiveOp::all_reduce, in), "reduce input gradient", true).for_input();
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ColumnPart& part = parts[i];
    if (part.rank == 0) add_weight_gradient(f, shape, part.name, in, part.out, std::move(weights[i]));
    if (bias) add_bias_gradient(f, shape, part.name, part.out, biases[i]);
  }
  if (split && full) f.backward_wait().for_input();
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
  const ThinPair thin{.name = name, .in = in_shard, .out = out, .rank = options.rank, .column = false, .beside = false};
  const ThinPair adapter{.name = name + "_lora",
                         .in = in_shard,
                         .out = out,
                         .rank = options.adapter_rank,
                         .column = false,
                         .dropout = shape.lora.dropout};
  std::vector<ParameterIndex> weight;
  if (options.rank == 0) {
    weight.push_back(block.parameter(
        {.name = name + ".weight", .elements = in_shard * out, .sharded = true, .quantized = shape.lora.nf4}));
  }
  Fragment f = block.fragment();

  const Bytes input(tokens * in_shard * element);
  if (options.input_needed) {
    f.save(input, MemoryTag::activations, Held::both_halves);
  } else if (adapter.rank == 0 || adapter.dropout == 0) {
    f.save_for_weights(input);
  }
  f.forward_workspace(Bytes(tokens * out * element));
  if (options.rank > 0) {
    thin_forward(f, shape, thin);
  } else {
    add_product(f, shape, name, in_shard, out, shape.lora.nf4);
    if (split) {
      f.forward(tensor_call(shape, scatters ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce, out),
                scatters ? "scatter output" : "reduce output");
    }
  }
  if (adapter.rank > 0) {
    thin_forward(f, shape, adapter);
    thin_forward_add(f, shape, adapter);
  }

  if (options.rank > 0) {
    f.backward_workspace(input);
    f.keep_output_gradient(Bytes(shape.rows() * out * element));
    thin_backward(block, f, shape, thin);
    block.add(std::move(f));
    return;
  }
  if (adapter.rank > 0) {
    f.keep_output_gradient(Bytes(shape.rows() * out * element));
    thin_backward(block, f, shape, adapter);
  }
  if (scatters) {
    f.backward_workspace(Bytes(tokens * out * element), MemoryTag::communication_buffers, Held::both_halves);
    f.backward(tensor_call(shape, CollectiveOp::all_gather, out), "gather gradient");
    if (!block.trains(weight.front())) f.for_input();
  } else if (adapter.rank == 0) {
    f.keep_output_gradient(Bytes(tokens * out * element));
  }
  f.backward_workspace(input);
  add_input_gradient(f, shape, name, in_shard, out, shape.lora.nf4);
  add_weight_gradient(f, shape, name, in_shard, out, std::move(weight));
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
  const ParameterIndex weight =
      block.parameter({.name = name + ".weight", .elements = in * out, .partial_gradient = partial});
  Fragment f = block.fragment();
  if (saves_input) f.save_for_weights(Bytes(rows * in * shape.element()));
  add_weight_cast(f, part, name, in, out);
  f.forward(gemm(name + ".forward", part, rows, out, in));
  f.backward_workspace(Bytes(rows * in * shape.element()));
  f.keep_output_gradient(Bytes(rows * out * shape.element()));
  f.backward(gemm(name + ".input_gradient", part, rows, in, out)).for_input();
  add_weight_gradient(f, part, name, in, out, {weight});
  block.add(std::move(f));
}

}  // namespace orrery
