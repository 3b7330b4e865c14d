// The shell's language as training scripts use it. Expected words are what bash 5.2 makes of the same text.
#include <doctest/doctest.h>

#include <memory>

#include "scenarios/import/shell_words.hpp"

namespace orrery {

namespace {

Result<ShellScript> read(std::string_view text) {
  return read_shell(text, std::make_shared<const YamlOrigin>(YamlOrigin{"a.sh", ""}));
}

// Words of all commands: blanks shown as _, words parted by |, commands by a line's end.
std::string words(std::string_view text) {
  const auto script = read(text);
  if (!script) return to_string(script.problems());
  std::string shown;
  for (const ShellCommand& command : script->commands) {
    if (!shown.empty()) shown += "\n";
    for (std::size_t i = 0; i < command.size(); ++i) {
      std::string word = command[i].text;
      for (char& c : word) c = c == ' ' ? '_' : c;
      shown += (i > 0 ? "|" : "") + word;
    }
  }
  return shown;
}

}  // namespace

TEST_CASE("shell words end at blanks outside quotes, and lines go on behind a backslash") {
  CHECK(words("a  b\tc") == "a|b|c");
  CHECK(words("a 'b c' \"d e\"f g\\ h") == "a|b_c|d_ef|g_h");
  CHECK(words("a \\\n  b \\\r\n c") == "a|b|c");
  CHECK(words("a \"\" ''") == "a||");
  CHECK(words("a '$X' \"\\$Y\" \"a\\\"b\"") == "a|$X|$Y|a\"b");
}

TEST_CASE("shell comments and the ends of commands") {
  CHECK(words("a # b\nc;d&&e||f|g") == "a\nc\nd\ne\nf\ng");
  CHECK(words("a#b '#c'") == "a#b|#c");
  CHECK(words("(a b)\nf() { c; }") == "a|b\nf\nc");
  CHECK(words("a 2>&1 | tee x.log; b > out < in &> both 3>c") == "a\ntee|x.log\nb");
}

TEST_CASE("shell variables are put in place of their names, split where they stand without quotes") {
  CHECK(words("A=5 B=\"1 2\"\nx $A ${A}k $B \"$B\" '$B'") == "x|5|5k|1|2|1_2|$B");
  CHECK(words("export A=5\ndeclare -r B=6\nlocal C=7\nx $A $B $C") == "x|5|6|7");
  CHECK(words("A=1\nA+=2\nx $A") == "x|12");
  CHECK(words("A=--a\nA=\"$A --b\"\nx $A") == "x|--a|--b");
  CHECK(words("x ${A:-7} ${A-8}; A=1; x ${A:-7} ${B:=$A}") == "x|7|8\nx|1|1");
  CHECK(words("A=; x $A y") == "x|y");
}

TEST_CASE("shell variables that nothing sets, and what only a run could tell, stay as they are written") {
  CHECK(words("x $A ${B} $1 \"$@\" $(nproc --all) `date` ${C%.*} ${#D}") ==
        "x|$A|${B}|$1|$@|$(nproc_--all)|`date`|${C%.*}|${#D}");
}

TEST_CASE("shell arrays") {
  CHECK(words("A=(a 'b c' # no word\n  d)\nx ${A[@]} \"${A[@]}\" $A") == "x|a|b|c|d|a|b_c|d|a");
  CHECK(words("A=(a)\nA+=(b c)\nx ${A[*]}") == "x|a|b|c");
  CHECK(words("A=()\nx \"${A[@]}\" y") == "x|y");
  CHECK(words("A=(--a 1)\nB=(\"${A[@]}\" --b)\nx \"${B[@]}\"") == "x|--a|1|--b");
}

TEST_CASE("shell arithmetic over whole numbers") {
  CHECK(words("N=8 M=4\nx $((N * $M)) $(( (N+M)/5 - ${M} % 3 )) $((2*(3+4)))") == "x|32|1|14");
  CHECK(words("x $((A+1)) $((1/0)) $((2**3))") == "x|$((A+1))|$((1/0))|$((2**3))");
  CHECK(words("x $((9223372036854775807+1))") == "x|$((9223372036854775807+1))");
}

TEST_CASE("shell here-documents are no commands, and conditions are noted") {
  CHECK(words("cat <<EOF > x\n--a 1\nEOF\ny") == "cat\ny");
  CHECK(words("cat <<-'E'\n\t--a\n\tE\ny") == "cat\ny");
  const auto script = read("if [ $A = 1 ]; then\n  B=2\nelse\n  B=3\nfi\nfor i in 1 2; do x $B; done");
  REQUIRE(script.ok());
  REQUIRE(script->conditions.size() == 2);
  CHECK(script->conditions[0].line == 1);
  CHECK(script->conditions[1].line == 6);
  CHECK(script->conditions[1].column == 1);
}

TEST_CASE("a shell word from a variable stands where the variable's value was written") {
  const auto script = read("A=(\n  --a 1\n  --b 22\n)\nB=\"--c\n   33\"\nx ${A[@]} $B");
  REQUIRE(script.ok());
  REQUIRE(script->commands.size() == 1);
  const ShellCommand& command = script->commands[0];
  REQUIRE(command.size() == 7);
  CHECK(command[4].text == "22");
  CHECK(command[4].place.line == 3);
  CHECK(command[4].place.column == 7);
  CHECK(command[6].text == "33");
  CHECK(command[6].place.line == 6);
  CHECK(command[6].place.column == 4);
}

TEST_CASE("shell text that does not close, and expansions without end, are refused where they begin") {
  CHECK(words("x\n 'a") == "a.sh:2:2: error: this quotation mark has no other");
  CHECK(words("x \"a") == "a.sh:1:3: error: this quotation mark has no other");
  CHECK(words("x $(a") == "a.sh:1:3: error: this bracket has no other");
  CHECK(words("A=(a") == "a.sh:1:3: error: this bracket has no other");
  std::string bomb = "A=xxxxxxxx\n";
  for (int i = 0; i < 64; ++i) bomb += "A=$A$A\n";
  CHECK(words(bomb).find("expand to more text than can be read") != std::string::npos);
  std::string deep = "x ";
  for (int i = 0; i < 1000; ++i) deep += "${A:-";
  CHECK(words(deep).find("nested too deeply") != std::string::npos);
}

}  // namespace orrery
