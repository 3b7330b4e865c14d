#include "scenarios/quantity.hpp"

#include <doctest/doctest.h>

#include <string>

namespace orrery {

namespace {

double value(std::string_view text, Dimension dimension) {
  const auto parsed = parse_quantity(text, dimension);
  const auto* error = std::get_if<QuantityError>(&parsed);
  CAPTURE(std::string(text));
  REQUIRE_MESSAGE(error == nullptr, (error == nullptr ? std::string() : error->message));
  return std::get<double>(parsed);
}

std::string message(std::string_view text, Dimension dimension) {
  const auto parsed = parse_quantity(text, dimension);
  const auto* error = std::get_if<QuantityError>(&parsed);
  return error == nullptr ? "none" : error->message;
}

std::string note(std::string_view text, Dimension dimension) {
  const auto parsed = parse_quantity(text, dimension);
  const auto* error = std::get_if<QuantityError>(&parsed);
  return error == nullptr ? "none" : error->note;
}

}  // namespace

TEST_CASE("prefixes are exact: decimal and binary bytes, bits and bytes") {
  CHECK(value("80 GB", Dimension::size) == 80e9);
  CHECK(value("80 GiB", Dimension::size) == 80.0 * 1073741824.0);
  CHECK(value("1 KiB", Dimension::size) == 1024);
  CHECK(value("400 Gb/s", Dimension::data_rate) == 50e9);  // 400e9 bits / 8
  CHECK(value("400 GB/s", Dimension::data_rate) == 400e9);
  CHECK(value("2.0 TB/s", Dimension::data_rate) == 2e12);
  CHECK(value("25Gbps", Dimension::data_rate) == 3.125e9);
  CHECK(value("312 TFLOP/s", Dimension::compute_rate) == 312e12);
  CHECK(value("1 PFLOP/s", Dimension::compute_rate) == value("1000 TFLOP/s", Dimension::compute_rate));
}

TEST_CASE("times are whole picoseconds without rounding errors") {
  // Times are scaled to picoseconds by powers of ten that doubles hold exactly, so 5 us is 5,000,000 and no more.
  CHECK(value("5 us", Dimension::time) == 5e6);
  CHECK(value("5 µs", Dimension::time) == 5e6);
  CHECK(value("1.5 ms", Dimension::time) == 1.5e9);
  CHECK(value("300 ns", Dimension::time) == 3e5);
  CHECK(value("1 ps", Dimension::time) == 1);
  CHECK(value("1 h", Dimension::time) == 3600e12);
}

TEST_CASE("numbers may have exponents, signs and grouped digits") {
  CHECK(value("1e8", Dimension::number) == 1e8);
  CHECK(value("1E+8", Dimension::number) == 1e8);
  CHECK(value("+3", Dimension::number) == 3);
  CHECK(value("-3.5e-1", Dimension::number) == -0.35);
  CHECK(value("1_000_000", Dimension::number) == 1e6);
  CHECK(value(" 7 ", Dimension::number) == 7);
  CHECK(value(".5", Dimension::number) == 0.5);
}

TEST_CASE("counts and fractions may go without a unit") {
  CHECK(value("300e9 tokens", Dimension::tokens) == 300e9);
  CHECK(value("300e9", Dimension::tokens) == 300e9);
  CHECK(value("300B tokens", Dimension::tokens) == 300e9);
  CHECK(value("1.5T", Dimension::tokens) == 1.5e12);
  CHECK(value("7B", Dimension::parameters) == 7e9);
  CHECK(value("2 %", Dimension::fraction) == 0.02);
  CHECK(value("0.02", Dimension::fraction) == 0.02);
}

TEST_CASE("a bare number where a unit is needed is an error with a right example") {
  CHECK(message("400", Dimension::data_rate) == "\"400\" has no unit");
  CHECK(note("400", Dimension::data_rate) == "write it as in 400 Gb/s");
  CHECK(message("0", Dimension::time) == "\"0\" has no unit");
}

TEST_CASE("a unit of another dimension is named as what it is") {
  CHECK(message("80 GiB", Dimension::data_rate) == "\"80 GiB\" is a size, but a data rate is needed");
  CHECK(message("5 us", Dimension::size) == "\"5 us\" is a time, but a size is needed");
  CHECK(message("5 W", Dimension::number) == "\"5 W\" is a power, but a number is needed");
}

TEST_CASE("an unknown unit is answered with the nearest") {
  CHECK(note("400 gb/s", Dimension::data_rate) == "did you mean GB/s or Gb/s? capitals matter");
  CHECK(note("5 mS", Dimension::time) == "did you mean ms? capitals matter");
  CHECK(note("5 TFLOPs/s", Dimension::compute_rate) == "did you mean TFLOP/s?");
  CHECK(message("5 parsec", Dimension::time) == "unknown unit \"parsec\"");
  CHECK(note("5 parsec", Dimension::time) == "units of a time: d, h, min, s, ms, us, ns, ps");
}

TEST_CASE("what is no finite number is refused") {
  for (const char* text :
       {"", " ", "GB/s", "nan GB/s", "inf GB/s", "-inf", ".nan", "1.2.3 GB/s", "0x10 GB/s", "--1 GB/s", "1e GB/s",
        "_1 GB/s", "1_ GB/s", "1__0 GB/s", "1e400 GB/s", "1e308 TB/s", "1,000 GB/s", "e5"}) {
    CAPTURE(text);
    CHECK(message(text, Dimension::data_rate) != "none");
  }
  CHECK(note("1,000 GB/s", Dimension::data_rate) == "write 1000 or 1_000 for a thousand");
}

TEST_CASE("a quantity is printed with the largest unit that leaves at least one") {
  CHECK(format_quantity(2e12, Dimension::data_rate) == "2 TB/s");
  CHECK(format_quantity(999e9, Dimension::data_rate) == "999 GB/s");
  CHECK(format_quantity(5e6, Dimension::time) == "5 us");
  CHECK(format_quantity(0, Dimension::time) == "0 ps");
  CHECK(format_quantity(0.02, Dimension::fraction) == "2 %");
  CHECK(format_quantity(16, Dimension::number) == "16");
  CHECK(format_quantity(300e9, Dimension::tokens) == "3e+11 tokens");
}

TEST_CASE("what is printed reads back as the same quantity") {
  for (std::size_t i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    CAPTURE(std::string(name_of(dimension)));
    const double example = value(example_of(dimension), dimension);
    CHECK(value(format_quantity(example, dimension), dimension) == doctest::Approx(example).epsilon(1e-5));
  }
}

}  // namespace orrery
