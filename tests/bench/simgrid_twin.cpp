// The churn and the ring in SimGrid, on the same links, for a ratio of speeds in one run:
//
//   simgrid_twin churn LEAVES HOSTS FLOWS LINK_LATENCY_NS      simgrid_twin ring LEAVES HOSTS LINK_LATENCY_NS
//
// SimGrid's CM02 model weighs flows by latency; with latency 0 both solve the same problem. TCP's window, bandwidth and
// latency factors and cross traffic are turned off.
#include <simgrid/s4u.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

constexpr std::int64_t kSlotsPerHost = 8;

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::string name(char kind, std::int64_t index) {
  std::string text(1, kind);
  text += std::to_string(index);
  return text;
}

class Platform {
 public:
  Platform(std::int64_t leaves, std::int64_t hosts, double latency) : spines_(hosts), count_(leaves * hosts) {
    zone_ = sg4::create_full_zone("fabric");
    for (std::int64_t i = 0; i < 4 * count_; ++i) {
      links_.push_back(zone_->create_link(name('l', i), 50e9)->set_latency(latency)->seal());
    }
    for (std::int64_t i = 0; i < count_; ++i) hosts_.push_back(zone_->create_host(name('h', i), 1e9)->seal());
  }

  // Only the routes that are used: all pairs would be a table of a quarter of a million.
  void connect(std::int64_t from, std::int64_t to) {
    if (!known_.emplace(std::pair{from, to}, true).second) return;
    std::vector<sg4::LinkInRoute> route;
    route.emplace_back(link(from));
    if (from / spines_ != to / spines_) {
      route.emplace_back(link(2 * count_ + from / spines_ * spines_ + to % spines_));
      route.emplace_back(link(3 * count_ + to));
    }
    route.emplace_back(link(count_ + to));
    zone_->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr, route, false);
  }

  void seal() { zone_->seal(); }
  [[nodiscard]] sg4::Host* host(std::int64_t index) const { return hosts_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  [[nodiscard]] sg4::Link* link(std::int64_t index) const { return links_[static_cast<std::size_t>(index)]; }

  std::int64_t spines_;
  std::int64_t count_;
  sg4::NetZone* zone_ = nullptr;
  std::vector<sg4::Link*> links_;
  std::vector<sg4::Host*> hosts_;
  std::map<std::pair<std::int64_t, std::int64_t>, bool> known_;
};

std::int64_t churn(Platform& platform, std::int64_t flows) {
  const std::int64_t slots = platform.count() * kSlotsPerHost;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::int64_t from = slot / kSlotsPerHost;
    std::vector<std::pair<std::int64_t, std::uint64_t>> sends;
    for (std::int64_t k = 0; k < flows / slots + (slot < flows % slots ? 1 : 0); ++k) {
      const std::uint64_t hash = splitmix64((static_cast<std::uint64_t>(slot) << 32) + static_cast<std::uint64_t>(k));
      auto to = static_cast<std::int64_t>(splitmix64(hash) % static_cast<std::uint64_t>(platform.count() - 1));
      if (to >= from) ++to;
      platform.connect(from, to);
      sends.emplace_back(to, 1'000'000 + (hash >> 8) % 63'000'001);
    }
    sg4::Actor::create(name('s', slot), platform.host(from), [&platform, from, sends] {
      for (const auto& [to, bytes] : sends) sg4::Comm::sendto(platform.host(from), platform.host(to), bytes);
    });
  }
  return flows;
}

std::int64_t ring(Platform& platform) {
  const std::int64_t gpus = platform.count();
  const std::uint64_t bytes = (std::uint64_t{1} << 30) / static_cast<std::uint64_t>(gpus);
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    const std::int64_t next = (gpu + 1) % gpus;
    platform.connect(gpu, next);
    sg4::Actor::create(name('g', gpu), platform.host(gpu), [gpu, next, gpus, bytes] {
      static int token = 0;
      sg4::Mailbox* out = sg4::Mailbox::by_name(std::to_string(next));
      sg4::Mailbox* in = sg4::Mailbox::by_name(std::to_string(gpu));
      for (std::int64_t step = 0; step < 2 * (gpus - 1); ++step) {
        sg4::CommPtr sent = out->put_async(&token, bytes);
        in->get<int>();
        sent->wait();
      }
    });
  }
  return 2 * (gpus - 1) * gpus;
}

}  // namespace

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/bandwidth-factor:1",
                              "network/latency-factor:1", "network/weight-S:0", "network/crosstraffic:0"}) {
    sg4::Engine::set_config(setting);
  }
  const std::string what = argc > 1 ? argv[1] : "";
  const bool is_churn = what == "churn" && argc == 6;
  if (!is_churn && !(what == "ring" && argc == 5)) {
    std::fprintf(stderr, "usage: simgrid_twin churn LEAVES HOSTS FLOWS NS | simgrid_twin ring LEAVES HOSTS NS\n");
    return 2;
  }
  Platform platform(std::atoll(argv[2]), std::atoll(argv[3]), std::atof(argv[is_churn ? 5 : 4]) * 1e-9);
  const std::int64_t transfers = is_churn ? churn(platform, std::atoll(argv[4])) : ring(platform);
  platform.seal();
  const auto start = std::chrono::steady_clock::now();
  engine.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("simulated %.6f ms, %.3f s, %.0f transfers/s\n", sg4::Engine::get_clock() * 1e3, seconds,
              static_cast<double>(transfers) / seconds);
  return 0;
}
