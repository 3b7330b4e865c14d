#include <array>

#include "workloads/context/context.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr std::array kZigZagOptions{
    OptionDoc{"zig_zag", "boolean", "true", 0, 0,
              "each rank has one chunk from either end of the sequence, so that causal work is even"},
};

constexpr std::array kRows{
    ContextRow{{"ring", "keys and values go round a ring of ranks beside the computation (ring attention; p2p)",
                kZigZagOptions},
               add_ring_attention,
               false,
               true},
    ContextRow{{"all-gather", "keys and values are gathered first, their gradients reduce-scattered (Llama 3)",
                kZigZagOptions},
               add_gathered_attention,
               false,
               true},
    ContextRow{{"ulysses", "all-to-all from tokens to heads before attention and back after it (a2a)", {}},
               add_ulysses_attention,
               true,
               false},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> context_rows() { return kPublicRows; }

const ContextRow* find_context(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
