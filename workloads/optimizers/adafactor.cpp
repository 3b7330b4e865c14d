// Adafactor (Shazeer and Stern 2018): of the second moment of a matrix only its mean along rows and along columns, of
// anything with one dimension the whole; no first moment unless asked for.
//
// As Hugging Face Transformers has it after fairseq (transformers/optimization.py, class Adafactor, methods
// _get_options and step): eager operations, tensor by tensor, each a pass of its own, on fp32 copies. With a learning
// rate of its own (relative_step, scale_parameter and weight decay off, as their documentation suggests for
// fine-tuning), so that the host reads no norms; clipping by the update's root mean square is always on.
//
// What has lost its shape has lost its rows and columns: flat buffers that strategies split (ZeRO, FSDP1, Megatron's
// distributed optimizer) keep the whole second moment, 4 bytes a parameter (fairseq refuses flat parameters for that
// reason). FSDP2 splits tensors by rows; sums of columns over the ranks, a few KiB a matrix, are left out.
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"
#include "workloads/options.hpp"

namespace orrery {

namespace {

bool factored(const OptimizerTensor& tensor) { return tensor.columns > 0; }

std::int64_t rows_and_columns(const OptimizerTensor& tensor) {
  return tensor.matrices * (tensor.rows() + tensor.columns);
}

class Update {
 public:
  Update(const OptimizerWork& work, bool first_moment)
      : g_(static_cast<double>(work.gradient_bytes)), first_moment_(first_moment) {}

  void add(const OptimizerTensor& tensor) {
    pass("weight_size", tensor.elements, 4, 2);
    pass("square", tensor.elements, g_ + 4, 1);
    pass("epsilon", tensor.elements, 8, 1);
    if (factored(tensor)) {
      second_moment(tensor);
    } else {
      whole_second_moment(tensor);
    }
    pass("update_size", tensor.elements, 4, 2);
    pass("clip", tensor.elements, 8, 1);
    pass("rate", tensor.elements, 8, 1);
    if (first_moment_) {
      pass("first_moment_decay", tensor.elements, 8, 1);
      pass("first_moment", tensor.elements, 12, 2);
    }
    pass("negate", tensor.elements, 8, 1);
    pass("apply", tensor.elements, 12, 1);
  }

  [[nodiscard]] std::vector<Kernel> take() && { return std::move(kernels_); }

 private:
  void second_moment(const OptimizerTensor& tensor) {
    const std::int64_t rows = tensor.matrices * tensor.rows();
    const std::int64_t columns = tensor.matrices * tensor.columns;
    pass("row_means", tensor.elements, 4, 1);
    pass("row_decay", rows, 8, 1);
    pass("rows", rows, 12, 2);
    pass("column_means", tensor.elements, 4, 1);
    pass("column_decay", columns, 8, 1);
    pass("columns", columns, 12, 2);
    pass("row_mean", rows, 4, 1);
    pass("row_share", rows, 8, 1);
    pass("row_root", rows, 8, 1);
    pass("column_root", columns, 8, 1);
    pass("product", tensor.elements, 4, 1);
    pass("update", tensor.elements, 8 + g_, 1);
  }

  void whole_second_moment(const OptimizerTensor& tensor) {
    pass("moment_decay", tensor.elements, 8, 1);
    pass("moment", tensor.elements, 12, 2);
    pass("root", tensor.elements, 8, 1);
    pass("update", tensor.elements, 8 + g_, 1);
  }

  void pass(const char* name, std::int64_t elements, double bytes, double flops) {
    kernels_.push_back(update_kernel(std::string("adafactor.") + name, elements, bytes, flops));
  }

  double g_;
  bool first_moment_;
  std::vector<Kernel> kernels_;
};

}  // namespace

std::int64_t adafactor_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  std::int64_t numbers = boolean_option(choice, row, "first_moment") ? work.elements : 0;
  for (const OptimizerTensor& tensor : tensors_of(work)) {
    numbers += factored(tensor) ? rows_and_columns(tensor) : tensor.elements;
  }
  return 4 * numbers;
}

std::vector<Kernel> adafactor_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  Update update(work, boolean_option(choice, row, "first_moment"));
  for (const OptimizerTensor& tensor : tensors_of(work)) update.add(tensor);
  return std::move(update).take();
}

}  // namespace orrery
