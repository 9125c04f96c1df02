#pragma once
// What a sweep's jobs have come to, at any time.
#include <filesystem>
#include <string>
#include <vector>

#include "protocol/messages/sweep.h"

namespace phasescope::training {

struct SweepPlace {
  std::filesystem::path dir;
  std::string group;  // of the cells that differ in their seeds alone
};

// Reads what the folders hold; those that are not there are "new". Values of a group and a length
// are averaged over the group's evaluated seeds.
protocol::SweepResult sweep_table(const std::vector<SweepPlace>& places);

}  // namespace phasescope::training
