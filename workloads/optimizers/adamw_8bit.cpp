// AdamW with its two moments in 8 bits each (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"): a
// byte an element and moment, an fp32 scale a block and moment, and two tables of 256 fp32 numbers that say what the
// bytes mean.
//
// As bitsandbytes has it (bitsandbytes/optim/optimizer.py, Optimizer2State.init_state and update_step): tensors of
// fewer than 4,096 elements stay in fp32, blocks have 256 elements (2,048 in the paper and in releases before 0.44),
// and each tensor is a launch of its own, one pass over weight, gradient and both moments. Transformers asks for fp32
// state of every nn.Embedding (trainer.py, GlobalOptimManager.register_module_override); a table that has become part
// of a flat buffer is not known any more.
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"
#include "workloads/options.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kMoments = 2;
constexpr std::int64_t kMeanings = 256 * 4;  // bytes of the table of one moment

bool in_8_bits(const Choice& choice, const RegistryRow& row, const OptimizerTensor& tensor) {
  if (tensor.table && boolean_option(choice, row, "tables_in_fp32")) return false;
  return tensor.elements >= integer_option(choice, row, "smallest");
}

}  // namespace

std::int64_t adamw_8bit_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  const std::int64_t block = integer_option(choice, row, "block");
  std::int64_t bytes = 0;
  bool any = false;
  for (const OptimizerTensor& tensor : tensors_of(work)) {
    const bool small = in_8_bits(choice, row, tensor);
    any = any || small;
    bytes += kMoments * (small ? tensor.elements + 4 * divide_up(tensor.elements, block) : 4 * tensor.elements);
  }
  return bytes + (any ? kMoments * kMeanings : 0);
}

std::vector<Kernel> adamw_8bit_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  const auto g = static_cast<double>(work.gradient_bytes);
  const auto block = static_cast<double>(integer_option(choice, row, "block"));
  std::vector<Kernel> kernels;
  for (const OptimizerTensor& tensor : tensors_of(work)) {
    const bool small = in_8_bits(choice, row, tensor);
    const double moment = small ? 1 + 4 / block : 4;  // read and written
    kernels.push_back(update_kernel(small ? "adamw_8bit" : "adamw_8bit.fp32", tensor.elements,
                                    8 + g + 2 * static_cast<double>(kMoments) * moment, 14));
  }
  return kernels;
}

}  // namespace orrery
