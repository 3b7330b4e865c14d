#include "sim/app/options.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <streambuf>

#include "scenarios/load.hpp"
#include "tests/unit/app/outcome.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::string_view kSome[] = {"--set", "--out", "--json", "--seed", "--threads", "--no-fold", "--quiet"};

Result<Arguments> parse(const std::vector<std::string>& words) { return parse_arguments(words, kSome); }

}  // namespace

TEST_CASE("options and words mix in any order") {
  const Result<Arguments> parsed = parse({"--set", "parallelism.tensor=4", "file.yaml", "--out=out dir", "--json", "-q",
                                          "--set=name=a=b", "--seed", "7", "--threads", "3", "--no-fold"});
  REQUIRE(parsed.ok());
  CHECK(parsed->positional == std::vector<std::string>{"file.yaml"});
  REQUIRE(parsed->overrides.size() == 3);
  CHECK(parsed->overrides[0].key == "parallelism.tensor");
  CHECK(parsed->overrides[0].value == "4");
  CHECK(parsed->overrides[1].key == "name");  // the first equals sign divides
  CHECK(parsed->overrides[1].value == "a=b");
  CHECK(parsed->overrides[2].key == "simulation.seed");
  CHECK(parsed->out == "out dir");
  CHECK(parsed->json);
  CHECK(parsed->quiet);
  CHECK(parsed->threads == 3);
  CHECK_FALSE(parsed->fold);
}

TEST_CASE("after -- everything is a word") {
  const Result<Arguments> parsed = parse({"--", "--json", "-"});
  REQUIRE(parsed.ok());
  CHECK(parsed->positional == std::vector<std::string>{"--json", "-"});
  CHECK_FALSE(parsed->json);
}

TEST_CASE("all mistakes are reported at once, with the nearest right thing") {
  const Problems problems =
      parse({"--jsn", "--set", "novalue", "--seed", "x", "--threads=0", "--json=yes", "--out"}).problems();
  REQUIRE(problems.size() == 6);
  CHECK(problems[0].note == "did you mean --json?");
  CHECK(contains(problems[1].message, "'novalue' is not key=value"));
  CHECK(contains(problems[2].message, "'x' is not a seed"));
  CHECK(contains(problems[3].message, "'0' is not a number of threads"));
  CHECK(problems[4].message == "takes no value");
  CHECK(problems[5].message == "needs a value");
  CHECK(problems[5].note == "write it as in  --out DIR");
}

TEST_CASE("commands: help, version and mistakes have their exit statuses") {
  CHECK(command({}).status == kBadInput);
  CHECK(command({"--help"}).status == kOk);
  CHECK(contains(command({"--help"}).out, "sweep FILE"));
  CHECK(command({"help"}).out == command({"--help"}).out);
  CHECK(command({"help", "sweep"}).out == command({"sweep", "--help"}).out);
  CHECK(contains(command({"help", "swep"}).err, "did you mean 'sweep'?"));
  CHECK(command({"--version"}).out == "orrery 0.1.0\n");
  const Outcome misspelt = command({"swep", "x.yaml"});
  CHECK(misspelt.status == kBadInput);
  CHECK(contains(misspelt.err, "no command 'swep'"));
  CHECK(contains(misspelt.err, "did you mean 'sweep'?"));
  const Outcome bare = command({"run"});
  CHECK(bare.status == kBadInput);
  CHECK(contains(bare.err, "'run' needs a FILE"));
  CHECK(contains(bare.err, "usage: orrery run FILE"));
  CHECK(contains(command({"run", "a.yaml", "b.yaml"}).err, "2 words after 'run' are too many"));
  const Outcome option = command({"run", "x.yaml", "--thread", "4"});
  CHECK(option.status == kBadInput);
  CHECK(contains(option.err, "did you mean --threads?"));
  CHECK(command({"plot", "/no/such/folder"}).status == kBadInput);
}

TEST_CASE("every command explains itself with examples") {
  for (const char* name : {"run", "sweep", "catalog", "plot"}) {
    const Outcome help = command({name, "--help"});
    CHECK(help.status == kOk);
    CHECK(help.err.empty());
    CHECK(contains(help.out, std::string("usage: orrery ") + name));
    CHECK(contains(help.out, "examples"));
    CHECK(contains(help.out, "--help"));
  }
}

