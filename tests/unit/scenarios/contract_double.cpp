// Stand-ins for the layers below, weak, so that the loader's tests link and run where those layers' own definitions are
// not part of the build. Where they are, the linker takes the real ones.
#include "sim/base/problem.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"
#include "workloads/registry.hpp"
