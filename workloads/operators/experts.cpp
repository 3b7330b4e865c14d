// A layer's experts, as Megatron-LM runs them without padding (megatron/core/transformer/moe: router.py,
// token_dispatcher.py, experts.py, shared_experts.py; TEGroupedMLP):
//
//   router     scores (in fp32 if the model says so), the top_k of each row, the balancing loss; numbers of rows are
//              gathered over the expert-parallel ranks, and the host reads them, since it must know how much to send
//   dispatch   rows are sorted by expert, sent (experts/dispatch.hpp), and sorted again by expert and not by sender
//   experts    the matrices of all local experts as one grouped kernel each: a batch of as many products as experts,
//              with the mean of their rows. Scores weigh the activation's output, so that results need not be kept
//   combine    the same way back; the rows of each token are summed
//   shared     an MLP for all rows, whose first half stands between dispatch and experts, its second between experts
//              and the end: beside the journeys if they are asynchronous, behind them if not
//
// Expert tensor parallelism gathers the rows that have arrived over the ranks that share an expert's matrices, and
// reduce-scatters their results.
// Left out: that experts of one rank differ in rows (their mean is taken), padding to a capacity, and the time that
// z-loss takes.
#include <algorithm>
#include <string>
#include <utility>

#include "workloads/experts/dispatch.hpp"
#include "workloads/operators/operators.hpp"
#include "workloads/operators/products.hpp"
#include "workloads/operators/tensor_overlap.hpp"

namespace orrery {

namespace {

constexpr std::int32_t kDispatch = 1;  // handles of journeys
constexpr std::int32_t kCombine = 2;

class ExpertLayer {
 public:
  ExpertLayer(BlockBuilder& block, const OperatorShape& shape)
      : block_(block),
        shape_(shape),
        x_(shape.experts),
        e_(static_cast<double>(shape.element())),
        hidden_(shape.model.hidden),
        split_(x_.degree > 1),
        asynchronous_(split_ && x_.overlaps_shared && shape.model.shared_experts > 0) {}

  void add() && {
    router();
    dispatch();
    if (shape_.model.shared_experts > 0) shared_up();
    arrival();
    experts();
    departure();
    if (shape_.model.shared_experts > 0) shared_down();
    arrival_home();
  }

 private:
  // Rows that this rank's experts work on.
  [[nodiscard]] std::int64_t worked() const { return x_.arrived * x_.tensor; }

  [[nodiscard]] Kernel pass(const std::string& name, std::int64_t rows, std::int64_t columns, double bytes,
                            double flops = 1) const {
    return streaming("experts." + name, KernelKind::elementwise, shape_, rows, columns, {bytes, flops});
  }

  void router() {
    const ModelSpec& m = shape_.model;
    const std::int64_t rows = shape_.rows();
    const bool partial = shape_.sequence_parallel && shape_.tensor > 1;
    const ParameterIndex weight = block_.parameter(
        {.name = "router.weight", .elements = m.experts * hidden_, .partial_gradient = partial, .columns = hidden_});
    OperatorShape exact = shape_;
    if (m.router_fp32) exact.storage.compute = Precision::fp32;
    const bool casts = exact.element() != shape_.element();
    const double cast = e_ + static_cast<double>(exact.element());
    Fragment f = block_.fragment();
    // Its input, for dispatch and shared experts too.
    f.save_for_weights(Bytes(rows * hidden_ * shape_.element()));
    f.keep_output_gradient(Bytes(rows * m.experts * 4));
    f.save(Bytes(rows * m.experts * 4));  // scores
    f.save(Bytes(rows * m.top_k * 8));    // places and weights of the chosen
    if (casts) f.forward(pass("router_cast", rows, hidden_, cast, 0));
    f.forward(gemm("router.forward", exact, rows, m.experts, hidden_));
    f.forward(pass("scores", rows, m.experts, 8, 5));
    f.forward(pass("top_k", rows, m.experts, 8, 4));
    f.forward(pass("balance_loss", rows, m.experts, 4, 2));
    if (split_) {
      const CollectiveCall counts{CollectiveOp::all_gather, x_.group, Bytes(8 * x_.degree * m.experts)};
      f.forward(counts, "gather row counts", Launch{.stream = "expert"});
    }
    f.forward_read("read row counts");

    f.backward(pass("balance_loss.backward", rows, m.experts, 8, 2));
    f.backward(pass("scores.backward", rows, m.experts, 12, 5));
    f.backward(gemm("router.input_gradient", exact, rows, hidden_, m.experts)).for_input();
    f.backward(gemm("router.weight_gradient", exact, hidden_, m.experts, rows, 1, 2 * shape_.storage.gradient),
               {weight});
    f.in_weight_half();
    if (casts) f.backward(pass("router_cast.backward", rows, hidden_, cast, 0)).for_input();
    f.backward(pass("input_gradient_add", rows, hidden_, 3 * e_)).for_input();
    block_.add(std::move(f));
  }

