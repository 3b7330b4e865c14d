// The command `orrery` as a process of the system.
#include <fcntl.h>

#include <iostream>
#include <string>
#include <vector>

#include "sim/app/command.hpp"

namespace {

// A standard stream that the caller has closed would lend its number to the next file that is opened, and results
// would land in there. Its place is taken by something that cannot be written, so that writing to it fails.
void hold_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);  // takes the least number that is free
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  return orrery::run_command(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
