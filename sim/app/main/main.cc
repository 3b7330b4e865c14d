// The command `orrery`.
#include <iostream>
#include <string>
#include <vector>

#include "sim/app/command.hpp"

int main(int argc, char** argv) {
  return orrery::run_command(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