  void travel(Fragment& f, bool to_experts, bool backward) const {
    if (!split_) return;
    x_.dispatch->travel(f, shape_, {to_experts, backward, to_experts ? kDispatch : kCombine, asynchronous_});
  }
  // Waits for what travel() has launched, in another fragment.
  void await(Fragment& f, bool to_experts, bool backward) const {
    if (!asynchronous_) return;
    const std::int32_t handle = to_experts ? kDispatch : kCombine;
    if (backward) {
      f.backward_wait(handle, true);
    } else {
      f.forward_wait(handle, true);
    }
  }

  // Rows as they leave a rank, and its own rows: one is read, the other written.
  [[nodiscard]] Kernel sort(const std::string& name, std::int64_t columns) const {
    const std::int64_t rows = x_.sent + shape_.rows();
    return pass(name, rows, columns, e_, 0);
  }

  void dispatch() {
    const bool sorts = !split_ || x_.dispatch->sorts_first;
    Fragment f = block_.fragment();
    if (sorts) f.forward(sort("sort", hidden_));
    if (sorts) f.forward_workspace(Bytes(x_.sent * hidden_ * shape_.element()));
    travel(f, true, false);
    await(f, false, true);
    if (sorts) f.backward(sort("sort.backward", hidden_));
    block_.add(std::move(f));
  }

  // Rows arrive at the experts' rank.
  void arrival() {
    Fragment f = block_.fragment();
    await(f, true, false);
    const bool resorts = split_ && (shape_.local_experts() > 1 || !x_.dispatch->sorts_first);
    const Bytes gathered(worked() * hidden_ * shape_.element());
    if (x_.tensor > 1) {
      f.forward({CollectiveOp::all_gather, x_.tensor_group, gathered}, "gather rows",
                Launch{.stream = "expert_tensor"});
    }
    if (resorts) f.forward(pass("resort", worked(), hidden_, 2 * e_, 0));
    if (resorts) f.forward_workspace(gathered);
    if (resorts) f.backward(pass("resort.backward", worked(), hidden_, 2 * e_, 0));
    if (x_.tensor > 1) {
      f.backward({CollectiveOp::reduce_scatter, x_.tensor_group, gathered}, "scatter gradients of rows",
                 Launch{.stream = "expert_tensor"});
    }
    travel(f, false, true);
    block_.add(std::move(f));
  }

  // Results leave it again.
  void departure() {
    Fragment f = block_.fragment();
    const bool resorts = split_ && (shape_.local_experts() > 1 || !x_.dispatch->sorts_first);
    const Bytes gathered(worked() * hidden_ * shape_.element());
    if (resorts) f.forward(pass("resort_results", worked(), hidden_, 2 * e_, 0));
    if (resorts) f.forward_workspace(gathered);
    if (x_.tensor > 1) {
      f.forward({CollectiveOp::reduce_scatter, x_.tensor_group, gathered}, "scatter results",
                Launch{.stream = "expert_tensor"});
    }
    travel(f, false, false);
    await(f, true, true);
    if (x_.tensor > 1) {
      f.backward({CollectiveOp::all_gather, x_.tensor_group, gathered}, "gather gradients of results",
                 Launch{.stream = "expert_tensor"});
    }
    if (resorts) f.backward(pass("resort_results.backward", worked(), hidden_, 2 * e_, 0));
    block_.add(std::move(f));
  }

  // Sums over the experts of each token, and with what the shared ones say.
  void arrival_home() {
    const bool sorts = !split_ || x_.dispatch->sorts_first;
    const bool shared = shape_.model.shared_experts > 0;
    const std::int64_t rows = shape_.rows();
    Fragment f = block_.fragment();
    await(f, false, false);
    if (sorts) f.forward(sort("sum", hidden_));
    if (shared) f.forward(pass("add_shared", rows, hidden_, 3 * e_));
    if (sorts) f.backward(sort("sum.backward", hidden_));
    travel(f, true, true);
    block_.add(std::move(f));
  }