TEST_CASE("the scenarios that help names are shipped") {
  constexpr std::string_view kFolder = "scenarios/";
  int named = 0;
  for (const char* name : {"run", "sweep", "catalog", "plot"}) {
    const std::string help = command({name, "--help"}).out;
    for (std::size_t at = help.find(kFolder); at != std::string::npos; at = help.find(kFolder, at + 1)) {
      const std::string file = help.substr(at, help.find_first_of(" \n", at) - at);
      CAPTURE(file);
      CHECK(file.ends_with(".yaml"));
      CHECK(std::filesystem::is_regular_file(find_catalog_root() + "/" + file));
      ++named;
    }
  }
  CHECK(named >= 8);
}

TEST_CASE("every option has a line of documentation and a distinct name") {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_rows()) {
    CHECK(!row.doc.empty());
    CHECK((row.apply != nullptr));
    CHECK(row.name.substr(0, 2) == "--");
    CHECK(std::find(names.begin(), names.end(), row.name) == names.end());
    names.push_back(row.name);
  }
}

TEST_CASE("a scenario that does not exist is bad input that names it") {
  const Outcome outcome = command({"run", "/no/such/scenario.yaml"});
  CHECK(outcome.status == kBadInput);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, "/no/such/scenario.yaml"));
}

TEST_CASE("the catalogue lists every kind and every entry, and suggests the nearest") {
  const Outcome kinds = command({"catalog"});
  CHECK(kinds.status == kOk);
  for (const char* kind : {"gpus", "nodes", "links", "models", "frameworks", "fabrics", "strategies", "schedules",
                           "optimizers", "algorithms"}) {
    CHECK(contains(kinds.out, kind));
    const Outcome entries = command({"catalog", kind});
    CHECK_MESSAGE(entries.status == kOk, kind);
    CHECK_MESSAGE(std::count(entries.out.begin(), entries.out.end(), '\n') > 1, kind);
  }
  CHECK(contains(command({"catalog", "fabrics", "rail-optimized"}).out, "oversubscription"));
  CHECK(contains(command({"catalog", "algorithm", "ring"}).out, "all_reduce"));
  CHECK(contains(command({"catalog", "gpu", "a100-80gb-sxm"}).out, "memory"));
  // 85,899,345,920 bytes less what the driver takes; both ways of counting, to a tenth.
  CHECK(contains(command({"catalog", "gpus"}).out, "79.1 GiB (84.9 GB)"));
  CHECK(contains(command({"catalog", "scedules"}).err, "did you mean 'schedules'?"));
  const Outcome wrong = command({"catalog", "gpus", "a100-80gb-smx"});
  CHECK(wrong.status == kBadInput);
  CHECK(contains(wrong.err, "did you mean 'a100-80gb-sxm'?"));
}

TEST_CASE("the catalogue knows a key, and the keys of a block") {
  const Outcome key = command({"catalog", "keys", "cluster.nodes"});
  CHECK(contains(key.out, "\n  an integer"));
  const Outcome block = command({"catalog", "keys", "variation"});
  CHECK(block.status == kOk);
  CHECK(contains(block.out, "  variation.slow[].gpu"));
  CHECK_FALSE(contains(block.out, "training."));
  const Outcome both = command({"catalog", "keys", "variation.slow"});  // a key, with keys in it
  CHECK(contains(both.out, "variation.slow: a list"));
  CHECK(contains(both.out, "  variation.slow[].gpu"));
  CHECK(command({"catalog", "keys", "variatio"}).status == kBadInput);
}

namespace {

// A disk that is full.
class FullBuffer : public std::streambuf {
 protected:
  int overflow(int) override { return traits_type::eof(); }
};

}  // namespace

TEST_CASE("output that cannot be written is a failure that is said, whatever the command") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"--version"}, {"catalog"}, {"catalog", "gpus"}, {"run", "--help"}}) {
    CAPTURE(words.front());
    FullBuffer full;
    std::ostream out(&full);
    std::ostringstream err;
    CHECK(run_command(words, out, err) == kFailedRun);
    CHECK(contains(err.str(), "cannot write to standard output"));
  }
  // Bad input stays what it is: nothing was to be written.
  FullBuffer full;
  std::ostream out(&full);
  std::ostringstream err;
  CHECK(run_command({"swep"}, out, err) == kBadInput);
  CHECK_FALSE(contains(err.str(), "cannot write"));
}
