#include "workloads/experts/routing.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "workloads/options.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr double kMostFactor = 1000;
constexpr OptionDoc kCapacity{"capacity_factor",
                              "number",
                              "0",
                              0,
                              kMostFactor,
                              "rows beyond so many times the average of an expert are dropped; 0: none are"};
constexpr OptionDoc kSeed{"seed", "integer", "1", 0, 1e9, "shuffles the experts"};

constexpr std::array kEvenOptions{kCapacity};
constexpr std::array kZipfOptions{
    OptionDoc{"exponent", "number", "1", 0, 4, "the n-th most popular expert has a share of n to minus this"}, kSeed,
    kCapacity};
constexpr std::array kGivenOptions{
    OptionDoc{"shares", "text", "", 0, 0, "numbers with commas between, one for each expert, up to a common factor"},
    kCapacity};

// base^exponent for base >= 1, with square roots alone, which every machine rounds alike.
double power(double base, double exponent) {
  const auto whole = static_cast<int>(exponent);
  double result = 1;
  for (int i = 0; i < whole; ++i) result *= base;
  double root = base;
  double rest = exponent - whole;
  constexpr int kBits = 30;
  for (int bit = 0; bit < kBits && rest > 0; ++bit) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest < 1) continue;
    result *= root;
    rest -= 1;
  }
  return result;
}

std::vector<double> even(const Choice& /*choice*/, const RegistryRow& /*row*/, std::int64_t /*experts*/) { return {}; }

std::vector<double> zipf(const Choice& choice, const RegistryRow& row, std::int64_t experts) {
  const double exponent = number_option(choice, row, "exponent");
  std::vector<double> shares;
  for (std::int64_t n = 1; n <= experts; ++n) shares.push_back(1 / power(static_cast<double>(n), exponent));
  std::uint64_t state = static_cast<std::uint64_t>(integer_option(choice, row, "seed"));
  for (std::size_t i = shares.size(); i > 1; --i) {  // Fisher and Yates
    state = splitmix64(state);
    std::swap(shares[i - 1], shares[state % i]);
  }
  return shares;
}

// Numbers with commas between; stops at what is none.
std::vector<double> parse_shares(std::string_view text) {
  std::vector<double> shares;
  while (!text.empty()) {
    while (text.starts_with(' ') || text.starts_with(',')) text.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) break;
    shares.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return shares;
}

std::string shares_text(const Choice& choice) {
  const auto found = choice.options.find("shares");
  return found == choice.options.end() ? std::string() : std::get<std::string>(found->second);
}

std::vector<double> given(const Choice& choice, const RegistryRow& /*row*/, std::int64_t /*experts*/) {
  return parse_shares(shares_text(choice));
}

constexpr std::array kRows{
    RoutingRow{{"even", "every expert gets as many tokens", kEvenOptions}, even},
    RoutingRow{{"zipf", "shares that fall off as a power of the rank in popularity", kZipfOptions}, zipf},
    RoutingRow{{"given", "a share for each expert, in their order", kGivenOptions}, given},
};

constexpr auto kPublicRows = public_rows(kRows);

// `total` spread by `weights`, no part above `most` (whose sum is at least the total), by largest remainder.
std::vector<std::int64_t> spread(std::int64_t total, const std::vector<double>& weights, std::int64_t most) {
  std::vector<std::int64_t> parts(weights.size(), -1);
  std::int64_t left = total;
  double open = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto wanted = [&](std::size_t i) { return open > 0 ? static_cast<double>(left) * weights[i] / open : 0.0; };
  for (bool clamped = true; clamped;) {
    clamped = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] >= 0 || wanted(i) <= static_cast<double>(most)) continue;
      parts[i] = most;
      left -= most;
      open -= weights[i];
      clamped = true;
    }
  }
  std::vector<std::size_t> by_remainder;
  std::vector<double> remainder(weights.size());
  std::int64_t given_out = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] >= 0) continue;
    const double exact = wanted(i);
    parts[i] = static_cast<std::int64_t>(exact);
    given_out += parts[i];
    remainder[i] = exact - static_cast<double>(parts[i]);
    by_remainder.push_back(i);
  }
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::int64_t rest = left - given_out; rest > 0;) {
    const std::int64_t before = rest;
    for (const std::size_t i : by_remainder) {
      if (rest == 0 || parts[i] >= most) continue;
      ++parts[i];
      --rest;
    }
    if (rest == before) break;
  }
  return parts;
}

}  // namespace

std::span<const RegistryRow> routing_rows() { return kPublicRows; }

const RoutingRow* find_routing(std::string_view name) { return find_in(kRows, name); }

Problems check_routing(const Choice& choice, const ModelSpec& model) {
  Problems problems;
  if (choice.kind != "given" || model.experts == 0) return problems;
  const std::vector<double> shares = parse_shares(shares_text(choice));
  const std::string key = "training.routing.shares";
  if (static_cast<std::int64_t>(shares.size()) != model.experts) {
    problems.push_back({key, fmt::format("{} shares for {} experts", shares.size(), model.experts),
                        "one number for each expert, as in \"3, 1, 1, 1\""});
    return problems;
  }
  const auto positive = std::count_if(shares.begin(), shares.end(), [](double share) { return share > 0; });
  if (std::any_of(shares.begin(), shares.end(), [](double share) { return !(share >= 0) || share > 1e12; })) {
    problems.push_back({key, "a share is negative or beyond all measure", "numbers between 0 and 1e12"});
  } else if (positive < model.top_k) {
    problems.push_back({key, fmt::format("{} experts have a share, and each token goes to {}", positive, model.top_k),
                        fmt::format("at least {} shares above 0", model.top_k)});
  }
  return problems;
}

Routing route_tokens(const Choice& choice, const ModelSpec& model, std::int64_t rows) {
  const RoutingRow* row = find_routing(choice.kind);
  const double factor = number_option(choice, row->row, "capacity_factor");
  const std::int64_t total = rows * model.top_k;
  std::int64_t capacity = rows;
  if (factor > 0) {
    const double most = factor * static_cast<double>(total) / static_cast<double>(model.experts);
    capacity = std::min(rows, static_cast<std::int64_t>(std::ceil(most)));
  }
  Routing routing;
  const std::vector<double> popularity = row->popularity(choice, row->row, model.experts);
  if (popularity.empty()) {
    routing.sent = std::min(total, capacity * model.experts);
    return routing;
  }
  routing.to_expert = spread(total, popularity, rows);
  for (std::int64_t& part : routing.to_expert) {
    part = std::min(part, capacity);
    routing.sent += part;
  }
  return routing;
}

// Without the limit, n of N equal places are missed by all k of E experts with probability C(E - E/N, k) / C(E, k).
// With it, the same over the places that the token's groups lie in.
double places_reached(const ModelSpec& m, std::int64_t places) {
  const std::int64_t within = std::min(
      places, std::max<std::int64_t>(m.groups_per_token, divide_up(places * m.groups_per_token, m.expert_groups)));
  const bool limited = m.groups_per_token < m.expert_groups;
  const std::int64_t reachable = limited ? within : places;
  const double experts = static_cast<double>(m.experts) *
                         (limited ? static_cast<double>(m.groups_per_token) / static_cast<double>(m.expert_groups) : 1);
  const double elsewhere = experts - experts / static_cast<double>(reachable);
  double missed = 1;
  for (std::int64_t i = 0; i < m.top_k; ++i) {
    const auto taken = static_cast<double>(i);
    missed *= std::max(0.0, elsewhere - taken) / (experts - taken);
  }
  return static_cast<double>(reachable) * (1 - missed);
}

}  // namespace orrery
