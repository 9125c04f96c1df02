#include "formats/system_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {
namespace {

namespace stdfs = std::filesystem;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The number a file holds; `otherwise` where it is not there or says "max".
std::int64_t number_in(const stdfs::path& file, std::int64_t otherwise) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  return stream >> number ? number : otherwise;
}

std::int64_t machine_bytes(const stdfs::path& root) {
  std::ifstream info(root / "proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return 0;
}

// What the two versions of control groups call the same things.
struct GroupFiles {
  const char *limit, *used, *inactive, *active;
};
constexpr GroupFiles kSecond = {"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kFirst = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file", "total_active_file"};

// What the pages of files have of a group's usage.
std::int64_t file_pages(const stdfs::path& folder, const GroupFiles& names) {
  std::ifstream rows(folder / "memory.stat");
  std::int64_t sum = 0, value = 0;
  for (std::string name; rows >> name >> value;) {
    if (name == names.inactive || name == names.active) sum += value;
  }
  return sum;
}

std::int64_t left_in(const stdfs::path& folder, const GroupFiles& names) {
  const std::int64_t limit = number_in(folder / names.limit, kNoLimit);
  const std::int64_t used = number_in(folder / names.used, 0);
  if (limit == kNoLimit) return kNoLimit;
  const std::int64_t taken = std::max<std::int64_t>(0, used - file_pages(folder, names));
  return std::max<std::int64_t>(0, limit - taken);
}

// The least that a group or one around it leaves. Within a container the group's name may be that
// of the machine outside, so that the top folder is looked at in any case.
std::int64_t left_in_groups(const stdfs::path& top, std::string_view name,
                            const GroupFiles& names) {
  std::int64_t least = left_in(top, names);
  stdfs::path group = stdfs::path(name).relative_path();
  for (; !group.empty(); group = group.parent_path()) {
    least = std::min(least, left_in(top / group, names));
  }
  return least;
}

// Lines of proc/self/cgroup: "0::/user.slice" of the second version, "4:cpu,memory:/docker/3f" of
// the first.
std::int64_t left_by_line(const stdfs::path& root, std::string_view line) {
  const auto first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return kNoLimit;
  const std::string controllers =
      "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
  const std::string_view name = line.substr(second + 1);
  const stdfs::path groups = root / "sys/fs/cgroup";
  if (controllers == ",,") return left_in_groups(groups, name, kSecond);
  if (controllers.find(",memory,") == std::string::npos) return kNoLimit;
  return left_in_groups(groups / "memory", name, kFirst);
}

// What a limit on the process itself (setrlimit's RLIMIT_AS, a shell's ulimit -v) leaves of its
// addresses: "Max address space     1073741824     unlimited     bytes".
std::int64_t left_of_addresses(const stdfs::path& root) {
  constexpr std::string_view kName = "Max address space";
  std::ifstream limits(root / "proc/self/limits");
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream words(line.substr(kName.size()));
    std::int64_t limit = 0;
    if (!(words >> limit)) return kNoLimit;  // "unlimited"
    const std::int64_t pages = number_in(root / "proc/self/statm", 0);
    return std::max<std::int64_t>(0, limit - pages * ::sysconf(_SC_PAGESIZE));
  }
  return kNoLimit;
}

}  // namespace

std::int64_t available_bytes(const stdfs::path& root) {
  const std::int64_t machine = machine_bytes(root);
  std::int64_t least = std::min(machine > 0 ? machine : kNoLimit, left_of_addresses(root));
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    least = std::min(least, left_by_line(root, line));
  }
  return least == kNoLimit ? 0 : least;
}

}  // namespace phasescope::formats