  // One product of all local experts with their rows.
  [[nodiscard]] Kernel grouped(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, double flops,
                               Operand second, std::int64_t result_bytes = 0) const {
    Kernel kernel = linear_product(name, shape_, m, n, k, second, shape_.local_experts(), result_bytes);
    kernel.flops = Flops(flops);
    return kernel;
  }

  void grouped_linear(const std::string& name, std::int64_t in, std::int64_t out) {
    const std::int64_t local = shape_.local_experts();
    const std::int64_t element = shape_.element();
    const std::int64_t rows = worked();
    const std::int64_t mean = std::max<std::int64_t>(1, divide_up(rows, local));
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
    const ParameterIndex weight = block_.parameter({.name = name + ".weight",
                                                    .elements = local * in * out,
                                                    .sharded = x_.tensor > 1,
                                                    .columns = in,
                                                    .matrices = local,
                                                    .fp8 = shape_.fp8.on,
                                                    .expert = true});
    Fragment f = block_.fragment();
    f.save_for_weights(operand_bytes(shape_, rows * in));
    prepare_input(f, shape_, name, rows, in, false);
    prepare_weight(f, shape_, name, local * in, out);
    f.forward(grouped(name + ".forward", mean, out, in, flops, Operand::weight));
    f.backward_workspace(Bytes(rows * in * element));
    prepare_gradient(f, shape_, name, rows, out);
    prepare_weight_again(f, shape_, name, local * in, out);
    f.backward(grouped(name + ".input_gradient", mean, in, out, flops, Operand::weight)).for_input();
    const std::int64_t gradient = shape_.storage.gradient;
    if (shape_.fresh_gradients && !shape_.autocast) {
      f.backward(grouped(name + ".weight_gradient", in, out, mean, flops, Operand::activation), {weight})
          .in_weight_half();
    } else if (shape_.fused && !shape_.autocast) {
      f.backward(grouped(name + ".weight_gradient", in, out, mean, flops, Operand::activation, 2 * gradient), {weight})
          .in_weight_half();
    } else {
      f.backward(grouped(name + ".weight_gradient", in, out, mean, flops, Operand::activation)).in_weight_half();
      f.backward(pass(name + ".accumulate", local * in, out, static_cast<double>(element + 2 * gradient)), {weight});
      f.in_weight_half();
    }
    block_.add(std::move(f));
  }

  void experts() {
    const std::int64_t inner = shape_.expert_ffn();
    grouped_linear("experts.up", hidden_, (shape_.model.gated_mlp ? 2 : 1) * inner);
    // The activation, and in the same pass the weights by which a token's experts are summed.
    const std::int64_t passes = shape_.model.gated_mlp ? 2 : 1;
    const Bytes one(worked() * inner * shape_.element());
    Fragment f = block_.fragment();
    f.save(one * passes);
    f.backward_workspace(one * passes);
    f.forward(pass("activation.forward", worked(), inner, (1 + static_cast<double>(passes)) * e_, 8));
    f.backward(pass("activation.backward", worked(), inner, (1 + 2 * static_cast<double>(passes)) * e_, 16));
    block_.add(std::move(f));
    grouped_linear("experts.down", inner, hidden_);
  }

  [[nodiscard]] OperatorShape shared_shape() const {
    OperatorShape shared = without_overlap(shape_);
    shared.model.ffn_hidden = shape_.model.shared_ffn_hidden();
    return shared;
  }

  void shared_up() {
    const OperatorShape shared = shared_shape();
    const ColumnPart up{"shared_up", (shared.model.gated_mlp ? 2 : 1) * shared.ffn()};
    column_parallel(block_, shared, std::span(&up, 1), hidden_, false, true, false);
    activation(block_, shared);
  }

  void shared_down() {
    const OperatorShape shared = shared_shape();
    row_parallel(block_, shared, "shared_down", shared.ffn(), hidden_);
  }

  BlockBuilder& block_;
  const OperatorShape& shape_;
  const ExpertShape& x_;
  double e_;
  std::int64_t hidden_;
  bool split_;
  bool asynchronous_;
};

}  // namespace

void expert_mlp(BlockBuilder& block, const OperatorShape& shape) { ExpertLayer(block, shape).add(); }

}  // namespace orrery
