// Cores of a launch that meet at SyncAll on fewer host threads; one of them fails, or ends, before it comes. Each line
// is a core and how its wait ended.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "native/emulator/core/barrier.h"

using hajax::emulator::Barrier;
using hajax::emulator::LaunchAborted;

int main(int, char** arguments) {
  const int cores = std::atoi(arguments[1]), threads = std::atoi(arguments[2]), absent = std::atoi(arguments[3]);
  const bool fails = std::string(arguments[4]) == "fails";
  std::vector<std::string> told(static_cast<size_t>(cores), "came");
  Barrier barrier(cores, threads);
  std::vector<std::thread> running;
  for (int core = 0; core < cores; ++core) {
    running.emplace_back([&, core] {
      auto& mine = told[static_cast<size_t>(core)];
      barrier.begin();
      bool failed = false;
      try {
        for (int round = 0; round < 3; ++round) {
          if (core == absent && round == 1) {
            mine = "absent";
            failed = fails;
            break;
          }
          const int ended = barrier.wait(core);
          if (ended >= 0) {
            mine = "waited for " + std::to_string(ended);
            failed = true;
            break;
          }
        }
      } catch (const LaunchAborted&) {
        mine = "aborted";
        failed = true;
      }
      barrier.end(core, failed);
    });
  }
  for (auto& one : running) one.join();
  for (const auto& line : told) std::puts(line.c_str());
}
