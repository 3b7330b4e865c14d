#include "scenarios/yaml_document.hpp"

#include <doctest/doctest.h>

namespace orrery {

namespace {

Result<YamlNode> parse(std::string_view text) {
  return parse_yaml(text, std::make_shared<const YamlOrigin>(YamlOrigin{"t.yaml", ""}));
}

YamlNode parsed(std::string_view text) {
  auto tree = parse(text);
  CAPTURE(to_string(tree.problems()));
  REQUIRE(tree.ok());
  return std::move(tree).value();
}

}  // namespace

TEST_CASE("keys and values know their line and column, counted from one") {
  const YamlNode tree = parsed("a: 1\nb:\n  c: [x, y]\n");
  CHECK(tree.find("a")->key_place.location() == SourceLocation{"t.yaml", 1, 1});
  CHECK(tree.find("a")->value.place.location() == SourceLocation{"t.yaml", 1, 4});
  const YamlEntry& c = *tree.find("b")->value.find("c");
  CHECK(c.key_place.location() == SourceLocation{"t.yaml", 3, 3});
  CHECK(c.value.items[1].place.location() == SourceLocation{"t.yaml", 3, 10});
}

TEST_CASE("JSON is read by the same parser") {
  const YamlNode tree = parsed("{\"a\": [1, true, null], \"b\": {\"c\": \"x\"}}");
  CHECK(tree.find("a")->value.items.size() == 3);
  CHECK(tree.find("a")->value.items[2].is_null());
  CHECK(tree.find("b")->value.find("c")->value.quoted);
}

TEST_CASE("an empty value stands at its key") {
  const YamlNode tree = parsed("a:\n\n\nb: 1\n");
  CHECK(tree.find("a")->value.is_null());
  CHECK(tree.find("a")->value.place.line == 1);
}

TEST_CASE("an alias is a copy that keeps the places of its original") {
  const YamlNode tree = parsed("a: &x {k: 1}\nb: *x\n");
  CHECK(tree.find("b")->value.find("k")->value.text == "1");
  CHECK(tree.find("b")->value.find("k")->value.place.line == 1);
}

TEST_CASE("a merge key lays maps beneath, the first of them on top") {
  const YamlNode tree = parsed("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 0}\n");
  const YamlNode& z = tree.find("z")->value;
  CHECK(z.find("a")->value.text == "0");
  CHECK(z.find("b")->value.text == "2");
  CHECK(z.find("c")->value.text == "4");
  CHECK(z.find("<<") == nullptr);
}

TEST_CASE("a byte order mark of UTF-8 and Windows line ends are no problem") {
  CHECK(parsed("\xEF\xBB\xBF"
               "a: 1\r\nb: 2\r\n")
            .find("b")
            ->value.text == "2");
}

TEST_CASE("all duplicate keys of a text are reported at once") {
  const auto tree = parse("a: 1\na: 2\nb: {c: 1, c: 2}\n");
  REQUIRE(tree.problems().size() == 2);
  CHECK(tree.problems()[0].where.line == 2);
  CHECK(tree.problems()[1].where.line == 3);
}

TEST_CASE("aliases may be used often, but not grow without end") {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  text += "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n";
  CHECK(parse(text + "c: [*b, *b]\n").ok());
  text += "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n";
  const auto tree = parse(text + "e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n");
  REQUIRE_FALSE(tree.ok());
  CHECK(tree.problems().front().message == "more than 100000 values");
}

TEST_CASE("a tree written as one line reads back as the same tree") {
  const std::string text = "{\"a\": [1, x y, \"q\\\"\\\\\"], \"b\": {\"c\": null}}";
  CHECK(to_yaml_text(parsed(text)) == text);
  CHECK(to_yaml_text(parsed(to_yaml_text(parsed("l: |\n  two\n  lines\nk: 'it''s'\n")))) ==
        "{\"l\": \"two\\nlines\\n\", \"k\": \"it's\"}");
}

TEST_CASE("quoted text is cut between characters and shows control characters") {
  CHECK(in_quotes("a\tb\x01") == "\"a\\tb\\x01\"");
  const std::string cut = in_quotes(std::string(59, 'a') + "\xC3\xA9\xC3\xA9");
  CHECK(cut == "\"" + std::string(59, 'a') + "...\"");
}

}  // namespace orrery
