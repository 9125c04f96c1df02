#pragma once
// What a bug report needs to know of the program and the machine. Names of users and hosts, and
// variables other than the listed ones, are never asked for.
#include <filesystem>
#include <string>
#include <vector>

#include "protocol/messages/doctor.h"

namespace phasescope::app {

using protocol::Fact;

// The first line of --version and what stands below it: how this program was built.
std::string version_text();
std::vector<Fact> program_facts();
// The commit that the program was made of, beside the bundled files: an installation keeps it in
// the file "revision", a checkout in .git. "" where neither is there.
std::string source_revision(const std::filesystem::path& assets);

// The system, its processor and memory, and what a control group leaves of both. The files of the
// system (proc, sys, etc) are read below `root`.
std::vector<Fact> machine_facts(const std::filesystem::path& root = "/");

// Renderers of OpenGL: of the display, where there is one, and of pictures without one.
std::vector<Fact> graphics_facts();

// Where the program reads and writes, and the variables that change what it does, as far as they
// are set.
std::vector<Fact> folder_facts();
std::vector<Fact> variable_facts();

// Text without the name of who runs the program: `home` becomes ~, other folders of home, and
// `user` as a word, become USER. An empty home or user stands for none.
std::string without_names(std::string text, const std::string& home, const std::string& user);

}  // namespace phasescope::app
